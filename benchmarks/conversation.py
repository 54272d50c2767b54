"""Messages of a realistic shape, and long histories made of them."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import msgspec

import holdfast
from holdfast.journal.format import seal, timestamp
from holdfast.model.codec import encode_body
from holdfast.model.entry import TREE
from holdfast.store.read.fold import mark_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.model.entry import Body
    from holdfast.model.state import State

MESSAGE_BYTES = 600
MARK_EVERY_BYTES = 512 * 1024
_DIFFERENT = 64
_PROSE = """
the build fails because a test reads its own output path before anything was written there
def parse line return None self value import os raise error 42 0x7f /usr/lib "quoted" {}
"""


def messages() -> list[holdfast.Message]:
    """Return different messages of 600 bytes of text, from both sides of a conversation."""
    chance, words = random.Random(2026), _PROSE.split()
    made = []
    for number in range(_DIFFERENT):
        text = ""
        while len(text) < MESSAGE_BYTES:
            text += chance.choice(words) + ("\n" if chance.random() < 0.05 else " ")
        text = text[:MESSAGE_BYTES]
        made.append(holdfast.assistant(text) if number % 2 else holdfast.user(text))
    return made


def submit_many(
    session: holdfast.Session, count: int, progress: Callable[[int, int], None] | None = None
) -> None:
    """Append messages in bulk, waiting now and then so that the queue stays short."""
    pool = messages()
    for start in range(0, count, 5000):
        stop = min(count, start + 5000)
        tickets = [session.submit(pool[number % _DIFFERENT]) for number in range(start, stop)]
        tickets[-1].wait()
        if progress is not None:
            progress(stop, count)


class Journalist:
    """Writes a journal's lines with nothing in between: for histories too long to append.

    Marks are set as the store sets them. ``state`` is kept in step for messages only, which is all
    that is written this way.
    """

    def __init__(self, state: State, chain: bytes) -> None:
        self._state = state
        self._chain = chain
        self._seq = state.seq
        self._head = state.head
        self._messages = state.messages
        self._since_mark = 0
        self._encoded = [encode_body(message)[0] for message in messages()]
        self.marked = False

    def line(self) -> bytes:
        """Return the next line: a message, or a mark when one is due."""
        self.marked = self._since_mark >= MARK_EVERY_BYTES
        if self.marked:
            state = msgspec.structs.replace(
                self._state, seq=self._seq, head=self._head, messages=self._messages
            )
            line = self._seal("mark", encode_body(mark_of(state))[0])
            self._since_mark = 0
            return line
        self._messages += 1
        return self._seal("message", self._encoded[self._messages % _DIFFERENT])

    def _seal(self, type_name: str, data: bytes) -> bytes:
        seq = self._seq + 1
        at = timestamp()
        if type_name in TREE:
            line = seal(seq, at, type_name, data, self._chain, parent=self._head)
            self._head = seq
        else:
            line = seal(seq, at, type_name, data, self._chain)
        self._seq = seq
        self._chain = line[-10:-2]
        self._since_mark += len(line)
        return line + b"\n"


def lengthen(
    store: holdfast.LocalStore,
    session_id: str,
    size_bytes: int,
    after_mark: int,
    progress: Callable[[int, int], None],
) -> None:
    """Fill a session's journal to ``size_bytes``, up to a mark and ``after_mark`` lines more."""
    with store.open(session_id, mode="read") as session:
        state, journal = session.state, session.path / "journal.jsonl"
    with journal.open("ab") as file:
        written = file.tell()
        source = Journalist(state, journal.read_bytes()[-11:-3])
        while written < size_bytes or not source.marked:
            piece = [source.line()]
            while not source.marked and len(piece) < 10_000:
                piece.append(source.line())
            written += file.write(b"".join(piece))
            progress(min(written, size_bytes), size_bytes)
        file.writelines(source.line() for _ in range(after_mark))
        file.flush()
        os.fsync(file.fileno())


def own_json(body: Body) -> bytes:
    """Return a body's own JSON, without anything of the journal."""
    return encode_body(body)[0]


def last_line(journal: Path) -> bytes:
    """Return the last line of a journal, with its newline."""
    with journal.open("rb") as file:
        file.seek(max(0, journal.stat().st_size - 64 * 1024))
        return file.read().splitlines(keepends=True)[-1]
