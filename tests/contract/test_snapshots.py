"""The latest data of a program under a name."""

from __future__ import annotations

import threading

import pytest

from holdfast import SessionExists, StorageError, UsageError, user
from holdfast.model.entry import Snapshot
from holdfast.store.read.fold import MOST_SNAPSHOTS

LARGE = {"rows": ["value " * 20 for _ in range(1000)]}


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        "text",
        "half a pair \ud800",
        [1, 2.5, {"deep": [True, None]}],
        LARGE,
        b"",
        b"\x00\xff",
        bytes(range(256)) * 1000,
    ],
)
def test_what_is_put_comes_back(store, value):
    with store.create() as session:
        place = session.put("graph", value)
        assert session.get("graph", "other") == value
        assert session.state.snapshots == {"graph": place.seq}
    with store.open(session.id, mode="read") as again:
        assert again.get("graph", "other") == value
        assert again.state.snapshots == {"graph": place.seq}


def test_bytes_are_returned_as_bytes(store):
    with store.create() as session:
        session.put("a", bytearray(b"abc"))
        session.put("b", memoryview(b"x" * 100_000))
        assert session.get("a") == b"abc"
        assert session.get("b") == b"x" * 100_000


def test_the_latest_one_counts(store):
    with store.create() as session:
        session.put("graph", 1)
        session.put("other", "x")
        session.put("graph", 2)
        assert (session.get("graph"), session.get("other")) == (2, "x")
        assert session.drop("other") is not None
        assert session.drop("other") is None
        assert session.get("other") is None
        assert session.get("other", 7) == 7
        session.put("other", "y")
        assert session.get("other") == "y"


def test_it_is_no_part_of_the_conversation(store):
    with store.create() as session:
        session.append(user("a"))
        head = session.state.head
        session.put("graph", 1)
        assert session.state.head == head
        assert [message.text for message in session.messages] == ["a"]
        assert [entry.type for entry in session.entries(types=["snapshot"])] == ["snapshot"]


def test_a_large_one_is_not_in_its_line(store):
    with store.create() as session:
        session.put("graph", LARGE)
        (entry,) = session.entries(types=["snapshot"])
        assert len(entry.line) < 1000
        assert entry.body.blob.media_type == "application/json"
        session.put("graph", b"x" * 70_000)
        *_, entry = session.entries(types=["snapshot"])
        assert entry.body.blob.media_type == "application/octet-stream"
        session.put("graph", b"x" * 60_000)
        *_, entry = session.entries(types=["snapshot"])
        assert entry.body.blob is None


def test_what_it_was_given_is_not_what_it_returns(store):
    with store.create() as session:
        given = {"list": [1]}
        session.put("graph", given)
        given["list"].append(2)
        assert session.get("graph") == {"list": [1]}


@pytest.mark.parametrize("name", ["", "a" * 101, "two\nlines", "\x1b[0m", 7, None])
def test_a_name_is_one_line_of_text(store, name):
    with store.create() as session:
        for call in (lambda: session.put(name, 1), lambda: session.get(name)):
            with pytest.raises(UsageError, match="name must be one line of 1 to 100"):
                call()
        with pytest.raises(UsageError, match="name must be one line of 1 to 100"):
            session.drop(name)


def test_a_value_is_json_or_bytes(store):
    with store.create() as session:
        with pytest.raises(UsageError, match="cannot represent"):
            session.put("graph", {"now": object()})
        with pytest.raises(UsageError):
            session.put("graph", {1: 2})
        assert session.get("graph") is None
        assert session.seq == -1


def test_the_number_of_names_is_bounded(store):
    with store.create() as session:
        session.append([Snapshot(f"n{number}", "json", 0) for number in range(MOST_SNAPSHOTS)])
        session.put("n7", 1)
        with pytest.raises(UsageError, match="drop one"):
            session.put("one more", 1)
        session.drop("n9")
        session.put("one more", 1)
        assert session.get("one more") == 1
        assert len(session.state.snapshots) == MOST_SNAPSHOTS


def test_what_another_program_wrote_makes_no_state_too_large(store):
    with store.create() as session:
        session.append([Snapshot(f"n{number}", "json", 0) for number in range(2 * MOST_SNAPSHOTS)])
        session.append(Snapshot("n" * 5000, "json", 0))
        assert len(session.state.snapshots) < 2 * MOST_SNAPSHOTS
        assert all(len(name) < 100 for name in session.state.snapshots)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (Snapshot("graph", "pickle", "gASV"), "not pickle data"),
        (Snapshot("graph", "base64", "not base64!"), "not base64 data"),
        (Snapshot("graph", "base64", 7), "not base64 data"),
    ],
)
def test_data_of_another_kind_is_never_guessed_at(store, body, problem):
    with store.create() as session:
        session.append(body)
        with pytest.raises(StorageError, match=problem):
            session.get("graph")


def test_many_threads(store):
    with store.create() as session:
        session.append(user("a"))

        def work(number: int) -> None:
            for value in range(10):
                session.put(f"n{number}", value)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [session.get(f"n{number}") for number in range(6)] == [9] * 6


def test_compaction_drops_what_was_replaced(store):
    with store.create(title="first", model="m") as session:
        session.append(user("a"))
        for value in range(5):
            session.put("graph", value)
            session.put("gone", value)
            session.update(title=f"title {value}")
            session.event("progress", value)
            session.event("other", value)
        session.drop("gone")
        session.compact(latest_events=["progress"])
        kinds = [entry.type for entry in session.entries()]
        assert kinds.count("snapshot") == 1
        assert kinds.count("meta") == 2  # the model is in the first
        assert kinds.count("event") == 6
        assert session.get("graph") == 4
        assert session.get("gone") is None
        assert session.meta == {"title": "title 4", "model": "m"}
        assert [e.body.data for e in session.entries(types=["event"])] == [0, 1, 2, 3, 4, 4]
    with store.open(session.id, mode="read") as again:
        assert again.get("graph") == 4
        assert again.meta["title"] == "title 4"
    assert store.verify(session.id).ok
    with store.open(session.id) as session, pytest.raises(UsageError, match="not a string"):
        session.compact(latest_events="progress")


def test_a_fork_has_events_and_snapshots_on_request(store):
    with store.create() as session:
        first = session.append(user("a"))
        session.event("seen", 1)
        session.put("graph", LARGE)
        session.put("gone", 1)
        session.drop("gone")
        second = session.append(user("b"))
        session.put("graph", 2)
        session.put("gone", 2)
        with session.fork() as plain:
            assert plain.get("graph") is None
            assert not list(plain.entries(types=["event", "snapshot"]))
        with session.fork(second, events=True) as latest:
            assert latest.get("graph") == 2
            assert latest.get("gone") == 2
        session.append(user("c"))
        with session.fork(second, events=True) as earlier:
            assert earlier.get("graph") == LARGE
            assert earlier.get("gone") is None
            assert [entry.body.data for entry in earlier.entries(types=["event"])] == [1]
        with session.fork(first, events=True) as earliest:
            assert earliest.state.snapshots == {}
        assert store.verify(earlier.id).ok


def test_a_fork_may_have_a_key(store):
    with store.create() as session:
        session.append(user("a"))
        with session.fork(key="telegram:42") as fork:
            assert [message.text for message in fork.messages] == ["a"]
        with pytest.raises(SessionExists, match="telegram:42"):
            session.fork(key="telegram:42")
    with store.session("telegram:42") as again:
        assert [message.text for message in again.messages] == ["a"]
    with pytest.raises(UsageError):
        session.fork(key="")
