"""What must be left of a journal after a given damage, worked out from the undamaged one.

A change of one byte touches the line it is in, and if the byte was a newline also the next one.
Everything else must be loaded as it was. A line that was touched may be loaded as it now reads, but
never as one that is in order; the line after it may be marked, for its checksum hangs on the one
before. Only the end of the file may be cut: a line that cannot be read, or the last batch as one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

import holdfast
from holdfast.journal.damage import Damage
from holdfast.model.entry import NO_PARENT_FIELD, TREE, Checkpoint, Entry
from holdfast.store.read.fold import fold
from tests.crash.patient import Outcome, Patient

KINDS = ("cut", "flip", "nul", "ones", "newline")
_FORMAT = re.compile(rb'"type":"header","format":(\d)')
_NUMBER = re.compile(rb'\{"seq":\d+,')


class Change(Struct, frozen=True):
    """One damage: the journal as it is then, and which of its lines were touched."""

    data: bytes
    touched: frozenset[int]  # places among the lines
    at: int
    is_cut: bool


def change(patient: Patient, kind: str, at: int, seed: int) -> Change | None:
    """Return the journal with the byte at ``at`` changed, or cut off there; ``None`` if it is so.

    Which bit is flipped depends on seed and place.
    """
    data = patient.data
    if kind == "cut":
        touched = [n for n, line in enumerate(patient.lines) if line.end - 1 > at]
        return Change(data[:at], frozenset(touched), at, is_cut=True)
    old = data[at]
    bit = random.Random(f"{seed} {at}").randrange(8)
    new = {"flip": old ^ (1 << bit), "nul": 0, "ones": 0xFF, "newline": 0x0A}[kind]
    if new == old:
        return None
    place = next(n for n, line in enumerate(patient.lines) if line.start <= at < line.end)
    touched = [place, place + 1] if at == patient.lines[place].end - 1 else [place]
    return Change(
        data[:at] + bytes([new]) + data[at + 1 :],
        frozenset(n for n in touched if n < len(patient.lines)),
        at,
        is_cut=False,
    )


def nothing_is_left(patient: Patient, change: Change) -> bool:
    """Tell whether not one line can be read any more."""
    return change.is_cut and change.at < patient.lines[0].end - 1


def declares_another_format(change: Change) -> bool:
    """Tell whether the header now asks for a version that is not out yet: read-only is right.

    Its checksum does not fit, but a newer format may well have another one.
    """
    found = _FORMAT.search(change.data.partition(b"\n")[0])
    return found is not None and found[1] > b"1"


def lost(patient: Patient, change: Change, outcome: Outcome) -> Iterator[str]:
    """Yield the lines that were not touched, and are not there as they were."""
    there = _by_offset(outcome)
    excused = change.touched | _last_batch(patient, change)
    for place, (line, entry) in enumerate(zip(patient.lines, patient.entries, strict=True)):
        if place not in change.touched:
            found = there.get(line.start)
            if found is None:
                if place not in excused:
                    yield f"line {line.seq} was not touched and is not there"
            elif (found.line, found.body, found.parent) != (entry.line, entry.body, entry.parent):
                yield f"line {line.seq} was not touched and reads differently"


def complaints(patient: Patient, change: Change, outcome: Outcome) -> Iterator[str]:
    """Yield what else is wrong with what came of a damage."""
    yield from _wrong_with_marks(patient, change, outcome)
    yield from _wrong_with_end(patient, change, outcome)
    entries = [record for record in outcome.records if isinstance(record, Entry)]
    if outcome.state != fold(entries):
        yield "resuming does not come to what all that can be read comes to"
    if outcome.opened != branch_of(entries, outcome.state.head):
        yield "the messages are not those of the branch, or of what stands in for lost ones"
    yield from _wrong_with_report(patient, change, outcome)


def _wrong_with_report(patient: Patient, change: Change, outcome: Outcome) -> Iterator[str]:
    """Check that damage is noticed, and told by an opening that reads as far back as it."""
    if change.is_cut:
        whole = [n for n, line in enumerate(patient.lines) if line.end - 1 <= change.at]
        torn = not _is_between_lines(patient, change.at) or _batch_is_cut(patient, whole)
        if outcome.recovery.clean == torn:
            yield f"of a cut at {change.at} the report says: {outcome.recovery}"
        return
    untold = all(isinstance(record, Entry) and record.status == "ok" for record in outcome.records)
    if untold and not outcome.recovery.set_aside:
        yield "nobody notices"
    marks = [n for n, entry in enumerate(patient.entries) if entry.type == "mark"]
    if min(change.touched) > max(marks, default=-1) and outcome.recovery.clean:
        yield "an opening read the damage and does not tell"


def _by_offset(outcome: Outcome) -> dict[int, Entry]:
    return {record.offset: record for record in outcome.records if isinstance(record, Entry)}


def _wrong_with_marks(patient: Patient, change: Change, outcome: Outcome) -> Iterator[str]:
    """Check that what was altered is not taken for true, nor what was not for altered."""
    there = _by_offset(outcome)
    followers = {n + 1 for n in change.touched}
    for place, (line, entry) in enumerate(zip(patient.lines, patient.entries, strict=True)):
        found = there.get(line.start)
        if found is None:
            continue
        if place in change.touched:
            # One that lost its newline is as it was.
            if found.status == "ok" and found.line != entry.line:
                yield f"line {line.seq} was altered and is taken as it is"
        elif found.status != "ok" and place not in followers:
            yield f"line {line.seq} was not touched and is marked {found.status}"
    if not change.is_cut:
        yield from _wrong_with_newline(patient, change, there)


def _wrong_with_newline(patient: Patient, change: Change, there: dict[int, Entry]) -> Iterator[str]:
    """Check that of two lines that a lost newline made one, both are read."""
    place = min(change.touched)
    if change.at == patient.lines[place].end - 1:
        for line, entry in zip(patient.lines, patient.entries, strict=True):
            if change.at in (line.end - 1, line.start - 1):
                found = there.get(line.start)
                if found is None or found.line != entry.line:
                    yield f"line {line.seq} lost its newline, and is not read"


def _last_batch(patient: Patient, change: Change) -> frozenset[int]:
    """Return the lines that may go with the last one: its batch, if the last line was touched."""
    places = [n for n, line in enumerate(patient.lines) if line.start < len(change.data)]
    if change.is_cut:  # behind the cut there is nothing, so that its own line is the last
        last = places[-1] if places else 0
        at_a_line = _is_between_lines(patient, change.at)
    else:
        last, at_a_line = len(patient.lines) - 1, False
        if last not in change.touched:
            return frozenset()
    batch = patient.entries[last].batch
    if batch is None or (at_a_line and batch[0] + 1 == batch[1]):
        return frozenset()
    return frozenset(range(last - batch[0], last - batch[0] + batch[1]))


def _is_between_lines(patient: Patient, at: int) -> bool:
    return at in {line.end for line in patient.lines}


def _wrong_with_end(patient: Patient, change: Change, outcome: Outcome) -> Iterator[str]:
    """Check that numbers rise over everything, also over what was cut off."""
    in_the_middle = not change.is_cut and len(patient.lines) - 1 not in change.touched
    if in_the_middle and outcome.recovery.set_aside:
        yield "damage in the middle had the end of the journal cut off"
    used = [
        line.seq
        for line in patient.lines
        if not line.start <= change.at < line.start + 25 and _NUMBER.match(change.data, line.start)
    ]
    if outcome.first_seq <= max(used, default=-1):
        yield f"number {outcome.first_seq} is given again: {max(used)} was used"
    if change.is_cut:
        yield from _wrong_with_cut(patient, change, outcome)


def _wrong_with_cut(patient: Patient, change: Change, outcome: Outcome) -> Iterator[str]:
    whole = [n for n, line in enumerate(patient.lines) if line.end - 1 <= change.at]
    gone = _last_batch(patient, change) if _batch_is_cut(patient, whole) else frozenset()
    kept = [n for n in whole if n not in gone]
    end = min(patient.lines[kept[-1]].end, change.at)
    aside = [(piece.offset, piece.size_bytes) for piece in outcome.recovery.set_aside]
    if aside != ([(end, change.at - end)] if change.at > end else []):
        yield f"a cut at {change.at} had {aside} set aside, not what is behind {end}"
    if outcome.recovery.newline_added != (change.at == patient.lines[kept[-1]].end - 1):
        yield "the missing newline of a whole line is not told as it is"
    read = [record.offset for record in outcome.records if isinstance(record, Entry)]
    if read != [patient.lines[n].start for n in kept]:
        yield f"after a cut at {change.at} {len(read)} lines are read, not {len(kept)}"
    if any(isinstance(record, Damage) for record in outcome.records):
        yield "what is not yet written was reported as damage"


def _batch_is_cut(patient: Patient, whole: list[int]) -> bool:
    """Tell whether the last whole line belongs to a batch of which the rest is missing."""
    batch = patient.entries[whole[-1]].batch
    return batch is not None and batch[0] + 1 < batch[1]


def branch_of(entries: list[Entry], head: int | None) -> list[str]:
    """Walk from the head to the root, the plain way; what is lost has a stand-in.

    That is the nearest message or checkpoint before it.
    """
    for one, other in pairwise(entries):
        assert one.seq < other.seq
    by_number = {entry.seq: entry for entry in entries}
    texts: list[str] = []
    wanted = head
    while wanted is not None:
        entry = by_number.get(wanted)
        if entry is None or entry.type not in TREE:
            entry = _stand_in(entries, wanted)
        if entry is None:
            break
        if isinstance(entry.body, holdfast.Message):
            texts.append(entry.body.text)
        wanted = entry.parent
        if wanted is not None and (wanted == NO_PARENT_FIELD or wanted >= entry.seq):
            entry = _stand_in(entries, entry.seq)
            wanted = None if entry is None else entry.seq
    return texts[::-1]


def _stand_in(entries: list[Entry], before: int) -> Entry | None:
    for entry in reversed(entries):
        if entry.seq < before and isinstance(entry.body, holdfast.Message | Checkpoint):
            return entry
    return None
