"""A fork: a new session that begins as a copy of one branch of another.

It is there whole and durable, or not at all; the session that it came from is not changed. How
lines are copied is told in ``rewrite``; opening the new session is left to ``store``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import UsageError
from holdfast.model.entry import FORMAT, Entry, ForkedFrom, Header, Label, Snapshot, in_tree
from holdfast.model.ids import key_session_id, new_session_id, new_uid
from holdfast.store.read.branch import walk
from holdfast.store.write.blob_refs import blobs_of
from holdfast.store.write.rewrite import LogCopy

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.store.backend import Backend, Log, Ref
    from holdfast.store.session import Session
    from holdfast.store.types import ForkOptions

_SHA256 = re.compile(r"[0-9a-f]{64}")


def fork(backend: Backend, source: Session, ref: Ref, log: Log, options: ForkOptions) -> str:
    """Make a session from the branch that ends at ``options.at``; return its id."""
    at, key = options.at, options.key
    branch = list(walk(log, at, []))
    # A head that cannot be read is like any parent that cannot: the walk found what stands in.
    if at not in (None, source.state.head) and not (branch and branch[0].seq == at):
        raise UsageError(f"There is no message or checkpoint numbered {at} to fork at.")
    numbers = {entry.seq for entry in branch}
    labels = {name: to for name, to in source.state.labels.items() if to in numbers}
    head = next((entry.seq for entry in branch if entry.type != "turn"), None)
    session_id = new_session_id() if key is None else key_session_id(key)
    header = Header(FORMAT, session_id, new_uid(), key, forked_from=ForkedFrom(source.id, at))
    last_seq = source.seq if at is None or at == source.state.head else at
    along = _events_and_snapshots(log, last_seq) if options.events else []
    copied = {entry.seq for entry in along}
    copy = LogCopy(
        log,
        header,
        _kept(numbers, copied),
        lambda state: msgspec.structs.replace(state, head=head, labels=labels),
    )
    names = {name for entry in [*branch, *along] for name in blobs_of(entry.body)}
    # A name that is no hash comes from somebody else and could lead anywhere.
    blobs = [name for name in sorted(names) if _SHA256.fullmatch(name)]
    backend.copy(ref, header, copy, blobs, source.provenance())
    return header.session


def _events_and_snapshots(log: Log, last_seq: int) -> list[Entry]:
    """Return the events up to an entry, and the snapshots that counted there."""
    events: list[Entry] = []
    snapshots: dict[str, Entry] = {}
    for record in log.records():
        if not isinstance(record, Entry):
            continue
        if record.seq > last_seq:
            break
        if record.type == "event":
            events.append(record)
        elif isinstance(record.body, Snapshot):
            snapshots.pop(record.body.name, None)
            if record.body.encoding != "none":
                snapshots[record.body.name] = record
    return [*events, *snapshots.values()]


def _kept(branch: set[int], along: set[int]) -> Callable[[Entry], bool]:
    """Return the rule of a fork: the conversation and what it is about.

    Usage stays with the session that paid for it, and a turn with the one that runs it.
    """

    def keep(entry: Entry) -> bool:
        if in_tree(entry.type, entry.body):
            return entry.seq in branch and entry.type != "turn"
        if entry.type == "meta" or entry.seq in along:
            return True
        return isinstance(entry.body, Label) and entry.body.to in branch

    return keep
