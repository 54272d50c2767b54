"""One entry of a session, removed for good.

Its line gives way to a gap that has its number and parent, so that checksums and branches hold. The
log is rewritten without an archive, and without marks, which may quote the entry; a new one at the
end holds the state without it. What else has the entry is removed by the medium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import UsageError
from holdfast.model.entry import Entry, Gap, Label, Meta, is_erased
from holdfast.model.message import Message
from holdfast.store.read.branch import walk
from holdfast.store.read.fold import first_text_of
from holdfast.store.write.blob_refs import blobs_of

if TYPE_CHECKING:
    from holdfast.model.state import State
    from holdfast.store.backend import Log
    from holdfast.store.write.recorder import Recorder

_JOURNALS_OWN = frozenset({"header", "writer", "mark", "gap"})


class Erasure(msgspec.Struct, frozen=True):
    """An entry that is to be removed: its number, its checksum, and the blobs it names."""

    seq: int
    sum: str
    blobs: list[str]


def erase(recorder: Recorder, seq: int) -> Erasure:
    """Remove an entry from an open session; return what it was.

    Raises:
        UsageError: there is no such entry, or it is the journal's own.
    """
    with recorder.log_writer.errors("could not be rewritten"):
        recorder.drop_finished_streams()
        with recorder.at_rest():
            trouble = recorder.trouble()
            if trouble is not None:
                raise trouble
            log = recorder.journal()
            if log is None:
                raise UsageError("There is nothing to erase: this session has no entries yet.")
            erasure = planned(log, seq)
            state = without(log, recorder.state, seq)
            recorder.rewritten(recorder.log_writer.erase(erasure, state))
            recorder.log_writer.finish_erasing(seq)
    return erasure


def planned(log: Log, seq: int) -> Erasure:
    """Return what has to be removed; an entry that was erased before is looked for again."""
    entry = _entry(log, seq)
    if entry is not None and is_erased(entry):
        assert isinstance(entry.body, Gap)
        return Erasure(seq, entry.body.chain or "", [])
    if entry is None:
        raise UsageError(f"There is no entry numbered {seq}.")
    if entry.type in _JOURNALS_OWN:
        raise UsageError(
            f"Entry {seq} is a {entry.type} line that the journal itself needs: it is not erased."
        )
    return Erasure(seq, entry.sum.decode(errors="replace"), sorted(blobs_of(entry.body)))


def _entry(log: Log, seq: int) -> Entry | None:
    """Return an entry, or the gap that an erased one left; also if a compaction left it out."""
    entry = log.find(seq)
    left_out = entry is None or (entry.type == "gap" and not is_erased(entry))
    return log.find_archived(seq) if left_out else entry


def kept(entry: Entry, seq: int) -> bool:
    """Return whether a line stays when entry ``seq`` is erased."""
    return entry.seq != seq and entry.type != "mark"


def without(log: Log, state: State, seq: int) -> State:
    """Return the state of a session as if entry ``seq`` had said nothing.

    Counts and totals stay: they say how much there was, not what.
    """
    entry = _entry(log, seq)
    changed = msgspec.structs.replace(
        state,
        gaps=[],
        queue=[number for number in state.queue if number != seq],
        labels={name: to for name, to in state.labels.items() if to != seq},
        snapshots={name: number for name, number in state.snapshots.items() if number != seq},
        turn=None if state.turn is not None and state.turn.seq == seq else state.turn,
    )
    if state.head == seq:
        changed.head = next((each.seq for each in walk(log, seq, []) if each.seq != seq), None)
    body = entry.body if entry is not None else None
    if isinstance(body, Label):
        # Another entry may have set the name to the same place before: it is then removed, too.
        changed.labels = {
            name: to for name, to in changed.labels.items() if (name, to) != (body.name, body.to)
        }
    elif isinstance(body, Meta):
        changed.meta = _facts(log, state, seq, body)
    elif isinstance(body, Message) and first_text_of(body) == state.first_text is not None:
        changed.first_text = _first_text(log, seq)
    return changed


def _facts(log: Log, state: State, seq: int, erased: Meta) -> dict[str, object]:
    """Return the facts as entries other than ``seq`` say them."""
    facts = {**state.meta}
    before: dict[str, object] = {}
    later: set[str] = set()
    for record in log.records():
        if isinstance(record, Entry) and isinstance(record.body, Meta):
            if record.seq < seq:
                before.update(record.body.fields)
            elif record.seq > seq:
                later.update(record.body.fields)
    for name in erased.fields:
        if name in later:
            continue
        facts.pop(name, None)
        if name in before:
            facts[name] = before[name]
    return facts


def _first_text(log: Log, seq: int) -> str | None:
    for record in log.records():
        if isinstance(record, Entry) and isinstance(record.body, Message) and record.seq != seq:
            text = first_text_of(record.body)
            if text is not None:
                return text
    return None
