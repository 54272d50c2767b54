"""Forks: the branch in a session of its own, whatever becomes of the first one."""

from __future__ import annotations

import errno

import pytest

import holdfast
from holdfast import Turn, assistant, user
from holdfast.files import Files
from holdfast.model.entry import Entry
from holdfast.store.local.reader import Journal

LARGE = "large " * 60_000


def texts(messages):
    return [message.text for message in messages]


def types(session):
    with Journal(Files(), session.path) as journal:
        return [record.type for record in journal.records() if isinstance(record, Entry)]


@pytest.fixture
def session(store):
    session = store.create(title="t", model="m")
    session.append([user("a"), assistant("b"), user("c")])
    session.usage(input=10, output=1, cost_usd=1.0)
    return session


def test_a_fork_outlives_its_parent(store, session):
    session.append(user(LARGE))
    fork = session.fork()
    session.close()
    store.delete(session.id)
    for path in sorted(store.path.glob("trash/*/blobs/*")):
        path.unlink()
    fork.close()
    assert texts(store.open(fork.id).messages) == ["a", "b", "c", LARGE]
    assert store.verify(fork.id).ok


def test_blobs_are_linked_not_copied(store, session):
    large = session.append(user(LARGE))
    session.append(user(LARGE + "not in the fork"))
    fork = session.fork(large)
    (blob,) = (fork.path / "blobs").iterdir()
    assert blob.stat().st_nlink == 2
    assert blob.samefile(session.path / "blobs" / blob.name)
    assert fork.messages[-1].text == LARGE


def test_a_fork_without_a_blob_that_is_gone(store, session):
    session.append(user(LARGE))
    for path in (session.path / "blobs").iterdir():
        path.unlink()
    fork = session.fork()
    assert fork.messages[-1].content[0].blob is not None


def test_blobs_are_copied_where_they_cannot_be_linked(fragile, files):
    session = fragile.create()
    session.append(user(LARGE))
    files.fail("link", errno.EXDEV, times=None)
    fork = session.fork()
    assert fork.messages == [user(LARGE)]
    (blob,) = (fork.path / "blobs").iterdir()
    assert blob.stat().st_nlink == 1


def test_usage_and_turns_stay_with_the_parent(store, session):
    session.append([Turn("started"), user("d")])
    session.event("viewer", 1)
    fork = session.fork()
    assert fork.totals.requests == 0
    assert fork.totals.cost_usd == 0
    assert fork.state.turn is None
    assert not {"usage", "turn", "event", "writer"} & set(types(fork))
    assert texts(fork.messages) == ["a", "b", "c", "d"]
    assert fork.state.messages == 4


def test_a_fork_of_a_session_whose_head_cannot_be_read(store, session):
    session.append(user("d"))
    session.event("after it", 1)
    session.close()
    path = session.path / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"text":"d"', b'"text";"d"'))
    with store.open(session.id) as damaged:
        assert texts(damaged.fork().messages) == ["a", "b", "c"]


def test_a_fork_of_a_damaged_session_leaves_the_damage_behind(store, session):
    session.append(user("d"))
    session.close()
    path = session.path / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"role":"assistant"', b'"role";"assistant"'))
    with store.open(session.id) as damaged:
        assert texts(damaged.messages) == ["a", "c", "d"]
        fork = damaged.fork()
    assert texts(fork.messages) == ["a", "c", "d"]
    fork.append(user("e"))
    fork.close()
    kinds = {problem.kind for problem in store.verify(fork.id).problems}
    assert kinds <= {"unverified"}


def test_a_fork_that_finds_no_room_leaves_nothing(fragile, files):
    session = fragile.create()
    session.append(user("a"))
    with files.full_disk(), pytest.raises(holdfast.DiskFull):
        session.fork()
    assert [summary.id for summary in fragile.list()] == [session.id]
    assert session.fork().messages == [user("a")]
