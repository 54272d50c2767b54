"""Appending: single, in batches, idempotent, from many threads."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import assistant, user
from holdfast.model.entry import Header, Mark


def lines(session):
    return (session.path / "journal.jsonl").read_bytes().splitlines()


def texts(session):
    return [message.text for message in session.messages]


def test_nothing_is_on_disk_before_the_first_append(store):
    session = store.create(title="quiet")
    session.update(model="m")
    assert not store.path.exists()
    assert session.messages == []
    assert session.context() == []
    assert session.summary == []
    assert session.meta == {"title": "quiet", "model": "m"}
    session.close()
    assert not store.path.exists()


def test_an_append_is_on_disk_when_it_returns(store):
    session = store.create()
    position = session.append(user("hello"))
    assert b'"hello"' in lines(session)[-1]
    assert lines(session)[-1].startswith(b'{"seq":%d,' % position.seq)
    data = (session.path / "journal.jsonl").read_bytes()
    assert data[position.offset :].startswith(b'{"seq":%d,' % position.seq)
    assert session.messages == [user("hello")]


def test_a_list_is_one_atomic_batch(store):
    session = store.create()
    last = session.append([user("a"), assistant("b"), user("c")])
    batch = lines(session)[-3:]
    assert [b'"batch":[%d,3]' % number in line for number, line in enumerate(batch)] == [True] * 3
    assert batch[2].startswith(b'{"seq":%d,' % last.seq)
    assert texts(session) == ["a", "b", "c"]


def test_a_batch_cut_in_the_middle_is_gone_whole(store, tmp_path):
    session = store.create()
    session.append(user("kept"))
    session.append([user("a"), user("b"), user("c")])
    session.close()
    path = session.path / "journal.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    with store.open(session.id) as again:
        assert texts(again) == ["kept"]
        assert again.recovery.set_aside[0].reason == "incomplete batch"
        again.append(user("next"))
    assert texts(store.open(session.id, "read")) == ["kept", "next"]


@pytest.mark.parametrize("wrong", ["", "x" * 1001, 7])
def test_an_id_that_cannot_be_one_is_refused(store, wrong):
    session = store.create()
    with pytest.raises(holdfast.UsageError, match="1 to 1000"):
        session.append(user("a"), id=wrong)
    assert not store.path.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        "text alone",
        None,
        holdfast.Message(role="robot", content=[]),
        holdfast.Message(role="user", content="text"),  # type: ignore[arg-type]
        holdfast.Message(role="user", content=["text"]),  # type: ignore[list-item]
        holdfast.Meta({"seq": 1}),
        Header(1, "id", "uid"),
        Mark(state={}),
        holdfast.user(["not a part"]),  # type: ignore[list-item]
    ],
)
def test_what_cannot_be_stored_is_refused_and_changes_nothing(store, wrong):
    session = store.create()
    with pytest.raises(holdfast.UsageError):
        session.append(wrong)
    assert not store.path.exists()
    session.append(user("fine"))
    before = lines(session)
    with pytest.raises(holdfast.UsageError):
        session.append([user("good"), wrong])
    assert lines(session) == before
    assert session.append(user("next")).seq == session.state.seq


def test_a_session_closed_before_its_first_entry_takes_nothing(store):
    session = store.create()
    session.close()
    for call in (lambda: session.update(title="t"), session.stream):
        with pytest.raises(holdfast.UsageError, match="closed"):
            call()
    assert not store.path.exists()


def test_a_session_of_a_newer_format_can_be_read_but_not_written(store):
    with store.create() as session:
        session.append(user("a"))
    path = session.path / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":99'))
    newer = store.open(session.id)
    assert newer.read_only
    assert texts(newer) == ["a"]
    with pytest.raises(holdfast.FormatTooNew) as caught:
        newer.append(user("b"))
    assert caught.value.found == "format 99"


def test_the_first_append_after_an_opening_says_who_writes(store):
    with store.create() as session:
        session.append(user("a"))
    with store.open(session.id) as again:
        before = lines(again)
        again.append(user("b"))
        again.append(user("c"))
        new = lines(again)[len(before) :]
    assert [b'"type":"writer"' in line for line in new] == [True, False, False]


def test_opening_alone_writes_nothing(store):
    with store.create() as session:
        session.append(user("a"))
    before = lines(session)
    store.open(session.id).close()
    assert lines(session) == before
