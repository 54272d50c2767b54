"""Markdown that others wrote, made harmless and kept to its place in a page.

It stays the Markdown that it is, but for what acts instead of being read: HTML, images that load
from somewhere, links that are no addresses. And nothing reaches beyond its end: a fence that is
open there is closed.

Programs that render Markdown agree on little. So this reads no Markdown: it writes it in a way that
leaves no doubt. What counts as code here is code for everybody: a fence keeps its lines indented as
far as itself, or ends before them; one behind a list's marker gets a line of its own; backticks
that have no partner in their line, or in their cell, are escaped. Everything else is text, in which
little is allowed.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from holdfast.model.sanitize import for_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEPEST_QUOTE = 16
_TAB = 4
_DEEPEST_CERTAIN = 3  # columns before a fence; further in, it could be the middle of a paragraph
_ANYTHING = re.compile(r"[`<~]|!\[|\]\(|\]:")
_INDENTATION = re.compile(r"[ \t]*")
_FENCE = re.compile(r"([ \t]*)((?:[-+*]|[0-9]{1,9}[.)]) {1,4})?(`{3,}(?=[^`]*$)|~{3,})(.*)")
_QUOTE = re.compile(r"( {0,3})> ?")
_BEFORE_QUOTED = re.compile(r"[ \t>]*")
_DELIMITERS = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_CELLS = re.compile(r"(?:(?<!\\)|(?<=\\\\))(\|)")  # cells that are none do no harm
_RUN = re.compile("`+")
_ACTIVE = re.compile(
    r"(?P<escaped>\\[!-/:-@\[-`{-~])"
    r"|(?P<run>`+)"
    r"|(?P<autolink><(?:https?://|mailto:)[^\s<>`\"|\\]*>)"
    r"|(?P<tag><(?=[A-Za-z/!?]))"
    r"|(?P<image>!(?=\[))"
    r"|(?P<link>\](?=[(:]))"
    r"|(?P<tildes>~{3,})",
    re.IGNORECASE,
)
# Where a link may lead: to an address, or to what has no scheme and hides none.
_DESTINATION = re.compile(
    r"\][(:][ \t]*(?=[^ \t])"
    r"(?:<?(?:https?://|mailto:)|<[^:&\\<>\t]*>|[^\s<>:&\\()?#/]*(?:[/?#()]|[ \t]|$))",
    re.IGNORECASE,
)
_SPECIAL = re.compile(
    r"[\\`*\[\]~]|(?<!\w)_|_(?!\w)|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?:(?<= )|^)#(?=#*$)"
)
_ENTITIES = {"<": "&lt;", "\\<": "&lt;", "&": "&amp;"}


def contained(text: str) -> str:
    """Return Markdown that does nothing, neither where it stands nor behind its end."""
    text = for_terminal(text)
    return "\n".join(_Block(text.split("\n")).made()) if _ANYTHING.search(text) else text


def quoted(text: str) -> str:
    """Return Markdown as a quotation, as harmless."""
    lines = [_widened(line, _INDENTATION) for line in for_terminal(text).split("\n")]
    return "\n".join(_quotation("", line) for line in contained("\n".join(lines)).split("\n"))


def literal(text: str) -> str:
    """Return text that is no Markdown, to be read as it stands, in a line."""
    return _SPECIAL.sub(
        lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), _one_line(for_terminal(text))
    )


def code(text: str) -> str:
    """Return text as code, in a line."""
    text = _one_line(for_terminal(text))
    longest = _longest_run(text)
    ticks = "`" * (longest + 1)
    return f"{ticks} {text} {ticks}" if longest else f"`{text}`"


def fenced(text: str, language: str = "") -> str:
    """Return a block of code whose fence is longer than any in the text."""
    text = for_terminal(text)
    fence = "`" * max(3, _longest_run(text) + 1)
    return "\n".join([fence + language, text.removesuffix("\n"), fence])


def _longest_run(text: str) -> int:
    return max(map(len, _RUN.findall(text)), default=0)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quotation(indent: str, line: str) -> str:
    return f"{indent}> {line}" if line else f"{indent}>"


def _widened(line: str, before: re.Pattern[str]) -> str:
    """Return a line with blanks for tabs at its beginning: behind a mark a tab is less wide."""
    return before.sub(lambda found: found[0].expandtabs(_TAB), line, count=1)


class _Fence:
    """A block of code that is open."""

    def __init__(self, found: re.Match[str]) -> None:
        self._before, marker = found[1].expandtabs(_TAB), found[2] or ""
        self._info = found[4].partition("|")[0]  # with a bar it could be the head of a table
        self._marker = marker.rstrip()
        self._indent = len(self._before) + len(marker)
        self.end = " " * self._indent + found[3]
        self._end = re.compile(f"[ \t]*{found[3][0]}{{{len(found[3])},}}[ \t]*")

    def opening(self, *, follows_text: bool) -> Iterator[str]:
        if follows_text and (self._marker or self._indent > _DEEPEST_CERTAIN):
            yield ""
        if self._marker:
            yield f"{self._before}{self._marker}"
        yield f"{self.end}{self._info}"

    def is_end(self, line: str) -> bool:
        near = _width(line) <= self._indent + _DEEPEST_CERTAIN
        return near and self._end.fullmatch(line) is not None

    def holds(self, line: str) -> bool:
        return _width(line) >= self._indent or not line.strip(" \t")


def _width(line: str) -> int:
    return len(line[: len(line) - len(line.lstrip(" \t"))].expandtabs(_TAB))


class _Block:
    """Lines of a page, or of a quotation in it: all that they open is closed at their end."""

    def __init__(self, lines: list[str], depth: int = 0, behind: str = "") -> None:
        self._left = deque(lines)
        self._behind = behind
        self._depth = depth
        self._fence: _Fence | None = None
        self._in_table = self._follows_text = False

    def made(self) -> Iterator[str]:
        """Yield the lines to write."""
        while self._left:
            line = self._left.popleft()
            if self._fence is not None:
                if self._fence.holds(line) and not self._fence.is_end(line):
                    yield line
                    continue
                ended, self._fence = self._fence, None
                yield ended.end
                if ended.is_end(line):
                    continue
            yield from self._outside(line)
        if self._fence is not None:
            yield self._fence.end

    def _outside(self, line: str) -> Iterator[str]:
        begins, quote = _FENCE.fullmatch(line), _QUOTE.match(line)
        if begins:
            self._fence = _Fence(begins)
            yield from self._fence.opening(follows_text=self._follows_text)
        elif quote and self._depth < _DEEPEST_QUOTE:
            lines = self._quoted(line, quote[1])
            inner = _Block(lines, self._depth + 1, self._following)
            yield from (_quotation(quote[1], each) for each in inner.made())
        else:
            is_table = self._in_table or _DELIMITERS.fullmatch(self._following) is not None
            self._in_table = is_table and bool(line.strip())
            yield _text(line, in_table=self._in_table)
        self._follows_text = begins is None and bool(line.strip(" \t"))

    @property
    def _following(self) -> str:
        """The next line, be it behind the quotation: for some it makes this one a table's head."""
        return self._left[0] if self._left else self._behind

    def _quoted(self, line: str, indent: str) -> list[str]:
        """Return what stands in a quotation; further in or out it would be another one."""
        lines = [line]
        while self._left and self._left[0].startswith(f"{indent}>"):
            lines.append(self._left.popleft())
        return [_QUOTE.sub("", _widened(each, _BEFORE_QUOTED), count=1) for each in lines]


