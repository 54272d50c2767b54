"""A lock counts though its file is not the one of that name any more: two may write at once."""

from __future__ import annotations

from holdfast.store.local import lock

CAUGHT_BY = ("H",)


def apply() -> None:
    lock._same_file = lambda files, descriptor, path: True
