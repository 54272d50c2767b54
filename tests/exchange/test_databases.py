"""Foreign databases: read with what their logs hold, and left exactly as they are."""

from __future__ import annotations

import os
import shutil
import sqlite3

import pytest

from holdfast.errors import ImportRejected
from holdfast.exchange.importers import importer
from holdfast.exchange.importing.importer import ImportRun
from holdfast.exchange.importing.source_files import SourceReader
from tests.exchange.sources import copied, take_all


@pytest.fixture
def logged(tmp_path):
    """A database whose last row is in its log alone, as a process leaves it that was killed."""
    first = tmp_path / "first"
    first.mkdir()
    database = sqlite3.connect(first / "a.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE t (n INTEGER, text TEXT)")
    database.execute("INSERT INTO t VALUES (1, 'one')")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.execute("INSERT INTO t VALUES (2, 'two')")
    second = tmp_path / "second"
    second.mkdir()
    for name in ("a.db", "a.db-wal"):
        shutil.copy(first / name, second / name)
    database.close()
    return second / "a.db"


def contents(folder):
    return {each.name: (each.read_bytes(), os.stat(each).st_mtime_ns) for each in folder.iterdir()}


def test_what_is_in_the_log_is_read_and_nothing_is_touched(store, logged):
    before = contents(logged.parent)
    with ImportRun(store) as importing:
        reading = importing.reading()
        assert [row["n"] for row in reading.rows(logged, "SELECT n FROM t ORDER BY n")] == [1, 2]
        assert reading.tables(logged) == {"t"}
        assert len(list((store.path / "sessions").iterdir())) == 1
    assert list((store.path / "sessions").iterdir()) == []
    assert contents(logged.parent) == before


def test_without_a_place_for_a_copy_the_log_is_left_out(logged):
    before = contents(logged.parent)
    assert [row["n"] for row in SourceReader().rows(logged, "SELECT n FROM t")] == [1]
    assert contents(logged.parent) == before


def test_a_database_that_changes_is_opened_anew(store, tmp_path):
    path = tmp_path / "b.db"
    with ImportRun(store) as importing:
        for number in range(3):
            with sqlite3.connect(path) as database:
                database.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER)")
                database.execute("INSERT INTO t VALUES (?)", (number,))
            database.close()
            rows = list(importing.reading().rows(path, "SELECT n FROM t"))
            assert len(rows) == number + 1


def test_what_is_no_database(tmp_path):
    path = tmp_path / "c.db"
    path.write_bytes(b"not a database at all" * 100)
    assert SourceReader().tables(path) == set()
    with pytest.raises(ImportRejected, match="cannot be read"):
        list(SourceReader().rows(path, "SELECT 1 FROM sqlite_master"))
    link = tmp_path / "d.db"
    link.symlink_to(path)
    with pytest.raises(ImportRejected, match="not a regular file"):
        SourceReader().database(link)
    assert SourceReader().tables(link) == set()


def test_a_view_is_no_table(tmp_path):
    path = tmp_path / "e.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE VIEW t AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) "
            "SELECT x FROM n"
        )
    database.close()
    assert SourceReader().tables(path) == set()


def test_damage_in_the_middle_ends_the_rows_and_is_told(tmp_path):
    path = tmp_path / "f.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")
        database.executemany("INSERT INTO t (text) VALUES (?)", [("x" * 500,)] * 2000)
    database.close()
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096 * 4] = b"\xff" * 4096 * 4
    path.write_bytes(data)
    reading = SourceReader()
    found = list(reading.rows(path, "SELECT n FROM t"))
    assert 0 < len(found) < 2000
    assert "cannot be read from here on" in reading.problems[0].reason


def test_text_that_is_no_text(tmp_path):
    path = tmp_path / "g.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (a TEXT)")
        database.execute("INSERT INTO t VALUES (CAST(x'ff6100' AS TEXT))")
    database.close()
    (row,) = SourceReader().rows(path, "SELECT a FROM t")
    assert row["a"].startswith("\ufffda")


def damaged(case, tmp_path, table, columns):
    """Return a golden database with many more messages, and a page of them overwritten."""
    source = copied(case, tmp_path)
    (path,) = source.rglob("*.db")
    database = sqlite3.connect(path)
    found = database.execute(f"SELECT {columns} FROM {table}").fetchall()
    for number in range(400):
        values = (f"zz{number:04}", *found[-1][1:])
        marks = ", ".join("?" * len(values))
        database.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values)
    database.commit()
    size = database.execute("PRAGMA page_size").fetchone()[0]
    database.close()
    data = bytearray(path.read_bytes())
    for page in range(len(data) // size - 1, 0, -1):
        if data[page * size] == 13 and b"zz03" in data[page * size : (page + 1) * size]:
            data[page * size : page * size + 100] = b"\xff" * 100
            break
    path.write_bytes(data)
    return source


@pytest.mark.parametrize(
    ("case", "table", "columns"),
    [
        (
            "goose/database",
            "messages",
            "message_id, session_id, role, content_json, created_timestamp",
        ),
        ("opencode/database", "message", "id, session_id, time_created, time_updated, data"),
    ],
)
def test_a_damaged_database_is_read_as_far_as_it_goes(store, tmp_path, case, table, columns):
    source = damaged(case, tmp_path, table, columns)
    done = take_all(store, case.partition("/")[0], source)
    assert any(each.counts.messages for each in done)
    reasons = [each.reason for one in done for each in one.problems]
    assert any("cannot be read" in reason for reason in reasons)


@pytest.mark.parametrize(("name", "file"), [("opencode", "opencode.db"), ("goose", "sessions.db")])
def test_what_is_no_database_is_reported(tmp_path, name, file):
    (tmp_path / file).write_bytes(b"SQLite format 3\0garbage" * 1000)
    one, reading = importer(name), SourceReader()
    assert one.sniff(tmp_path, SourceReader()), "it has the name"
    assert list(one.sessions(tmp_path, reading)) == []
    assert [each.path for each in reading.problems] == [str(tmp_path / file)]


def test_a_database_in_which_nothing_was_written_is_no_damage(tmp_path):
    (tmp_path / "opencode.db").write_bytes(b"")
    reading = SourceReader()
    assert list(importer("opencode").sessions(tmp_path, reading)) == []
    assert reading.problems == []


def test_a_column_whose_name_is_no_text_is_damage(tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (name TEXT)")
        database.execute("INSERT INTO t VALUES ('x')")
    database.close()
    path.write_bytes(path.read_bytes().replace(b"(name TEXT", b"(n\xc3me TEXT"))
    with pytest.raises(ImportRejected, match="not text"):
        list(SourceReader().rows(path, "SELECT * FROM t", otherwise="SELECT * FROM t NOT INDEXED"))
