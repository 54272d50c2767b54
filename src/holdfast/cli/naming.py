"""Which session a name stands for: an id, a title, any unique part of an id, or a path.

Nothing is opened to find that out: a session that cannot be read has a name all the same.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.columns import cut, printable
from holdfast.errors import HoldfastError, SessionNotFound, UsageError
from holdfast.journal.names import JOURNAL_NAME
from holdfast.model.ids import SESSION_ID, check_part

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from holdfast.store.contract import Summary
    from holdfast.store.local import LocalStore

_MOST_SHOWN = 5
_MOST_COMPARED = 2000
_MOST_OFFERED = 50
_TITLE_WIDTH = 40
_LONGEST_SHOWN = 100
_PART_CHARACTERS = 8
_PLAIN_TAG = re.compile(r"[\w.,:@%+/=-]+")


def place_of(store: LocalStore, name: str) -> str | Path:
    """Return what ``store.open`` takes for a name: an id, or the path of a session elsewhere.

    A title counts for more than a part of an id: whoever gave it knows it, while a part that is
    also a word is an accident.

    Raises:
        SessionNotFound: there is none; says what may have been meant.
        UsageError: there are several, or it can be no name.
    """
    if os.sep in name and (place := _at_path(store, name)) is not None:
        return place
    ids = store.ids()
    if name in ids:
        return name
    summaries = store.list() if ids else []
    titled = _titled(summaries, name)
    if len(titled) == 1:
        return titled[0].id
    if titled:
        shown = ", ".join(each.id for each in titled[:_MOST_SHOWN])
        raise UsageError(f"{len(titled)} sessions have that title: {shown}.")
    found = sorted(each for each in ids if name and name in each)
    if len(found) == 1:
        return found[0]
    if found:
        more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
        shown = ", ".join(found[:_MOST_SHOWN])
        raise UsageError(
            f"{name!r} is part of {len(found)} session ids: {shown}{more}. Use a longer part."
        )
    raise _unknown(store, name, summaries)


def own_id(store: LocalStore, name: str) -> str:
    """Return the id of the session of this home that a name stands for; raises as ``place_of``.

    A session elsewhere is refused, whatever its folder is called.
    """
    place = place_of(store, name)
    if isinstance(place, Path):
        raise UsageError(
            f"{_shown(name)} is not a session of {store.path}: HOLDFAST_HOME names another home."
        )
    return place


def _at_path(store: LocalStore, name: str) -> str | Path | None:
    """Return the session at a path: its id if it is one of this home; ``None`` if there is none."""
    try:
        if Path(name).is_symlink():  # nobody means what it leads to without saying so
            return None
        there = Path(os.path.realpath(name, strict=True))
        folder = there.parent if there.name == JOURNAL_NAME else there
        if folder.name in store.ids() and folder.samefile(store.find(folder.name)):
            return folder.name
        return folder if (folder / JOURNAL_NAME).is_file() else None
    except (OSError, ValueError):  # it is not there, or cannot be looked at
        return None


def _titled(summaries: list[Summary], name: str) -> list[Summary]:
    wanted = name.casefold()
    return [each for each in summaries if wanted and (each.title or "").casefold() == wanted]


def _shown(name: str) -> str:
    return repr(name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…")


def _unknown(store: LocalStore, name: str, summaries: list[Summary]) -> HoldfastError:
    shown = _shown(name)
    if os.sep in name and os.path.lexists(name) and not Path(name).is_symlink():
        why = f"no {JOURNAL_NAME} is in it, and no session has that title"
        return SessionNotFound(f"There is no session at {shown}: {why}.")
    if os.sep in name:
        return SessionNotFound(f"There is no session at {shown}, nor one with that title.")
    if SESSION_ID.fullmatch(name):
        if name in store.deleted_ids():
            return SessionNotFound(f"{name} is in the trash: holdfast restore {name}.")
        why = f"There is no session {shown}: it may be in another home."
        return SessionNotFound(why + _meant(name, summaries))
    if not name:
        return _refusal(name)
    why = f"No session has {shown} in its id, or as its title; holdfast ls shows them."
    return SessionNotFound(why + _meant(name, summaries))


def _refusal(name: str) -> UsageError:
    try:
        check_part(name)
    except UsageError as error:
        return error
    raise AssertionError  # it is only asked about what is refused


def _meant(name: str, summaries: list[Summary]) -> str:
    """Return a question with what is nearest to a name; nothing if nothing is near."""
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
    meant = list(dict.fromkeys([*close, *containing]))[:3]
    if not meant:
        return ""
    titles = {each.id: each.title for each in summaries}
    return f" Did you mean {' or '.join(_with_title(each, titles[each]) for each in meant)}?"


def _with_title(session_id: str, title: str | None) -> str:
    short = cut(printable(title or ""), _TITLE_WIDTH)
    return f"{session_id} ({short})" if short else session_id


def complete_session(
    ctx: click.Context,  # noqa: ARG001  click's signature
    param: click.Parameter,  # noqa: ARG001  click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Offer the ids of the sessions whose id has, or whose title begins with, what is typed.

    Newest first. Titles are only told: one with blanks is several words for a shell.
    """
    from click.shell_completion import CompletionItem  # noqa: PLC0415  only for the shell

    wanted = incomplete.casefold()
    offered = []
    for each in _summaries():
        title = printable(each.title or "")
        if incomplete in each.id or title.casefold().startswith(wanted):
            offered.append(CompletionItem(each.id, help=cut(title, _TITLE_WIDTH)))
    return offered[:_MOST_OFFERED]


def complete_tag(
    ctx: click.Context,  # noqa: ARG001  click's signature
    param: click.Parameter,  # noqa: ARG001  click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Offer the tags that begin with what is typed and are one word for a shell."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415  only for the shell

    tags = {tag for each in _summaries() for tag in each.tags if _PLAIN_TAG.fullmatch(tag)}
    fitting = sorted(tag for tag in tags if tag.startswith(incomplete))
    return [CompletionItem(tag) for tag in fitting[:_MOST_OFFERED]]


def _summaries() -> list[Summary]:
    import holdfast  # noqa: PLC0415  only for the shell

    try:
        return holdfast.open_store().list()
    except HoldfastError:
        return []  # a mistake is told when the command is run
