"""Something that a person has to decide, with one key for each way: approvals, and what to do next.

A choice stands above the prompt while it waits. Its keys count while nothing is typed, and not in
its first moment: the next letter of somebody who is typing must not decide what was not yet read.
Nor must the first letter of a sentence: whoever takes the keys waits whether another one follows.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from itertools import groupby

from msgspec import Struct

from holdfast.model.sanitize import for_terminal
from holdfast.tui.chat.render import wrapped

BACK = "back"  # the label of a way that changes nothing: Esc takes it as well
_READING_SECONDS = 0.4


class Option(Struct, frozen=True):
    """One way to decide: a key, what it says, and what it does."""

    key: str
    label: str
    do: Callable[[], Awaitable[None]]


class ChoicePrompt(Struct, frozen=True):
    """A question with its ways; ``name`` tells it from others, ``enter`` is the key of Enter."""

    name: str
    question: str
    ways: tuple[Option, ...]
    enter: str = ""


class Choices:
    """The choices that wait, the oldest first. ``changed`` is called when they change."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._waiting: dict[str, ChoicePrompt] = {}
        self._put_at = 0.0
        self._wrapped: tuple[str, int, list[str]] = ("", 0, [""])

    @property
    def current(self) -> ChoicePrompt | None:
        """The one that is to be decided now."""
        return next(iter(self._waiting.values()), None)

    def ask(self, choice: ChoicePrompt, *, first: bool = False) -> None:
        """Put a choice to whoever is there; one of the same name is replaced.

        One that people asked for themselves comes ``first``.
        """
        if first or not self._waiting:
            self._put_at = time.monotonic()
        if first:
            self._waiting.pop(choice.name, None)
            self._waiting = {choice.name: choice, **self._waiting}
        else:
            self._waiting[choice.name] = choice
        self._changed()

    def withdraw(self, name: str) -> bool:
        """Ask no more; tell whether it was waiting."""
        found = self._waiting.pop(name, None) is not None
        if found:
            self._put_at = time.monotonic()
            self._changed()
        return found

    def clear(self, prefix: str) -> None:
        """Withdraw all whose names begin so."""
        for name in [name for name in self._waiting if name.startswith(prefix)]:
            self.withdraw(name)

    def offers(self, key: str) -> bool:
        """Tell whether a key would decide now."""
        return self._found(key) is not None

    def way(self, key: str) -> Option | None:
        """Return the way of a key, and ask no more; ``None`` if it is not one of them."""
        choice, found = self.current, self._found(key)
        if choice is not None and found is not None:
            self.withdraw(choice.name)
        return found

    def _found(self, key: str) -> Option | None:
        choice = self.current
        if choice is None or time.monotonic() - self._put_at < _READING_SECONDS:
            return None
        wanted = choice.enter if key == "\r" else key
        return next((way for way in choice.ways if way.key == wanted), None)

    @property
    def can_go_back(self) -> bool:
        """Whether the choice that is to be decided now can be left without harm."""
        return any(way.label == BACK for way in self._ways())

    def go_back(self) -> None:
        """Ask no more what can be left without harm."""
        if self.current is not None and self.can_go_back:
            self.withdraw(self.current.name)

    def _ways(self) -> tuple[Option, ...]:
        return () if self.current is None else self.current.ways

    def lines(self, columns: int, most: int) -> list[str]:
        """Return how the choice is put, harmless; of a long question both ends.

        Its ways have to be seen, and so has the end of a command: what is left out is in between.
        """
        choice = self.current
        if choice is None:
            return []
        rows = self._rows(choice.question, columns)
        if (hidden := len(rows) - max(most, 3)) > 0:
            middle = len(rows) // 2 - hidden // 2 - 1
            rows[middle : middle + hidden + 1] = [f"… {hidden + 1} lines, shown in full above …"]
        alike = [(label, [*ways]) for label, ways in groupby(choice.ways, lambda way: way.label)]
        ways = "   ".join(f"[{_keys(several)}] {label}" for label, several in alike)
        more = len(self._waiting) - 1
        return [*rows, ways + (f"   (+{more} more)" if more else "")]

    def _rows(self, question: str, columns: int) -> list[str]:
        """Return all rows of a question; made once, for it may be long and is drawn often."""
        if self._wrapped[:2] != (question, columns):
            texts = for_terminal(question).split("\n")
            rows = [row for text in texts for row in wrapped(text, columns)]
            self._wrapped = (question, columns, rows)
        return [*self._wrapped[2]]


def _keys(ways: list[Option]) -> str:
    """Return the keys of ways that say the same, such as ``1-9``."""
    return ways[0].key if len(ways) == 1 else f"{ways[0].key}-{ways[-1].key}"
