"""A session as plain text, line by line, for terminals and pipes that only take lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from holdfast.runtime.control.story import Story
from holdfast.runtime.tools.terminal import for_terminal

_LONGEST_ARGUMENTS = 200


class Paper(Protocol):
    """What a transcript is written on."""

    def write(self, text: str, /) -> object:
        """Write some text."""


class Transcript:
    """Writes to ``out``; the page of a story.

    Of the history, which comes first, only the last ``last`` messages are shown. ``blob`` returns
    the bytes of a text that is too long for an entry, ``None`` if they are missing.
    """

    def __init__(self, out: Paper, last: int, blob: Callable[[str], bytes | None]) -> None:
        self._out = out
        self._last = last
        self._history: list[dict[str, Any]] | None = []
        self._story = Story(self, blob)
        self._open: tuple[str, str | None] | None = None
        self._fresh = True  # whether the cursor is at the beginning of a line

    @property
    def after(self) -> int:
        """The number of the last entry that was taken."""
        return self._story.after

    def attached(self) -> None:
        """Be told that all streams that run will be heard from their beginning."""
        self._story.attached()

    def caught_up(self) -> None:
        """Show the end of the history; from here on everything is new."""
        history, self._history = self._history or [], None
        shown = history[-self._last :] if self._last else []
        if len(shown) < len(history):
            self.say(f"… {len(history) - len(shown)} earlier messages")
        for entry in shown:
            self._story.entry(entry)

    def entry(self, entry: dict[str, Any]) -> None:
        """Take an entry."""
        if self._history is None:
            self._story.entry(entry)
            return
        self._story.after = max(self._story.after, entry["seq"])
        if entry["type"] == "message" and entry["role"] != "system":
            self._history.append(entry)

    def live(self, event: dict[str, Any]) -> None:
        """Take a piece of live text."""
        self._story.live(event)

    def end(self) -> None:
        """Leave the cursor where something else may be written."""
        self._new_line()

    def say(self, text: str) -> None:
        """Write a line of our own."""
        self._open = None
        self._new_line()
        self._write(f"· {text}\n")

    # What the story tells

    def prompt(self, text: str, attached: list[str]) -> None:
        """Show what a user said."""
        self._new_line()
        self._write("".join([f"> {text}\n", *(f"> [{name}]\n" for name in attached)]))

    def piece(self, kind: str, call_id: str | None, text: str) -> None:
        """Show more text; thoughts are left out."""
        if kind == "thinking":
            return
        if self._open != (kind, call_id):
            self._new_line()
            self._open = (kind, call_id)
        self._write(text)

    def whole(self, kind: str, text: str) -> None:
        """Do nothing: all of it is there."""

    def call(self, call: dict[str, Any]) -> None:
        """Show that a tool is to be called."""
        self.say(f"{call.get('name', '')} {_arguments(call.get('arguments'))}")

    def result(self, result: dict[str, Any], text: str) -> None:  # noqa: ARG002  shown by pieces
        """Say what came of a call, if it is not what was wanted."""
        if result.get("outcome", "completed") != "completed":
            self.say(result["outcome"])

    def message_end(self, stop: str | None) -> None:  # noqa: ARG002  the turn says it
        """End the line."""
        self._new_line()
        self._open = None

    def turn(self, state: str, cause: str | None) -> None:
        """Say how a turn ended, if it is not as it should."""
        if state in ("cancelled", "failed", "waiting"):
            self.say(f"turn {state}" + (f": {cause}" if cause else ""))

    def other(self, entry: dict[str, Any]) -> None:
        """Leave out what is not said by anybody."""

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
