"""Find a session by name: an id, a title, a part of an id that only one session has, or a path.

Opens no session, so a session that cannot be read is found, too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, SessionNotFound, UsageError
from holdfast.keeper.text import cut, printable
from holdfast.model.ids import SESSION_ID, check_part
from holdfast.store.local.layout import JOURNAL_NAME

if TYPE_CHECKING:
    from holdfast.store.store import Store
    from holdfast.store.types import Summary

_MOST_SHOWN = 5
_MOST_COMPARED = 2000
_MOST_SUGGESTED = 3
_TITLE_WIDTH = 40
_LONGEST_SHOWN = 100
_PART_CHARACTERS = 8


def resolve_session(store: Store, name: str) -> str | Path:
    """Return what ``store.open`` takes for a name: an id, or the path of a session elsewhere.

    A title that the user gave takes precedence over a part of an id. The title of a session from
    elsewhere comes last: its sender chose it, so it must not stand for another session.

    Raises:
        SessionNotFound: no session has this name; suggests similar ones.
        UsageError: several sessions have it, or the name is not valid.
    """
    if os.sep in name and (place := _at_path(store, name)) is not None:
        return place
    ids = store.ids()
    if name in ids:
        return name
    summaries = store.list() if ids else []
    titled = _titled(summaries, name)
    if (own := _only([each for each in titled if not each.foreign])) is not None:
        return own
    found = sorted(each for each in ids if name and name in each)
    if len(found) == 1:
        return found[0]
    if found:
        more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
        shown = ", ".join(found[:_MOST_SHOWN])
        raise UsageError(
            f"{name!r} is part of {len(found)} session ids: {shown}{more}. Use a longer part."
        )
    if (received := _only(titled)) is not None:
        return received
    raise _not_found(store, name, summaries)


def local_session_id(store: Store, name: str) -> str:
    """Return the id of a session of this home by name; raises as ``resolve_session``.

    A session outside this home is rejected, even if its folder has the name of one inside.
    """
    place = resolve_session(store, name)
    if isinstance(place, Path):
        raise UsageError(
            f"{_shown(name)} is not in the home folder {store.location}. "
            "Set HOLDFAST_HOME to the home folder of that session."
        )
    return place


def _at_path(store: Store, name: str) -> str | Path | None:
    """Return the session at a path: its id if it is in this home; ``None`` if there is none."""
    try:
        if Path(name).is_symlink():  # following it could change another session than expected
            return None
        there = Path(os.path.realpath(name, strict=True))
        folder = there.parent if there.name == JOURNAL_NAME else there
        if folder.name in store.ids() and folder.samefile(store.find(folder.name)):
            return folder.name
        return folder if (folder / JOURNAL_NAME).is_file() else None
    except (OSError, ValueError):  # missing, or not readable
        return None


def _titled(summaries: list[Summary], name: str) -> list[Summary]:
    wanted = name.casefold()
    return [each for each in summaries if wanted and (each.title or "").casefold() == wanted]


def _only(titled: list[Summary]) -> str | None:
    """Return the id of the one session that has a title, ``None`` if there is none.

    Raises:
        UsageError: several have it.
    """
    if len(titled) > 1:
        shown = ", ".join(each.id for each in titled[:_MOST_SHOWN])
        raise UsageError(f"{len(titled)} sessions have that title: {shown}. Use an id. Use an id.")
    return titled[0].id if titled else None


def _shown(name: str) -> str:
    return repr(name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…")


def _not_found(store: Store, name: str, summaries: list[Summary]) -> HoldfastError:
    shown = _shown(name)
    if os.sep in name and os.path.lexists(name) and not Path(name).is_symlink():
        why = f"it contains no {JOURNAL_NAME}, and no session has that title"
        return SessionNotFound(f"There is no session at {shown}: {why}.")
    if os.sep in name:
        return SessionNotFound(f"There is no session at {shown}, and none with that title.")
    if SESSION_ID.fullmatch(name):
        if name in store.deleted_ids():
            return SessionNotFound(
                f"{name} is in the trash. Restore it with: holdfast restore {name}"
            )
        why = f"There is no session {shown} in this home folder (HOLDFAST_HOME)."
        return SessionNotFound(why + _suggestion(name, summaries))
    if not name:
        return _invalid(name)
    why = f"No session has {shown} in its id or as its title. List them with: holdfast ls"
    return SessionNotFound(why + _suggestion(name, summaries))


def _invalid(name: str) -> UsageError:
    try:
        check_part(name)
    except UsageError as error:
        return error
    raise AssertionError  # only called for names that check_part rejects


def _suggestion(name: str, summaries: list[Summary]) -> str:
    """Return a question with the most similar sessions; empty if none is similar."""
    import difflib  # noqa: PLC0415  only for a mistake

    near: dict[str, str] = {}
    wanted = name.casefold()
    for each in summaries[:_MOST_COMPARED]:
        title = (each.title or "").casefold()
        near[each.id] = near[each.id[-_PART_CHARACTERS:]] = each.id
        if title:
            near.setdefault(title, each.id)
    containing = [found for text, found in near.items() if wanted in text]
    close = [near[text] for text in difflib.get_close_matches(wanted, near, _MOST_SHOWN)]
    suggested = list(dict.fromkeys([*close, *containing]))[:_MOST_SUGGESTED]
    if not suggested:
        return ""
    titles = {each.id: each.title for each in summaries}
    return f" Did you mean {' or '.join(_with_title(each, titles[each]) for each in suggested)}?"


def _with_title(session_id: str, title: str | None) -> str:
    short = cut(printable(title or ""), _TITLE_WIDTH)
    return f"{session_id} ({short})" if short else session_id
