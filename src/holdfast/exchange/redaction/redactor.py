"""Secrets in text and in decoded JSON: found, and replaced by marks.

Each finding says which kind it was and where; never the secret. What a secret looks like is in
``key_formats``, ``assignments`` and ``pem_blocks``. Colours and other sequences for terminals, and
characters that nobody sees, may stand before and in the middle of a secret: screens and pages take
them out, so they are taken out before anything is looked for.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from msgspec import Struct

from holdfast.exchange.redaction.assignments import is_secret_name, is_secret_value, telltales
from holdfast.exchange.redaction.key_formats import Found, vendor_keys
from holdfast.exchange.redaction.pem_blocks import private_keys
from holdfast.model.sanitize import SEQUENCE

# What a terminal is not shown, the same spelled out as JSON and shells do, and characters without
# width.
_HIDDEN = re.compile(
    SEQUENCE.pattern + r"|\\(?:u001[bB]|x1[bB]|033|e)\[[0-?]*[ -/]*[@-~]"
    "|[\u00ad\u200b-\u200f\u2060\ufeff]"
)
_SPELLED_OUT = re.compile(r"\\(?:u001[bB]|x1[bB]|033|e)\[")
_BEYOND_ASCII = re.compile("[\x90\x98\x9b\x9d-\x9f\u00ad\u200b-\u200f\u2060\ufeff]")
_SHORTEST = 8  # characters that a secret has at least, with what tells it
_NAMED_BY = ("name", "key", "variable", "header")
_HELD_IN = ("value", "val")


class SecretFinding(Struct, frozen=True):
    """A secret that was replaced: its kind, and where it stood."""

    kind: str
    where: str


def secrets(text: str) -> list[Found]:
    """Return the secrets in a text, in order; those that overlap are one."""
    if len(text) < _SHORTEST:
        return []
    if not _has_hidden(text):
        return _joined(_looked_for(text))
    begins, ends, pieces = [0], [], []
    found: list[Found] = []
    for hidden in _HIDDEN.finditer(text):
        ends.append(hidden.start())
        pieces.append(text[begins[-1] : hidden.start()])
        begins.append(hidden.end())
        # A link or a title is itself text that may have a secret in it.
        within = _looked_for(hidden[0]) if hidden.end() - hidden.start() > _SHORTEST else ()
        found += ((hidden.start() + begin, hidden.start() + end, k) for begin, end, k in within)
    pieces.append(text[begins[-1] :])
    starts = [0, *accumulate(map(len, pieces))]
    for begin, end, kind in _looked_for("".join(pieces)):
        first = bisect_right(starts, begin, hi=len(pieces)) - 1
        last = bisect_right(starts, end - 1, hi=len(pieces)) - 1
        found.append(
            (begins[first] + begin - starts[first], begins[last] + end - starts[last], kind)
        )
    return _joined(found)


def _has_hidden(text: str) -> bool:
    if "\x1b" in text or _SPELLED_OUT.search(text) is not None:
        return True
    return not text.isascii() and _BEYOND_ASCII.search(text) is not None


def _looked_for(text: str) -> Iterator[Found]:
    yield from private_keys(text)
    yield from vendor_keys(text)
    yield from telltales(text)


def _joined(found: Iterator[Found] | list[Found]) -> list[Found]:
    """Return findings in order. Of those that overlap the first kind names all: it is most sure."""
    done: list[Found] = []
    for _, (begin, end, kind) in sorted(enumerate(found), key=lambda each: each[1][0]):
        if done and begin < done[-1][1]:
            done[-1] = (done[-1][0], max(end, done[-1][1]), done[-1][2])
        else:
            done.append((begin, end, kind))
    return done


class Redactor:
    """Replaces secrets and remembers what it found; the same secret gets the same mark."""

    def __init__(self) -> None:
        self.findings: list[SecretFinding] = []
        self._marks: dict[str, str] = {}

    def text(self, text: str, where: str = "") -> str:
        """Return a text without secrets."""
        found = secrets(text)
        return self._replaced(text, found, where) if found else text

    def texts(self, texts: Sequence[str], where: str = "") -> list[str]:
        """Return texts without secrets, also without those that go on from one to the next."""
        whole = "".join(texts)
        starts = [0, *accumulate(map(len, texts))]
        found = [
            (start + begin, start + end, kind)
            for start, text in zip(starts, texts, strict=False)
            for begin, end, kind in secrets(text)
        ]
        if len(texts) > 1:
            found = _joined(found + secrets(whole))
        edges = [*starts[:-1], len(whole)]
        return [self._replaced(whole, found, where, first, last) for first, last in pairwise(edges)]

    def value(self, value: Any, where: str = "") -> Any:
        """Return decoded JSON without secrets, in keys and texts however deep."""
        if isinstance(value, str):
            return self.text(value, where)
        if isinstance(value, dict):
            return {
                self.text(str(key), where): self._held(self._name_of(key, value), held, where)
                for key, held in value.items()
            }
        if isinstance(value, list):
            names = ["", *value]
            return [self._held(name, each, where) for name, each in zip(names, value, strict=False)]
        return value

    def _name_of(self, key: Any, fields: dict[Any, Any]) -> Any:
        """Return what tells what a field holds: its key, or the name that stands beside it."""
        if isinstance(key, str) and key.casefold() in _HELD_IN:
            for other, name in fields.items():
                if isinstance(other, str) and other.casefold() in _NAMED_BY:
                    return name
        return key

    def _held(self, name: Any, held: Any, where: str) -> Any:
        """Return a value without secrets: its name tells one as well as an assignment does."""
        if isinstance(held, str) and isinstance(name, str) and is_secret_name(name):
            found = secrets(held)
            if not found and is_secret_value(held):
                return self._mark(held, "secret in an assignment", where)
        return self.value(held, where)

    def _replaced(
        self, text: str, found: list[Found], where: str, first: int = 0, last: int | None = None
    ) -> str:
        """Return a piece of a text; the mark of a secret stands where it begins."""
        last = len(text) if last is None else last
        pieces, place = [], first
        for begin, end, kind in found[bisect_right(found, first, key=lambda each: each[1]) :]:
            if begin >= last:
                break
            pieces.append(text[place:begin])
            if begin >= first:
                pieces.append(self._mark(text[begin:end], kind, where))
            place = min(end, last)
        return "".join([*pieces, text[place:last]])

    def _mark(self, secret: str, kind: str, where: str) -> str:
        self.findings.append(SecretFinding(kind, where))
        plain = _HIDDEN.sub("", secret)
        number = self._marks.setdefault(plain, str(len(self._marks) + 1))
        return f"[redacted: {kind} {number}]"

    def counts(self) -> dict[str, int]:
        """Return how many of each kind were found."""
        return dict(Counter(finding.kind for finding in self.findings))
