"""A line counts as intact though its checksum does not fit: altered history is taken for true."""

from __future__ import annotations

from holdfast.journal import format as lines

CAUGHT_BY = ("I",)


def apply() -> None:
    lines._status = lambda line, previous, type_name: "ok"
