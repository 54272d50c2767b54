"""What is searched for: words and phrases, what they match, and how well.

Every word has to occur in a message, wherever; a phrase in double quotes has to occur as it is, but
for blanks and line ends. There are no operators: any other character means itself. A match is a
whole word, the beginning of one, or, where that is asked for, something inside of one.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import UsageError
from holdfast.store.texts import UNSPACED, folded, spaced

if TYPE_CHECKING:
    from holdfast.store.documents import Document
    from holdfast.store.texts import Piece

WHOLE, BEGINNING, INSIDE = 0, 1, 2
_WORDS = re.compile(r'"([^"]*)"|(\S+)')
_JOINED = f"[^\\W_{UNSPACED}]"  # characters that make words with their neighbours
_IS_JOINED = re.compile(_JOINED)
_IN_INDEX = re.compile(r"[^\W_]")
_PROBE = re.compile("[a-z0-9]{2,}")
_MOST_IN_INDEX = 32
_AROUND_CHARACTERS = 60
_USUAL_LENGTH = 2000
_MOST_COUNTED = 1000
_WEIGHTS = {"title": 4.0, "user": 2.0, "assistant": 1.5, "tool": 1.0, "system": 0.5}


class Match(NamedTuple):
    """How a document fits. ``depth`` is whole, beginning or inside: that of its worst word."""

    depth: int
    piece: Piece
    snippet: str
    highlights: list[tuple[int, int]]
    rank: float


class _Needle:
    """One word or phrase, folded."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._pattern = re.compile(r"\s+".join(re.escape(word) for word in text.split()))
        self._open_start = _IS_JOINED.match(text) is not None
        self.open_end = _IS_JOINED.match(text, len(text) - 1) is not None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where it is, for the first thousand times."""
        return [found.span() for found in islice(self._pattern.finditer(text), _MOST_COUNTED)]

    def depth(self, text: str, span: tuple[int, int]) -> int:
        """Tell whether what is found is a whole word, or what of one."""
        start, end = span
        if self._open_start and start and _IS_JOINED.match(text, start - 1):
            return INSIDE
        return BEGINNING if self.open_end and _IS_JOINED.match(text, end) else WHOLE

    def in_index(self, *, open_end: bool) -> str:
        """Return what is asked of the index, which takes quoted text apart as it does texts."""
        words = spaced(self.text).replace('"', " ").replace("\0", " ")
        words = words.encode("utf-8", "replace").decode()
        return f'"{words}"{" *" if open_end and self.open_end else ""}'


class _Found(NamedTuple):
    """The best of a needle: how deep, in which text, where; and how often it is there."""

    depth: int
    place: int
    span: tuple[int, int]
    often: int


class Wanted:
    """Words and phrases that all have to occur."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text.strip():
            raise UsageError("What to search for is a string that is not empty.")
        found = [_one_blank(quoted or word) for quoted, word in _WORDS.findall(text)]
        words = [word for word in dict.fromkeys(found) if word] or [_one_blank(text)]
        self._needles = [_Needle(word) for word in words if word]
        if not self._needles:
            raise UsageError(f"{text!r} has nothing in it that can be searched for.")
        probes = [_PROBE.findall(needle.text) for needle in self._needles]
        self._probes = [max(each, key=len).encode() for each in probes if each]

    def in_index(self, *, open_end: bool) -> str | None:
        """Return an expression for the index; ``None`` if it knows none of the words.

        With ``open_end`` it has the beginnings of words as well; ``None`` if that adds nothing.
        """
        known = [each for each in self._needles if _IN_INDEX.search(each.text)][:_MOST_IN_INDEX]
        if not known or (open_end and not any(each.open_end for each in known)):
            return None
        return " AND ".join(each.in_index(open_end=open_end) for each in known)

    def may_be_in(self, line: bytes) -> bool:
        """Tell whether it is worth while to decode a line of a journal."""
        if not line.isascii() or b"\\u" in line or b'"blob":' in line:
            return True  # folding, or another file, could bring out anything
        lowered = line.lower()
        return all(probe in lowered for probe in self._probes)

    def match(self, document: Document, deepest: int) -> Match | None:
        """Look at a document."""
        texts = [folded(piece.text) for piece in document.pieces]
        found = []
        for needle in self._needles:
            best = _best(needle, texts)
            if best is None or best.depth > deepest:
                return None
            found.append(best)
        shown = min(found)
        piece = document.pieces[shown.place]
        snippet, highlights = self._around(piece.text, texts[shown.place], shown.span)
        damping = 1.2 * (0.25 + 0.75 * sum(map(len, texts)) / _USUAL_LENGTH)
        rank = sum(each.often / (each.often + damping) for each in found)
        weight = _WEIGHTS.get(document.role, 1.0)
        return Match(max(found).depth, piece, snippet, highlights, rank * weight)

    def _around(
        self, text: str, compared: str, span: tuple[int, int]
    ) -> tuple[str, list[tuple[int, int]]]:
        """Return the words around a place, and what in them is to be shown as found."""
        start, end = max(0, span[0] - _AROUND_CHARACTERS), span[1] + _AROUND_CHARACTERS
        shown = text if len(text) == len(compared) else compared  # ß has become two letters
        highlights: list[tuple[int, int]] = []
        part = compared[start:end]
        for each in sorted(each for needle in self._needles for each in needle.spans(part)):
            if not highlights or each[0] >= highlights[-1][1]:
                highlights.append(each)
        return shown[start:end], highlights


def _best(needle: _Needle, texts: list[str]) -> _Found | None:
    best, often = None, 0
    for place, text in enumerate(texts):
        spans = needle.spans(text)
        often += len(spans)
        for span in spans:
            depth = needle.depth(text, span)
            if best is None or depth < best.depth:
                best = _Found(depth, place, span, 0)
            if depth == WHOLE:
                break
    return None if best is None else best._replace(often=often)


def _one_blank(text: str) -> str:
    return " ".join(folded(text).split())
