"""Private keys: blocks of text between a first and a last line, whole or cut off.

A block that has its end is taken whole, whatever is in it. One that was cut off is taken as far as
lines of it go: numbered, quoted, indented, or with line ends spelled out as JSON does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.exchange.redaction.key_formats import Found

_NAME = "PRIVATE KEY"
_LONGEST_EDGE = 64
_EDGE = re.compile(r"-{4,5} ?(BEGIN|END) (?:[A-Z0-9]+ ){0,4}\Z")
_REST = re.compile(r"(?: BLOCK)? ?-{4,5}")
_BETWEEN = r"(?:\s|\\[nrt]|\d{1,6}(?=[\t→:|])|[\"'+,|>#*→:\\-])*+"
_LINE = re.compile(
    _BETWEEN + r"(?:[A-Za-z0-9+/]{16,}+={0,2}"
    r"|(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash|Subject|X-[\w-]{1,30}): [^\n\\]{1,200})"
)
_LAST = re.compile(r"(?:\s|\\[nr])*+[A-Za-z0-9+/]{1,15}={0,2}\s*\Z")
_MATERIAL = re.compile(r"[A-Za-z0-9+/]{32}")
_PUTTY = "Private-Lines: "
_PUTTY_COUNT = re.compile(r"\d{1,6}")
_PUTTY_SUM = re.compile(r"(?:\s|\\[nr])*+Private-(?:MAC|Hash): [0-9a-fA-F]{20,}+")


def private_keys(text: str) -> Iterator[Found]:
    """Yield the private keys in a text."""
    begun: tuple[int, int] | None = None  # the first line of a block: where it begins and ends
    for word, begin, end in _edges(text):
        if begun is not None:
            last = end if word == "END" else begin
            yield from _block(text, *begun, last, whole=word == "END")
        begun = (begin, end) if word == "BEGIN" else None
    if begun is not None:
        yield from _block(text, *begun, len(text), whole=False)
    yield from _putty(text)


def _edges(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield first and last lines of blocks: which it is, where it begins and ends."""
    place = text.find(_NAME)
    while place >= 0:
        end = place + len(_NAME)
        before = _EDGE.search(text[max(0, place - _LONGEST_EDGE) : place])
        rest = _REST.match(text, end)
        if before is not None and rest is not None:
            yield before[1], place - len(before[0]), rest.end()
        place = text.find(_NAME, end)


def _block(text: str, begin: int, end: int, last: int, *, whole: bool) -> Iterator[Found]:
    """Yield the block that begins with a line, if there is more of it than that line."""
    if whole and _MATERIAL.search(text, end, last):
        yield begin, last, "private key"
        return
    cut = _lines(text, end, last)
    if cut > end:
        yield begin, cut, "private key"


def _lines(text: str, place: int, last: int) -> int:
    """Return where the lines of a key end that begin here."""
    begun = place
    while (line := _LINE.match(text, place, last)) is not None:
        place = line.end()
    short = _LAST.match(text, place, last) if place > begun and last == len(text) else None
    return place if short is None else short.end()


def _putty(text: str) -> Iterator[Found]:
    place = text.find(_PUTTY)
    while place >= 0:
        count = _PUTTY_COUNT.match(text, place + len(_PUTTY))
        begin = place + len(_PUTTY) if count is None else count.end()
        end = _lines(text, begin, len(text))
        if end > begin:
            total = _PUTTY_SUM.match(text, end)
            yield place, end if total is None else total.end(), "private key"
        place = text.find(_PUTTY, max(begin, end))
