"""Clean, running, interrupted, damaged: how a session stands, told without opening it."""

from __future__ import annotations

import os
import time

import pytest

import holdfast
from tests.disk import snapshot
from tests.processes import running

FIRST = "20260102-030405-aaaabbbb"

MID_TURN = """
session = store.create(session_id="20260102-030405-aaaabbbb")
session.append([holdfast.Turn("started"), user("do it")])
ready()
"""
WAITING = """
session = store.create(session_id="20260102-030405-aaaabbbb")
session.append([user("do it"), holdfast.Turn("waiting", "approval")])
ready()
"""
MID_STREAM = """
session = store.create(session_id="20260102-030405-aaaabbbb")
session.append(user("tell me"))
live = session.stream()
live.write("once upon")
ready()
"""
IDLE = """
session = store.create(session_id="20260102-030405-aaaabbbb")
session.append([holdfast.Turn("started"), user("do it"), holdfast.Turn("completed")])
with session.stream() as live:
    live.write("done")
ready()
"""


def state_of(store: holdfast.Store) -> str:
    (summary,) = store.list()
    (again,) = store.list()
    assert again == summary
    return summary.state


@pytest.mark.parametrize("source", [MID_TURN, WAITING, MID_STREAM])
def test_running_while_it_is_held_interrupted_after_its_death(store, home, source):
    with running(source, home) as process:
        assert state_of(store) == "running"
        process.kill()
        before = snapshot(home / "sessions")
        assert state_of(store) == "interrupted"
        assert snapshot(home / "sessions") == before


STREAM_FIRST = """
session = store.open("20260102-030405-aaaabbbb")
live = session.stream()
live.write("once upon")
ready()
"""


def test_a_stream_shows_also_if_nothing_else_was_written_since_the_last_list(store, home):
    journal = put(store, session_id=FIRST) / "journal.jsonl"
    long_ago = journal.stat().st_mtime - 60
    os.utime(journal, (long_ago, long_ago))
    assert state_of(store) == "clean"
    assert not (journal.parent / "live.jsonl").exists()
    with running(STREAM_FIRST, home) as process:
        assert state_of(store) == "running"
        process.kill()
        assert state_of(store) == "interrupted"


def test_held_between_turns_is_clean(store, home):
    with running(IDLE, home) as process:
        assert state_of(store) == "clean"
        process.kill()
        assert state_of(store) == "clean"


def test_opening_what_was_interrupted_in_mid_stream_makes_it_clean(store, home):
    with running(MID_STREAM, home):
        pass
    assert state_of(store) == "interrupted"
    store.open(FIRST).close()
    assert state_of(store) == "clean"
    (summary,) = store.list()
    assert summary.messages == 2


def test_a_stream_of_which_the_journal_has_the_end_is_not_interrupted(store, home):
    with store.create() as session:
        with session.stream() as live:
            live.write("all of it")
            kept = (session.path / "live.jsonl").read_bytes()
        session.append(holdfast.user("thanks"))
    (session.path / "live.jsonl").write_bytes(kept)  # a crash came before it was emptied
    assert state_of(store) == "clean"
    (session.path / "live.jsonl").write_bytes(b"garbage")
    assert state_of(store) == "clean"


def test_a_session_that_disappears_while_it_is_listed_does_no_harm(fragile, files):
    with fragile.create() as session:
        session.append(holdfast.Turn("started"))
    fragile.list()
    files.fail("open_read", 2, name="lock")
    assert state_of(fragile) == "interrupted"
    files.fail("open_read", 13, name="lock", times=2)
    assert state_of(fragile) == "clean"


def put(store, **create):
    with store.create(**create) as session:
        session.append(holdfast.user("hello"))
        session.append(holdfast.user("goodbye"))
    return session.path


def test_damage_in_the_middle_is_listed_with_what_could_be_read(store):
    folder = put(store)
    journal = folder / "journal.jsonl"
    data = journal.read_bytes()
    journal.write_bytes(data.replace(b'{"seq":1', b"\xff\xff\xff\xff\xff\xff\xff\xff"))
    (summary,) = store.list()
    assert summary.state == "damaged"
    place = data.index(b'{"seq":1')
    assert summary.problem == f"unreadable bytes at offset {place}"
    assert summary.messages == 1
    assert summary.updated


def test_a_damaged_session_is_damaged_also_in_mid_turn(store):
    with store.create() as session:
        session.append(holdfast.Turn("started"))
        session.append(holdfast.user("hello"))
        session.append(holdfast.user("goodbye"))
    journal = session.path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"hello", b"hel\0o"))
    assert state_of(store) == "damaged"


def test_a_torn_end_is_not_damage(store):
    folder = put(store)
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    assert state_of(store) == "clean"
    (summary,) = store.list()
    assert summary.messages == 1


def unreadable_journal(folder):
    (folder / "journal.jsonl").write_bytes(b"\0" * 100)


def no_journal(folder):
    (folder / "journal.jsonl").unlink()


def empty_journal(folder):
    (folder / "journal.jsonl").write_bytes(b"")


def linked_journal(folder):
    (folder / "journal.jsonl").rename(folder / "elsewhere")
    (folder / "journal.jsonl").symlink_to(folder / "elsewhere")


def linked_folder(folder):
    folder.rename(folder.parent.parent / ".elsewhere")
    folder.symlink_to(folder.parent.parent / ".elsewhere")


def file_for_a_folder(folder):
    folder.rename(folder.parent.parent / ".elsewhere")
    folder.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (unreadable_journal, "cannot be read: not a journal"),
        (no_journal, "cannot be read: No such file"),
        (empty_journal, "cannot be read: empty"),
        (linked_journal, "symbolic links"),
        (linked_folder, "not a session folder"),
        (file_for_a_folder, "not a session folder"),
    ],
)
def test_what_cannot_be_read_is_listed_as_damaged_and_never_deleted(store, home, damage, problem):
    damage(put(store, session_id=FIRST))
    put(store)
    before = snapshot(home / "sessions")
    for _ in range(2):
        listed = {summary.id: summary for summary in store.list()}
        assert len(listed) == 2
        assert listed[FIRST].state == "damaged"
        assert problem in listed[FIRST].problem
    assert store.cleanup(3600) == 0
    assert len(store.search("hello")) == 1
    assert snapshot(home / "sessions") == before


def test_a_damaged_session_is_not_hidden_by_a_limit(store):
    folder = put(store)
    put(store)
    (folder / "journal.jsonl").write_bytes(b"\0")
    later = time.time() + 10  # a file's times may lag behind the clock by a few milliseconds
    os.utime(folder / "journal.jsonl", (later, later))
    assert [summary.id for summary in store.list(limit=1)] == [folder.name]
