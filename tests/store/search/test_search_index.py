"""The cache behind search: the files decide, whatever the cache says or does."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.files import Files
from holdfast.store.search import text_index as textindex
from holdfast.store.search.text_index import VERSION, TextIndex
from tests.processes import running


class FakeCountingFiles(Files):
    """Counts the bytes that are read of journals."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.journals: list[str] = []

    def open_read(self, path: Path | str) -> int:
        if Path(path).name == "journal.jsonl":
            self.journals.append(Path(path).parent.name)
        return super().open_read(path)

    def read_at(self, descriptor: int, size: int, offset: int) -> bytes:
        data = super().read_at(descriptor, size, offset)
        self.read_bytes += len(data)
        return data


@pytest.fixture
def counting():
    return FakeCountingFiles()


@pytest.fixture
def counted(home, counting):
    """Three settled sessions, searched once."""
    store = holdfast.open_store(home, files=counting)
    for number in range(3):
        session_id = f"2026010{number + 1}-000000-aaaaaaaa"
        settle(put(store, f"needle {number}", "more", session_id=session_id))
    assert len(store.search("needle")) == 3
    counting.journals.clear()
    counting.read_bytes = 0
    return store


def put(store: holdfast.Store, *texts: str, session_id: str | None = None) -> Path:
    with store.create(session_id=session_id) as session:
        for text in texts:
            session.append(holdfast.user(text))
    return session.path


def settle(folder: Path) -> None:
    """Make a journal look as if it was last written a while ago."""
    journal = folder / "journal.jsonl"
    at_ns = journal.stat().st_mtime_ns - 60 * 10**9
    os.utime(journal, ns=(at_ns, at_ns))


def folders(home: Path) -> list[Path]:
    return sorted((home / "sessions").glob("*/*"))


def snippets(store: holdfast.Store, text: str = "needle", **options) -> list[str]:
    return sorted(hit.snippet for hit in store.search(text, **options))


