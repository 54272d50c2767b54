"""One writer, whichever process it is in; and what others see meanwhile."""

from __future__ import annotations

import os
import socket

import pytest

import holdfast
from tests.disk import contents
from tests.processes import running

HOLD = """
session = store.create(session_id="20260102-030405-aaaabbbb")
session.append(user("from the holder"))
ready()
"""
FIRST = "20260102-030405-aaaabbbb"


def test_a_second_writer_in_the_same_process_is_told_who_the_first_is(store, home):
    with store.create() as session:
        session.append(holdfast.user("hello"))
        with pytest.raises(holdfast.SessionLocked):
            store.open(session.id)
        with pytest.raises(holdfast.SessionLocked) as caught:
            holdfast.open_store(home).open(session.id)
        holder = caught.value.holder
        assert (holder.pid, holder.host) == (os.getpid(), socket.gethostname())
        assert holder.version == holdfast.__version__
        assert session.state.started[:16] <= holder.since[:16]
        assert str(os.getpid()) in str(caught.value)
        with store.open(session.id, mode="read") as reader:
            assert reader.messages == [holdfast.user("hello")]
        session.append(holdfast.user("undisturbed"))
    with store.open(session.id) as session:
        assert len(session.messages) == 2


def test_a_writer_in_another_process_holds_until_it_is_killed(store, home):
    with running(HOLD, home) as process:
        before = contents(home)
        with pytest.raises(holdfast.SessionLocked) as caught:
            store.open(FIRST)
        holder = caught.value.holder
        assert (holder.pid, holder.host) == (process.pid, socket.gethostname())
        assert holder.since.endswith("Z")
        with pytest.raises(holdfast.SessionLocked):
            store.delete(FIRST)
        assert contents(home) == before
        with store.open(FIRST, mode="read") as reader:
            assert reader.messages == [holdfast.user("from the holder")]
        process.kill()
        # Dead, though nobody has tidied up after it: open at once.
        with store.open(FIRST) as session:
            session.append(holdfast.user("from the next"))
            assert [message.text for message in session.messages] == [
                "from the holder",
                "from the next",
            ]


def test_a_reader_beside_a_writer_sees_what_was_acknowledged(store, home):
    source = """
session = store.create(session_id="20260102-030405-aaaabbbb")
session.append(user("one"))
ready()
session.append([user("two"), user("three")])
print("done", flush=True)
sys.stdin.readline()
"""
    with running(source, home) as process:
        early = store.open(FIRST, mode="read")
        assert [message.text for message in early.messages] == ["one"]
        assert process.tell("go on") == "done"
        late = store.open(FIRST, mode="read")
        assert [message.text for message in late.messages] == ["one", "two", "three"]
        assert [message.text for message in early.messages] == ["one"]


RACE = """
sessions = [store.session(f"key {number}") for number in range(20)]
ready()
for session in sessions:
    session.append(user(f"by {os.getpid()}"))
    print("appended", flush=True)
    session.close()
"""


def test_one_key_made_by_two_processes_at_once_is_one_session(store, home):
    with running(RACE, home) as one, running(RACE, home) as two:
        for process in (one, two):
            process.write("go")
        said = [(one.read(), two.read()) for _ in range(20)]
    assert said == [("appended", "appended")] * 20
    for number in range(20):
        with store.session(f"key {number}", mode="read") as session:
            assert len({message.text for message in session.messages}) == 2
            assert session.recovery.clean
    assert sorted(path.name for path in (home / "sessions").iterdir()) == ["keyed"]
