"""Whether a text was drawn or written: what tells a secret from a word, a path, or code."""

from __future__ import annotations

import math
import re
from collections import Counter

_FEWEST_BITS = 3.0  # of entropy a character: less is a word, a path, or a row of one letter
_LOOKED_AT = 256  # characters: enough to tell, however long a text is
_PLACEHOLDERS = ("$", "<", "{", "%", "[", "*", "/", "./", "../", "~/", "\\")
# Words with at most a number behind each, such as names, versions and paths: in parts, since a
# secret that is one piece may look like this by chance.
_WORD = r"(?:[A-Za-z]{1,20}+\d{0,3}+|\d{1,4}+[A-Za-z]{0,2}+)"
_WORDS = re.compile(rf"{_WORD}(?:[._/:@+#~-]++{_WORD})++")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{1,15}://", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_CODE = re.compile(r"[()\[\]{}<>`]|->|::|\$\w")


def is_random(text: str) -> bool:
    """Tell whether a text looks as if it was drawn, not written."""
    shown = text[:_LOOKED_AT]
    if _DIGIT.search(shown) is None:
        return False
    counts = Counter(shown)
    bits = -sum(n / len(shown) * math.log2(n / len(shown)) for n in counts.values())
    return bits >= _FEWEST_BITS


def looks_secret(value: str, *, quoted: bool = False) -> bool:
    """Tell whether a value is a secret: no name of a variable, no placeholder, no path, no code."""
    plain = value[:_LOOKED_AT]
    if _DIGIT.search(plain) is None:
        return False
    if plain.startswith(_PLACEHOLDERS) or "..." in plain or "…" in plain or "[redacted" in plain:
        return False
    if not quoted and _CODE.search(plain):
        return False
    if _WORDS.fullmatch(plain) or _ADDRESS.match(plain) or plain.replace(".", "").isdecimal():
        return False
    return is_random(plain.casefold())
