"""Signals: obeyed before there is a run, remembered once there is one."""

from __future__ import annotations

import os
import signal

import pytest

from holdfast.cli.run.signals import ENDING, Signals


@pytest.fixture(autouse=True)
def _own_signals():
    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, action in before.items():
        signal.signal(number, action)


@pytest.mark.parametrize("number", ENDING)
def test_before_there_is_a_run_a_signal_ends_the_block(number):
    cleaned = False
    with pytest.raises(SystemExit) as left, Signals():
        try:
            os.kill(os.getpid(), number)
            raise AssertionError("it went on")
        finally:
            os.kill(os.getpid(), number)  # a second one does not interrupt what is cleaned up
            cleaned = True
    assert left.value.code == 128 + number
    assert cleaned


def test_once_there_is_a_run_it_is_told():
    told: list[str] = []
    with Signals() as signals:
        signals.raises = False
        os.kill(os.getpid(), signal.SIGTERM)
        signals.told = told.append
        os.kill(os.getpid(), signal.SIGHUP)
    assert signals.first == signal.SIGTERM
    assert told == ["SIGHUP"]
    assert [signal.getsignal(number) for number in ENDING] == [signal.SIG_IGN] * 3
