"""A fork: a new session that begins as a copy of one branch of another.

It is there whole and durable, or not at all; the session that it came from is not changed. How
lines are copied is told in ``rewrite``; opening the new session is left to ``local``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import UsageError
from holdfast.model.entry import FORMAT, TREE, Entry, ForkedFrom, Header, Label
from holdfast.model.ids import new_session_id, new_uid
from holdfast.store.blobs import BLOBS_NAME, blobs_of
from holdfast.store.branch import walk
from holdfast.store.refusals import os_errors
from holdfast.store.rewrite import Copy

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.journal.reader import Journal
    from holdfast.store.home import Home
    from holdfast.store.session import Session

_SHA256 = re.compile(r"[0-9a-f]{64}")


def fork(home: Home, source: Session, journal: Journal, at: int | None) -> str:
    """Make a session from the branch that ends at ``at``; return its id."""
    branch = list(walk(journal, at, []))
    # A head that cannot be read is like any parent that cannot: the walk found what stands in.
    if at not in (None, source.state.head) and not (branch and branch[0].seq == at):
        raise UsageError(f"There is no message or checkpoint numbered {at} to fork at.")
    numbers = {entry.seq for entry in branch}
    labels = {name: to for name, to in source.state.labels.items() if to in numbers}
    head = next((entry.seq for entry in branch if entry.type != "turn"), None)
    header = Header(FORMAT, new_session_id(), new_uid(), forked_from=ForkedFrom(source.id, at))
    copy = Copy(
        journal,
        header,
        _kept(numbers),
        lambda state: msgspec.structs.replace(state, head=head, labels=labels),
    )
    blobs = journal.folder / BLOBS_NAME
    names = {name for entry in branch for name in blobs_of(entry.body)}
    # A name that is no hash comes from somebody else and could lead anywhere.
    links = [blobs / name for name in sorted(names) if _SHA256.fullmatch(name)]
    with os_errors(f"{source.id} cannot be forked", home.root):
        place = home.make_session(header.session, copy.chunks(), [], links)
    home.files.close(place.descriptor)
    place.lock.release()
    return header.session


def _kept(branch: set[int]) -> Callable[[Entry], bool]:
    """Return the rule of a fork: the conversation and what it is about.

    Usage stays with the session that paid for it, and a turn with the one that runs it.
    """

    def keep(entry: Entry) -> bool:
        if entry.type in TREE:
            return entry.seq in branch and entry.type != "turn"
        return entry.type == "meta" or (isinstance(entry.body, Label) and entry.body.to in branch)

    return keep
