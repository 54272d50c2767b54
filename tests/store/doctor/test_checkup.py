"""Everything in a home, looked at: what is wrong is named, what can be done is done, once."""

from __future__ import annotations

import errno
import gzip
import os
import sqlite3

import pytest

import holdfast
from holdfast.files import Files
from holdfast.model.event import Event
from holdfast.store.doctor.findings import ADVICE
from holdfast.store.doctor.home_scan import Fixer, HomeScan
from holdfast.store.local.live import LiveFile
from holdfast.store.local.lock import Lock
from tests.disk import snapshot


@pytest.fixture
def session(store):
    with store.create() as session:
        for text in ("one", "two", "three", "four"):
            session.append(holdfast.user(text))
        session.append(holdfast.user("large " * 60_000))
    return session


def journal(session):
    return session.path / "journal.jsonl"


def looked(store, **options):
    return list(store.checkup(**options))


def kinds(store, **options):
    return [finding.kind for finding in looked(store, **options)]


def texts(store, session):
    with store.open(session.id, mode="read") as opened:
        return [message.text for message in opened.messages]


def damage_line(session, word):
    data = journal(session).read_bytes()
    place = data.index(b'"%b"' % word)
    start = data.rindex(b"\n", 0, place) + 1
    end = data.index(b"\n", place)
    journal(session).write_bytes(data[:start] + b"?" * (end - start) + data[end:])
    return data


def test_where_all_is_well_nothing_is_found_and_nothing_changes(store, session):
    store.list()
    before = snapshot(store.path)
    steps: list[tuple[int, int]] = []
    checkup = store.checkup(progress=lambda done, total: steps.append((done, total)))
    assert list(checkup) == []
    size = journal(session).stat().st_size
    assert (checkup.sessions, checkup.entries, checkup.size_bytes) == (1, 6, size)
    assert steps[-1] == (size, size)
    assert checkup.held == []
    assert snapshot(store.path) == before
    assert kinds(store, fix=True) == []


def test_an_empty_home(store):
    assert looked(store) == []
    assert not store.path.exists()


def test_damage_is_left_without_fix_and_mended_with_it(store, session):
    damaged = damage_line(session, b"two")
    before = snapshot(store.path)
    found = looked(store)
    assert [finding.kind for finding in found] == ["damage", "unverified"]
    assert all(finding.damage and finding.fix and finding.safe for finding in found)
    assert all(finding.session == session.id for finding in found)
    assert snapshot(store.path) == before
    bytes_now = journal(session).read_bytes()
    assert bytes_now != damaged
    assert all(finding.fixed for finding in looked(store, fix=True))
    assert looked(store) == []
    assert texts(store, session)[:3] == ["one", "three", "four"]
    (kept,) = (session.path / "archive").iterdir()
    assert gzip.decompress(kept.read_bytes()) == bytes_now
    assert store.verify(session.id).ok
    with store.open(session.id) as opened:
        opened.append(holdfast.user("more"))
    assert looked(store) == []


def test_mending_keeps_what_is_off_the_branch(store, session):
    with store.open(session.id) as opened:
        opened.rewind(2)
        opened.append(holdfast.user("other"))
        opened.checkpoint([holdfast.user("sum")])
    damage_line(session, b"three")
    assert all(finding.fixed for finding in looked(store, fix=True))
    data = journal(session).read_bytes()
    assert b'"four"' in data
    assert b'"other"' in data
    with store.open(session.id, mode="read") as opened:
        assert [message.text for message in opened.messages] == ["one", "two", "other"]
        assert [message.text for message in opened.context()] == ["sum"]


def test_a_header_that_cannot_be_read(store, session):
    data = journal(session).read_bytes()
    end = data.index(b"\n")
    journal(session).write_bytes(b"?" * end + data[end:])
    assert set(kinds(store)) == {"header", "damage", "unverified"}
    assert all(finding.fixed for finding in looked(store, fix=True))
    assert looked(store) == []
    assert texts(store, session)[:4] == ["one", "two", "three", "four"]


def test_a_torn_end_and_a_stream_are_kept(store, session):
    with journal(session).open("ab") as file:
        file.write(b'{"seq":99,')
    live = LiveFile(Files(), session.path)
    live.append([Event("stream", "text", 0, "half a sent")])
    live.close()
    found = looked(store)
    assert [finding.kind for finding in found] == ["torn", "interrupted"]
    assert not any(finding.damage for finding in found)
    assert all(finding.fixed for finding in looked(store, fix=True))
    assert looked(store) == []
    assert texts(store, session)[-1] == "half a sent"
    (kept,) = (session.path / "damaged").iterdir()
    assert kept.read_bytes() == b'{"seq":99,'


