"""A home in which other things stand than should: all of it is told, and nothing ends the look."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

import holdfast
from holdfast.store.doctor.findings import ADVICE
from tests.disk import snapshot
from tests.store.doctor.test_checkup import journal, kinds, looked


@pytest.fixture
def session(store):
    with store.create() as session:
        session.append(holdfast.user("one"))
    return session


def refuse(files, monkeypatch, *names):
    """Have folders of these names be closed to us."""
    folders = type(files).folders

    def refused(folder):
        if Path(folder).name in names:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        return folders(files, folder)

    monkeypatch.setattr(files, "folders", refused)


def test_a_file_in_the_place_of_the_home(tmp_path):
    home = tmp_path / "home"
    home.write_text("precious")
    home.chmod(0o644)
    for path in (home, home / "below"):
        with pytest.raises(holdfast.UsageError, match=r"is not a folder\. Set HOLDFAST_HOME"):
            looked(holdfast.open_store(path), fix=True)
    assert home.stat().st_mode & 0o777 == 0o644


def test_a_home_that_is_closed(fragile, files, monkeypatch):
    def refused(folder):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))

    monkeypatch.setattr(files, "names", refused)
    (finding,) = looked(fragile, fix=True)
    assert (finding.kind, finding.where, finding.damage) == ("closed", str(fragile.path), True)


def test_a_link_to_the_home_has_no_rights_of_its_own(store, session, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(store.path)
    assert looked(holdfast.open_store(link)) == []
    store.path.chmod(0o755)
    (finding,) = looked(holdfast.open_store(link), fix=True)
    assert (finding.kind, finding.fixed) == ("permissions", True)
    assert store.path.stat().st_mode & 0o777 == 0o700


def test_folders_that_are_closed_are_told_and_the_rest_is_looked_at(fragile, files, monkeypatch):
    with fragile.create(session_id="20260101-000000-abcdefgh") as session:
        session.append(holdfast.user("one"))
    with fragile.create(session_id="20260201-000000-abcdefgh") as other:
        other.append(holdfast.user("one"))
    journal(other).write_bytes(b"?\n")
    (fragile.path / "trash").mkdir(mode=0o700)
    (fragile.path / "sessions" / ".batch").mkdir(mode=0o700)
    refuse(files, monkeypatch, "2026-01", "trash", ".batch")
    for fix in (False, True):
        checkup = fragile.checkup(fix=fix)
        found = list(checkup)
        assert [(each.kind, Path(each.where).name) for each in found] == [
            ("unreadable", "journal.jsonl"),
            ("closed", "2026-01"),
            ("closed", "trash"),
            ("closed", ".batch"),
        ]
        assert all(each.damage for each in found)
        assert checkup.sessions == 1
        assert "Permission denied" in found[1].detail


def test_files_in_the_place_of_folders(store):
    store.path.mkdir(mode=0o700)
    for name in ("sessions", "trash"):
        (store.path / name).touch(mode=0o600)
    assert [(each.kind, each.detail) for each in looked(store)] == [
        ("misplaced", "not a folder")
    ] * 2


def test_a_folder_of_sessions_that_is_a_link(store, session):
    moved = store.path.parent / "elsewhere"
    (store.path / "sessions").rename(moved)
    (store.path / "sessions").symlink_to(moved)
    assert looked(store) == []


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
@pytest.mark.parametrize("name", ["journal.jsonl", "live.jsonl"])
def test_what_is_no_file_in_the_place_of_one(store, session, what, name):
    path = session.path / name
    path.unlink(missing_ok=True)
    if what == "link":
        path.symlink_to(session.path / "lock")
    elif what == "pipe":
        os.mkfifo(path, 0o600)
    else:
        path.mkdir(mode=0o700)
    before = snapshot(session.path) if what != "pipe" else None
    for fix in (False, True):
        (finding,) = looked(store, fix=fix)
        assert (finding.kind, finding.where) == ("misplaced", str(path))
        assert finding.damage
        assert "rights" not in finding.safe
        assert not finding.fixed
    assert before is None or snapshot(session.path) == before


@pytest.mark.parametrize("what", ["pipe", "folder"])
def test_a_lock_that_is_no_file(store, session, what):
    lock = session.path / "lock"
    lock.unlink()
    if what == "pipe":
        os.mkfifo(lock, 0o600)
    else:
        lock.mkdir(mode=0o755)
    found = looked(store, fix=True)
    assert [each.kind for each in found] == ["lock", "permissions"][: len(found)]
    assert kinds(store) == ["lock"]
    if what == "folder":
        lock.rmdir()
        assert looked(store) == []  # without one nothing is wrong
        with store.open(session.id) as opened:
            opened.append(holdfast.user("two"))


def test_strangers_among_the_sessions(store, session):
    group = session.path.parent
    (group / "notes").mkdir(mode=0o700)
    (group / "notes.txt").touch(mode=0o600)
    (group / "a link").symlink_to(session.path)
    (group / ".DS_Store").touch(mode=0o600)
    (store.path / "sessions" / "notes.txt").touch(mode=0o600)
    (store.path / "sessions" / "link").symlink_to(group)
    before = snapshot(store.path)
    found = looked(store, fix=True)
    assert {each.kind for each in found} == {"unknown"}
    assert sorted(Path(each.where).name for each in found) == [
        "a link",
        "link",
        "notes",
        "notes.txt",
        "notes.txt",
    ]
    assert not any(each.damage or each.fix for each in found)
    assert snapshot(store.path) == before


def test_a_session_in_another_months_folder(store, session):
    (store.path / "sessions" / "2001-01").mkdir(mode=0o700)
    astray = store.path / "sessions" / "2001-01" / session.id
    place = session.path
    place.rename(astray)
    (finding,) = looked(store)
    assert (finding.kind, finding.where, finding.damage) == ("astray", str(astray), True)
    assert finding.detail == f"in the wrong folder; it belongs in {place.parent}"
    astray.rename(place)
    assert looked(store) == []


def test_rights_of_others_to_caches_and_to_folders_of_sessions(store, session):
    store.list()
    store.search("one")
    paths = [store.path / "index.db", store.path / "search.db", session.path.parent]
    for path in paths:
        path.chmod(0o755 if path.is_dir() else 0o644)
    found = looked(store)
    assert sorted(each.where for each in found) == sorted(map(str, paths))
    assert {(each.kind, each.damage) for each in found} == {("permissions", False)}
    assert all(each.fixed for each in looked(store, fix=True))
    assert looked(store) == []
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o600, 0o600, 0o700]


def test_the_trash_is_not_told_to_be_moved_to_the_trash(store, session):
    journal(session).unlink()
    (living,) = looked(store)
    assert living.safe == ADVICE["unreadable"].safe
    (store.path / "trash").mkdir(mode=0o700)
    session.path.rename(store.path / "trash" / f"{session.id}.{'0' * 32}")
    (deleted,) = looked(store, fix=True)
    assert (deleted.kind, deleted.damage) == ("unreadable", True)
    assert "holdfast rm" not in deleted.safe


def test_what_is_left_of_a_session_that_was_erased(store, session, monkeypatch):
    store.delete(session.id)
    (gone,) = store.deleted()

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.files.Files.remove_tree", killed)
        with pytest.raises(KeyboardInterrupt):
            store.erase(gone)
    (finding,) = looked(store)
    assert (finding.kind, finding.damage) == ("leftover", False)
    assert all(each.fixed for each in looked(store, fix=True))
    assert looked(store) == []
    assert list((store.path / "trash").iterdir()) == []


# Caches


def altered(path, statement):
    with sqlite3.connect(path) as database:
        database.execute(statement)
    database.close()


@pytest.mark.parametrize("table", ["documents", "texts_docsize"])
def test_an_index_that_lacks_messages(store, session, table):
    with store.create() as other:
        other.append([holdfast.user("two"), holdfast.user("three")])
    assert len(store.search("two")) == 1
    assert looked(store) == []
    path = store.path / "search.db"
    altered(path, f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})")
    for fix in (False, True):
        (finding,) = looked(store, fix=fix)
        assert (finding.kind, finding.detail) == ("index", "messages are missing of 1 session")
        assert not finding.damage
    assert not path.exists()
    assert len(store.search("three")) == 1
    assert looked(store) == []


def test_an_index_of_another_version_is_not_judged(store, session):
    store.search("one")
    altered(store.path / "search.db", "PRAGMA user_version = 999")
    altered(store.path / "search.db", "DELETE FROM documents")
    assert looked(store) == []


def test_looking_leaves_nothing_beside_an_index(store, session):
    store.list()
    store.search("one")
    before = sorted(path.name for path in store.path.iterdir())
    assert before == ["index.db", "origin.key", "search.db", "sessions"]
    assert looked(store) == []
    assert sorted(path.name for path in store.path.iterdir()) == before


def test_what_others_have_written_and_not_moved_yet_is_read(store, session):
    """What stands in the write-ahead log belongs to the index, with damage and without."""
    store.search("one")
    path = store.path / "search.db"
    writer = sqlite3.connect(path)
    try:
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("DELETE FROM documents")
        writer.commit()
        assert (store.path / "search.db-wal").stat().st_size
        (finding,) = looked(store)
        assert finding.detail == "messages are missing of 1 session"
    finally:
        writer.close()


def test_an_index_that_somebody_begins_to_write_meanwhile(store, session, monkeypatch):
    store.list()
    path = store.path / "index.db"
    path.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    assert kinds(store) == ["index"]
    connect = sqlite3.connect

    def touched(*args, **options):
        os.utime(path, (1, 1))
        return connect(*args, **options)

    monkeypatch.setattr("holdfast.store.doctor.cache_check.sqlite3.connect", touched)
    assert looked(store) == []


@pytest.mark.parametrize("what", ["pipe", "folder"])
def test_an_index_that_is_no_file(store, session, what):
    path = store.path / "search.db"
    os.mkfifo(path, 0o600) if what == "pipe" else path.mkdir(mode=0o700)
    (finding,) = looked(store, fix=True)
    assert (finding.kind, finding.detail) == ("index", "not a regular file")
    assert finding.fixed == (what == "pipe")
    assert (finding.failed is None) == (what == "pipe")
    if what == "folder":
        shutil.rmtree(path)
    assert looked(store) == []
