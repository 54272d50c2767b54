"""What people send: prompts on their way to the runner, and those that wait there.

Nothing that was typed is lost: a prompt is shown as on its way until it is durable, and one that
nobody took comes back to where it was typed.
"""

from __future__ import annotations

import asyncio
import base64
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, UsageError
from holdfast.files import Files
from holdfast.model.entry import Queued
from holdfast.model.message import File, Image, Text
from holdfast.model.sanitize import quoted_line
from holdfast.runtime.protocol.client import Refused, new_request_id
from holdfast.runtime.protocol.messages import EditQueue, Submit

_NAMED = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_MOST_BYTES = 5_000_000  # what providers take


def content_of(text: str, folder: Path) -> list[Text | Image | File]:
    """Return a prompt as parts; blocks. Text files are left to the model to read.

    Raises:
        UsageError: an image is too large, or cannot be read.
    """
    parts: list[Text | Image | File] = [Text(text=text)]
    for quoted, plain in _NAMED.findall(text):
        name = quoted or plain
        media_type = _IMAGES.get(Path(name).suffix.lower())
        path = folder / Path(name).expanduser()
        if media_type is not None and path.is_file():
            parts.append(Image(media_type=media_type, data=_encoded(path)))
    return parts


def _encoded(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path} has more than {_MOST_BYTES:,} bytes. Make it smaller.")
        return base64.b64encode(Files().read_whole(path)).decode()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None


if TYPE_CHECKING:
    from holdfast.tui.chat.chat import Chat

_LABEL, _EDIT_LABEL = "> ", "edit> "
_TAKE_OUT = "-"
_MOST_SHOWN = 5
_LOOK_SECONDS = 0.02


class Outbox:
    """The prompts of one chat. ``editing`` is the number of the waiting one that is edited."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._texts: dict[int, str] = {}
        self._waiting: list[int] = []
        self._sending: dict[str, str] = {}
        self.editing: int | None = None

    def lines(self) -> list[str]:
        """Return what waits, and what is on its way."""
        held = self._chat.status.held
        word = "held" if held else "queued"
        lines = [f"  {word}: {quoted_line(self._texts.get(seq, '…'))}" for seq in self._waiting]
        lines += [f"  sending: {quoted_line(text)}" for text in self._sending.values()]
        if (more := len(lines) - _MOST_SHOWN) > 1:
            lines[:more] = [f"  … {more} more"]
        if self.editing is not None:
            lines.append(
                f"  Enter saves the change · {_TAKE_OUT} alone removes the prompt · Esc cancels"
            )
        elif held and self._waiting:
            lines.append("  /run runs the prompts on hold · ↑ edits them")
        return lines

    @property
    def awaits_turn(self) -> bool:
        """Whether a prompt is on its way, or waits and is to be run."""
        return bool(self._sending) or (bool(self._waiting) and not self._chat.status.held)

    # What the runner has

    def queued(self, entry: dict[str, Any]) -> None:
        """Take the entry of a prompt that waits."""
        texts = [part.get("text", "") for part in entry["content"] if part.get("type") == "text"]
        self._texts[entry["seq"]] = "".join(texts)

    def wait(self, queue: list[int]) -> None:
        """Be told which prompts wait."""
        self._waiting = queue
        if missing := [seq for seq in queue if seq not in self._texts]:
            self._chat.soon(self._learn(missing))

    async def _learn(self, missing: list[int]) -> None:
        """Find out what the prompts say that waited before this terminal came."""
        from holdfast.runtime.agent.agent import queued_prompt  # noqa: PLC0415  slow to import

        def read() -> dict[int, Queued | None]:
            with self._chat.reading() as session:
                return {seq: queued_prompt(session, seq) for seq in missing}

        for seq, found in (await asyncio.to_thread(read)).items():
            parts = [] if found is None else found.content
            texts = [part.text for part in parts if isinstance(part, Text)]
            self._texts.setdefault(seq, "".join(texts))
        self._chat.prompt.changed()

    # What is sent

    def accept(self, text: str) -> None:
        """Take a prompt that was typed: a new one, or one that was edited."""
        if self.editing is None:
            self.send(text)
            return
        seq, self.editing, self._chat.prompt.label = self.editing, None, _LABEL
        self._chat.soon(self._edited(seq, text))

    def send(self, text: str) -> None:
        """Send a prompt."""
        if self._chat.target.read_only:
            self._chat.warn(
                "This session is open read-only. /fork makes a copy that you can continue."
            )
            self.offer(text)
            return
        self._chat.choices.withdraw("interrupted")
        name = new_request_id()
        self._sending[name] = text
        self._chat.soon(self._send(name, text))

    async def _send(self, name: str, text: str) -> None:
        folder = Path(self._chat.target.launch.workspace)
        limits = self._chat.target.limits
        try:
            content = await asyncio.to_thread(content_of, text, folder)
            await self._chat.link.request(Submit(id=name, content=content, limits=limits))
        except Refused as error:
            self._chat.warn(str(error))
            if error.kind != "DiskFull":  # then the runner has it, and holds it
                self.offer(text)
        except HoldfastError as error:
            self._chat.warn(f"Not sent: {error}")
            self.offer(text)
        finally:
            self._sending.pop(name, None)
            self._chat.prompt.changed()

    def offer(self, text: str) -> None:
        """Put a text where prompts are typed, unless something is there; ↑ has it all the same."""
        buffer = self._chat.prompt.buffer
        if not buffer.text:
            buffer.text = text
            buffer.cursor_position = len(text)

    @property
    def is_sending(self) -> bool:
        """Whether a prompt is on its way to the runner."""
        return bool(self._sending)

    async def delivered(self, seconds: float) -> list[str]:
        """Wait until nothing is on its way any more; return what still is after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._sending:  # noqa: ASYNC110  a moment, and no event is worth it
                    await asyncio.sleep(_LOOK_SECONDS)
        return list(self._sending.values())

    # Editing what waits

    def edit(self) -> bool:
        """Take the last prompt that waits for editing; tell whether there is one."""
        if not self._waiting or self.editing is not None:
            return False
        self.editing = self._waiting[-1]
        self._chat.prompt.label = _EDIT_LABEL
        self.offer(self._texts.get(self.editing, ""))
        return True

    def stop_editing(self) -> None:
        """Leave what waits as it was, and forget what was typed."""
        self.editing, self._chat.prompt.label = None, _LABEL
        self._chat.prompt.buffer.reset()

    async def _edited(self, seq: int, text: str) -> None:
        content: list[Text | Image | File] = []
        if text.strip() != _TAKE_OUT:
            content.append(Text(text=text))
        try:
            await self._chat.link.request(
                EditQueue(id=new_request_id(), entry=seq, content=content)
            )
        except HoldfastError:
            self.offer(text)
            raise
