"""Patterns of file names as regular expressions: ``*``, ``?``, ``[a-z]``, ``**``, as in git.

Used for ``.gitignore``, for the glob tool and for approval rules. The expressions match in time
that grows with the length of the name, whatever the pattern: all but the last star of a component
are atomic, which changes nothing, because the first place that fits is as good as any later.
"""

from __future__ import annotations

import re
from functools import lru_cache

NEVER = "(?!)"
_SETS = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t-\\r",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MOST_ALTERNATIVES = 100


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the expression for a path relative to the pattern's folder; use ``fullmatch``."""
    pieces: list[str] = []
    components = pattern.split("/")
    for number, component in enumerate(components):
        last = number == len(components) - 1
        if component.strip("*") == "" and len(component) > 1:
            anything = ".*" if last else "(?:.*/)?"
            if not pieces or pieces[-1] != anything:
                pieces.append(anything)
        else:
            pieces.append(_component(component) + ("" if last else "/"))
    return re.compile("".join(pieces), re.DOTALL)


def _component(pattern: str) -> str:
    fixed = [""]  # between the stars
    place = 0
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if character == "*":
            fixed.append("")
        elif character == "?":
            fixed[-1] += "[^/]"
        elif character == "[":
            expression, place = _set(pattern, place)
            fixed[-1] += expression
        elif character == "\\":
            fixed[-1] += re.escape(pattern[place]) if place < len(pattern) else NEVER
            place += 1
        else:
            fixed[-1] += re.escape(character)
    first, *others = fixed
    if not others:
        return first
    return first + "".join(f"(?>[^/]*?{each})" for each in others[:-1]) + f"[^/]*{others[-1]}"


def _set(pattern: str, place: int) -> tuple[str, int]:
    """Return the expression for a set whose bracket was read, and where it ends."""
    negated = pattern[place : place + 1] in ("!", "^")
    place += negated
    first, items = place, ""
    while place < len(pattern):
        if pattern[place] == "]" and place > first:
            inside = f"[^{items}]" if negated else f"[{items}]"
            if not items:
                inside = "[^/]" if negated else NEVER
            return f"(?!/){inside}", place + 1
        name, found, _ = pattern[place + 2 :].partition(":]")
        if pattern.startswith("[:", place) and found:
            if name not in _SETS:
                return NEVER, len(pattern)
            items += _SETS[name]
            place += 4 + len(name)
            continue
        low, place = _literal(pattern, place)
        high = low
        if pattern[place : place + 1] == "-" and pattern[place + 1 : place + 2] not in ("", "]"):
            high, place = _literal(pattern, place + 1)
        if low <= high:
            items += f"{re.escape(low)}-{re.escape(high)}"
    return NEVER, len(pattern)


def _literal(pattern: str, place: int) -> tuple[str, int]:
    if pattern[place] == "\\" and place + 1 < len(pattern):
        place += 1
    return pattern[place], place + 1


def alternatives(pattern: str) -> list[str]:
    """Return the patterns that a pattern with braces stands for: ``*.{c,h}`` is two.

    More than a hundred are not spelled out; braces that remain are ordinary characters.
    """
    patterns = [pattern]
    for place, each in enumerate(patterns):
        found = _BRACES.search(each)
        if found is not None and len(patterns) < _MOST_ALTERNATIVES:
            words = found[1].split(",")
            spelled = [each[: found.start()] + word + each[found.end() :] for word in words]
            patterns[place] = ""
            patterns += spelled
    return list(dict.fromkeys(each for each in patterns if each))


def path_expression(pattern: str) -> re.Pattern[str]:
    """Return the expression of a glob pattern for a path; without a slash it fits at any depth."""
    fitting = []
    for each in alternatives(pattern):
        path = each.removeprefix("./")
        anchored = path.lstrip("/") if "/" in path else f"**/{path}"
        fitting.append(f"(?:{compiled(anchored).pattern})")
    return re.compile("|".join(fitting) or NEVER, re.DOTALL)
