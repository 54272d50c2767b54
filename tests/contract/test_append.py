"""Appending: single, in batches, idempotent, from many threads."""

from __future__ import annotations

import threading

import pytest

import holdfast
from holdfast import user


def texts(session):
    return [message.text for message in session.messages]


def test_facts_given_before_the_first_entry_go_with_it(store):
    session = store.create(provider="p", model="m")
    assert session.update(title="t", model="other") is None
    session.append(user("hello"))
    assert session.state.meta == {"provider": "p", "model": "other", "title": "t"}
    assert store.open(session.id, "read").meta == session.meta


def test_the_same_id_is_written_once(store):
    session = store.create()
    first = session.append(user("a"), id="one")
    assert session.append(user("a"), id="one") == first
    assert texts(session) == ["a"]


def test_an_id_is_remembered_after_reopening(store):
    with store.create() as session:
        first = session.append(user("a"), id="one")
    with store.open(session.id) as again:
        assert again.append(user("a"), id="one") == first
        again.append(user("b"), id="two")
        assert texts(again) == ["a", "b"]


def test_an_id_holds_for_a_whole_batch(store):
    with store.create() as session:
        first = session.append([user("a"), user("b")], id="both")
        assert session.append([user("a"), user("b")], id="both") == first
    with store.open(session.id) as again:
        assert again.append([user("a"), user("b")], id="both") == first
        assert texts(again) == ["a", "b"]


def test_two_different_ids_are_two_entries(store):
    session = store.create()
    assert session.append(user("a"), id="one") != session.append(user("a"), id="two")
    assert texts(session) == ["a", "a"]


def test_an_id_that_waits_is_not_queued_twice(store):
    session = store.create()
    first = session.submit(user("a"), id="one")
    second = session.submit(user("a"), id="one")
    assert second.wait() == first.wait()
    assert texts(session) == ["a"]


def test_an_id_may_have_any_characters(store):
    odd = 'quote " backslash \\ newline \n snowman ☃'
    with store.create() as session:
        first = session.append(user("a"), id=odd)
    assert store.open(session.id).append(user("a"), id=odd) == first


def test_a_closed_session_takes_nothing_more_and_can_still_be_read(store):
    session = store.create()
    session.append(user("a"))
    session.close()
    session.close()
    for call in (
        lambda: session.append(user("b")),
        lambda: session.submit(user("b")),
        lambda: session.update(title="t"),
        session.stream,
        lambda: session.checkpoint("s"),
        lambda: session.rewind(None),
        session.compact,
    ):
        with pytest.raises(holdfast.UsageError, match="closed"):
            call()
    assert texts(session) == ["a"]
    assert texts(store.open(session.id, "read")) == ["a"]


def test_a_read_only_session_takes_nothing(store):
    with store.create() as session:
        session.append(user("a"))
    reader = store.open(session.id, "read")
    assert reader.read_only
    assert reader.trouble is None
    for call in (
        lambda: reader.append(user("b")),
        lambda: reader.update(title="t"),
        reader.stream,
        lambda: reader.on_entry(print),
        reader.compact,
    ):
        with pytest.raises(holdfast.UsageError, match="read-only"):
            call()
    reader.close()
    assert texts(reader) == ["a"]


def test_many_threads_append_to_one_session(store):
    session = store.create()
    positions: list[int] = []

    def work(name: int) -> None:
        for number in range(25):
            one = session.append(user(f"{name}:{number}"))
            two = session.append([user(f"{name}:{number}a"), user(f"{name}:{number}b")])
            positions.extend((one.seq, two.seq))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(positions)) == 8 * 25 * 2
    found = texts(session)
    assert len(found) == 8 * 25 * 3
    for name in range(8):
        own = [text for text in found if text.startswith(f"{name}:")]
        assert own == [f"{name}:{n}{part}" for n in range(25) for part in ("", "a", "b")]
    for text in found:
        if text.endswith("a"):
            assert found[found.index(text) + 1] == text[:-1] + "b"
    session.close()
    assert texts(store.open(session.id, "read")) == found
    assert store.verify(session.id).ok
