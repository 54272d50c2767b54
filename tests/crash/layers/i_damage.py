"""Layer I: a journal of 64 KB, cut off at every byte, and with every byte changed in four ways.

``cut 4096-8192 5%`` cuts it off at 5 % of the places from 4096 to 8191, chosen by the seed;
``flip``, ``nul``, ``ones`` and ``newline`` change the byte there instead.
"""

from __future__ import annotations

import gc
import random
import shutil
import traceback
from typing import ClassVar

import msgspec

import holdfast
from holdfast.model import codec
from holdfast.store.store import Mode
from tests.crash.lab import anatomy
from tests.crash.lab.damage import (
    KINDS,
    Change,
    change,
    complaints,
    declares_another_format,
    lost,
    nothing_is_left,
)
from tests.crash.lab.layer import Layer
from tests.crash.lab.tally import Tally
from tests.crash.patient import Patient

_SAMPLE_PERCENT = {"ci": 5, "nightly": 100, "mutant": 1}
_RANGE_BYTES = {"ci": 4096, "nightly": 256, "mutant": 8192}
_REOPENED_EVERY = 4  # in CI, for half of the time goes into that; always at night


class Damaged(Layer):
    """What can be read is read, what cannot is reported, and nothing else is altered."""

    letter = "I"
    title = "damage: every truncation, every byte"
    least: ClassVar[dict[str, int]] = {"ci": 15_000}

    def cases(self) -> list[str]:
        level = self.plan.level
        step = _RANGE_BYTES[level]
        kinds = KINDS if level != "mutant" else ("flip", "nul", "cut")
        cases = [
            f"{kind} {first}-{first + step} {_SAMPLE_PERCENT[level]}%"
            for first in range(0, anatomy.LARGEST_BYTES, step)
            for kind in kinds
        ]
        random.Random(self.plan.seed).shuffle(cases)
        return cases

    def start(self) -> None:
        home = self.plan.memory / "a home with spaces"
        self.patient = Patient(home, anatomy.make)
        _remember_pristine_lines(self.patient)
        gc.disable()  # a case leaves few cycles behind; they are collected after it
        self._home = home

    def stop(self) -> None:
        shutil.rmtree(self._home, ignore_errors=True)

    def run(self, case: str) -> Tally:
        kind, places, share = case.split()
        first, _, last = places.partition("-")
        chance = random.Random(f"{self.plan.seed} {case}")
        tally = Tally()
        size = len(self.patient.data) + (kind == "cut")
        for at in range(int(first), min(int(last), size)):
            if chance.random() * 100 < int(share.rstrip("%")):
                self._try(tally, kind, at)
        gc.collect()
        return tally

    def _try(self, tally: Tally, kind: str, at: int) -> None:
        damage = change(self.patient, kind, at, self.plan.seed)
        if damage is None:
            return  # the byte is what it would become
        tally.cases += 1
        tally.count(kind)
        where = f"{kind} at {at}"
        try:
            self._treat(tally, damage, where)
        except holdfast.HoldfastError as error:
            tally.refuse(f"{where}: {type(error).__name__}: {error}")
        except AssertionError as error:
            tally.break_(f"{where}: {str(error) or traceback.format_exc(limit=-1)}")

    def _treat(self, tally: Tally, damage: Change, where: str) -> None:
        patient = self.patient
        if nothing_is_left(patient, damage):
            _expect_refusal(patient, damage)
            tally.count("nothing left to read")
            return
        if declares_another_format(damage):
            patient.infect(damage.data)
            with patient.store.open(patient.id) as session:
                assert session.read_only, "a newer format was opened for writing"
                assert session.messages, "a newer format was not read"
            tally.count("opened read-only")
            return
        reopens = self.plan.level != "ci" or damage.at % _REOPENED_EVERY == 0
        outcome = patient.treat(damage.data, reopens=reopens)
        tally.count("opened a second time", int(reopens))
        tally.acknowledged += len(patient.lines)
        tally.count("cut ends kept aside", len(outcome.damaged))
        tally.count("marked lines", outcome.recovery.edited + outcome.recovery.unverified)
        tally.count("stretches reported", len(outcome.recovery.damage))
        for what in lost(patient, damage, outcome):
            tally.lose(f"{where}: {what}")
        for what in complaints(patient, damage, outcome):
            tally.break_(f"{where}: {what}")


def _expect_refusal(patient: Patient, damage: Change) -> None:
    """Check that what has not one line is refused, and left as it is."""
    patient.infect(damage.data)
    modes: tuple[Mode, ...] = ("read", "write")
    for mode in modes:
        try:
            patient.store.open(patient.id, mode).close()
        except holdfast.DamagedJournal:
            pass
        else:
            raise AssertionError("a journal without a line was opened")
    assert patient.path.read_bytes() == damage.data, "a journal without a line was altered"


class _Remembering:
    """Decodes lines; those that were there from the beginning only once.

    The same 64 KB are read hundreds of thousands of times, and what a line decodes to depends on
    nothing but its bytes.
    """

    def __init__(self, real: msgspec.json.Decoder[object], lines: list[bytes]) -> None:
        self._real = real
        self._known = {}
        for line in lines:
            try:
                self._known[line] = real.decode(line)
            except msgspec.DecodeError:
                continue  # of a kind that is read with care

    def decode(self, line: bytes) -> object:
        found = self._known.get(line)
        return self._real.decode(line) if found is None else found


def _remember_pristine_lines(patient: Patient) -> None:
    lines = [entry.line for entry in patient.entries]
    codec._LINES = _Remembering(codec._LINES, lines)  # type: ignore[assignment]  # same answers
