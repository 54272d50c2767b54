"""Several processes use the same new keys at the same moment."""

from __future__ import annotations

import multiprocessing

import holdfast
from holdfast import user

KEYS = 40
PROCESSES = 4


def work(home, name, barrier):
    with holdfast.open_store(home) as store:
        for number in range(KEYS):
            barrier.wait()
            session = store.session(f"key {number}")
            while True:
                try:
                    session.append(user(f"{name}"), id=f"{name}")
                    session.close()
                    break
                except holdfast.SessionLocked:  # held by another one of us for long
                    session = _opened(store, number)


def _opened(store, number):
    while True:
        try:
            return store.session(f"key {number}")
        except holdfast.SessionLocked:
            continue


def test_four_processes_append_to_forty_new_keys(home):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PROCESSES, timeout=300)
    processes = [
        context.Process(target=work, args=(home, name, barrier)) for name in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    with holdfast.open_store(home) as store:
        for number in range(KEYS):
            session = store.session(f"key {number}", mode="read")
            assert sorted(message.text for message in session.messages) == ["0", "1", "2", "3"]
            assert store.verify(session.id).ok
