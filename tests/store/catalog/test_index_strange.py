"""One session, whatever is in it, never keeps the others from being listed."""

from __future__ import annotations

import errno
import math
import os
import sqlite3
from contextlib import closing

import pytest

import holdfast
from holdfast import Turn, user
from holdfast.files import Files
from holdfast.store.local.layout import Home
from holdfast.store.read import resume as resuming
from tests.disk import snapshot

STRANGE = "20260102-030405-aaaabbbb"
OTHERS = ["20260102-030405-ccccdddd", "20260102-030405-eeeeffff"]


@pytest.fixture
def strange(store):
    """Three settled sessions; returns the folder of the one that becomes strange."""
    for session_id in [STRANGE, *OTHERS]:
        with store.create(session_id=session_id) as session:
            session.append(user("hello"))
        settle(session.path / "journal.jsonl")
    return store.find(STRANGE)


def settle(journal):
    long_ago = journal.stat().st_mtime - 60
    os.utime(journal, (long_ago, long_ago))


def listed(store):
    """Return the strange one; the others are listed as they are, each time."""
    once = {summary.id: summary for summary in store.list()}
    assert {summary.id: summary for summary in store.page().sessions} == once
    assert sorted(once) == [STRANGE, *OTHERS]
    assert [(once[name].state, once[name].title) for name in OTHERS] == [("clean", "hello")] * 2
    return once[STRANGE]


def add_line(folder, line):
    with (folder / "journal.jsonl").open("ab") as journal:
        journal.write(line + b"\n")


def test_half_a_surrogate_pair_for_a_time(store, strange):
    add_line(strange, rb'{"seq":2,"at":"\ud800","type":"event","name":"x"}')
    settle(strange / "journal.jsonl")
    for _ in range(2):  # the second time from the cache
        summary = listed(store)
        assert (summary.state, summary.title) == ("clean", "hello")


@pytest.mark.parametrize("facts", [{"title": "half a pair \ud83d"}, {}])
def test_costs_beyond_every_number_beside_what_messagepack_cannot_hold(store, strange, facts):
    with store.open(STRANGE) as session:
        session.update(**facts)
        for _ in range(2):
            session.usage(input=2**63, output=1, cost_usd=1e308, model="half a name \ud83d")
    settle(strange / "journal.jsonl")
    for _ in range(2):
        summary = listed(store)
        assert (summary.state, summary.title) == ("clean", facts.get("title", "hello"))
        assert (summary.cost_usd, summary.totals.input) == (math.inf, 2**64)
        assert summary.totals.models["half a name \ud83d"].cost_usd == math.inf


@pytest.fixture
def unreadable(monkeypatch):
    """Make reading of the strange session fail as nobody foresaw."""
    read_state = resuming.resume_state

    def fail(journal):
        if journal.folder.name == STRANGE:
            raise ValueError("\ud800 is new to me")
        return read_state(journal)

    monkeypatch.setattr(resuming, "resume_state", fail)


@pytest.mark.usefixtures("strange", "unreadable")
def test_what_nobody_foresaw_is_listed_as_damaged(store, home):
    before = snapshot(home / "sessions")
    for _ in range(2):
        summary = listed(store)
        assert summary.state == "damaged"
        assert summary.problem == r"cannot be read: ValueError('\ud800 is new to me')"
        assert summary.updated
    assert snapshot(home / "sessions") == before


def spoil(home, value):
    with closing(sqlite3.connect(home / "index.db")) as connection:
        connection.execute(f"UPDATE sessions SET summary = {value} WHERE id = ?", [STRANGE])
        connection.commit()


@pytest.mark.parametrize("value", ["x'00'", "7", "CAST('{' AS BLOB)", "x'81a26964a2ffff'"])
@pytest.mark.usefixtures("strange")
def test_a_row_that_says_nothing_is_read_again_from_the_files(home, value):
    counting = FakeCountingFiles()
    store = holdfast.open_store(home, files=counting)
    clean = listed(store)
    spoil(home, value)
    counting.journals = 0
    assert listed(store) == clean
    assert listed(store) == clean
    assert counting.journals == 1


class FakeCountingFiles(Files):
    """Counts how often a journal is opened for reading."""

    def __init__(self) -> None:
        self.journals = 0

    def open_read(self, path):
        self.journals += str(path).endswith("journal.jsonl")
        return super().open_read(path)


@pytest.mark.usefixtures("strange")
def test_a_row_that_says_nothing_of_files_that_say_nothing_is_damaged(store, home, request):
    listed(store)
    spoil(home, "x'00'")
    request.getfixturevalue("unreadable")
    for _ in range(2):
        assert listed(store).state == "damaged"


@pytest.mark.usefixtures("strange")
def test_a_row_that_says_nothing_of_a_folder_that_cannot_be_looked_at(store, home, monkeypatch):
    listed(store)
    spoil(home, "x'00'")

    def refused(*_):
        raise PermissionError(errno.EACCES, "not yours")

    monkeypatch.setattr(Home, "has", refused)
    summary = store.list()[-1]
    assert (summary.id, summary.state) == (STRANGE, "damaged")
    monkeypatch.undo()
    assert listed(store).state == "clean"


@pytest.mark.usefixtures("strange")
def test_a_session_of_which_nobody_can_tell_how_it_stands_is_damaged(store, monkeypatch):
    with store.open(STRANGE) as session:
        session.append(Turn("started"))
    assert listed(store).state == "interrupted"

    def fail(*_):
        raise ValueError("what is this?")

    monkeypatch.setattr("holdfast.store.local.lock.holder_of", fail)
    for _ in range(2):
        summary = listed(store)
        assert (summary.state, summary.problem) == (
            "damaged",
            "cannot be read: ValueError('what is this?')",
        )


class FakeAgelessFiles(Files):
    """Says of one journal that it was last written in a year that no calendar has."""

    def status_of(self, path):
        status = super().status_of(path)
        if str(path).endswith(f"{STRANGE}/journal.jsonl"):
            return FakeStatus(status)
        return status


class FakeStatus:
    """A status with times of its own."""

    st_mtime = 1e15
    st_mtime_ns = 10**24

    def __init__(self, status: os.stat_result) -> None:
        self._status = status

    def __getattr__(self, name: str) -> object:
        return getattr(self._status, name)


def test_a_file_of_a_year_that_no_calendar_has(store, home, strange):
    listed(store)
    ageless = holdfast.open_store(home, files=FakeAgelessFiles())
    assert listed(ageless).state == "clean"
    (strange / "journal.jsonl").write_bytes(b"\0" * 100)
    summary = listed(ageless)
    assert (summary.state, bool(summary.updated)) == ("damaged", True)
