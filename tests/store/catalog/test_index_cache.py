"""The cache behind the list: the files decide, whatever the cache says or does."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast.files import Files
from holdfast.store.catalog.index import _VERSION
from tests.processes import running

AGE_SECONDS = 60


class FakeCountingFiles(Files):
    """Counts how often a journal is opened for reading."""

    def __init__(self) -> None:
        self.journals_read = 0

    def open_read(self, path: Path | str) -> int:
        self.journals_read += Path(path).name == "journal.jsonl"
        return super().open_read(path)


def put(store: holdfast.Store, text: str = "hello") -> Path:
    with store.create() as session:
        session.append(holdfast.user(text))
    return session.path


def settle(folder: Path) -> None:
    """Make a journal look as if it was last written a while ago."""
    journal = folder / "journal.jsonl"
    at_ns = journal.stat().st_mtime_ns - AGE_SECONDS * 10**9
    os.utime(journal, ns=(at_ns, at_ns))


@pytest.fixture
def counting():
    return FakeCountingFiles()


@pytest.fixture
def counted(home, counting):
    """Three settled sessions, listed once."""
    store = holdfast.open_store(home, files=counting)
    for _ in range(3):
        settle(put(store))
    store.list()
    counting.journals_read = 0
    return store


def rows(home: Path) -> int:
    with closing(sqlite3.connect(home / "index.db")) as connection:
        return int(connection.execute("SELECT count(*) FROM sessions").fetchone()[0])


def test_what_has_not_changed_is_not_read_again(counted, counting):
    assert len(counted.list()) == 3
    assert counting.journals_read == 0
    folder = put(counted, "new")
    settle(folder)
    counting.journals_read = 0
    assert len(counted.list()) == 4
    assert counting.journals_read == 1
    assert len(counted.list()) == 4
    assert counting.journals_read == 1


def test_a_journal_that_was_just_written_is_read_again(counted, counting):
    put(counted, "just now")
    counting.journals_read = 0
    for again in (1, 2, 3):
        counted.list()
        assert counting.journals_read == again


def test_a_journal_whose_clock_is_ahead_is_read_again(counted, counting, home):
    (folder, *_) = sorted((home / "sessions").glob("*/*"))
    ahead = time.time_ns() + 3600 * 10**9
    os.utime(folder / "journal.jsonl", ns=(ahead, ahead))
    for again in (1, 2):
        counted.list()
        assert counting.journals_read == again


def test_other_content_of_the_same_size_and_time_is_noticed(counted, home):
    (folder, *_) = sorted((home / "sessions").glob("*/*"))
    journal = folder / "journal.jsonl"
    before = journal.stat()
    data = journal.read_bytes()
    with journal.open("r+b") as file:  # in place: the inode stays
        file.write(data.replace(b"hello", b"HELLO"))
    os.utime(journal, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = journal.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
    )
    assert [s.title for s in counted.list() if s.id == folder.name] == ["HELLO"]


def test_another_file_of_the_same_size_and_time_is_noticed(counted, home):
    (folder, *_) = sorted((home / "sessions").glob("*/*"))
    journal = folder / "journal.jsonl"
    before = journal.stat()
    copy = folder / "copy"
    copy.write_bytes(journal.read_bytes().replace(b"hello", b"HELLO"))
    copy.rename(journal)
    os.utime(journal, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [s.title for s in counted.list() if s.id == folder.name] == ["HELLO"]


def test_a_deleted_index_is_made_anew_and_says_the_same(counted, home, counting):
    put(counted, "another")
    live = counted.list()
    (home / "index.db").unlink()
    assert counted.list() == live
    assert rows(home) == 4


BROKEN = {
    "garbage": lambda path: path.write_bytes(os.urandom(5000)),
    "truncated": lambda path: os.truncate(path, 5000),
    "text": lambda path: path.write_text("this is not a database, sorry\n" * 100),
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN)
def test_a_corrupt_index_is_made_anew(counted, home, damage):
    live = counted.list()
    damage(home / "index.db")
    assert counted.list() == live
    assert counted.list() == live
    assert rows(home) == 3


def change(home: Path, *statements: str) -> None:
    with closing(sqlite3.connect(home / "index.db")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


STRANGE = {
    "another version": ["PRAGMA user_version = 99"],
    "an older version": ["DROP TABLE sessions", "PRAGMA user_version = 0"],
    "no table": ["DROP TABLE sessions"],
    "another table": ["DROP TABLE sessions", "CREATE TABLE sessions (id TEXT)"],
    "rows that are not UTF-8": ["UPDATE sessions SET summary = x'81a26964a2ffff'"],
    "rows that are not summaries": ["UPDATE sessions SET summary = x'00'"],
    "rows of another shape": ["UPDATE sessions SET summary = CAST('{\"id\": 7}' AS BLOB)"],
    "rows that are not JSON": ["UPDATE sessions SET summary = CAST('{' AS BLOB)"],
}


@pytest.mark.parametrize("statements", STRANGE.values(), ids=STRANGE)
def test_an_index_of_another_shape_is_made_anew(counted, home, statements):
    live = counted.list()
    change(home, *statements)
    assert counted.list() == live
    assert counted.list() == live
    assert rows(home) == 3
    with closing(sqlite3.connect(home / "index.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (_VERSION,)


def test_rows_that_lie_are_put_right(counted, home):
    live = counted.list()
    change(
        home,
        "CREATE TEMP TABLE other AS SELECT * FROM sessions LIMIT 1",
        "UPDATE other SET id = '20200101-000000-aaaaaaaa'",
        "INSERT INTO sessions SELECT * FROM other",
        "UPDATE sessions SET fingerprint = x'00', updated = '', summary = x'00'",
    )
    assert counted.list() == live
    assert rows(home) == 3


def test_a_session_that_is_only_in_the_index_is_not_listed(counted, home):
    (folder, *_) = sorted((home / "sessions").glob("*/*"))
    shutil.rmtree(folder)
    assert folder.name not in {summary.id for summary in counted.list()}
    assert rows(home) == 2


def test_an_index_that_another_process_keeps_locked_is_done_without(counted, home, monkeypatch):
    monkeypatch.setattr("holdfast.store.catalog.index._BUSY_SECONDS", 0.01)
    live = counted.list()
    source = """
