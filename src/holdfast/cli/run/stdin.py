"""Read prompts from the command line, from standard input, or from lines of JSON."""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.cli.run.output import note
from holdfast.errors import UsageError
from holdfast.model.codec import loads
from holdfast.model.message import AnyPart, File, Image, Text
from holdfast.tui.tty import is_terminal

FIRST_BYTE_SECONDS = 3.0
LARGEST_INPUT_BYTES = 32 * 1024 * 1024
_PIECE_BYTES = 64 * 1024
_TOO_LONG = "longer than {:,} bytes. Save it in a file and name the file in the prompt."


def whole_prompt(prompt: str) -> str:
    """Return a prompt followed by standard input; blocks until the input ends.

    Parent processes often leave a pipe open that they never write to. If there is a prompt, an
    input that stays silent is therefore ignored after a while.

    Raises:
        UsageError: the input is not text, or cannot be read.
    """
    if prompt == "-":
        return _text(_read_all())
    if is_terminal(sys.stdin) or (prompt and not _something_comes()):
        return prompt
    added = _text(_read_all())
    if not added:
        return prompt
    return f"{prompt}\n\n<stdin>\n{added.rstrip()}\n</stdin>" if prompt else added


def _something_comes() -> bool:
    """Return whether standard input has data or has ended, within a short time."""
    if sys.stdin is None or stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode):
        return True
    ready, _, _ = select.select([sys.stdin], [], [], FIRST_BYTE_SECONDS)
    if not ready:
        seconds = f"{FIRST_BYTE_SECONDS:g} s"
        note(f"nothing came from standard input within {seconds}; continuing without it")
    return bool(ready)


def _pieces() -> Iterator[bytes]:
    """Yield standard input without a buffer: a buffered read cannot be abandoned.

    Raises:
        UsageError: it cannot be read.
    """
    if sys.stdin is None:  # closed: as good as empty
        return
    descriptor = sys.stdin.fileno()
    try:
        while piece := _read(descriptor):
            yield piece
    except OSError as error:
        raise UsageError(f"Cannot read standard input: {error.strerror}.") from error


def _read(descriptor: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, _PIECE_BYTES)
        except BlockingIOError:  # somebody who shares the pipe has made it non-blocking
            select.select([descriptor], [], [])


def _read_all() -> bytes:
    pieces: list[bytes] = []
    size = 0
    for piece in _pieces():
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST_INPUT_BYTES:
            raise UsageError(f"Standard input is {_TOO_LONG.format(LARGEST_INPUT_BYTES)}")
    return b"".join(pieces)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"Standard input is not UTF-8 text (byte {error.start}). Save it in a file and name "
            "the file in the prompt."
        ) from None


async def arriving_prompts() -> AsyncIterator[list[AnyPart]]:
    """Yield the prompts of standard input as they arrive; a thread reads them.

    Raises:
        UsageError: a line is not a prompt, or the input cannot be read.
    """
    loop = asyncio.get_running_loop()
    ready: asyncio.Queue[list[AnyPart] | UsageError | None] = asyncio.Queue()

    def hand_on(item: list[AnyPart] | UsageError | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
            loop.call_soon_threadsafe(ready.put_nowait, item)

    def read() -> None:
        try:
            for content in prompts(_lines(_pieces())):
                hand_on(content)
            hand_on(None)
        except UsageError as error:
            hand_on(error)

    # Not to be waited for at the end: it may hang in a read.
    threading.Thread(target=read, name="holdfast-input", daemon=True).start()
    while (content := await ready.get()) is not None:
        if isinstance(content, UsageError):
            raise content
        yield content


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest: list[bytes] = []
    size = 0
    for piece in pieces:
        *whole, last = piece.split(b"\n")
        for line in whole:
            yield b"".join([*rest, line])
            rest, size = [], 0
        rest.append(last)
        size += len(last)
        if size > LARGEST_INPUT_BYTES:
            raise UsageError(f"A line of the input is {_TOO_LONG.format(LARGEST_INPUT_BYTES)}")
    if size:
        yield b"".join(rest)


def prompts(lines: Iterator[bytes]) -> Iterator[list[AnyPart]]:
    """Yield the prompt of each line of JSON.

    A line is ``{"type": "user", "text": "…"}``, with ``content`` (text, or a list of parts) in the
    place of ``text``, or with a ``message`` that has such content.

    Raises:
        UsageError: a line is not a prompt.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _prompt(loads(line))
            except (ValueError, RecursionError, msgspec.ValidationError) as error:
                raise UsageError(
                    f"Line {number} of the input is not a prompt ({error}): "
                    'write {"type": "user", "text": "…"}.'
                ) from None


def _prompt(value: Any) -> list[AnyPart]:
    if not isinstance(value, dict) or value.get("type", "user") != "user":
        raise ValueError("not an object of type user")
    message = value.get("message")
    inner = message if isinstance(message, dict) else value
    content = inner.get("content", inner.get("text"))
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise ValueError("neither text nor content")
    parts: list[AnyPart] = [*msgspec.convert(content, list[Text | Image | File])]
    if all(isinstance(part, Text) and not part.text.strip() for part in parts):
        raise ValueError("it is empty")
    return parts
