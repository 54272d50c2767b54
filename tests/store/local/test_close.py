"""How a session is left: closed, dropped, forked, at the end of the interpreter."""

from __future__ import annotations

import errno
import gc
import logging
import subprocess
import sys
import textwrap
from weakref import WeakSet

import pytest

from holdfast import Store, user
from holdfast.store.write import recorder as recorder_module
from holdfast.store.write.recorder import Recorder


def texts(session):
    return [message.text for message in session.messages]


@pytest.fixture
def alone(monkeypatch):
    """Let the module know of no recorder but those of this test."""
    recorders: WeakSet[Recorder] = WeakSet()
    monkeypatch.setattr(recorder_module, "_open", recorders)
    return recorders


def test_closed_sessions_keep_no_files_open(fragile, files):
    with fragile.create() as session:
        session.append(user("a"))
        with session.stream() as live:
            live.write("b")
        assert texts(session) == ["a", "b"]
        assert files.left_open != []
    assert files.left_open == []
    with fragile.open(session.id) as again:
        again.append(user("c"))
        assert len(again.messages) == 3
    assert files.left_open == []
    with fragile.open(session.id, "read") as reader:
        assert len(reader.messages) == 3
    assert files.left_open == []
    with fragile.open(session.id) as again:
        fork = again.fork()
        fork.close()
        again.compact()
        assert len(list(again.follow(wait=False))) > 3
    assert files.left_open == []


def test_a_closed_session_is_read_without_keeping_files_open(fragile, files):
    with fragile.create() as session:
        session.append(user("a"))
    with fragile.open(session.id, "read") as reader:
        pass
    reader.close()
    for each in (session, reader):
        assert texts(each) == ["a"]
        assert each.context() == [user("a")]
    assert files.left_open == []


def test_a_session_dropped_with_its_store_lets_go_of_files_and_lock(fragile, files, eventually):
    session = Store(fragile._backend).create()
    session.append(user("a"))
    live = session.stream()
    live.write("half")
    session_id = session.id
    assert texts(session) == ["a"]
    del session, live
    # The background lingers for a second.
    eventually(lambda: (gc.collect(), files.left_open == [])[1])
    with fragile.open(session_id) as again:
        assert texts(again) == ["a", "half"]
    reader = fragile.open(session_id, "read")
    assert texts(reader) == ["a", "half"]
    del reader
    gc.collect()
    assert files.left_open == []


def test_the_end_of_the_interpreter_writes_what_was_submitted(store):
    child = textwrap.dedent("""
        import sys, holdfast
        session = holdfast.open_store(sys.argv[1]).create()
        for number in range(100):
            session.submit(holdfast.user(str(number)))
        print(session.id)
    """)
    done = subprocess.run(
        [sys.executable, "-c", child, store.path], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert texts(store.open(done.stdout.strip())) == [str(number) for number in range(100)]


def test_what_cannot_be_written_at_the_end_is_logged(fragile, files, alone, caplog):
    session = fragile.create()
    session.append(user("a"))
    files.fail("sync", errno.EIO, name="journal", times=None)
    session.submit(user("lost"))
    with caplog.at_level(logging.CRITICAL, logger="holdfast"):
        recorder_module._close_all()
    assert "now read-only" in caplog.text
    assert not alone


def test_a_forked_child_leaves_the_session_to_its_parent(store):
    child = textwrap.dedent("""
        import os, sys, holdfast
        session = holdfast.open_store(sys.argv[1]).create()
        session.append(holdfast.user("a"))
        pid = os.fork()
        if pid == 0:
            try:
                session.append(holdfast.user("from the child"))
            except holdfast.UsageError as error:
                print(error, flush=True)
            session.close()
            sys.exit(0)
        os.waitpid(pid, 0)
        session.append(holdfast.user("b"))
        session.close()
        print(session.id)
    """)
    done = subprocess.run(
        [sys.executable, "-c", child, store.path], capture_output=True, text=True, check=True
    )
    said, session_id = done.stdout.splitlines()
    assert "belongs to the parent" in said
    assert texts(store.open(session_id)) == ["a", "b"]
