"""What a session hands out can be changed by whoever has it, and nothing of the session changes."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Label, Queued, Text, user
from holdfast.model.codec import DEEPEST_LEVELS


@pytest.fixture
def session(store):
    session = store.create(title="real", tags=["a"], deep={"list": [{"x": 1}]})
    first = session.append(user("hello"))
    session.append([Queued([Text(text="later")]), Label("here", first.seq)])
    session.usage(input=1, output=2, model="m")
    return session


def spoil(state):
    state.head = state.turn = None
    state.seq = 99
    state.meta["title"] = "mutated"
    state.meta["tags"].append("b")
    state.meta["deep"]["list"][0]["x"] = 2
    state.queue.clear()
    state.labels.clear()
    state.totals.models.clear()
    state.gaps.append((1, 2, 3))
    state.must.append("wizardry")


def seen(session):
    return session.state, session.meta, session.totals, session.messages


def test_a_state_that_is_changed_reaches_nothing(store, session):
    before = seen(session)
    spoil(session.state)
    session.meta["tags"].append("b")
    session.meta["deep"]["list"].clear()
    session.totals.models.clear()
    assert seen(session) == before
    session.checkpoint("so far")  # writes a mark, which holds the state
    session.close()
    with store.open(session.id) as again:
        assert again.meta == {"title": "real", "tags": ["a"], "deep": {"list": [{"x": 1}]}}
        assert again.state.labels == {"here": before[0].head}
        assert len(again.state.queue) == 1
        assert list(again.totals.models) == ["m"]
        assert again.state.gaps == again.state.must == []


def test_one_that_is_only_read_keeps_its_state_too(store, session):
    session.close()
    with store.open(session.id, mode="read") as reading:
        before = seen(reading)
        spoil(reading.state)
        assert seen(reading) == before


def test_facts_belong_to_the_session_before_its_first_entry_too(store):
    tags: list[object] = ["a"]
    more: list[object] = ["b"]
    session = store.create(tags=tags)
    session.update(more=more)
    tags.append(object())
    more.append(object())
    session.meta["tags"].append("c")
    session.append(user("hello"))
    assert session.meta == {"tags": ["a"], "more": ["b"]}


def test_facts_that_are_nested_deep_are_copied_from_anywhere(store):
    deep: list[object] = []
    for _ in range(DEEPEST_LEVELS - 2):
        deep = [deep]
    with pytest.raises(holdfast.UsageError, match="nested too deeply"):
        store.create(deep=[deep])
    session = store.create(deep=deep)
    session.append(user("hello"))

    def below(depth: int) -> object:
        return below(depth - 1) if depth else session.state.meta["deep"]

    assert below(500) == deep
    assert session.meta["deep"] == deep


def test_totals_of_a_session_add_up_as_before(session):
    assert session.totals == session.state.totals
    assert session.totals.models == {"m": holdfast.model.state.ModelTotals(1, 1, 2, unpriced=1)}
