"""Who is told of durable entries: each once, in order, whatever interrupts the telling."""

from __future__ import annotations

import threading

import pytest

from holdfast.model.entry import Entry, Turn
from holdfast.store.write.listeners import Listeners


class FakeMutex:
    """Interrupts whoever takes it or lets it go for the ``nth`` time, as Ctrl+C might."""

    def __init__(self, nth: int, *, leaving: bool) -> None:
        self._real = threading.RLock()
        self._nth = nth
        self._leaving = leaving

    def _count(self) -> None:
        self._nth -= 1
        if self._nth == 0:
            raise KeyboardInterrupt

    def __enter__(self) -> None:
        if not self._leaving:
            self._count()
        self._real.acquire()

    def __exit__(self, *_: object) -> None:
        self._real.release()
        if self._leaving:
            self._count()


def entry(seq: int) -> Entry:
    return Entry(seq, "2026-11-15T19:40:12.001Z", "turn", Turn("started"))


def told_to(listeners: Listeners) -> list[int]:
    heard: list[int] = []
    listeners.callbacks.append(lambda entry: heard.append(entry.seq))
    return heard


@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_an_interrupt_makes_nobody_deaf(nth, leaving):
    listeners = Listeners(FakeMutex(nth, leaving=leaving))  # type: ignore[arg-type]  # as a lock
    heard = told_to(listeners)
    listeners.untold.extend(map(entry, [1, 2, 3]))
    with pytest.raises(KeyboardInterrupt):
        listeners.tell()
    listeners.untold.append(entry(4))
    listeners.tell()
    assert heard == sorted(set(heard))
    assert heard[-1] == 4
    assert len(heard) >= 3  # the one that was being told when the interrupt came may be missing
    assert not listeners.untold


def test_a_listener_that_is_interrupted_does_not_keep_others_from_hearing():
    listeners = Listeners(threading.RLock())

    def interrupted(_: Entry) -> None:
        listeners.callbacks.remove(interrupted)
        raise KeyboardInterrupt

    listeners.callbacks.append(interrupted)
    heard = told_to(listeners)
    listeners.untold.extend(map(entry, [1, 2]))
    with pytest.raises(KeyboardInterrupt):
        listeners.tell()
    listeners.tell()
    assert heard == [2]


def test_one_that_appends_is_told_of_it_afterwards():
    listeners = Listeners(threading.RLock())
    heard: list[int] = []

    def appending(each: Entry) -> None:
        if each.seq == 1:
            listeners.untold.append(entry(2))
            listeners.tell()  # as an append does: it is this thread's turn already
            assert heard == []
        heard.append(each.seq)

    listeners.callbacks.append(appending)
    listeners.untold.append(entry(1))
    listeners.tell()
    assert heard == [1, 2]


def waits(listeners: Listeners) -> threading.Thread:
    thread = threading.Thread(target=listeners.wait_for_others, daemon=True)
    thread.start()
    return thread


def test_others_wait_until_the_telling_is_over_and_a_listener_does_not():
    listeners = Listeners(threading.RLock())
    waiting: list[threading.Thread] = []

    def callback(_: Entry) -> None:
        listeners.wait_for_others()
        assert listeners.is_done()  # although there is more to tell: it does not wait for itself
        waiting.append(waits(listeners))
        waiting[-1].join(0.02)
        assert waiting[-1].is_alive()

    listeners.callbacks.append(callback)
    listeners.untold.extend(map(entry, [1, 2]))
    assert not listeners.is_done()
    listeners.tell()
    assert listeners.is_done()
    assert len(waiting) == 2
    for thread in waiting:
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize("nth", [1, 2])
def test_nobody_waits_for_a_turn_that_an_interrupt_took_away(nth, leaving):
    listeners = Listeners(FakeMutex(nth, leaving=leaving))  # type: ignore[arg-type]  # as a lock
    told_to(listeners)
    listeners.untold.extend(map(entry, [1, 2]))
    with pytest.raises(KeyboardInterrupt) as caught:
        listeners.tell()
    thread = waits(listeners)
    thread.join(30)
    assert not thread.is_alive()
    assert caught.tb is not None  # it keeps the turn alive
