"""Bytes of a text file to text and back: encodings, byte order marks, line ends. No I/O.

``decode`` accepts everything and ``encode`` gives the same bytes back for the same text: what is
not Unicode is taken for Latin-1, which has a character for each byte.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left

from msgspec import Struct

from holdfast.runtime.tools.base import Refusal

_SAMPLE_BYTES = 8000  # as far as git looks for a NUL
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Form(Struct, frozen=True):
    """How a text stands in its file. ``line_end`` is the one that most of its lines have."""

    encoding: str = "utf-8"
    mark: bytes = b""
    line_end: str = "\n"

    @property
    def described(self) -> str:
        """What is unusual about it, as a clause; empty if nothing is."""
        ends = {"\r\n": "CRLF line ends", "\r": "CR line ends"}
        encoding = self.encoding.upper() + (" with byte order mark" if self.mark else "")
        unusual = [] if encoding == "UTF-8" else [encoding]
        return ", ".join(unusual + ([ends[self.line_end]] if self.line_end in ends else []))


def decode(data: bytes) -> tuple[str, Form]:
    """Return the text (without byte order mark, line ends as they are) and its form."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                text = data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                continue
            return text, Form(encoding, mark, _line_end(text))
    try:
        text, encoding = data.decode(), "utf-8"
    except UnicodeDecodeError:
        text, encoding = data.decode("latin-1"), "latin-1"
    return text, Form(encoding, b"", _line_end(text))


def encode(text: str, form: Form) -> bytes:
    """Return the bytes of a text, its line ends as they are.

    Raises:
        Refusal: the encoding has no room for one of the characters.
    """
    try:
        return form.mark + text.encode(form.encoding)
    except UnicodeEncodeError as error:
        character = ascii(error.object[error.start])
        raise Refusal(
            f"The character {character} cannot be written in {form.encoding.upper()}, "
            "the encoding of this file; nothing was changed."
        ) from None


def is_binary(data: bytes) -> bool:
    """Tell whether bytes are no text: a NUL near the beginning, but for UTF-16."""
    return b"\0" in data[:_SAMPLE_BYTES] and not decode(data)[1].encoding.startswith("utf-16")


def _line_end(text: str) -> str:
    pairs = text.count("\r\n")
    feeds = text.count("\n") - pairs
    if pairs == feeds == 0 and "\r" in text:
        return "\r"
    return "\r\n" if pairs > feeds else "\n"


def with_feeds(text: str, form: Form) -> str:
    """Return a text as models see it: lines end with a line feed, whatever the file has."""
    plain = text.replace("\r\n", "\n")
    return plain.replace("\r", "\n") if form.line_end == "\r" else plain


def with_ends(text: str, form: Form) -> str:
    """Return a model's text with the line ends of a file."""
    plain = with_feeds(text, form)
    return plain if form.line_end == "\n" else plain.replace("\n", form.line_end)


def find(text: str, wanted: str) -> list[int]:
    """Return where ``wanted`` is, without overlaps, as ``str.replace`` would find it."""
    places = []
    place = text.find(wanted)
    while place >= 0:
        places.append(place)
        place = text.find(wanted, place + len(wanted))
    return places


def substitute(text: str, form: Form, old: str, new: str) -> tuple[str, list[int]]:
    """Replace every ``old``; return the text and the line of each place, counted from 1.

    In a file with CRLF or CR line ends both are taken to have such ends too, and line ends outside
    the replaced places stay as they are, also in a file that mixes them. In a file with line feeds
    only, every character counts.
    """
    plain = text
    paired: list[int] = []  # places in ``plain`` of line feeds that stand for two characters
    if form.line_end == "\r" or "\r\n" in text:
        plain, old = with_feeds(text, form), with_feeds(old, form)
        new = with_ends(new, form)
    if form.line_end != "\r" and "\r\n" in text:
        paired = [place - count for count, place in enumerate(find(text, "\r\n"))]
    pieces, end = [], 0
    places = find(plain, old)
    for place in places:
        start = place + bisect_left(paired, place)
        pieces += [text[end:start], new]
        end = place + len(old) + bisect_left(paired, place + len(old))
    lines, line, counted_to = [], 1, 0
    for place in places:
        line += plain.count("\n", counted_to, place)
        counted_to = place
        lines.append(line)
    return "".join([*pieces, text[end:]]), lines
