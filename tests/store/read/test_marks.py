"""Marks save reading; one that is damaged, or cannot be made, changes nothing else."""

from __future__ import annotations

import math

import pytest

from holdfast import Label, user
from holdfast.model.state import State
from holdfast.store.write.encode import encode_mark


def seen(session):
    state = session.state
    return (
        [message.text for message in session.messages],
        session.context(),
        state.meta,
        state.totals,
        state.head,
        state.labels,
        state.messages,
        state.first_text,
    )


def journal_of(session):
    return session.path / "journal.jsonl"


@pytest.mark.parametrize("after", [[], ["after the mark"]])
def test_a_flipped_bit_in_a_mark_changes_nothing(store, after):
    with store.create(title="t") as session:
        first = session.append(user("a"))
        session.append([user("b"), Label("here", first.seq)])
        session.usage(input=10, output=2, cost_usd=0.5, model="m")
        session.checkpoint("so far", keep_last=1)
        for text in after:
            session.append(user(text))
        before = seen(session)
    path = journal_of(session)
    content = path.read_bytes()
    start = content.rindex(b"\n", 0, content.rindex(b'"type":"mark"')) + 1
    end = content.index(b"\n", start)
    assert (end + 1 < len(content)) == bool(after)
    for place in range(start, end):
        altered = bytearray(content)
        altered[place] ^= 1
        path.write_bytes(altered)
        with store.open(session.id, "read") as again:
            assert seen(again) == before, altered[start:end]


def goes_on_without_a_mark(store, session):
    session.checkpoint("so far", keep_last=1)
    session.append(user("b"))
    before = seen(session)
    session.close()
    assert session.trouble is None
    assert b'"type":"mark"' not in journal_of(session).read_bytes()
    with store.open(session.id) as again:
        assert again.recovery.clean
        assert seen(again) == before
        again.append(user("c"))
    assert store.verify(session.id).ok


def test_costs_beyond_every_number_stop_nobody(store):
    session = store.create()
    session.append(user("a"))
    session.usage(input=1, output=1, cost_usd=1e308)
    session.usage(input=1, output=1, cost_usd=1e308)
    assert session.totals.cost_usd == math.inf
    goes_on_without_a_mark(store, session)


def test_a_state_larger_than_a_mark_stops_nobody(store, monkeypatch):
    monkeypatch.setattr("holdfast.store.validation.LARGEST_FACTS_BYTES", 2**30)  # as once allowed
    session = store.create()
    session.append(user("a"))
    session.update(large="x" * 1_500_000)
    goes_on_without_a_mark(store, session)


@pytest.mark.parametrize("number", [b"1e400", b"-1e999", b"1" * 5000])
def test_a_number_that_python_cannot_hold_is_marked_as_it_was(store, number):
    with store.create() as session:
        session.append(user("a"))
    with journal_of(session).open("ab") as journal:
        journal.write(
            b'{"seq":2,"at":"2026-01-01T00:00:00.000Z","type":"meta","budget":%b}\n' % number
        )
    with store.open(session.id) as session:
        session.checkpoint("so far", keep_last=1)
        session.append(user("b"))
        assert session.trouble is None
    marks = [line for line in journal_of(session).read_bytes().split(b"\n") if b'"mark"' in line]
    assert b'"meta":{"budget":%b}' % number in marks[-1]
    with store.open(session.id) as again:
        assert again.recovery.clean
        assert bytes(again.state.meta["budget"]) == number
        assert [message.text for message in again.messages] == ["a", "b"]
        again.compact()
        assert bytes(again.state.meta["budget"]) == number
        again.append(user("c"))


def test_a_state_nested_too_deep_has_no_mark():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert encode_mark(State(meta={"deep": deep})) is None
