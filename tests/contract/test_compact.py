"""Compaction: less on disk, the same session, and the old bytes in the archive."""

from __future__ import annotations

import threading

import pytest

import holdfast
from holdfast import Label, Turn, assistant, user


def texts(messages):
    return [message.text for message in messages]


@pytest.fixture
def filled():
    def fill(store: holdfast.Store) -> holdfast.Session:
        session = store.create(title="t")
        session.append([user("covered 1"), assistant("covered 2")])
        session.usage(input=10, output=1, cost_usd=1.0)
        off = session.append(user("off the branch"))
        session.append(Label("there", off.seq))
        session.rewind(3)
        session.append([Turn("started"), user("kept 1")])
        session.checkpoint("so far", keep_last=1)
        session.append([user("kept 2"), Turn("completed")])
        return session

    return fill


def test_numbers_are_never_used_twice(store, filled):
    session = filled(store)
    last = session.append(user("dropped by the rewind"))
    session.rewind(None)
    session.compact()
    assert session.append(user("next")).seq > last.seq + 1


def test_compaction_without_a_checkpoint_keeps_the_whole_branch(store):
    session = store.create()
    session.append([user("a"), user("b")])
    session.compact()
    assert texts(session.messages) == ["a", "b"]
    session.clear()
    session.compact()
    assert session.messages == []
    assert session.state.messages == 2


def test_there_is_nothing_to_compact_before_the_first_entry(store):
    with pytest.raises(holdfast.UsageError, match="nothing to compact"):
        store.create().compact()


def test_a_reader_keeps_its_view_across_a_compaction(store, filled):
    session = filled(store)
    reader = store.open(session.id, "read")
    session.compact()
    assert texts(reader.messages) == ["covered 1", "covered 2", "kept 1", "kept 2"]


def test_ids_are_looked_up_again_after_a_compaction(store):
    session = store.create()
    session.append(user("a"), id="one")
    position = session.append(user("b"), id="two")
    session.compact()
    assert session.append(user("b"), id="two").seq == position.seq
    assert texts(session.messages) == ["a", "b"]


def test_other_threads_wait_for_a_compaction(store):
    session = store.create()
    session.append(user("first"))
    stop = threading.Event()
    written = [1]

    def work() -> None:
        while not stop.is_set():
            session.append(user("x"))
            written[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(5):
        session.compact()
    stop.set()
    thread.join()
    assert len(session.messages) == written[0]
    session.close()
    assert store.verify(session.id).ok
