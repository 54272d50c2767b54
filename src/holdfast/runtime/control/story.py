"""A session as it is told to people: every character once, whether it came live or in an entry.

Live text is told when it arrives. The entry that finishes a stream has all of its text, and who
attaches again hears a running stream from its beginning; of both, only what was not told yet is
added. What a page makes of it, plain lines or a screen, is the page's own business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

_Key = tuple[str, str, str | None]  # stream, kind, and call


class Page(Protocol):
    """What a story is told to. Text is as it was written: a screen has to make it harmless."""

    def prompt(self, text: str, attached: list[str]) -> None:
        """Show what a user said, and the names of what came with it."""

    def piece(self, kind: str, call_id: str | None, text: str) -> None:
        """Show more text: ``text``, ``thinking``, or ``tool_output`` of a call."""

    def whole(self, kind: str, text: str) -> None:
        """Be told that a text, shown piece by piece, has come to its end; ``text`` is all of it."""

    def call(self, call: dict[str, Any]) -> None:
        """Show that a tool is to be called."""

    def result(self, result: dict[str, Any], text: str) -> None:
        """Show what came of a call; ``text`` is its output, whose live pieces were shown before."""

    def message_end(self, stop: str | None) -> None:
        """Be told that a message has come to its end; ``interrupted`` is one that was cut off."""

    def turn(self, state: str, cause: str | None) -> None:
        """Show how a turn stands: started, completed, cancelled, failed, waiting."""

    def other(self, entry: dict[str, Any]) -> None:
        """Take any other entry: meta, usage, checkpoint, head, queued."""


class _Told:
    """A text that was told piece by piece; put together only when it is wanted."""

    def __init__(self, text: str = "") -> None:
        self._pieces = [text]
        self.length = len(text)

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self.length += len(piece)

    @property
    def text(self) -> str:
        return "".join(self._pieces)


class Story:
    """Tells a page what happens. ``after`` is the number of the last entry that was taken.

    ``blob`` returns the bytes of a text that is too long for an entry, ``None`` if it is missing.
    """

    def __init__(self, page: Page, blob: Callable[[str], bytes | None], after: int = -1) -> None:
        self._page = page
        self._blob = blob
        self._told: dict[_Key, _Told] = {}
        self._heard: dict[_Key, int] = {}  # how many characters since it was attached
        self.after = after

    def attached(self) -> None:
        """Be told that all streams that run will be heard from their beginning."""
        self._heard.clear()

    def live(self, event: dict[str, Any]) -> None:
        """Take a piece of live text."""
        kind = event["kind"]
        if kind == "tool_call":
            return  # shown when whole
        key = (event["stream"], kind, event.get("call_id") if kind == "tool_output" else None)
        told = self._told.setdefault(key, _Told())
        heard = self._heard.get(key, 0)
        self._heard[key] = heard + len(event["text"])
        if new := event["text"][told.length - heard :]:  # never more is heard than was told
            told.add(new)
            self._page.piece(kind, key[2], new)

    def entry(self, entry: dict[str, Any]) -> None:
        """Take an entry."""
        self.after = max(self.after, entry["seq"])
        match entry:
            case {"type": "message", "role": "system"}:
                pass  # the instructions: long, and the same everywhere
            case {"type": "message", "role": "user"}:
                self._page.prompt(self._texts(entry["content"]), _names(entry["content"]))
            case {"type": "message"}:
                self._message(entry)
            case {"type": "turn"}:
                self._page.turn(entry["state"], entry.get("cause"))
            case _:
                self._page.other(entry)

    def _message(self, entry: dict[str, Any]) -> None:
        stream = entry.get("stream") or ""
        for part in entry["content"]:
            match part:
                case {"type": "text" | "thinking" as kind}:
                    text = self._texts([part])
                    self._rest((stream, kind, None), text)
                    self._page.whole(kind, text)
                case {"type": "tool_call"}:
                    self._page.call(part)
                case {"type": "tool_result", "call_id": call_id}:
                    text = self._texts(part["content"])
                    self._rest((stream, "tool_output", call_id), text)
                    self._page.result(part, text)
        self._page.message_end(entry.get("stop"))

    def _rest(self, key: _Key, text: str) -> None:
        """Tell what of a finished text was not told while it was live."""
        told = self._told.pop(key, _Told()).text
        self._heard.pop(key, None)
        if told.startswith(text):  # one of several parts: the others have the rest
            if rest := told[len(text) :]:
                self._told[key] = _Told(rest)
            return
        if text.startswith(told):
            text = text[len(told) :]
        elif key[1] == "tool_output":
            return  # it was told whole; what is recorded was cut
        self._page.piece(key[1], key[2], text)

    def _texts(self, parts: list[dict[str, Any]]) -> str:
        """Return the text of some parts, with what is kept beside the journal in its place."""
        texts = []
        for part in parts:
            text = part.get("text", "")
            if part.get("blob") and part["type"] in ("text", "thinking"):
                data = self._blob(part["blob"]["sha256"])
                preview = part["blob"].get("preview", "")
                text = preview if data is None else data.decode("utf-8", "replace")
            texts.append(text)
        return "".join(texts)


def _names(parts: list[dict[str, Any]]) -> list[str]:
    """Return what is attached to a prompt, by name or by kind."""
    attached = [part for part in parts if part["type"] in ("image", "file")]
    return [part.get("name") or part.get("media_type", part["type"]) for part in attached]
