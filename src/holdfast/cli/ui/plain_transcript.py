"""A session as plain text, for pipes and for terminals without a screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from holdfast.model.codec import in_known_shape
from holdfast.model.sanitize import for_terminal
from holdfast.runtime.protocol.messages import LiveText
from holdfast.runtime.protocol.transcript_stream import TranscriptStream

_LONGEST_ARGUMENTS = 200


class Paper(Protocol):
    """Where a transcript is written."""

    def write(self, text: str, /) -> object:
        """Write some text."""


class PlainTranscript:
    """Writes to ``out``; the sink of a ``TranscriptStream``.

    Of the history, which comes first, only the last ``last`` messages are shown. ``blob`` returns
    the bytes of a text that is too long for an entry, ``None`` if they are missing.
    """

    def __init__(self, out: Paper, last: int, blob: Callable[[str], bytes | None]) -> None:
        self._out = out
        self._last = last
        self._history: list[dict[str, Any]] | None = []
        self._stream = TranscriptStream(self, blob)
        self._open: tuple[str, str | None] | None = None
        self._fresh = True  # whether the cursor is at the beginning of a line

    @property
    def after(self) -> int:
        """The number of the last entry that was received."""
        return self._stream.after

    def attached(self) -> None:
        """Note that running streams will be sent again from their start."""
        self._stream.attached()

    def caught_up(self) -> None:
        """Show the end of the history; everything after it is new."""
        history, self._history = self._history or [], None
        shown = history[-self._last :] if self._last else []
        if len(shown) < len(history):
            self.say(f"… {len(history) - len(shown)} earlier messages")
        for entry in shown:
            self._stream.entry(entry)

    def entry(self, entry: dict[str, Any]) -> None:
        """Show an entry."""
        if self._history is None:
            self._stream.entry(entry)
            return
        self._stream.after = max(self._stream.after, entry["seq"])
        entry = in_known_shape(entry)
        if entry["type"] == "message" and entry["role"] != "system":
            self._history.append(entry)

    def live(self, event: LiveText) -> None:
        """Show a piece of live text."""
        self._stream.live(event)

    def end(self) -> None:
        """End the current line."""
        self._new_line()

    def say(self, text: str) -> None:
        """Write a notice."""
        self._open = None
        self._new_line()
        self._write(f"· {text}\n")

    # The sink of a TranscriptStream

    def prompt(self, text: str, attached: list[str]) -> None:
        """Show a prompt."""
        self._new_line()
        self._write("".join([f"> {text}\n", *(f"> [{name}]\n" for name in attached)]))

    def piece(self, kind: str, call_id: str | None, text: str) -> None:
        """Show more text; thinking is left out."""
        if kind == "thinking":
            return
        if self._open != (kind, call_id):
            self._new_line()
            self._open = (kind, call_id)
        self._write(text)

    def whole(self, kind: str, text: str) -> None:
        """Do nothing: the text was shown already."""

    def call(self, call: dict[str, Any]) -> None:
        """Show that a tool is to be called."""
        self.say(f"{call.get('name', '')} {_arguments(call.get('arguments'))}")

    def result(self, result: dict[str, Any], text: str) -> None:  # noqa: ARG002  shown by pieces
        """Show the result of a call that did not complete."""
        if result.get("outcome", "completed") != "completed":
            self.say(result["outcome"])

    def message_end(self, stop: str | None) -> None:  # noqa: ARG002  the turn says it
        """End the line."""
        self._new_line()
        self._open = None

    def turn(self, state: str, cause: str | None) -> None:
        """Show how a turn ended, if it did not complete."""
        if state in ("cancelled", "failed", "waiting"):
            self.say(f"turn {state}" + (f": {cause}" if cause else ""))

    def other(self, entry: dict[str, Any]) -> None:
        """Ignore other entries."""

    def _new_line(self) -> None:
        if not self._fresh:
            self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            self._out.write(for_terminal(text))
            self._fresh = text.endswith("\n")


def _arguments(given: Any) -> str:
    if not isinstance(given, dict):
        return ""
    shown = " ".join(str(value) for value in given.values())
    return shown if len(shown) <= _LONGEST_ARGUMENTS else f"{shown[:_LONGEST_ARGUMENTS]}…"
