"""A new key that another handle makes first: the entries go to the session that is there."""

from __future__ import annotations

import msgspec
import pytest

import holdfast
from holdfast import user


def texts(session):
    return [message.text for message in session.messages]


def test_the_first_append_goes_to_the_session_that_was_made_meanwhile(store):
    one, other = (store.session("telegram:42", title=name) for name in ("one", "other"))
    with one:
        one.append(user("a"), id="a")
    with other:
        assert other.meta["title"] == "other"
        position = other.append([user("b"), user("c")], ids=["b", "c"])
        assert position.seq > one.seq
        assert other.append(user("a"), id="a").known
        assert other.meta["title"] == "one"  # as if it had been there from the beginning
    with store.session("telegram:42") as again:
        assert texts(again) == ["a", "b", "c"]
        assert len(list(again.entries(types=["header"]))) == 1
    assert store.verify(again.id).ok


def test_a_stream_goes_to_the_session_that_was_made_meanwhile(store):
    one, other = store.session("k"), store.session("k")
    with one:
        one.append(user("a"))
    with other, other.stream() as live:
        live.write("answer")
    with store.session("k") as again:
        assert texts(again) == ["a", "answer"]


def test_a_session_that_stays_locked_is_an_error(store, monkeypatch):
    monkeypatch.setattr("holdfast.store.write.recorder._JOIN_SECONDS", 0.0)
    one, other = store.session("k"), store.session("k")
    one.append(user("a"))
    with pytest.raises(holdfast.SessionLocked):
        other.append(user("b"))
    assert texts(one) == ["a"]


def test_an_id_that_is_taken_is_an_error(store):
    made = store.create()
    other = store.create(session_id=made.id)
    with made:
        made.append(user("a"))
    with pytest.raises(holdfast.SessionExists):
        other.append(user("b"))
    assert texts(store.open(made.id, "read")) == ["a"]


def test_text_that_another_writer_left_has_to_be_recovered_first(store, monkeypatch):
    one, other = store.session("k"), store.session("k")
    with one:
        one.append(user("a"))
    original = store._backend.open

    def interrupted(*args, **options):
        opened = original(*args, **options)
        recovery = msgspec.structs.replace(opened.recovery, interrupted=[user("half")])
        return msgspec.structs.replace(opened, recovery=recovery)

    with monkeypatch.context() as patched:
        patched.setattr(store._backend, "open", interrupted)
        with pytest.raises(holdfast.SessionExists):
            other.append(user("b"))
    with store.session("k") as again:  # nobody holds it
        assert texts(again) == ["a"]
