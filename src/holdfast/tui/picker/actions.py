"""What a picker changes: titles, tags, and whether a session exists. Every function blocks."""

from __future__ import annotations

from holdfast.keeper.edit import delete_session, rename_session, tag_session
from holdfast.keeper.text import printable
from holdfast.model.sanitize import quoted_line
from holdfast.store.store import Store
from holdfast.tui.picker.model import PickerRow

_ANSWER_SECONDS = 5.0


def rename(store: Store, row: PickerRow, title: str) -> str:
    """Set a session's title, or remove it if it is empty; return a sentence about it.

    Raises:
        HoldfastError: it was not changed.
    """
    title = " ".join(printable(title).split())
    rename_session(store, row.id, title, optional=True, timeout_seconds=_ANSWER_SECONDS)
    return f"Renamed to {quoted_line(title)}." if title else "The first prompt is its title again."


def tag(store: Store, row: PickerRow, words: str) -> str:
    """Give a session these tags and no others; return a sentence about it.

    Raises:
        HoldfastError: it was not changed.
    """
    tags = tags_of(words)
    tag_session(store, row.id, add=tags, replace=True, timeout_seconds=_ANSWER_SECONDS)
    named = " ".join(f"#{each}" for each in tags)
    return f"Tagged {quoted_line(named)}." if tags else "It has no tags now."


def tags_of(words: str) -> list[str]:
    """Return the tags in what was typed: words, each once, with or without a ``#``."""
    cleaned = (word.strip("#,") for word in words.replace(",", " ").split())
    return list(dict.fromkeys(word for word in cleaned if word))


def delete(store: Store, row: PickerRow) -> str:
    """Move a session to the trash; return a sentence about it.

    Raises:
        HoldfastError: it was not deleted.
    """
    delete_session(store, row.id)
    return f"{quoted_line(row.title, 40)} is in the trash; Ctrl+Z restores it."


def restore(store: Store, row: PickerRow) -> str:
    """Restore a session from the trash; return a sentence about it.

    Raises:
        HoldfastError: it was not restored.
    """
    store.restore(row.id)
    return f"{quoted_line(row.title, 40)} is restored."