def test_what_was_edited_stays_and_stays_told(store, session):
    journal(session).write_bytes(journal(session).read_bytes().replace(b'"two"', b'"TWO"'))
    for fix in (False, True):
        (finding,) = looked(store, fix=fix)
        assert (finding.kind, finding.damage, finding.fix, finding.fixed) == (
            "edited",
            True,
            None,
            False,
        )
    assert texts(store, session)[1] == "TWO"


def test_a_blob_that_is_gone(store, session):
    (blob,) = (session.path / "blobs").iterdir()
    blob.unlink()
    (finding,) = looked(store, fix=True)
    assert (finding.kind, finding.damage, finding.fixed) == ("blob", True, False)


@pytest.mark.parametrize("content", [b"", b"no journal at all\n" * 10])
def test_a_journal_of_which_nothing_can_be_read(store, session, content):
    journal(session).write_bytes(content)
    for fix in (False, True):
        (finding,) = looked(store, fix=fix)
        assert (finding.kind, finding.damage) == ("unreadable", True)
    assert journal(session).read_bytes() == content


def test_a_folder_without_a_journal(store, session):
    journal(session).unlink()
    (finding,) = looked(store, progress=lambda done, total: None)
    assert (finding.kind, finding.detail) == ("unreadable", "it has no journal")


def test_a_link_in_the_place_of_a_session(store, session):
    link = session.path.with_name("20260101-000000-abcdefgh")
    link.symlink_to(session.path)
    assert [(each.kind, each.damage) for each in looked(store)] == [("link", True)]


def test_a_session_that_is_being_written_is_left_and_named(store, session):
    with journal(session).open("ab") as file:
        file.write(b'{"seq":99,')
    lock = Lock.acquire(Files(), session.path, "1")
    try:
        checkup = store.checkup(fix=True)
        assert list(checkup) == []
        assert checkup.held == [session.id]
        damage_line(session, b"two")
        journal(session).chmod(0o644)
        found = looked(store, fix=True)
        assert {finding.kind for finding in found} == {"damage", "unverified", "permissions"}
        assert not any(finding.fixed or finding.failed for finding in found)
    finally:
        lock.release()
    assert "torn" in kinds(store)


def test_a_session_that_is_taken_before_it_can_be_mended(store, session, monkeypatch):
    damage_line(session, b"two")
    checkup = store.checkup(fix=True)

    def taken(path):
        raise holdfast.SessionLocked(session.id, holdfast.Holder())

    checkup._open_session = taken
    found = list(checkup)
    assert not any(finding.fixed for finding in found)
    assert all("is being written" in finding.failed for finding in found)


def test_what_could_not_be_mended_is_told(store, session, monkeypatch):
    damage_line(session, b"two")
    monkeypatch.setattr("holdfast.store.session.Session.mend", lambda self: None)
    found = looked(store, fix=True)
    assert [finding.failed for finding in found] == ["the problem is still there"] * 2


def test_rights_of_others(store, session):
    (blob,) = (session.path / "blobs").iterdir()
    (store.path / "trash").mkdir(mode=0o700)
    for path in (journal(session), blob, session.path, store.path):
        path.chmod(path.stat().st_mode | 0o044)
    found = looked(store)
    assert [finding.kind for finding in found] == ["permissions"] * 4
    assert not any(finding.damage for finding in found)
    assert all(finding.fixed for finding in looked(store, fix=True))
    assert looked(store) == []
    assert journal(session).stat().st_mode & 0o777 == 0o600


def test_rights_that_cannot_be_changed(fragile, files, monkeypatch):
    with fragile.create() as session:
        session.append(holdfast.user("a"))
    journal(session).chmod(0o644)

    def refused(path, mode):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(files, "set_mode", refused)
    (finding,) = looked(fragile, fix=True)
    assert not finding.fixed
    assert "not permitted" in finding.failed