def _text(line: str, *, in_table: bool) -> str:
    """Return a line of text that does nothing; in a table, code ends where its cell does."""
    return "".join(map(_inline, _CELLS.split(line))) if in_table else _inline(line)


def _inline(text: str) -> str:
    if _ANYTHING.search(text) is None:
        return text
    runs: dict[int, deque[int]] = {}
    for run in _RUN.finditer(text):
        runs.setdefault(len(run[0]), deque()).append(run.start())
    made: list[str] = []
    place = 0
    while found := _ACTIVE.search(text, place):
        made.append(text[place : found.start()])
        place = found.end()
        if found.lastgroup == "run":
            length = len(found[0])
            end = _next(runs.get(length), place)
            made.append("\\`" * length if end is None else text[found.start() : end + length])
            place = place if end is None else end + length
        else:
            made.append(_harmless(found))
    return "".join([*made, text[place:]])


def _next(places: deque[int] | None, place: int) -> int | None:
    """Return the first of some places that is not before one; those before it are forgotten."""
    while places and places[0] < place:
        places.popleft()
    return places[0] if places else None


def _harmless(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "tag" | "escaped":
            return _ENTITIES.get(found[0], found[0])
        case "image":
            return "\\!"
        case "tildes":
            return "\\~" * len(found[0])
        case "link":
            return "]" if _DESTINATION.match(found.string, found.start()) else "]\\"
        case _:
            return found[0]
