"""Markdown that is still being written, cut into blocks that can be shown for good.

A block is finished when a line behind it shows that nothing can join it any more: a blank line, and
then one that is not indented. A fence of code is one block however many blank lines it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_LONGEST_MARK = 20  # of an item, with the white space around it


class Blocks:
    """Markdown as it comes. Every line is looked at once, however long its block becomes."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._lines: list[str] = []  # whole ones, with their ends
        self._last: list[str] = []  # pieces of the one that may still grow
        self._begin = ""  # how that one begins
        self._fence = ""
        self._blank = self._in_list = False

    def __bool__(self) -> bool:
        return bool(self._lines or self._last)

    def add(self, piece: str) -> str:
        """Take more text; return the blocks that are finished by it."""
        done: list[str] = []
        first, *others = piece.split("\n")
        self._grow(first)
        for other in others:
            line = "".join(self._last)
            self._last, self._begin = [], ""
            done += self._end_line(line)
            self._grow(other)
        begun = self._blank and not self._fence and self._begin.strip()
        if begun and not (self._in_list and _may_join(self._begin)):
            done += self._cut()
        return "".join(done)

    def rest(self) -> str:
        """Return what is not finished, and begin anew."""
        text = "".join([*self._lines, *self._last])
        self._clear()
        return text

    def end(self, characters: int) -> str:
        """Return the end of what is not finished."""
        return end_of(chain(reversed(self._last), reversed(self._lines)), characters)

    def _grow(self, piece: str) -> None:
        if piece:
            self._last.append(piece)
            if len(self._begin) < _LONGEST_MARK:
                self._begin = (self._begin + piece)[:_LONGEST_MARK]

    def _end_line(self, line: str) -> list[str]:
        """Take a whole line; return the lines before it if it does not join them."""
        done: list[str] = []
        if self._fence:
            if _closes(line, self._fence):
                self._fence = ""
        elif not line.strip():
            self._blank = True
        else:
            if self._blank and not (self._in_list and _joins(line)):
                done = self._cut()
            self._blank = False
            self._in_list = self._in_list or _ITEM.match(line) is not None
            opened = _FENCE.match(line)
            if opened and not (opened[1][0] == "`" and "`" in opened[2]):
                self._fence = opened[1]
        self._lines.append(f"{line}\n")
        return done

    def _cut(self) -> list[str]:
        done, self._lines = self._lines, []
        self._blank = self._in_list = False
        return done


def end_of(pieces: Iterable[str], characters: int) -> str:
    """Return the end of a text whose pieces are given from the last to the first."""
    found: list[str] = []
    length = 0
    for piece in pieces:
        found.append(piece)
        length += len(piece)
        if length >= characters:
            break
    return "".join(reversed(found))[-characters:]


def _joins(line: str) -> bool:
    """Tell whether a line behind a blank one belongs to the list before it."""
    return line[:1] in " \t" or _ITEM.match(line) is not None


def _may_join(beginning: str) -> bool:
    """Tell whether a line that has only begun may come to belong to the list before it."""
    return _joins(beginning) or re.fullmatch(r"[-*+]|\d{1,9}[.)]?", beginning) is not None


def _closes(line: str, fence: str) -> bool:
    closed = _FENCE.match(line)  # indented further it is code
    return closed is not None and closed[1].startswith(fence) and not closed[2].strip()
