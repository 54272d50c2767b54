"""Damage in the middle of a journal: what can be read is read, and nothing is ever altered."""

from __future__ import annotations

import pytest

from tests.crash.patient import Patient, conversation

pytestmark = pytest.mark.crash

APPENDS = [["one"], ["two"], ["three", "four"], ["five"], ["six"]]


@pytest.fixture
def patient(tmp_path):
    return Patient(tmp_path, conversation(APPENDS))


def others(patient: Patient, start: int, end: int) -> list[str]:
    """Return the texts of the lines that bytes ``start`` to ``end`` do not touch."""
    return patient.texts([line for line in patient.lines if line.end <= start or line.start >= end])


def test_a_run_of_nuls_in_the_middle(patient):
    first, last = patient.lines[1].start, patient.lines[-1].start
    for start in range(first, last - 1, 13):
        for length in (1, 20, 200):
            end = min(start + length, last - 1)
            data = patient.data[:start] + b"\0" * (end - start) + patient.data[end:]
            outcome = patient.treat(data)
            missing = [text for text in others(patient, start, end) if text not in outcome.opened]
            assert missing == [], (start, length)
            assert outcome.recovery.set_aside == []
            assert outcome.opened == sorted(outcome.opened, key=_order)


def test_a_flipped_byte_in_every_line(patient):
    for line in patient.lines:
        length = line.end - line.start
        places = {
            0,
            1,
            8,
            length // 3,
            length // 2,
            length - 12,
            length - 6,
            length - 3,
            length - 2,
        }
        for place in sorted(places):
            for flip in (0x01, 0x20, 0x80):
                at = line.start + place
                data = bytearray(patient.data)
                data[at] ^= flip
                outcome = patient.treat(bytes(data))
                expected = others(patient, at, at + 1)
                _check_flip(outcome, expected, (line.seq, place, flip))


def test_a_flipped_newline(patient):
    for line in patient.lines[:-1]:
        for flip in (0x01, 0x20, 0x80):
            data = bytearray(patient.data)
            data[line.end - 1] ^= flip
            outcome = patient.treat(bytes(data))
            # Two records on one line: both are read.
            assert outcome.opened == patient.texts(patient.lines)
            assert outcome.recovery.set_aside == []


def test_a_line_lost_repeated_or_out_of_place(patient):
    lines = [patient.data[line.start : line.end] for line in patient.lines]
    texts = patient.texts(patient.lines)
    for place in range(1, len(lines)):
        without = b"".join(lines[:place] + lines[place + 1 :])
        expected = [text for text in texts if text != patient.lines[place].text]
        batch_mate = {"three": "four", "four": "three"}.get(patient.lines[place].text or "")
        opened = patient.treat(without).opened
        assert [text for text in opened if text != batch_mate] == [
            text for text in expected if text != batch_mate
        ]
        twice = b"".join(lines[: place + 1] + lines[place:])
        assert patient.treat(twice).opened == texts
    for place in range(1, len(lines) - 2):
        swapped = lines.copy()
        swapped[place : place + 2] = swapped[place + 1], swapped[place]
        opened = patient.treat(b"".join(swapped)).opened
        touched = {patient.lines[place].text, patient.lines[place + 1].text}
        assert [text for text in opened if text not in touched] == [
            text for text in texts if text not in touched
        ]


def _order(text: str) -> int:
    return [text for texts in APPENDS for text in texts].index(text)


def _check_flip(outcome, expected, where) -> None:
    """All other lines are there once; the flipped one is there, there and marked, or absent."""
    there = [text for text in outcome.opened if text in expected]
    assert there == expected, where
    assert len(outcome.opened) - len(expected) <= 1, where
    assert not outcome.recovery.clean, where
