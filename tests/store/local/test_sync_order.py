"""Write, then sync, then rename: no name is given to bytes that a power cut could take.

A test that lets a sync fail would also pass if the sync came before the bytes. Here the file system
keeps account of what was written since, so that the order itself is held.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import holdfast
from holdfast.files import Files
from holdfast.runtime.tools.shell import wrapper
from holdfast.store.local.bulk_publish import THEN_NAME
from holdfast.store.local.lock import durable_size
from tests.store.local.test_receiving import EVENT, HEADER
from tests.store.local.test_receiving import ID as RECEIVED
from tests.store.local.test_staging import ID, STARTED, fill

MONTH = "2026-05"


@pytest.fixture
def made(fragile):
    """A session with a blob, closed."""
    with fragile.create() as session:
        session.append(holdfast.user("x" * 300_000))
        session.append(holdfast.user("more"))
    return session.id


def stage(store):
    with store.stage(ID, started=STARTED) as staging:
        fill(staging)
        staging.publish()


def receive(store):
    with store.receive(RECEIVED) as receiving:
        receiving.add("blobs/" + "a" * 64, [b"one", b"two"])
        receiving.add("journal.jsonl", [HEADER % (RECEIVED.encode(), b""), EVENT])
        receiving.publish()


def batch(store):
    with store.batch() as batch:
        stage(batch)
        batch.publish(b"{}")


def keep(store, made):
    store.compress(made)


def unpack(store, made):
    store.compress(made)
    store.decompress(made)


def opened_again(store, made):
    store.compress(made)
    with store.open(made) as session:
        session.append(holdfast.user("again"))


def trash(store, made):
    store.delete(made)


def restore(store, made):
    store.delete(made)
    store.restore(made)


def fork(store, made):
    with store.open(made) as session:
        session.fork().close()


def compact(store, made):
    with store.open(made) as session:
        session.compact()


FOREIGN = (stage, receive, batch)
OWN = (keep, unpack, opened_again, trash, restore, fork, compact)


def check_order(files):
    assert files.renamed
    assert [each for each in files.renamed if each[1]] == []
    # The lock only informs, and folders that are left behind may come back empty.
    kept = {name for name in files.unsynced.values() if name not in ("lock", ".batch", "sessions")}
    assert {name for name in kept if not name.startswith(".")} == set()


@pytest.mark.parametrize("work", FOREIGN)
def test_what_comes_from_elsewhere_is_synced_before_it_has_its_place(fragile, files, work):
    work(fragile)
    check_order(files)


@pytest.mark.parametrize("work", OWN)
def test_what_is_moved_or_rewritten_is_synced_before_it_has_its_name(fragile, files, made, work):
    files.renamed.clear()
    work(fragile, made)
    files_named = [name for name, _ in files.renamed]
    assert files_named or work is fork
    check_order(files)


def test_the_note_of_a_batch_comes_after_all_places_are_durable(fragile, files):
    at_note: list[str] = []
    places = ("sessions", MONTH)
    files.on(
        "write",
        lambda: at_note.extend(name for name in files.unsynced.values() if name in places),
        name=f".{THEN_NAME}",
    )
    with fragile.batch() as batch:
        stage(batch)
        # Somebody made the folder of the month meanwhile, and died before its name was durable.
        files.make_folder(fragile.path / "sessions" / MONTH)
        batch.publish(b"{}")
    assert files.count("write", f".{THEN_NAME}")
    assert at_note == []


def test_opening_notes_as_durable_only_what_it_has_synced(fragile, files):
    with fragile.create() as session:
        session.append(holdfast.user("one"))
    journal = session.path / "journal.jsonl"
    size, inode = journal.stat().st_size, journal.stat().st_ino
    # As if its writer had died between the write and the sync.
    with (session.path / "lock").open("r+b") as lock:
        lock.write(b" " * 95)
    noted = []
    files.on(
        "sync",
        lambda: noted.append(durable_size(Files(), session.path, inode)),
        name="journal.jsonl",
    )
    with fragile.open(session.id):
        assert durable_size(files, session.path, inode) == size
    assert noted == [0]


def test_the_file_that_says_who_runs_is_whole_when_it_is_synced(tmp_path, monkeypatch):
    content = b'[{"pid":1,"start":"x"}]\n'
    synced = []
    sync = os.fsync

    def look_and_sync(descriptor):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced.append((path.name, path.read_bytes() if path.is_file() else None))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", look_and_sync)
    wrapper.claim(str(tmp_path), content)
    assert synced == [(f".pid.{os.getpid()}", content), (tmp_path.name, None)]
    assert (tmp_path / "pid").read_bytes() == content
