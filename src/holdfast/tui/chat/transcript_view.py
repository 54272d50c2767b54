"""The page of a chat: what of a session is shown for good, and what is still moving.

Finished blocks go to ``show`` and with it into the terminal's own scrollback. What is unfinished,
the end of an answer, of a thought or of a tool's output, is in ``moving`` until it is finished.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from holdfast.model.sanitize import for_terminal
from holdfast.tui.chat.markdown_stream import Blocks, end_of
from holdfast.tui.chat.render import Renderer, subject, wrapped

_MOST_MOVING_CHARACTERS = 20_000
_MOST_FOLDED = 50
_LONGEST_DIFFED = 1_000_000
_ENDS = {"cancelled", "failed", "waiting"}


class Folded(Struct, frozen=True):
    """Something that is shown in short, and whole when it is asked for."""

    title: str
    whole: Callable[[Renderer], str]


class ChatPage:
    """A ``Page`` on a terminal. ``changed`` is called when something that moves has changed."""

    def __init__(
        self,
        renderer: Callable[[], Renderer],
        show: Callable[[str], None],
        changed: Callable[[], None],
        blob: Callable[[str], bytes | None],
    ) -> None:
        self._renderer = renderer
        self._show = show
        self._changed = changed
        self._blob = blob
        self._other_entry: Callable[[dict[str, Any]], None] = lambda _: None
        self._text = Blocks()  # what is not shown for good yet
        self._thinking: list[str] = []
        self._thoughts = 0  # of this message, how many are shown for good already
        self._outputs: dict[str, str] = {}
        self._calls: dict[str, dict[str, Any]] = {}
        self._last_call = ""  # whose line is the last above what is shown next
        self.folded: list[Folded] = []
        self.last_answer = ""
        self.turn_state = ""

    def on_other(self, call: Callable[[dict[str, Any]], None]) -> None:
        """Have something called with the entries that are not shown: usage, titles, the queue."""
        self._other_entry = call

    # What moves

    def moving(self, rows: int) -> str:
        """Return the end of what is unfinished, at most so many lines; made harmless."""
        lines: list[str] = []
        if self._thinking and not self._text:
            end = end_of(reversed(self._thinking), _MOST_MOVING_CHARACTERS)
            lines += self._last_lines("✻ ", end, rows)
        if self._text:
            lines += self._last_lines("", self._text.end(_MOST_MOVING_CHARACTERS), rows)
        for call_id, output in self._outputs.items():
            call = self._calls.get(call_id, {})
            if len(self._outputs) > 1:
                lines.append(f"  {call.get('name', '')} {subject(call.get('arguments'))}"[:80])
            lines += self._last_lines("  │ ", output, rows)
        return "\n".join(["", *lines[-rows:]]) if lines else ""

    def _last_lines(self, mark: str, text: str, rows: int) -> list[str]:
        """Return the last rows of a text on the screen, each behind a mark."""
        room = max(self._renderer().width - len(mark), 1)
        lines = for_terminal(text[-_MOST_MOVING_CHARACTERS:]).rstrip("\n").split("\n")[-rows:]
        ends = (line[max(len(line) // room - rows, 0) * room :] for line in lines)  # in whole rows
        return [f"{mark}{row}" for line in ends for row in wrapped(line, room)][-rows:]

    # What a story tells

    def prompt(self, text: str, attached: list[str]) -> None:
        """Show what a user said; the answer may have begun before this is durable, and moves on."""
        self._put("\n" + self._renderer().prompt(text, attached))

    def piece(self, kind: str, call_id: str | None, text: str) -> None:
        """Take more text; what of it is finished is shown for good."""
        if kind == "thinking":
            self._thinking.append(text)
        elif kind == "tool_output":
            kept = self._outputs.get(call_id or "", "") + text
            self._outputs[call_id or ""] = kept[-_MOST_MOVING_CHARACTERS:]
        else:
            self._thought()
            self._answer(self._text.add(text))
        self._changed()

    def whole(self, kind: str, text: str) -> None:
        """Show the rest of a text."""
        if kind == "thinking":
            if self._thoughts:
                self._thoughts -= 1
            else:
                self._thinking = [text]
                self._thought()
                self._thoughts = 0
        else:
            self.last_answer = text
            self._answer(self._text.rest())
        self._changed()

    def _thought(self) -> None:
        """Fold what was thought before whatever comes now."""
        text, self._thinking = "".join(self._thinking), []
        if text.strip():
            self._thoughts += 1
            self._fold("thought", lambda to: to.thought(text, folded=False))
            self._put("\n" + self._renderer().thought(text))

    def _answer(self, text: str) -> None:
        if shown := self._renderer().markdown(text):
            self._put("\n" + shown)

    def call(self, call: dict[str, Any]) -> None:
        """Show that a tool is to be called."""
        self._last_call = call.get("id", "")
        self._calls[self._last_call] = call
        self._put("\n" + self._renderer().call(call.get("name", ""), call.get("arguments")))

    def result(self, result: dict[str, Any], text: str) -> None:
        """Show what came of a call."""
        call_id = result["call_id"]
        self._outputs.pop(call_id, None)
        call = self._calls.pop(call_id, {})
        title = f"{call.get('name', '')} {subject(call.get('arguments'))}".strip()
        outcome = result.get("outcome", "completed")
        changes = result.get("changes") or []
        renderer = self._renderer()
        if title and call_id != self._last_call:  # several were called at once
            self._put(renderer.styled(f"  ╭ {title}", "dim"))
        self._last_call = call_id
        if changes:
            for change in changes:
                self._put(self._diff(renderer, change))
            if outcome != "completed":
                self._put(renderer.output("", outcome))
        else:
            if text.strip():
                self._fold(title, lambda to: to.output(text, outcome, folded=False))
            self._put(renderer.output(text, outcome))
        self._changed()

    def _diff(self, renderer: Renderer, change: dict[str, Any]) -> str:
        after = self._blob(change["after"])
        before = None if change.get("before") is None else self._blob(change["before"])
        lost = after is None or (before is None and change.get("before") is not None)
        if lost or len(after or b"") + len(before or b"") > _LONGEST_DIFFED:
            return renderer.note(f"{change['path']} was changed")
        return renderer.change(change["path"], before, after or b"")

    def message_end(self, stop: str | None) -> None:
        """Say so where a message was cut off."""
        if stop is None:
            return  # not the model's; its next message may have begun
        self._settle()
        self._thoughts = 0
        if stop == "interrupted":
            self._put(self._renderer().note("interrupted here"))

    def turn(self, state: str, cause: str | None) -> None:
        """Say how a turn ended, if it is worth saying."""
        self.turn_state = state
        if state in _ENDS:
            self._settle()
            self._put(self._renderer().note(f"turn {state}" + (f": {cause}" if cause else "")))

    def other(self, entry: dict[str, Any]) -> None:
        """Show what concerns the conversation; hand on the rest."""
        match entry:
            case {"type": "checkpoint"}:
                self._put(self._renderer().note("the context was compacted here"))
            case {"type": "head", "to": to}:
                place = "the beginning" if to is None else f"entry {to}"
                self._put(self._renderer().note(f"the conversation continues from {place}"))
        self._other_entry(entry)

    def _settle(self) -> None:
        """Show what is left of a text whose end was not told, such as one before a new runner."""
        self._thinking = []
        self._answer(self._text.rest())

    def _fold(self, title: str, whole: Callable[[Renderer], str]) -> None:
        self.folded = [*self.folded[-_MOST_FOLDED:], Folded(title, whole)]

    def _put(self, text: str) -> None:
        self._show(text)
