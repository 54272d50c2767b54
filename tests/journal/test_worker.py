"""The thread behind: it runs when there is something to do, and only then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from holdfast.journal import worker as pump_module
from holdfast.journal.worker import BackgroundWorker

NEVER = 3600.0  # longer than any test waits


class FakeWork:
    """Returns the delays it was given, then ``None``; can be held up while it works."""

    def __init__(self, *delays: float | None) -> None:
        self.delays = list(delays)
        self.threads: list[threading.Thread] = []
        self.ended = 0
        self.go = threading.Event()
        self.go.set()
        self.during: Callable[[], None] = lambda: None

    @property
    def calls(self) -> int:
        return len(self.threads)

    def __call__(self) -> float | None:
        self.threads.append(threading.current_thread())
        assert self.go.wait(30)
        self.during()
        self.ended += 1
        return self.delays.pop(0) if self.delays else None


@pytest.fixture
def linger(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    return lambda seconds: monkeypatch.setattr(pump_module, "_LINGER_SECONDS", seconds)


@pytest.fixture
def start(linger) -> Iterator[Callable[[FakeWork], BackgroundWorker]]:
    """Make pumps that linger for ever and are stopped after the test."""
    linger(NEVER)
    pumps: list[BackgroundWorker] = []

    def make(work: FakeWork) -> BackgroundWorker:
        pumps.append(BackgroundWorker(work))
        return pumps[-1]

    yield make
    for pump in pumps:
        pump.stop()


def test_work_is_called_in_a_thread_of_its_own_after_a_wake(start, eventually):
    work = FakeWork()
    pump = start(work)
    assert work.calls == 0
    pump.wake()
    eventually(lambda: work.ended == 1)
    thread = work.threads[0]
    assert thread is not threading.current_thread()
    assert thread.daemon  # a program may end without closing its sessions


def test_a_wake_reaches_a_thread_that_lingers(start, eventually):
    work = FakeWork()
    pump = start(work)
    for calls in range(1, 6):
        pump.wake()
        eventually(lambda calls=calls: work.ended == calls)
    assert len(set(work.threads)) == 1


def test_work_is_called_again_after_the_delay_it_asked_for(start, eventually):
    work = FakeWork(0.0, 0.001, 0.001, NEVER)
    start(work).wake()
    eventually(lambda: work.ended == 4)


def test_the_delay_is_what_it_waits_for(start, eventually, monkeypatch):
    waited: list[float | None] = []
    wait = threading.Condition.wait

    def record(condition: threading.Condition, timeout: float | None = None) -> bool:
        waited.append(timeout)
        return wait(condition, 0)

    work = FakeWork(0.25, 12.5)
    pump = start(work)
    monkeypatch.setattr(pump._condition, "wait", lambda t=None: record(pump._condition, t))
    pump.wake()
    eventually(lambda: pump._thread is None)
    assert waited == [0.25, 12.5, NEVER]


def test_a_wake_ends_a_long_delay(start, eventually):
    work = FakeWork(NEVER, NEVER)
    pump = start(work)
    pump.wake()
    eventually(lambda: work.ended == 1)
    pump.wake()
    eventually(lambda: work.ended == 2)


def test_wakes_during_work_are_one_more_call(start, eventually):
    work = FakeWork(NEVER, NEVER, NEVER)
    pump = start(work)
    work.go.clear()
    pump.wake()
    eventually(lambda: work.calls == 1)
    for _ in range(100):
        pump.wake()
    work.go.set()
    eventually(lambda: work.ended == 2)
    pump.wake()
    eventually(lambda: work.ended == 3)
    pump.stop()
    assert work.calls == 3


def test_an_idle_thread_ends_and_another_starts(start, eventually, linger):
    linger(0.001)
    work = FakeWork()
    pump = start(work)
    for calls in (1, 2):
        pump.wake()
        eventually(lambda: pump._thread is None)
        assert work.ended == calls
    eventually(lambda: not any(thread.is_alive() for thread in work.threads))
    assert len(set(work.threads)) == 2


def test_no_wake_is_lost_while_threads_end(start, eventually, linger):
    linger(0.0)
    work = FakeWork()
    pump = start(work)
    for _ in range(300):
        before = work.calls
        pump.wake()
        eventually(lambda before=before: work.calls > before)


def test_stop_waits_for_work_that_is_running(start, eventually):
    work = FakeWork()
    pump = start(work)
    work.go.clear()
    pump.wake()
    eventually(lambda: work.calls == 1)

    def release() -> None:
        eventually(lambda: pump._stopped)
        work.go.set()

    releasing = threading.Thread(target=release)
    releasing.start()
    pump.stop()
    assert work.ended == 1
    assert not work.threads[0].is_alive()
    releasing.join()


@pytest.mark.parametrize("delay", [None, NEVER])
def test_stop_ends_a_wait(start, eventually, delay):
    work = FakeWork(delay)
    pump = start(work)
    pump.wake()
    eventually(lambda: work.ended == 1)
    pump.stop()
    assert not work.threads[0].is_alive()
    assert work.calls == 1


def test_after_stop_nothing_is_called(start):
    work = FakeWork()
    pump = start(work)
    pump.stop()
    pump.wake()
    pump.wake()
    pump.stop()
    assert pump._thread is None
    assert work.calls == 0


def test_stopping_from_within_work_ends_the_thread_after_it(start, eventually):
    work = FakeWork(0.0)
    pump = start(work)
    work.during = pump.stop
    pump.wake()
    eventually(lambda: work.ended == 1)
    work.threads[0].join(30)
    assert not work.threads[0].is_alive()
    pump.wake()
    assert work.calls == 1


def test_a_thread_that_could_not_start_is_tried_again(start, eventually, monkeypatch):
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    work = FakeWork()
    pump = start(work)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="new thread"):
                pump.wake()
    pump.wake()
    eventually(lambda: work.ended == 1)


def test_stopping_is_fine_where_no_thread_could_start(start, monkeypatch):
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pump = start(FakeWork())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with suppress(RuntimeError):
            pump.wake()
    pump.stop()


def test_work_that_raises_against_its_contract_is_called_again(start, eventually, monkeypatch):
    raised: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    calls: list[bool] = []

    def work() -> None:
        calls.append(True)
        if len(calls) == 1:
            raise ZeroDivisionError

    pump = start(work)
    pump.wake()
    eventually(lambda: raised)
    assert raised[0].exc_type is ZeroDivisionError
    pump.wake()
    eventually(lambda: len(calls) == 2)
