"""From a journal to the state it has reached, reading only as much of its end as is needed.

Folding from the last mark on gives what folding all of it gives. Nothing is changed: what is to be
done about damage, and about streams that were interrupted, is left to whoever opens the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from holdfast.journal.damage import Damage, Record
from holdfast.model.entry import Entry
from holdfast.model.message import Message
from holdfast.model.state import State
from holdfast.store.read.fold import fold, state_in
from holdfast.store.write.streams import unfinished

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.store.backend import Log


class Resumed(Struct):
    """What reading the end of a journal came to."""

    state: State
    damage: list[Damage] = field(default_factory=list)
    edited: int = 0
    unverified: int = 0
    since_mark_bytes: int = 0


def resume_state(journal: Log) -> Resumed:
    """Fold the journal from its last mark on; the whole of it if there is none."""
    entries: list[Entry] = []
    damage: list[Damage] = []
    for record in _backward_to_mark(journal):
        if isinstance(record, Entry):
            entries.append(record)
        else:
            damage.append(record)
    entries.reverse()
    damage.reverse()
    statuses = [entry.status for entry in entries]
    return Resumed(
        state=fold(entries),
        damage=damage,
        edited=statuses.count("edited"),
        unverified=statuses.count("unverified"),
        since_mark_bytes=sum(len(entry.line) for entry in entries),
    )


def _backward_to_mark(journal: Log) -> Iterator[Record]:
    for block in journal.blocks_backward():
        for record in reversed(block.records):
            yield record
            if isinstance(record, Entry) and state_in(record) is not None:
                return


def interrupted_streams(journal: Log) -> list[Message]:
    """Return the messages that unfinished streams in the live file amount to.

    A stream is finished if any entry after its beginning carries its name: a crash between that
    entry and the emptying of the live file must not bring the text back a second time.
    """
    events = journal.live_events()
    if not events:
        return []
    finished = {
        record.body.stream
        for record in journal.records(min(event.after for event in events))
        if isinstance(record, Entry) and isinstance(record.body, Message) and record.body.stream
    }
    return unfinished(events, finished)
