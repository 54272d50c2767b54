"""What layer I expects of a damaged journal: it lets right outcomes pass, and no wrong ones."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.model.entry import Entry
from tests.crash.lab import anatomy
from tests.crash.lab.damage import branch_of, change, complaints, lost
from tests.crash.patient import Patient, conversation


@pytest.fixture
def patient(tmp_path):
    return Patient(tmp_path, conversation([["one"], ["two"], ["three"], ["four", "five"]]))


def middle(patient, text):
    line = next(line for line in patient.lines if line.text == text)
    return (line.start + line.end) // 2


def found(patient, damage, outcome):
    return [*lost(patient, damage, outcome), *complaints(patient, damage, outcome)]


@pytest.mark.parametrize("kind", ["cut", "flip", "nul", "ones", "newline"])
@pytest.mark.parametrize("text", ["two", "four", "five"])
def test_the_program_as_it_is_passes(patient, kind, text):
    damage = change(patient, kind, middle(patient, text), 1)
    assert damage is not None
    assert found(patient, damage, patient.treat(damage.data)) == []


def test_the_newlines_too(patient):
    for line in patient.lines[1:]:
        for kind in ("cut", "flip", "nul", "ones"):
            damage = change(patient, kind, line.end - 1, 1)
            assert damage is not None
            assert found(patient, damage, patient.treat(damage.data)) == []
    assert change(patient, "newline", patient.lines[1].end - 1, 1) is None


def test_a_cut_between_the_lines_of_a_batch_too(patient):
    for line in patient.lines[1:]:
        damage = change(patient, "cut", line.end, 1)
        assert damage is not None
        assert found(patient, damage, patient.treat(damage.data)) == []


def test_a_line_that_is_lost_altered_or_wrongly_marked_is_seen(patient):
    damage = change(patient, "nul", middle(patient, "two"), 1)
    assert damage is not None
    outcome = patient.treat(damage.data)
    records = outcome.records
    last = records[-1]
    assert isinstance(last, Entry)

    def with_last(**fields):
        changed = msgspec.structs.replace(last, **fields)
        return msgspec.structs.replace(outcome, records=[*records[:-1], changed])

    assert found(patient, damage, msgspec.structs.replace(outcome, records=records[:-1]))
    assert list(lost(patient, damage, with_last(line=b"{}")))
    assert list(complaints(patient, damage, with_last(status="edited")))
    assert list(complaints(patient, damage, msgspec.structs.replace(outcome, opened=["one"])))
    assert list(complaints(patient, damage, msgspec.structs.replace(outcome, first_seq=2)))


def test_an_altered_line_that_is_taken_for_true_is_seen(patient):
    damage = change(patient, "flip", patient.lines[-3].end - 32, 1)
    assert damage is not None
    outcome = patient.treat(damage.data)
    records = [
        msgspec.structs.replace(record, status="ok") if isinstance(record, Entry) else record
        for record in outcome.records
    ]
    assert len(records) == len(patient.lines)
    changed = msgspec.structs.replace(outcome, records=records)
    assert any("taken as it is" in what for what in complaints(patient, damage, changed))


def test_a_cut_that_takes_too_much_or_too_little_is_seen(patient):
    damage = change(patient, "cut", middle(patient, "three"), 1)
    assert damage is not None
    outcome = patient.treat(damage.data)
    (piece,) = outcome.recovery.set_aside
    more = msgspec.structs.replace(piece, offset=piece.offset - 1)
    recovery = msgspec.structs.replace(outcome.recovery, set_aside=[more])
    assert found(patient, damage, msgspec.structs.replace(outcome, recovery=recovery))
    assert found(patient, damage, msgspec.structs.replace(outcome, records=outcome.records[:-1]))


def test_the_branch_of_an_undamaged_journal_is_what_the_session_says(tmp_path):
    patient = Patient(tmp_path, anatomy.make)
    with patient.store.open(patient.id, mode="read") as session:
        texts = [message.text for message in session.messages]
        assert branch_of(patient.entries, session.state.head) == texts
    assert anatomy.SIZE_BYTES <= len(patient.data) <= anatomy.LARGEST_BYTES
    kinds = {entry.type for entry in patient.entries}
    assert kinds >= {"message", "checkpoint", "mark", "head", "usage", "tool", "turn", "gap"}


def test_every_byte_has_its_place_in_every_run(tmp_path):
    one, two = Patient(tmp_path / "1", anatomy.make), Patient(tmp_path / "2", anatomy.make)
    assert one.data == two.data