import sqlite3
connection = sqlite3.connect(sys.argv[1] + "/index.db", isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
ready()
"""
    with running(source, home):
        put(counted, "while it is locked")
        assert len(counted.list()) == 4
    assert [summary.id for summary in counted.list()][1:] == [summary.id for summary in live]
    assert rows(home) == 4


@pytest.mark.parametrize("kind", ["folder", "link", "dangling link"])
def test_something_else_in_the_place_of_the_index_is_left_alone(store, home, tmp_path, kind):
    put(store)
    (tmp_path / "theirs").write_bytes(b"")
    if kind == "folder":
        (home / "index.db").mkdir()
    else:
        target = tmp_path / ("theirs" if kind == "link" else "nowhere")
        (home / "index.db").symlink_to(target)
    assert len(store.list()) == 1
    assert (tmp_path / "theirs").read_bytes() == b""
    assert not (tmp_path / "nowhere").exists()
    assert (home / "index.db").is_dir() or (home / "index.db").is_symlink()


def test_an_index_that_cannot_be_made_is_done_without(fragile, files, home):
    put(fragile)
    for error in (errno.EACCES, errno.EROFS, errno.ENOSPC):
        files.fail("open_append", error, name="index.db")
        assert len(fragile.list()) == 1
        assert not (home / "index.db").exists()


def test_a_corrupt_index_that_cannot_be_removed_is_done_without(fragile, files, home):
    put(fragile)
    (home / "index.db").write_bytes(b"x" * 5000)
    files.fail("unlink", errno.EACCES, name="index.db", times=None)
    assert len(fragile.list()) == 1
    assert (home / "index.db").read_bytes() == b"x" * 5000


def test_progress_is_told_of_what_has_to_be_read(counted, home, counting):
    told = []
    counted.list(progress=lambda done, total: told.append((done, total)))
    assert told == []
    (home / "index.db").unlink()
    counted.list(progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_long_rebuild_is_saved_as_it_goes(counted, home, monkeypatch):
    monkeypatch.setattr("holdfast.store.catalog.index._SAVE_EVERY", 2)
    live = counted.list()
    (home / "index.db").unlink()
    saved = []
    counted.list(progress=lambda done, total: saved.append(rows(home)))
    assert saved == [0, 2, 2]
    assert counted.list() == live


def test_a_session_in_several_files_is_followed_through_all_of_them(fragile, files, home):
    with fragile.create() as session:
        session.append(holdfast.user("one"))
        files.fail("sync", name="journal.jsonl")
        session.append(holdfast.user("two"))
        assert (session.path / "journal.2.jsonl").exists()
        settle(session.path)
        (summary,) = fragile.list()
        assert summary.messages == 2
        at = session.path / "journal.jsonl"
        before = at.stat()
        session.append(holdfast.user("three"))
        assert at.stat() == before  # only the second file changed
        (summary,) = fragile.list()
        assert summary.messages == 3
        assert summary.size_bytes > (session.path / "journal.2.jsonl").stat().st_size


def test_what_is_not_named_like_a_session_is_not_listed(store, home):
    folder = put(store)
    (home / "sessions" / ".new-1234").mkdir()
    (home / "sessions" / "2026-01").mkdir()
    (home / "sessions" / "2026-01" / "notes").mkdir()
    (home / "sessions" / "readme.txt").write_text("hello")
    (folder.parent / "copy of it").mkdir()
    assert [summary.id for summary in store.list()] == [folder.name]


def test_looking_at_a_home_that_is_not_there_makes_nothing(store, home):
    assert store.list() == []
    assert not home.exists()
