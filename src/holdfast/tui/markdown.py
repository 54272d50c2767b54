"""Markdown to draw, and whether all that was written in it was drawn."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

_LONGEST, _MOST_LINES = 20_000, 400  # nothing moves while more is drawn
_NOT_PARSED = ["image", "reference", "autolink", "entity"]
# Before what a line says: marks and numbers, and the language of code.
_MARKS = re.compile(r"^(?:[ \t>*+-]|\d{1,9}[.)](?=\s))*(?:(?:`{3,}|~{3,})[ \t]*\S*)?", re.MULTILINE)
_SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")  # those of our own


def is_short_enough(text: str) -> bool:
    """Tell whether a text can be drawn in a moment."""
    return len(text) <= _LONGEST and text.count("\n") < _MOST_LINES


def document(text: str) -> RenderableType:
    """Return Markdown to draw, with all that was written in it.

    Left to itself, rich shows nothing of what looks like HTML, such as ``<name>``, of where an
    image is, and of links that are defined apart. Entities stay as they are written: what they
    stand for would not have been made harmless.
    """
    from markdown_it import MarkdownIt  # noqa: PLC0415  slow to import, needed late
    from rich.markdown import Markdown  # noqa: PLC0415  as above

    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    document = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    document.parsed = parser.disable(_NOT_PARSED).parse(text)
    return document


def has_all(drawn: str, text: str) -> bool:
    """Tell whether all letters and digits of a text were drawn, but the numbers of lists.

    What is nested too deep is left out, and so are cells that have no column or no room.
    """
    seen = Counter(_SEQUENCE.sub("", drawn))
    wanted = Counter(_MARKS.sub("", text))
    cut = seen["…"] > wanted["…"]
    return not cut and all(seen[each] >= wanted[each] for each in wanted if each.isalnum())
