"""The journal as its own session reads it: open while somebody reads, closed when nobody does."""

from __future__ import annotations

import pytest

from holdfast import user


@pytest.fixture
def session(fragile):
    session = fragile.create()
    session.append([user(f"message {number} " + "x" * 5000) for number in range(200)])
    yield session
    session.close()


def journals_open(files) -> int:
    return sum("journal" in name for name in files.left_open)


def test_several_read_across_a_compaction_and_all_is_closed_behind_them(session, files):
    first, second = session.branch(), session.branch()
    newest = [next(first).seq, next(second).seq]
    assert newest[0] == newest[1]
    kept = session._recorder.journal()  # as a traceback would: it is closed all the same
    session.compact()
    session.append(user("behind"))
    assert journals_open(files) == 2  # the writer's, and the one that is no longer there
    rest = [entry.seq for entry in first]
    assert journals_open(files) == 2  # somebody still reads it
    assert [entry.seq for entry in second] == rest
    assert journals_open(files) == 1
    assert kept is not None
    assert len(rest) == 199


def test_who_reads_goes_on_when_the_session_is_closed(session, files):
    reading = session.branch()
    next(reading)
    session.close()
    assert len(list(reading)) == 199
    assert not files.left_open


def test_who_stops_reading_leaves_nothing_open(session, files):
    reading = session.branch()
    next(reading)
    session.close()
    reading.close()
    assert not files.left_open


def test_the_file_that_the_journal_goes_on_in_is_read_too(session, files):
    assert len(list(session.branch())) == 200
    files.fail("sync", name="journal.jsonl")
    assert session.append(user("behind")).segment == 2
    assert next(session.branch()).body == user("behind")
    assert len(list(session.branch())) == 201
