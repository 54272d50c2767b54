"""Text that others wrote, made harmless for a terminal and for whatever else shows it.

Stored text is left as it is; every screen and every page to read passes it through here. Nothing
that comes out can move the cursor, change colours, titles or the clipboard, ask the terminal to
answer, or show characters in another order than they have.
"""

from __future__ import annotations

import re

# ESC or its one-byte form, then what it begins: a control sequence, a string (title, clipboard,
# link) with its terminator, or one more character. A string without an end loses only its start.
SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\n\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
"""Whatever steers a terminal: taken out of text that is shown."""

_LINE_END = re.compile(r"\r+\n?")
# Other controls, marks that turn the direction of writing, and halves of characters.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff]"
)
# The same, and what ends a line or leaves its column. Joiners and other marks that take no room are
# part of ordinary text: of emoji, and of many languages.
_OFF_THE_LINE = re.compile(f"[\t\n]|{_FORBIDDEN.pattern}")


def for_terminal(text: str) -> str:
    """Return text that a terminal can be given.

    Escape sequences are taken out, line ends become line feeds, and any other control character is
    spelled out. A sequence that is cut in two by a chunk's end is harmless too: its rest shows.
    """
    if _FORBIDDEN.search(text) is None:  # whatever begins a sequence or ends a line is among these
        return text
    text = _LINE_END.sub("\n", SEQUENCE.sub("", text))
    return _FORBIDDEN.sub(lambda found: _spelled(ord(found[0])), text)


def one_line(text: str) -> str:
    """Return text that stays on its line, character by character: a blank for what would not."""
    return _OFF_THE_LINE.sub(" ", text)


def is_one_line(text: str) -> bool:
    """Tell whether a text can be shown on one line just as it is."""
    return _OFF_THE_LINE.search(text) is None


def _spelled(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


__all__ = ["for_terminal", "quoted_line"]


def quoted_line(text: str, longest: int = 80) -> str:
    """Return the beginning of a text in quotes, on one line: it cannot pass for lines of ours."""
    looked_at = text[: 4 * longest]
    line = " ".join(looked_at.split())
    is_all = len(line) <= longest and not text[len(looked_at) :].strip()
    return f"“{for_terminal(line if is_all else line[:longest] + '…')}”"