def test_what_crashes_left_behind(store, session):
    sessions = store.path / "sessions"
    for name in (".new-old", ".new-young"):
        (sessions / name).mkdir(mode=0o700)
        (sessions / name / "journal.jsonl").touch(mode=0o600)
    (sessions / ".new-held").mkdir(mode=0o700)
    (sessions / ".new-file").touch(mode=0o600)
    blobs = session.path / "blobs"
    (blobs / ("." + "0" * 64 + ".abcdefgh")).touch(mode=0o600)
    (session.path / ".journal.jsonl.abcdefgh").touch(mode=0o600)
    (session.path / ".journal.jsonl.jkmnpqrs").touch(mode=0o600)
    (blobs / "deeper").mkdir(mode=0o700)
    lock = Lock.acquire(Files(), sessions / ".new-held", "1")
    for path in (
        *sessions.glob(".new-*"),
        blobs / ("." + "0" * 64 + ".abcdefgh"),
        session.path / ".journal.jsonl.abcdefgh",
    ):
        if path.name != ".new-young":
            os.utime(path, (1, 1))
    try:
        assert kinds(store) == ["leftover"] * 3
        assert all(finding.fixed for finding in looked(store, fix=True))
        assert looked(store) == []
    finally:
        lock.release()
    assert sorted(path.name for path in sessions.glob(".new-*")) == [
        ".new-file",
        ".new-held",
        ".new-young",
    ]


def test_what_a_migration_left(store):
    batch = store.path / "sessions" / ".batch"
    with store.batch():
        (batch / "20260101-000000-abcdefgh").mkdir(mode=0o700)
        assert looked(store) == []
    (batch / "20260101-000000-abcdefgh").mkdir(mode=0o700)
    assert kinds(store) == ["leftover"]
    (batch / "then.json").touch(mode=0o600)
    assert kinds(store) == ["unfinished", "leftover"]
    found = looked(store, fix=True)
    assert [finding.fixed for finding in found] == [False, True]
    assert kinds(store) == ["unfinished"]


def test_the_trash_is_looked_at_and_left_alone(store, session):
    damage_line(session, b"two")
    store.delete(session.id)
    (store.path / "trash" / "something").mkdir(mode=0o700)
    before = snapshot(store.path / "trash")
    found = looked(store, fix=True)
    assert [finding.kind for finding in found] == ["damage", "unverified", "unknown"]
    assert [finding.fix for finding in found] == [None] * 3
    assert snapshot(store.path / "trash") == before


def test_an_index_that_is_no_database(store, session):
    store.list()
    index = store.path / "index.db"
    with sqlite3.connect(index) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert looked(store) == []
    other.close()
    index.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    os.utime(index, (1, 1))  # so that reading it changes when it was read last
    assert kinds(store) == ["index"]
    (finding,) = looked(store, fix=True)
    assert finding.fixed
    assert not index.exists()
    assert len(store.list()) == 1
    assert looked(store) == []


def test_an_index_with_a_damaged_page(store, session):
    index = store.path / "index.db"
    store.list()
    with sqlite3.connect(index) as database:
        database.execute("CREATE TABLE more (a)")
        database.execute("CREATE INDEX of_more ON more (a)")
        database.executemany("INSERT INTO more VALUES (?)", [("x" * 200,)] * 1000)
        database.commit()
        (page,) = database.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'of_more'"
        ).fetchone()
    database.close()
    with index.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 2000)
    assert kinds(store) == ["index"]


def test_a_lock_that_is_none(store, session):
    (session.path / "lock").unlink()
    (session.path / "lock").symlink_to("elsewhere")
    assert kinds(store) == ["lock"]


def test_a_session_that_cannot_be_read(fragile, files):
    with fragile.create() as session:
        session.append(holdfast.user("a"))
    files.fail("open_read", errno.EACCES, name="journal.jsonl", times=None)
    (finding,) = looked(fragile)
    assert finding.kind == "closed"
    assert "Permission denied" in finding.detail


def test_a_session_that_goes_away_meanwhile(fragile, files):
    with fragile.create() as session:
        session.append(holdfast.user("a"))

    def deleted():
        fragile.delete(session.id)
        raise FileNotFoundError(errno.ENOENT, "gone")

    files.on("open_read", deleted, name="journal.jsonl")
    assert looked(fragile) == []


def test_a_file_that_goes_away_meanwhile(store, session):
    around = HomeScan(store._backend.home, Fixer(Files(), wanted=False))
    gone = session.path / ".journal.jsonl.abcdefgh"
    gone.touch()
    (entry,) = [each for each in os.scandir(session.path) if each.name == gone.name]
    gone.unlink()
    assert not around.is_old(entry)


def test_more_problems_than_anybody_reads(store, session, monkeypatch):
    monkeypatch.setattr("holdfast.store.doctor.verify.MOST_PROBLEMS", 2)
    for word in (b"one", b"two", b"three"):
        damage_line(session, word)
    report = store.verify(session.id)
    assert (len(report.problems), report.more) == (2, 2)
    assert kinds(store) == ["damage", "damage", "more"]


def test_every_kind_has_its_advice():
    for advice in ADVICE.values():
        assert advice.safe
        assert not advice.safe.endswith(".")
