"""Find sessions in the trash by name, and restore them."""

from __future__ import annotations

import difflib
from pathlib import Path

from msgspec import Struct

from holdfast.errors import HoldfastError, SessionNotFound, UsageError
from holdfast.store.store import Store
from holdfast.store.types import Deleted

_MOST_SHOWN = 5
_PART_CHARACTERS = 8


class DeletedFacts(Struct, frozen=True):
    """Facts about a session in the trash; ``problem`` says why it cannot be read."""

    title: str | None = None
    messages: int = 0
    problem: str | None = None


def read_deleted(store: Store, deleted: Deleted) -> DeletedFacts:
    """Return the facts about a session in the trash."""
    try:
        with store.open(Path(deleted.path), mode="read") as session:
            return DeletedFacts(session.state.title, session.state.messages)
    except HoldfastError as error:
        return DeletedFacts(problem=str(error))


def resolve_deleted(store: Store, trash: list[Deleted], name: str) -> str:
    """Return the id of a session in the trash by id, title, or a part of an id.

    Raises:
        SessionNotFound: none has this name; suggests a similar one.
        UsageError: several have it.
    """
    if any(deleted.id == name for deleted in trash):
        return name
    # Reversed: of several with one id the first is restored, so its title must win.
    titles = {each.id: read_deleted(store, each).title or "" for each in reversed(trash)}
    wanted = name.casefold()
    found = [each for each, title in titles.items() if wanted and title.casefold() == wanted]
    found = found or [each for each in titles if name and name in each]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(found[:_MOST_SHOWN])
        raise UsageError(f"{len(found)} deleted sessions match {name!r}: {shown}. Use a full id.")
    raise SessionNotFound(
        f"No session in the trash has {name!r} in its id or as its title."
        f"{_suggestion(name, titles)}"
    )


def restore_sessions(store: Store, names: list[str]) -> list[str]:
    """Restore sessions by name; return their ids.

    Nothing is restored unless every name is found.

    Raises:
        SessionNotFound, UsageError: as ``resolve_deleted``.
    """
    trash = store.deleted()
    ids = [resolve_deleted(store, trash, name) for name in names]
    for session_id in ids:
        store.restore(session_id)
    return ids


def _suggestion(name: str, titles: dict[str, str]) -> str:
    near: dict[str, str] = {}
    for each, title in titles.items():
        near |= {each: each, each[-_PART_CHARACTERS:]: each}
        near |= {title.casefold(): each} if title else {}
    close = difflib.get_close_matches(name.casefold(), near, 1)
    return f" Did you mean {near[close[0]]}?" if close else ""
