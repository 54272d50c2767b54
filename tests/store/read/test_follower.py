"""Following a session: from any process, across its files, never ahead of what is durable."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from typing import IO

import pytest

import holdfast
from holdfast import user


def texts(entries):
    return [entry.body.text for entry in entries if isinstance(entry.body, holdfast.Message)]


def test_a_follower_sees_what_another_process_writes(store):
    child = textwrap.dedent("""
        import sys, holdfast
        store = holdfast.open_store(sys.argv[1])
        session = store.session("shared")
        print(session.path, flush=True)
        for line in sys.stdin:
            session.append([holdfast.user(line.strip()), holdfast.user("and more")])
    """)
    with subprocess.Popen(
        [sys.executable, "-c", child, store.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()

        def say(text: str, pipe: IO[str] = process.stdin) -> None:
            pipe.write(text + "\n")
            pipe.flush()

        say("one")
        reader = None
        while reader is None:
            try:
                reader = store.session("shared", "read")
            except holdfast.SessionNotFound:
                assert process.poll() is None
        follower = reader.follow()
        found: list[str] = []
        while len(found) < 2:
            found += texts([next(follower)])
        say("two")
        while len(found) < 4:
            found += texts([next(follower)])
        process.kill()
        assert found == ["one", "and more", "two", "and more"]
        follower.close()


def test_a_follower_goes_on_in_a_continuation_file(fragile, files):
    session = fragile.create()
    session.append(user("a"))
    follower = session.follow(wait=False)
    assert texts(follower.poll()) == ["a"]
    files.fail("sync", errno.EIO, name="journal.jsonl")
    session.append([user("b"), user("c")])
    assert (session.path / "journal.2.jsonl").exists()
    assert texts(follower.poll()) == ["b", "c"]
    session.append(user("d"))
    assert texts(follower.poll()) == ["d"]
    assert texts(session.follow(wait=False)) == ["a", "b", "c", "d"]


def test_a_follower_goes_on_across_a_compaction(store):
    session = store.create()
    session.append([user("a"), user("b")])
    follower = session.follow(wait=False)
    assert texts(follower.poll()) == ["a", "b"]
    session.append(user("c"))
    session.checkpoint("so far", keep_last=1)
    before = os.stat(session.path / "journal.jsonl").st_ino
    session.compact()
    assert os.stat(session.path / "journal.jsonl").st_ino != before
    session.append(user("d"))
    delivered = follower.poll()
    assert texts(delivered) == ["c", "d"]
    numbers = [entry.seq for entry in delivered]
    assert numbers == sorted(set(numbers))
    session.append(user("e"))
    assert texts(follower.poll()) == ["e"]


def test_a_batch_is_never_delivered_half(store):
    session = store.create()
    session.append(user("a"))
    follower = session.follow(wait=False)
    follower.poll()
    session.append([user("b"), user("c"), user("d")])
    session.close()
    path = session.path / "journal.jsonl"
    whole = path.read_bytes()
    start = whole.index(b'"batch":[0,3]')
    start = whole.rindex(b"\n", 0, start) + 1
    for end in range(start, len(whole)):
        path.write_bytes(whole[:end])
        assert follower.poll() == []
        if end % 40 == 0:
            assert texts(session.follow(wait=False)) == ["a"]
    path.write_bytes(whole)
    assert texts(follower.poll()) == ["b", "c", "d"]


def test_a_line_without_its_newline_is_not_yet_written(store):
    session = store.create()
    session.append(user("a"))
    follower = session.follow(wait=False)
    follower.poll()
    session.append(user("b"))
    session.close()
    path = session.path / "journal.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert follower.poll() == []
    path.write_bytes(whole)
    assert texts(follower.poll()) == ["b"]


def test_more_entries_than_fit_at_once(store, monkeypatch):
    session = store.create()
    session.append([user(str(number)) for number in range(2500)])
    follower = session.follow()
    assert len(follower.poll()) == 2000
    assert follower._watch._offset == 0
    delivered = [str(number) for number in range(1999)] + texts(next(follower) for _ in range(501))
    assert delivered == [str(number) for number in range(2500)]
    session.append(user("next"))
    assert next(follower).body == user("next")
    follower.close()


def test_what_the_writer_noted_as_durable_is_not_synced_again(fragile, files, monkeypatch):
    monkeypatch.setattr("holdfast.store.local.log_writer._NOTE_EVERY_SECONDS", 0)
    session = fragile.create()
    session.append(user("a"))
    follower = session.follow(wait=False)
    before = files.count("sync")
    assert texts(follower.poll()) == ["a"]
    assert files.count("sync") == before
    session.append(user("b"))
    before = files.count("sync")
    assert texts(follower.poll()) == ["b"]
    assert files.count("sync") == before


def ahead_of_its_durable_offset(session):
    """Make it look as if the last writer had died between its write and its sync."""
    (session.path / "lock").write_bytes(b"")


@pytest.mark.parametrize("caught_up", [False, True])
def test_what_lies_beyond_the_durable_offset_is_synced_before_it_is_delivered(
    fragile, files, caught_up
):
    session = fragile.create()
    session.append(user("a"))
    follower = session.follow(wait=False)
    if caught_up:
        follower.poll()
    session.append(user("b"))
    session.close()
    ahead_of_its_durable_offset(session)
    delivered_at_sync = []
    files.on("sync", lambda: delivered_at_sync.append(follower.after), name="journal.jsonl")
    assert texts(follower.poll())[-1] == "b"
    assert delivered_at_sync == [1 if caught_up else -1]


@pytest.mark.parametrize("caught_up", [False, True])
def test_nothing_is_delivered_if_that_sync_fails(fragile, files, caught_up):
    session = fragile.create()
    session.append(user("a"))
    follower = session.follow(wait=False)
    if caught_up:
        follower.poll()
    session.append(user("b"))
    session.close()
    ahead_of_its_durable_offset(session)
    before = follower.after
    files.fail("sync", errno.EIO, name="journal.jsonl", times=1)
    with pytest.raises(holdfast.StorageError, match="Input/output"):
        follower.poll()
    assert follower.after == before
    # The kernel reports such an error once and then calls the lost pages clean: a second sync
    # proves nothing.
    assert follower.poll() == []
    with fragile.open(session.id) as again:
        again.append(user("c"))
        assert texts(follower.poll())[-2:] == ["b", "c"]


def test_a_session_without_a_lock_file_is_synced_by_the_follower(fragile, files):
    session = fragile.create()
    session.append(user("a"))
    session.close()
    (session.path / "lock").unlink()
    before = files.count("sync", "journal.jsonl")
    assert texts(session.follow(wait=False)) == ["a"]
    assert files.count("sync", "journal.jsonl") == before + 1


def test_a_torn_end_that_is_repaired_under_a_follower(store):
    session = store.create()
    session.append(user("a"))
    follower = session.follow(wait=False)
    follower.poll()
    session.close()
    with (session.path / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"seq":2,"at":"2026')
    assert follower.poll() == []
    with store.open(session.id) as again:
        again.append(user("b"))
        assert texts(follower.poll()) == ["b"]


def test_damage_is_passed_over(store):
    session = store.create()
    session.append(user("a"))
    follower = session.follow(wait=False)
    follower.poll()
    session.close()
    with (session.path / "journal.jsonl").open("ab") as journal:
        journal.write(b"garbage\n")
    assert follower.poll() == []
    with store.open(session.id) as again:
        again.append(user("b"))
        assert texts(follower.poll()) == ["b"]