def change(home: Path, *statements: str) -> None:
    with closing(sqlite3.connect(home / "search.db")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def asked(home: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(home / "search.db")) as connection:
        return connection.execute(query).fetchall()


def test_what_has_not_changed_is_not_read_again(counted, counting):
    assert counted.search("nothing", substring=False) == []
    assert counting.journals == []
    assert len(counted.search("needle")) == 3
    assert len(counting.journals) == 3  # the lines that were found
    assert counting.read_bytes < 3 * 400


def test_of_a_journal_that_grew_only_what_is_new_is_read(home, counting):
    store = holdfast.open_store(home, files=counting)
    folder = put(store, *(f"line {number} " + "filler " * 300 for number in range(600)))
    settle(folder)
    assert store.search("nothing", substring=False) == []
    whole = (folder / "journal.jsonl").stat().st_size
    (before,) = asked(home, "SELECT number FROM sessions")
    with store.open(folder.name) as session:
        session.append(holdfast.user("needle"))
    counting.read_bytes = 0
    assert snippets(store) == ["needle"]
    assert counting.read_bytes < whole / 2  # the end, for the state
    assert asked(home, "SELECT number FROM sessions") == [before]
    assert len(store.search("line", limit=1000)) == 600


def test_a_journal_whose_times_alone_have_changed_is_not_indexed_again(counted, home):
    before = asked(home, "SELECT number, fingerprint FROM sessions ORDER BY number")
    for folder in folders(home):
        settle(folder)
    assert len(snippets(counted)) == 3
    after = asked(home, "SELECT number, fingerprint FROM sessions ORDER BY number")
    assert [number for number, _ in before] == [number for number, _ in after]
    assert before != after


def test_other_content_of_the_same_size_is_noticed(counted, home):
    journal = folders(home)[0] / "journal.jsonl"
    before = journal.stat()
    data = journal.read_bytes()
    with journal.open("r+b") as file:  # in place: the inode stays, and so does the last line
        file.write(data.replace(b"needle", b"NODDLE"))
    os.utime(journal, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(snippets(counted)) == 2
    assert len(snippets(counted, "noddle")) == 1


def test_another_file_and_a_shorter_one_are_noticed(counted, home):
    first, second, _ = folders(home)
    copy = first / "copy"
    copy.write_bytes((first / "journal.jsonl").read_bytes().replace(b"needle", b"NODDLE"))
    copy.rename(first / "journal.jsonl")
    lines = (second / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (second / "journal.jsonl").write_bytes(b"".join(lines[:1]))
    assert len(snippets(counted)) == 1
    assert len(snippets(counted, "noddle")) == 1
    assert len(snippets(counted, "more")) == 2


def test_a_copy_in_the_place_of_a_journal_is_not_indexed_again(counted, home):
    before = asked(home, "SELECT number, inode FROM sessions ORDER BY number")
    for folder in folders(home):
        shutil.copy(folder / "journal.jsonl", folder / "copy")
        (folder / "copy").rename(folder / "journal.jsonl")
        with counted.open(folder.name) as session:
            session.append(holdfast.user("needle, grown"))
    assert len(snippets(counted)) == 6
    after = asked(home, "SELECT number, inode FROM sessions ORDER BY number")
    assert [number for number, _ in before] == [number for number, _ in after]
    assert before != after


def test_a_compressed_journal_is_not_indexed_again(counted, home):
    before = asked(home, "SELECT id, number FROM sessions ORDER BY id")
    for folder in folders(home):
        counted.compress(folder.name)
    assert snippets(counted) == ["needle 0", "needle 1", "needle 2"]
    assert snippets(counted, "eedl", substring=True) == ["needle 0", "needle 1", "needle 2"]
    assert asked(home, "SELECT id, number FROM sessions ORDER BY id") == before


def test_a_rewritten_journal_is_read_anew(counted, home):
    folder = folders(home)[0]
    with counted.open(folder.name) as session:
        session.append(holdfast.user("kept needle"))
        session.checkpoint("so far", keep_last=1)
        session.compact()
    assert snippets(counted) == ["kept needle", *snippets(counted)[1:]]
    assert len(snippets(counted)) == 3


def test_deleted_and_restored(counted, home):
    name = folders(home)[0].name
    counted.delete(name)
    assert len(snippets(counted)) == 2
    assert asked(home, "SELECT documents FROM waste") == [(2,)]
    counted.restore(name)
    assert len(snippets(counted)) == 3


def test_once_most_of_it_is_waste_it_is_made_anew(counted, home, monkeypatch):
    monkeypatch.setattr("holdfast.store.search.text_index._MOST_WASTE", 1)
    first, second, _ = folders(home)
    counted.delete(first.name)
    assert len(snippets(counted)) == 2
    assert asked(home, "SELECT documents FROM waste") == [(2,)]  # four are alive
    counted.delete(second.name)
    assert len(snippets(counted)) == 1
    assert asked(home, "SELECT documents FROM waste") == [(0,)]
    assert asked(home, "SELECT count(*) FROM documents") == [(2,)]


def test_what_cannot_be_read_is_no_obstacle(counted, home, tmp_path):
    first, second, _ = folders(home)
    (first / "journal.jsonl").unlink()
    second.rename(tmp_path / "moved")
    second.symlink_to(tmp_path / "moved")
    (second.parent / "20200101-000000-aaaaaaaa").write_bytes(b"no folder")
    put(counted, "needle new").joinpath("journal.jsonl").write_bytes(b"\0" * 100)
    (second.parent / "20200101-000000-bbbbbbbb").mkdir()
    (second.parent / "20200101-000000-bbbbbbbb" / "journal.jsonl").mkdir()
    for substring in (None, True):
        assert snippets(counted, substring=substring) == ["needle 2"]
    assert len(asked(home, "SELECT id FROM sessions")) == 2


BROKEN = {
    "garbage": lambda path: path.write_bytes(os.urandom(5000)),
    "truncated": lambda path: os.truncate(path, 8192),
    "text": lambda path: path.write_text("this is not a database, sorry\n" * 100),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN)
def test_a_corrupt_index_is_made_anew(counted, home, damage):
    damage(home / "search.db")
    assert len(snippets(counted)) == 3
    assert len(snippets(counted)) == 3
    assert len(asked(home, "SELECT id FROM sessions")) == 3


STRANGE = {
    "another version": ["PRAGMA user_version = 99"],
    "no table": ["DROP TABLE documents"],
    "another table": ["DROP TABLE sessions", "CREATE TABLE sessions (id TEXT)"],
    "a view": ["DROP TABLE names", "CREATE VIEW names AS SELECT 1", "PRAGMA user_version = 0"],
    "no words": ["DROP TABLE texts"],
    "words of nobody": ["DELETE FROM texts_data"],
    "facts that are no JSON": ["UPDATE sessions SET facts = x'7b'"],
    "facts of another shape": ["UPDATE sessions SET facts = x'5b5d'"],
    "facts that are not UTF-8": ["UPDATE sessions SET facts = x'22ff22'"],
    "memory that is no JSON": ["UPDATE sessions SET memory = x'7b', fingerprint = x''"],
    "memory of another shape": ["UPDATE sessions SET memory = x'5b5d', fingerprint = x''"],
}


@pytest.mark.parametrize("statements", STRANGE.values(), ids=STRANGE)
def test_an_index_of_another_shape_is_made_anew(counted, home, statements):
    change(home, *statements)
    assert len(snippets(counted)) == 3
    assert len(snippets(counted)) == 3
    assert asked(home, "PRAGMA user_version") == [(VERSION,)]


LIES = {
    "another place": "UPDATE documents SET offset = offset + 1",
    "another number": "UPDATE documents SET seq = seq + 1",
    "another file": "UPDATE documents SET file = 1",
    "a session that is not there": "UPDATE sessions SET facts = replace(facts, id, 'x')",
}


@pytest.mark.parametrize("statement", LIES.values(), ids=LIES)
def test_what_the_index_says_is_checked_against_the_files(counted, home, statement):
    change(home, statement)
    assert snippets(counted) == (
        [] if "facts" in statement else ["needle 0", "needle 1", "needle 2"]
    )


def test_rows_that_lie_about_what_was_read_are_put_right(counted, home):
    change(home, "UPDATE sessions SET fingerprint = x'00', inode = 7, upto = 3, crc = 5")
    assert len(snippets(counted)) == 3
    change(home, "UPDATE sessions SET fingerprint = x'00', tail = x'00'")
    assert len(snippets(counted)) == 3


def test_an_index_that_another_process_keeps_busy_is_topped_up_from_the_files(
    counted, home, monkeypatch
):
    monkeypatch.setattr("holdfast.store.search.text_index._BUSY_SECONDS", 0.01)
    source = """
import sqlite3
connection = sqlite3.connect(sys.argv[1] + "/search.db", isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
ready()
"""
    with running(source, home):
        folder = put(counted, "needle new")
        with counted.open(folders(home)[0].name) as session:
            session.append(holdfast.user("needle, grown"))
        assert len(snippets(counted)) == 5
        assert len(snippets(counted, order="rank")) == 5
        assert len(counted.activity()) >= 4
    assert len(asked(home, "SELECT id FROM sessions")) == 3
    assert len(snippets(counted)) == 5
    assert len(asked(home, "SELECT id FROM sessions")) == 4
    assert folder.name in {hit.session for hit in counted.search("new")}


@pytest.mark.parametrize("kind", ["folder", "link", "dangling link"])
def test_something_else_in_the_place_of_the_index_is_left_alone(store, home, tmp_path, kind):
    put(store, "needle")
    (tmp_path / "theirs").write_bytes(b"")
    if kind == "folder":
        (home / "search.db").mkdir()
    else:
        target = tmp_path / ("theirs" if kind == "link" else "nowhere")
        (home / "search.db").symlink_to(target)
    assert snippets(store) == ["needle"]
    assert sum(each.messages for each in store.activity()) == 1
    assert (tmp_path / "theirs").read_bytes() == b""
    assert not (tmp_path / "nowhere").exists()


def test_an_index_that_cannot_be_made_is_done_without(fragile, files, home):
    put(fragile, "needle")
    for error in (errno.EACCES, errno.EROFS, errno.ENOSPC):
        files.fail("open_append", error, name="search.db")
        assert snippets(fragile) == ["needle"]
        assert not (home / "search.db").exists()


def test_a_corrupt_index_that_cannot_be_removed_is_done_without(fragile, files, home):
    put(fragile, "needle")
    (home / "search.db").write_bytes(b"x" * 5000)
    files.fail("unlink", errno.EACCES, name="search.db", times=None)
    assert snippets(fragile) == ["needle"]
    assert (home / "search.db").read_bytes() == b"x" * 5000


def test_it_is_private(store, home):
    put(store, "needle")
    seen: list[int] = []

    def look(done: int, total: int) -> None:
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in home.glob("search.db*"))

    store.search("needle", progress=look)
    assert set(seen) == {0o600}
    assert len(seen) > 1


def test_looking_at_a_home_that_is_not_there_makes_nothing(store, home):
    assert store.search("needle") == []
    assert store.activity() == []
    assert not home.exists()


def test_a_session_in_several_files(fragile, files, home):
    with fragile.create() as session:
        session.append(holdfast.user("needle one"))
        files.fail("sync", name="journal.jsonl")
        session.append(holdfast.user("needle two"))
        assert (session.path / "journal.2.jsonl").exists()
        assert len(snippets(fragile)) == 2
        for path in session.path.glob("journal*.jsonl"):
            os.utime(path, (1, 1))
        assert len(snippets(fragile)) == 2
        before = asked(home, "SELECT number, length(fingerprint) FROM sessions")
        assert before[0][1] == 2 * textindex.ONE_FILE_BYTES
        assert len(snippets(fragile)) == 2
        assert asked(home, "SELECT number, length(fingerprint) FROM sessions") == before
        session.append(holdfast.user("needle three"))  # only the second file changes
        assert len(snippets(fragile)) == 3
        assert len(snippets(fragile, "thre")) == 1
        for path in session.path.glob("journal*.jsonl"):
            os.utime(path, (1, 1))
        assert len(snippets(fragile)) == 3
    (session.path / "journal.2.jsonl").unlink()  # the first has what could not be synced
    assert len(snippets(fragile)) == 2


# Growing


def test_progress_is_told_in_bytes(counted, home):
    told: list[tuple[int, int]] = []
    counted.search("needle", progress=lambda *each: told.append(each))
    assert told == []
    (home / "search.db").unlink()
    counted.search("needle", progress=lambda *each: told.append(each))
    total = sum((folder / "journal.jsonl").stat().st_size for folder in folders(home))
    assert told[-1] == (total, total)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


@pytest.fixture
def long(store, home, monkeypatch):
    """A session of several blocks and two small ones, indexed in many steps."""
    monkeypatch.setattr("holdfast.store.search.indexer._STEP_CHARACTERS", 1000)
    settle(put(store, *(f"needle {number} " + "filler " * 400 for number in range(500))))
    settle(put(store, "needle small " + "x " * 800))
    settle(put(store, "needle smaller"))
    return store


def test_an_interrupt_loses_no_more_than_a_step(long, home):
    class Interrupted(BaseException):
        pass

    furthest = [0]

    def interrupt(done: int, total: int) -> None:
        if done > furthest[-1]:
            furthest.append(done)
            raise Interrupted

    indexed = [0]
    hits: list[holdfast.Hit] = []
    while not hits:
        try:
            hits = long.search("needle", limit=1000, progress=interrupt)
        except Interrupted:
            indexed.append(asked(home, "SELECT count(*) FROM documents")[0][0])
    assert len(indexed) > 3
    assert indexed == sorted(indexed)
    assert 0 < indexed[2] < 502
    assert len(hits) == 502
    assert asked(home, "SELECT count(*) FROM documents") == [(502,)]
    assert asked(home, "SELECT sum(documents) FROM sessions") == [(502,)]
    assert asked(home, "SELECT sum(messages) FROM activity") == [(502,)]


def test_who_is_overtaken_looks_again(counted, home, monkeypatch):
    changed = TextIndex._changed
    other = holdfast.open_store(home)
    looks = []

    def and_meanwhile(*arguments):
        found = changed(*arguments)
        looks.append(len(found[0]))
        if len(looks) == 1:
            assert len(other.search("needle")) == 4
        return found

    settle(put(counted, "needle new"))
    monkeypatch.setattr(TextIndex, "_changed", and_meanwhile)
    assert len(snippets(counted)) == 4
    assert looks == [1, 1, 0]  # ours, the other's, ours again
    assert asked(home, "SELECT documents FROM waste") == [(0,)]


def test_who_makes_it_a_moment_later_uses_what_is_there(counted, home, monkeypatch):
    version = textindex._version
    calls = []

    def not_yet(connection):
        calls.append(1)
        return 0 if len(calls) == 1 else version(connection)

    before = asked(home, "SELECT id, number FROM sessions")
    monkeypatch.setattr(textindex, "_version", not_yet)
    assert len(snippets(counted)) == 3
    assert asked(home, "SELECT id, number FROM sessions") == before


def test_when_the_disk_is_full_the_files_are_read(counted, home):
    put(counted, "needle new")
    told = []

    def full(done: int, total: int) -> None:
        told.append(done)
        if len(told) == 1:  # while the index grows; then files are read
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

    assert len(counted.search("needle", progress=full)) == 4
    assert len(asked(home, "SELECT id FROM sessions")) == 3


def test_an_index_that_turns_out_to_be_broken_while_it_grows_is_made_anew(counted, home):
    put(counted, "needle new")
    change(home, "DROP TABLE documents")
    assert len(snippets(counted)) == 4
    assert len(asked(home, "SELECT id FROM documents")) == 7


def test_a_line_that_was_read_before_does_not_count_again(counted, home):
    journal = folders(home)[0] / "journal.jsonl"
    again = journal.read_bytes().splitlines(keepends=True)[1]
    later = (
        b'{"seq":90,"at":"","type":"message","role":"user","content":[{"type":"text","text":"x"}]}'
    )
    with journal.open("ab") as file:
        file.write(again + later + b"\n")
    assert len(snippets(counted)) == 3
    assert len(snippets(counted, "x")) == 1
    assert sum(each.messages for each in counted.activity()) == 7


def test_without_an_index_the_files_have_everything(counted, home, monkeypatch):
    monkeypatch.setattr(textindex, "NAME", "no/such/place")
    first, second, _ = folders(home)
    assert snippets(counted) == ["needle 0", "needle 1", "needle 2"]
    assert len(counted.search("needle", limit=2, substring=True)) == 2
    (first / "journal.jsonl").unlink()
    (second / "journal.jsonl").unlink()
    (second / "journal.jsonl").mkdir()
    assert snippets(counted) == ["needle 2"]
    assert {each.session for each in counted.activity()} == {folders(home)[2].name}


GROWER = """
from holdfast.store.search import indexer
indexer._STEP_CHARACTERS = 1000
ready()
print(len(store.search("needle", limit=1000)), flush=True)
sys.stdin.readline()
"""


def test_several_that_grow_at_once_do_everything_once(long, home):
    with running(GROWER, home) as first, running(GROWER, home) as second:
        for process in (first, second):
            process.write("go")
        assert len(long.search("needle", limit=1000)) == 502
        for process in (first, second):
            assert process.read() == "502"
    assert asked(home, "SELECT count(*) FROM documents") == [(502,)]
    assert asked(home, "SELECT sum(messages) FROM activity") == [(502,)]
    assert asked(home, "SELECT documents FROM waste") == [(0,)]


def test_a_session_that_fails_in_the_middle_leaves_nothing(fragile, files, home):
    good = put(fragile, "needle good")
    bad = put(fragile, "needle bad", *("filler " * 400 for _ in range(300)))
    for folder in (good, bad):
        settle(folder)
    fault = files.fail("read_at", name="journal.jsonl", nth=8, times=None)
    fragile.search("needle", substring=False)
    assert fault.hits
    files.heal()
    assert len(snippets(fragile)) == 2
    assert asked(home, "SELECT count(*) FROM documents") == [(302,)]


WRITER = """
import itertools
session = store.create()
session.append(user("needle 0"))
ready()
for number in itertools.count(1):
    session.append(user(f"needle {number}"))
    if number == 300:
        break
print("done", flush=True)
sys.stdin.readline()
"""
SEARCHER = """
ready()
most = 0
while most < 301:
    found = len(store.search("needle", limit=1000))
    assert found >= most, (found, most)
    most = found
print("done", flush=True)
sys.stdin.readline()
"""


def test_writers_and_searchers_beside_each_other(store, home):
    with (
        running(WRITER, home) as writer,
        running(SEARCHER, home) as first,
        running(SEARCHER, home) as second,
    ):
        for process in (writer, first, second):
            process.write("go")
        for process in (writer, first, second):
            assert process.read() == "done"
    assert len(store.search("needle", limit=1000)) == 301
    assert asked(home, "SELECT count(*) FROM documents") == [(301,)]


THREADS = """
from concurrent.futures import ThreadPoolExecutor
ready()
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(lambda _: len(store.search("needle", limit=1000)), range(32)))
print(set(found), flush=True)
sys.stdin.readline()
"""


def test_many_threads_at_once(long, home):
    with running(THREADS, home) as process:
        assert process.tell("go") == "{502}"
    assert asked(home, "SELECT count(*) FROM documents") == [(502,)]


def test_a_searcher_that_is_killed_while_it_indexes_leaves_an_index_to_go_on_with(long, home):
    source = """
from holdfast.store.search import indexer
indexer._STEP_CHARACTERS = 1000
calls = []
def progress(done, total):
    calls.append(done)
    if len(calls) == 4:
        ready()
store.search("needle", progress=progress)
"""
    with running(source, home) as process:
        process.kill()
    done = asked(home, "SELECT count(*) FROM documents")[0][0]
    assert 0 < done < 502
    assert len(long.search("needle", limit=1000)) == 502
    assert asked(home, "SELECT count(*) FROM documents") == [(502,)]
