"""Entries of elsewhere behind those of a session: with their own numbers, times and parents."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import user
from holdfast.model.entry import NO_PARENT_FIELD
from holdfast.store.write.encode import ImportedEntry, encode_all

AT = "2020-01-02T03:04:05.678Z"


def past(seq, body, parent=NO_PARENT_FIELD):
    (draft,), payloads = encode_all([body])
    return ImportedEntry(seq, AT, draft, parent, payloads)


def texts(session):
    return [message.text for message in session.messages]


def test_behind_more_damage_than_is_noted_at_once(store):
    with store.create() as session:
        for number in range(300):
            session.append(user(f"m{number}"))
    journal = session.path / "journal.jsonl"
    lines = journal.read_bytes().splitlines()
    lines[10:290:2] = [b"damaged" for _ in lines[10:290:2]]
    journal.write_bytes(b"\n".join(lines) + b"\n")
    with store.open(session.id) as session:
        assert len(session.recovery.damage) > 100
        session.adopt([past(5000, user("here"), None)])
        assert texts(session) == ["here"]
        types = [entry.type for entry in session.follow(wait=False)]
        assert types.count("gap") == 140


def test_a_session_that_was_closed_meanwhile_adopts_nothing(store):
    with store.create() as session:
        session.append(user("a"))
    before = (session.path / "journal.jsonl").read_bytes()
    with pytest.raises(holdfast.UsageError, match="closed"):
        session._recorder.adopt([past(50, user("b"), None)], lambda _: None)
    assert (session.path / "journal.jsonl").read_bytes() == before
