"""A journal cut at every byte of its end: nothing valid is lost, and what is torn is kept aside."""

from __future__ import annotations

import pytest

from holdfast.store.types import Recovery
from tests.crash.patient import AFTERWARDS, Patient, conversation

pytestmark = pytest.mark.crash


@pytest.fixture
def patient(tmp_path):
    return Patient(
        tmp_path, conversation([["one"], ["two"], ["zwölf, 十二, 🧵"], ["four"], ["five"]])
    )


def test_every_truncation_of_the_last_three_lines(patient):
    for cut in range(patient.lines[-3].start, len(patient.data) + 1):
        outcome = patient.treat(patient.data[:cut])
        # A line that lacks nothing but its newline is whole.
        whole = [line for line in patient.lines if line.end - 1 <= cut]
        end = min(whole[-1].end, cut)
        assert outcome.opened == patient.texts(whole)
        if cut == end:
            newline_added = cut == whole[-1].end - 1
            assert outcome.recovery == Recovery(newline_added=newline_added)
            assert outcome.damaged == []
        else:
            (piece,) = outcome.recovery.set_aside
            assert (piece.offset, piece.size_bytes) == (end, cut - end)
            assert piece.reason == "torn record"
            assert outcome.damaged == [patient.data[end:cut]]
            # The torn line may have had a number; it is never given to another.
            assert outcome.first_seq > whole[-1].seq + 1
        assert patient.store.verify(patient.id).ok


def test_every_truncation_of_the_last_batch(tmp_path):
    patient = Patient(tmp_path, conversation([["one"], ["two"], ["three", "four", "five"]]))
    batch = patient.lines[-3:]
    before = patient.lines[:-3]
    for cut in range(batch[0].start, len(patient.data) + 1):
        outcome = patient.treat(patient.data[:cut])
        if cut >= batch[-1].end - 1:
            assert outcome.opened == ["one", "two", "three", "four", "five"]
            assert outcome.damaged == []
        else:
            assert outcome.opened == ["one", "two"]
            assert outcome.damaged == (
                [patient.data[before[-1].end : cut]] if cut > batch[0].start else []
            )
            if cut > batch[0].start:
                (piece,) = outcome.recovery.set_aside
                some_line_is_whole = cut >= batch[0].end - 1
                reason = "incomplete batch" if some_line_is_whole else "torn record"
                assert piece.reason == reason
                if some_line_is_whole:
                    assert outcome.first_seq > batch[-1].seq
        assert patient.store.verify(patient.id).ok


def test_every_truncation_of_a_line_with_nothing_but_a_header_before_it(tmp_path):
    patient = Patient(tmp_path, conversation([["one"]]))
    first = patient.lines[0]
    for cut in range(first.end - 1, len(patient.data)):
        outcome = patient.treat(patient.data[:cut])
        assert outcome.opened == (["one"] if cut == len(patient.data) - 1 else [])


def test_what_is_torn_again_and_again_at_one_place_is_all_kept(patient):
    torn = []
    end = patient.lines[-1].start
    patient.path.write_bytes(patient.data[:-20])
    torn.append(patient.data[end:-20])
    for _ in range(3):
        with patient.store.open(patient.id) as session:
            assert session.recovery.set_aside[0].offset == end
            assert AFTERWARDS not in [message.text for message in session.messages]
            before = session.state.seq
            session.update(title=AFTERWARDS)
            assert session.state.seq > before
        data = patient.path.read_bytes()
        half = data[: end + 30 + len(torn)]
        torn.append(half[end:])
        patient.path.write_bytes(half)
    patient.store.open(patient.id).close()
    kept = [path.read_bytes() for path in (patient.folder / "damaged").iterdir()]
    assert sorted(kept) == sorted(torn)


@pytest.mark.parametrize("count", [1, 7, 512, 4096, 300_000])
def test_a_run_of_nuls_at_the_end(patient, count):
    outcome = patient.treat(patient.data + b"\0" * count)
    assert outcome.opened == patient.texts(patient.lines)
    assert outcome.damaged == [b"\0" * count]
    outcome = patient.treat(patient.data + b"\0" * count + b"\n")
    assert outcome.opened == patient.texts(patient.lines)
    assert outcome.damaged == [b"\0" * count + b"\n"]


def test_a_last_line_whose_blocks_were_never_written(patient):
    last = patient.lines[-1]
    for cut in range(last.start, last.end - 1):
        data = patient.data[:cut] + b"\0" * (len(patient.data) - cut)
        outcome = patient.treat(data)
        assert outcome.opened == patient.texts(patient.lines[:-1])
        assert outcome.damaged == [data[last.start :]]


def test_the_file_and_the_report_of_reading_without_the_lock(patient):
    """A reader beside a writer takes a torn end for one that is not yet written."""
    for cut in range(patient.lines[-2].start, len(patient.data)):
        patient.path.write_bytes(patient.data[:cut])
        whole = [line for line in patient.lines if line.end - 1 <= cut]
        with patient.store.open(patient.id, mode="read") as session:
            assert [message.text for message in session.messages] == patient.texts(whole)
            assert session.recovery == Recovery()
        assert patient.path.read_bytes() == patient.data[:cut]
