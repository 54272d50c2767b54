"""Nobody else may read a session; and what happens where we may not write."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast.model.ids import key_session_id
from tests.processes import run

FIRST = "20260102-030405-aaaabbbb"


@pytest.fixture
def umask_000():
    before = os.umask(0)
    yield
    os.umask(before)


def test_everything_is_private_whatever_the_umask(home, umask_000):
    store = holdfast.open_store(home)
    seen = []
    for number in range(2):
        with store.session("key") as session:
            session.append(holdfast.user("x" * 400_000))
            session.checkpoint("so far", keep_last=1)
            with session.stream() as live:
                live.write("streamed")
                seen.append((session.path / "live.jsonl").stat().st_mode)
            session.compact()
            session.fork().close()
            journal = session.path / "journal.jsonl"
        with journal.open("ab") as damaged:
            damaged.write(b'{"torn')
        store.session("key").close()
        store.list()
        if number == 0:
            store.delete(session.id)
    made = {str(path.relative_to(home)): path.lstat().st_mode for path in home.rglob("*")}
    keyed = f"sessions/keyed/{key_session_id('key')}"
    for name in ("index.db", "trash", "sessions/keyed", keyed, f"{keyed}/lock"):
        assert name in made
    for name in ("blobs", "damaged", "archive"):
        assert any(Path(path).match(f"{name}/*") for path in made)
    for name, mode in made.items():
        assert stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600), name
    assert [stat.S_IMODE(mode) for mode in seen] == [0o600, 0o600]
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_what_sqlite_keeps_beside_the_index_is_private_too(home, umask_000):
    store = holdfast.open_store(home)
    with store.create() as session:
        session.append(holdfast.user("hello"))
    store.list()
    with closing(sqlite3.connect(home / "index.db")) as connection:
        connection.execute("UPDATE sessions SET turn_open = 1")
        beside = sorted(home.glob("index.db*"))
        assert len(beside) > 1
        assert {stat.S_IMODE(path.stat().st_mode) for path in beside} == {0o600}


# A process that may not write: root is asked to become nobody first.
NOBODY = """
import stat
from holdfast.store.search import engine as finding
from holdfast.store.catalog import index
from holdfast.store import git_project
from holdfast.store.local import provenance
from holdfast.store.search import text_index as textindex
if os.geteuid() == 0:
    os.setuid(65534)

def outcome(call):
    try:
        return call()
    except holdfast.HoldfastError as error:
        return f"{type(error).__name__}: {error}"
"""


@pytest.fixture
def shared():
    """A home with a session in it, below a folder that everybody may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    store = holdfast.open_store(folder / "home")
    with store.create(session_id=FIRST) as session:
        session.append(holdfast.user("hello"))
    yield folder / "home"
    shutil.rmtree(folder)


def open_up(home: Path) -> None:
    for path in [home, *home.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def test_a_home_without_permission_gets_an_error_of_ours(shared):
    shared.chmod(0o000)
    said = run(
        NOBODY
        + f"""
print(outcome(lambda: store.create().append(user("no"))))
print(outcome(lambda: store.open("{FIRST}")))
print(outcome(lambda: store.open(store.path / "sessions")))
print(outcome(lambda: store.list()))
print(outcome(lambda: store.session("key", mode="read")))
print(outcome(lambda: store.cleanup(0)))
""",
        shared,
    ).splitlines()
    shared.chmod(0o700)
    kinds = [line.partition(":")[0] for line in said]
    assert kinds == [
        "WriteFailed",
        "StorageError",
        "StorageError",
        "StorageError",
        "StorageError",
        "StorageError",
    ]
    assert "HOLDFAST_HOME" in said[0]
    assert all("Permission denied" in line for line in said)
    assert sorted(path.name for path in shared.iterdir()) == ["origin.key", "sessions"]


def test_a_home_that_can_only_be_read_can_be_read(shared):
    with holdfast.open_store(shared) as store:
        (expected,) = store.list()
    open_up(shared)
    said = run(
        NOBODY
        + f"""
(summary,) = store.list()
print(summary.id, summary.title, summary.state)
print(store.open("{FIRST}", mode="read").messages[0].text)
print(store.search("HELL")[0].snippet)
print(outcome(lambda: store.open("{FIRST}")))
print(outcome(lambda: store.create().append(user("no"))))
print(outcome(lambda: store.delete("{FIRST}")))
""",
        shared,
    ).splitlines()
    assert said[:3] == [f"{FIRST} hello clean", "hello", "hello"]
    assert said[3].startswith("StorageError: ")
    assert "Permission denied" in said[3]
    assert said[4].startswith("WriteFailed: ")
    assert said[5].startswith("StorageError: ")
    assert holdfast.open_store(shared).list() == [expected]


def test_a_session_without_permission_is_listed_as_damaged(shared):
    folder = shared / "sessions" / "2026-01" / FIRST
    open_up(shared)
    folder.chmod(0o000)
    said = run(
        NOBODY
        + f"""
(summary,) = store.list()
print(summary.id, summary.state, summary.problem)
print(outcome(lambda: store.open("{FIRST}", mode="read")))
print(outcome(lambda: store.verify("{FIRST}")))
print(outcome(lambda: store.cleanup(0)))
""",
        shared,
    ).splitlines()
    assert said[0] == f"{FIRST} damaged cannot be read: Permission denied"
    assert said[1].startswith("StorageError: ")
    assert said[2].startswith("StorageError: ")
    assert said[3] == "0"
    folder.chmod(0o700)


def test_a_session_of_a_key_that_cannot_be_seen_is_not_taken_for_a_new_one(shared):
    with holdfast.open_store(shared).session("telegram:42") as session:
        session.append(holdfast.user("remember me"))
    (shared / "sessions" / "keyed").chmod(0o000)
    said = run(
        NOBODY
        + f"""
print(outcome(lambda: store.session("telegram:42")))
print(outcome(lambda: store.session("telegram:42", mode="read")))
print(outcome(lambda: store.open("{session.id}")))
print(outcome(lambda: store.delete("{session.id}")))
""",
        shared,
    ).splitlines()
    assert [line.partition(":")[0] for line in said] == ["StorageError"] * 4
    assert all("Permission denied" in line for line in said)
