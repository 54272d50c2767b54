"""Threads shared by all sessions: there when there is work, a few at most, gone after it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import pytest

from holdfast.journal import pool as pool_module
from holdfast.journal.pool import POOL, BackgroundTask, CommitPool

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
    return lambda seconds: monkeypatch.setattr(pool_module, "_LINGER_SECONDS", seconds)


@pytest.fixture
def pool(linger, eventually) -> Iterator[CommitPool]:
    """A pool of three threads that linger for ever; they end after the test."""
    linger(NEVER)
    pool = CommitPool(3)
    yield pool
    linger(0.0)

    def is_empty() -> bool:
        with pool.mutex:
            for gate in list(pool._idle):
                pool._wake(gate)
        return not pool.threads

    eventually(is_empty)


@pytest.fixture
def start(pool) -> Iterator[Callable[[Callable[[], float | None]], BackgroundTask]]:
    """Make tasks that are stopped after the test."""
    tasks: list[BackgroundTask] = []

    def make(work: Callable[[], float | None]) -> BackgroundTask:
        tasks.append(BackgroundTask(work, pool))
        return tasks[-1]

    yield make
    for task in tasks:
        task.stop()


@pytest.fixture
def no_threads(monkeypatch) -> Iterator[pytest.MonkeyPatch]:
    def reject(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", reject)
        yield patch


class TestWaking:
    def test_work_is_called_in_another_thread_after_a_wake(self, start, eventually):
        work = FakeWork()
        task = start(work)
        assert work.calls == 0
        task.wake()
        eventually(lambda: work.ended == 1)
        thread = work.threads[0]
        assert thread is not threading.current_thread()
        assert thread.daemon  # a program may end without closing its sessions

    def test_the_pool_of_the_process_is_what_a_task_uses(self, eventually):
        work = FakeWork()
        task = BackgroundTask(work)
        task.wake()
        eventually(lambda: work.ended == 1)
        assert work.threads[0] in POOL.threads
        task.stop()

    def test_a_wake_reaches_a_thread_that_lingers(self, start, eventually, pool):
        work = FakeWork()
        task = start(work)
        for calls in range(1, 6):
            task.wake()
            eventually(lambda calls=calls: work.ended == calls and pool._idle)
        assert len(set(work.threads)) == 1

    def test_wakes_during_work_are_one_more_call(self, start, eventually, pool):
        work = FakeWork()
        task = start(work)
        work.go.clear()
        task.wake()
        eventually(lambda: work.calls == 1)
        for _ in range(100):
            task.wake()
        work.go.set()
        eventually(lambda: work.ended == 2 and len(pool._idle) == len(pool.threads))
        assert work.calls == 2

    def test_a_task_that_is_queued_twice_is_not_called_by_two_threads(
        self, start, eventually, pool
    ):
        """As after an interrupt between queueing it and taking note of that."""
        work = FakeWork()
        task = start(work)
        work.go.clear()
        with pool.mutex:
            task.wake()
            task.awake = False
            task.wake()
        other = FakeWork()
        start(other).wake()
        eventually(lambda: other.ended == 1)
        assert work.calls == 1
        work.go.set()

    def test_no_wake_is_lost_while_threads_end(self, start, eventually, linger):
        linger(0.0)
        work = FakeWork()
        task = start(work)
        for _ in range(300):
            before = work.calls
            task.wake()
            eventually(lambda before=before: work.calls > before)


class TestTime:
    def test_work_is_called_again_after_the_delay_it_asked_for(self, start, eventually):
        work = FakeWork(0.0, 0.001, 0.001, NEVER)
        start(work).wake()
        eventually(lambda: work.ended == 4)

    def test_a_wake_comes_before_the_time_that_was_asked_for(self, start, eventually):
        work = FakeWork(NEVER, NEVER)
        task = start(work)
        task.wake()
        eventually(lambda: work.ended == 1)
        task.wake()
        eventually(lambda: work.ended == 2)

    def test_an_earlier_time_is_kept_though_a_thread_waits_for_a_later_one(
        self, start, eventually, pool
    ):
        late, soon = FakeWork(NEVER), FakeWork(0.3, NEVER)
        start(late).wake()
        eventually(lambda: pool._timekeeper is not None)
        soon.go.clear()
        start(soon).wake()
        eventually(lambda: soon.calls == 1 and pool._timekeeper is not None)
        soon.go.set()
        eventually(lambda: soon.ended == 2)

    def test_a_later_time_wakes_no_thread(self, start, eventually, pool):
        soon, late = FakeWork(NEVER), FakeWork(2 * NEVER)
        start(soon).wake()
        eventually(lambda: pool._timekeeper is not None)
        start(late).wake()
        eventually(lambda: len(pool._timed) == 2 and pool._timekeeper is not None)
        assert soon.calls == late.calls == 1

    def test_while_the_thread_that_kept_time_works_another_one_keeps_it(
        self, start, eventually, pool
    ):
        timed, held = FakeWork(0.2), FakeWork()
        start(timed).wake()
        eventually(lambda: pool._timekeeper is not None)
        held.go.clear()
        start(held).wake()
        eventually(lambda: timed.ended == 2)
        assert held.ended == 0
        held.go.set()

    def test_the_thread_that_keeps_time_is_left_alone_if_another_one_is_idle(
        self, start, eventually, pool
    ):
        first, second = FakeWork(), FakeWork(NEVER)
        first.go.clear()
        start(first).wake()
        eventually(lambda: first.calls == 1)
        start(second).wake()
        eventually(lambda: pool._timekeeper is not None)
        first.go.set()
        eventually(lambda: len(pool._idle) == 2)
        keeper = second.threads[0]
        with pool.mutex:  # the one that would be woken otherwise
            pool._idle.sort(key=lambda gate: gate is pool._timekeeper)
        third = FakeWork()
        start(third).wake()
        eventually(lambda: third.ended == 1)
        assert third.threads[0] is not keeper

    def test_a_task_that_was_stopped_keeps_no_thread(self, start, eventually, linger, pool):
        linger(0.001)
        work = FakeWork(0.05)
        task = start(work)
        task.wake()
        eventually(lambda: work.ended == 1)
        task.stop()
        eventually(lambda: not pool.threads)
        assert work.calls == 1


class TestThreads:
    def test_an_idle_thread_ends_and_another_starts(self, start, eventually, linger, pool):
        linger(0.001)
        work = FakeWork()
        task = start(work)
        for calls in (1, 2):
            task.wake()
            eventually(lambda calls=calls: work.ended == calls and not pool.threads)
        eventually(lambda: not any(thread.is_alive() for thread in work.threads))
        assert len(set(work.threads)) == 2

    def test_there_are_as_many_as_the_limit_at_most(self, start, eventually, pool):
        works = [FakeWork() for _ in range(10)]
        for work in works:
            work.go.clear()
        for work in works:
            start(work).wake()
        eventually(lambda: sum(work.calls for work in works) == 3)
        assert len(pool.threads) == 3
        for work in works:
            work.go.set()
        eventually(lambda: all(work.ended == 1 for work in works))
        assert len({thread for work in works for thread in work.threads}) == 3

    def test_one_that_runs_other_code_does_not_count(self, start, eventually, pool):
        works = [FakeWork() for _ in range(5)]
        inside, leave = threading.Semaphore(0), threading.Event()

        def wait_for_the_last() -> None:
            with task.lent():
                inside.release()
                assert leave.wait(30)

        for work in works[:4]:
            work.during = wait_for_the_last
        works[4].during = leave.set
        for work in works:
            task = start(work)
            task.wake()
        eventually(lambda: all(work.ended == 1 for work in works))
        assert pool.lent == 0

    def test_a_thread_that_could_not_start_is_tried_again(self, start, eventually, no_threads):
        work = FakeWork()
        task = start(work)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="new thread"):
                task.wake()
        no_threads.undo()
        task.wake()
        eventually(lambda: work.ended >= 1)

    def test_where_no_more_threads_start_the_others_do_the_work(
        self, start, eventually, monkeypatch
    ):
        first, second = FakeWork(), FakeWork()
        first.go.clear()
        start(first).wake()
        eventually(lambda: first.calls == 1)

        def reject(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", reject)
            start(second).wake()
        assert second.calls == 0
        first.go.set()
        eventually(lambda: second.ended == 1)

    def test_an_interrupt_while_a_thread_starts_is_passed_on(
        self, start, eventually, monkeypatch, pool
    ):
        first, second = FakeWork(), FakeWork()
        first.go.clear()
        start(first).wake()
        eventually(lambda: first.calls == 1)
        begin = threading.Thread.start

        def interrupt(thread: threading.Thread) -> None:
            begin(thread)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(threading.Thread, "start", interrupt)
            start(second).wake()
        eventually(lambda: second.ended == 1)
        assert len(pool.threads) == 2
        first.go.set()

    def test_work_that_raises_against_its_contract_is_called_again(
        self, start, eventually, monkeypatch
    ):
        raised: list[threading.ExceptHookArgs] = []
        monkeypatch.setattr(threading, "excepthook", raised.append)
        calls: list[bool] = []

        def work() -> None:
            calls.append(True)
            if len(calls) == 1:
                raise ZeroDivisionError

        task = start(work)
        task.wake()
        eventually(lambda: raised)
        assert raised[0].exc_type is ZeroDivisionError
        task.wake()
        eventually(lambda: len(calls) == 2)

    def test_a_forked_child_has_none_of_them(self, start, eventually, pool):
        timed, held = FakeWork(NEVER), FakeWork()
        start(timed).wake()
        held.go.clear()
        start(held).wake()
        eventually(lambda: pool._timekeeper is not None and held.calls == 1)
        before = pool.mutex, set(pool.threads)
        os.register_at_fork(after_in_child=pool.reset)
        child = os.fork()
        if child == 0:
            done = threading.Event()
            BackgroundTask(done.set, pool).wake()
            os._exit(0 if done.wait(30) and len(pool.threads) == 1 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (pool.mutex, set(pool.threads)) == before
        held.go.set()

    def test_a_child_that_forked_in_other_code_returns_no_thread_it_does_not_have(self, pool):
        task = BackgroundTask(lambda: None, pool)
        with task.lent():
            pool.reset()
        assert pool.lent == 0


class TestStopping:
    def test_stop_waits_for_work_that_is_running(self, start, eventually):
        work = FakeWork()
        task = start(work)
        work.go.clear()
        task.wake()
        eventually(lambda: work.calls == 1)

        def release() -> None:
            eventually(lambda: task.gates)
            work.go.set()

        releasing = threading.Thread(target=release)
        releasing.start()
        task.stop()
        assert work.ended == 1
        releasing.join()

    def test_after_stop_nothing_is_called(self, start, pool):
        work = FakeWork()
        task = start(work)
        task.stop()
        task.wake()
        task.awake = False
        task.wake()
        task.stop()
        assert not pool.threads
        assert work.calls == 0

    def test_a_task_that_is_stopped_while_it_is_queued_is_not_called(self, start, eventually, pool):
        work, other = FakeWork(), FakeWork()
        task = start(work)
        with pool.mutex:
            task.wake()
            task.stop()
        start(other).wake()
        eventually(lambda: other.ended == 1)
        assert work.calls == 0

    def test_work_that_stops_its_own_task_is_called_no_more(self, start, eventually, pool):
        work = FakeWork(0.0)
        task = start(work)
        work.during = task.stop
        task.wake()
        eventually(lambda: work.ended == 1 and pool._idle)
        task.wake()
        assert work.calls == 1

    def test_stopping_is_fine_where_no_thread_could_start(self, start, no_threads):
        task = start(FakeWork())
        with pytest.raises(RuntimeError):
            task.wake()
        task.stop()
