"""Turns entries and live text into one transcript that has every character once.

Live text is passed on when it arrives. The entry that finishes a stream has all of its text, and a
client that attaches again gets a running stream from its beginning; of both, only the part that was
not passed on yet is added. The sink decides how it looks: plain lines, or a screen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from holdfast.model.codec import in_known_shape
from holdfast.runtime.protocol.messages import LiveText

_Key = tuple[str, str, str | None]  # stream, kind, and call


class TranscriptSink(Protocol):
    """Shows a transcript. Text is as it was written: a terminal has to make it safe to print."""

    def prompt(self, text: str, attached: list[str]) -> None:
        """Show a user's prompt and the names of its attachments."""

    def piece(self, kind: str, call_id: str | None, text: str) -> None:
        """Show more text: ``text``, ``thinking``, or ``tool_output`` of a call."""

    def whole(self, kind: str, text: str) -> None:
        """Take note that a text, shown piece by piece, is complete; ``text`` is all of it."""

    def call(self, call: dict[str, Any]) -> None:
        """Show a tool call."""

    def result(self, result: dict[str, Any], text: str) -> None:
        """Show the result of a call; ``text`` is its output, whose live pieces were shown."""

    def message_end(self, stop: str | None) -> None:
        """Take note that a message is complete; ``stop`` is ``interrupted`` if it was cut off."""

    def turn(self, state: str, cause: str | None) -> None:
        """Show that a turn has started, completed, failed, was cancelled, or waits."""

    def other(self, entry: dict[str, Any]) -> None:
        """Take any other entry: meta, usage, checkpoint, head, queued."""


class _Told:
    """The text that was passed on of one stream; joined only when it is needed."""

    def __init__(self, text: str = "") -> None:
        self._pieces = [text]
        self.length = len(text)

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self.length += len(piece)

    @property
    def text(self) -> str:
        return "".join(self._pieces)


class TranscriptStream:
    """Feeds a sink. ``after`` is the number of the last entry that was taken.

    ``blob`` returns the bytes of a text that is too long for an entry, ``None`` if it is missing.
    """

    def __init__(
        self, sink: TranscriptSink, blob: Callable[[str], bytes | None], after: int = -1
    ) -> None:
        self._sink = sink
        self._blob = blob
        self._told: dict[_Key, _Told] = {}
        self._heard: dict[_Key, int] = {}  # characters received since the last attach
        self.after = after

    def attached(self) -> None:
        """Take note that all running streams will be sent again from their beginning."""
        self._heard.clear()

    def live(self, event: LiveText) -> None:
        """Take a piece of live text."""
        kind = event.kind
        if kind == "tool_call":
            return  # shown when whole
        key = (event.stream, kind, event.call_id if kind == "tool_output" else None)
        told = self._told.setdefault(key, _Told())
        heard = self._heard.get(key, 0)
        self._heard[key] = heard + len(event.text)
        if new := event.text[told.length - heard :]:  # received is never more than passed on
            told.add(new)
            self._sink.piece(kind, key[2], new)

    def entry(self, entry: dict[str, Any]) -> None:
        """Take an entry."""
        self.after = max(self.after, entry["seq"])
        if entry["type"] in ("message", "turn"):
            entry = in_known_shape(entry)  # of a session that anybody may have written
        match entry:
            case {"type": "message", "role": "system"}:
                pass  # the system prompt: long, and the same everywhere
            case {"type": "message", "role": "user"}:
                self._sink.prompt(self._texts(entry["content"]), _names(entry["content"]))
            case {"type": "message"}:
                self._message(entry)
            case {"type": "turn"}:
                self._sink.turn(entry["state"], entry.get("cause"))
            case _:
                self._sink.other(entry)

    def _message(self, entry: dict[str, Any]) -> None:
        stream = entry.get("stream") or ""
        for part in entry["content"]:
            match part:
                case {"type": "text" | "thinking" as kind}:
                    text = self._texts([part])
                    self._rest((stream, kind, None), text)
                    self._sink.whole(kind, text)
                case {"type": "tool_call"}:
                    self._sink.call(part)
                case {"type": "tool_result", "call_id": call_id}:
                    text = self._texts(part["content"])
                    self._rest((stream, "tool_output", call_id), text)
                    self._sink.result(part, text)
        self._sink.message_end(entry.get("stop"))

    def _rest(self, key: _Key, text: str) -> None:
        """Pass on the part of a finished text that was not passed on live."""
        told = self._told.pop(key, _Told()).text
        self._heard.pop(key, None)
        if told.startswith(text):  # one of several parts: the rest belongs to the others
            if rest := told[len(text) :]:
                self._told[key] = _Told(rest)
            return
        if text.startswith(told):
            text = text[len(told) :]
        elif key[1] == "tool_output":
            return  # all of it was passed on; the entry has it shortened
        self._sink.piece(key[1], key[2], text)

    def _texts(self, parts: list[dict[str, Any]]) -> str:
        """Return the text of some parts, with the text of blobs in its place."""
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
    """Return the attachments of a prompt, by name or by media type."""
    attached = [part for part in parts if part["type"] in ("image", "file")]
    return [part.get("name") or part.get("media_type", part["type"]) for part in attached]
