"""What entries add up to: totals, facts, labels, queue, turns."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Label, Queued, Text, Turn, assistant, user
from holdfast.model.entry import Entry
from holdfast.model.state import ModelTotals


def reopened(store, session):
    session.close()
    return store.open(session.id)


def test_usage_is_totalled_over_all_and_for_each_model(store):
    session = store.create()
    session.append(user("a"))
    session.usage(input=10, output=1, cost_usd=0.5, model="m1", cache_read=3, cache_write=4)
    session.usage(input=20, output=2, cost_usd=0.25, model="m1")
    session.usage(input=40, output=4, model="m2")
    session.usage(input=5, output=0, cost_usd=0.0)
    for each in (session, reopened(store, session)):
        totals = each.totals
        assert (totals.requests, totals.input, totals.output) == (4, 75, 7)
        assert (totals.cache_read, totals.cache_write) == (3, 4)
        assert (totals.cost_usd, totals.unpriced) == (0.75, 1)
        assert set(totals.models) == {"m1", "m2", ""}
        assert totals.models["m1"] == ModelTotals(
            requests=2, input=30, output=3, cache_read=3, cache_write=4, cost_usd=0.75
        )
        assert totals.models["m2"].unpriced == 1


def test_foreign_cost_data_is_kept(store):
    session = store.create()
    session.append(user("a"))
    session.usage(input=1, output=1, tier={"name": "batch"}, credits=3)
    entry = next(each for each in session.follow(wait=False) if each.type == "usage")
    assert entry.body.extra == {"tier": {"name": "batch"}, "credits": 3}


def test_checkpoints_rewinds_and_replacements_keep_totals(store):
    session = store.create()
    session.append(user("a"))
    session.usage(input=10, output=1, cost_usd=0.5)
    session.checkpoint("so far")
    session.rewind(None)
    session.replace([user("new")])
    session.clear()
    assert reopened(store, session).totals.cost_usd == 0.5


def test_a_model_switch_does_not_erase_a_title(store):
    session = store.create(model="one", provider="p")
    session.append(user("a"))
    session.update(title="mine", tags=["x"])
    session.update(model="two")
    for each in (session, reopened(store, session)):
        assert each.meta == {"model": "two", "provider": "p", "title": "mine", "tags": ["x"]}
        assert each.state.title == "mine"


def test_the_title_is_the_first_user_text_until_one_is_given(store):
    session = store.create()
    session.append(holdfast.system("be brief"))
    session.append(user("  fix\n the   build " + "x" * 300))
    assert session.state.title == ("fix the build " + "x" * 300)[:200]
    session.append(user("another"))
    assert session.state.first_text.startswith("fix the build")
    session.update(title="")
    assert session.state.title.startswith("fix the build")
    session.update(title="given")
    assert session.state.title == "given"


def test_a_user_message_without_text_is_no_title(store):
    session = store.create()
    session.append(user([holdfast.Image(media_type="image/png", url="https://x.invalid/a.png")]))
    assert session.state.title is None
    session.append(user("words"))
    assert session.state.title == "words"


def test_events_are_kept_and_change_nothing(store):
    session = store.create()
    session.append(user("a"))
    before = session.state
    session.event("tunnel", {"event_id": 1, "data": [1, None]}, complete=False)
    session.event("bare")
    assert session.state.head == before.head
    found = [each.body for each in session.follow(wait=False) if each.type == "event"]
    assert found == [
        holdfast.Custom("tunnel", {"event_id": 1, "data": [1, None]}, complete=False),
        holdfast.Custom("bare"),
    ]


def test_labels_are_set_moved_and_removed(store):
    session = store.create()
    a = session.append(user("a"))
    b = session.append(user("b"))
    session.append([Label("one", a.seq), Label("two", a.seq)])
    session.append(Label("one", b.seq))
    assert session.state.labels == {"one": b.seq, "two": a.seq}
    session.append(Label("two", None))
    session.append(Label("never set", None))
    assert reopened(store, session).state.labels == {"one": b.seq}


def test_a_queued_prompt_runs_once(store):
    session = store.create()
    session.append(user("a"))
    first = session.append(Queued([Text(text="one")]))
    second = session.append(Queued([Text(text="two")]))
    assert session.state.queue == [first.seq, second.seq]
    session.append(holdfast.Message(role="user", content=[Text(text="one")], queued=first.seq))
    assert session.state.queue == [second.seq]
    session.append(holdfast.Message(role="user", content=[Text(text="one")], queued=first.seq))
    assert reopened(store, session).state.queue == [second.seq]


def test_a_queued_prompt_is_edited_in_its_place_and_removed(store):
    session = store.create()
    session.append(user("a"))
    first = session.append(Queued([Text(text="one")]))
    second = session.append(Queued([Text(text="two")]))
    edited = session.append(Queued([Text(text="ONE")], replaces=first.seq))
    assert session.state.queue == [edited.seq, second.seq]
    session.append(Queued([], replaces=edited.seq))
    assert session.state.queue == [second.seq]
    session.append(Queued([Text(text="late")], replaces=first.seq))  # it is gone: nothing to edit
    assert session.state.queue == [second.seq]


def test_a_turn_is_open_until_it_ends(store):
    session = store.create()
    assert not session.state.turn_is_open
    session.append([Turn("started"), user("a")])
    assert session.state.turn_is_open
    session.append(Turn("waiting", cause="approval"))
    assert reopened(store, session).state.turn_is_open


@pytest.mark.parametrize("end", ["completed", "cancelled", "failed"])
def test_a_turn_that_ended_is_not_open(store, end):
    session = store.create()
    session.append([Turn("started"), user("a"), assistant("b")])
    session.append(Turn(end, cause="why"))
    again = reopened(store, session)
    assert not again.state.turn_is_open
    assert (again.state.turn.state, again.state.turn.cause) == (end, "why")


def entry(body, seq=1, type_name="x", **fields):
    return Entry(seq, "2026-11-15T00:00:00.000Z", type_name, body, **fields)


def marks(session):
    return [each for each in session.follow(wait=False) if each.type == "mark"]


def test_costs_beyond_what_json_can_hold_get_no_mark(store):
    session = store.create()
    for _ in range(2):
        session.usage(input=1, output=1, cost_usd=1.7e308)
    session.checkpoint("so far")
    assert marks(session) == []
    session.append(user("goes on"))
    again = reopened(store, session)
    assert again.totals.cost_usd == float("inf")
    assert again.messages == [user("goes on")]
