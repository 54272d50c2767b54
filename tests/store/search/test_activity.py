"""What happened when: counted once, whatever way it is counted."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast.store.search.documents import COUNTS, Activity


@pytest.fixture
def clock(monkeypatch):
    def set_to(at: str) -> None:
        monkeypatch.setattr("holdfast.journal.format.timestamp", lambda: at)

    return set_to


@pytest.fixture(params=["index", "files"])
def way(request, monkeypatch):
    """Both ways to the same answer."""
    if request.param == "files":
        monkeypatch.setattr("holdfast.store.search.text_index.NAME", "no/such/place")


@pytest.fixture
def filled(store, clock):
    clock("2026-01-02T03:14:59.999Z")
    with store.create(workspace="/w", project="git:p", agent="mine") as session:
        session.append(holdfast.user("one"))
        session.usage(input=10, output=5, cost_usd=0.25, model="m1", cache_read=3, cache_write=2)
        clock("2026-01-02T03:15:00.000Z")
        session.append(holdfast.assistant("two"))
        session.usage(input=1, output=1, model="m2")
        session.usage(input=2, output=1, cost_usd=1.0)
    return session


def totals(activities: list[Activity]) -> dict[str, float]:
    return {name: sum(getattr(each, name) for each in activities) for name in COUNTS}


@pytest.mark.usefixtures("way")
def test_by_quarters_of_an_hour_and_models(store, filled):
    who: dict[str, Any] = {"agent": "mine", "workspace": "/w", "project": "git:p"}
    at = ("2026-01-02T03:00", "2026-01-02T03:15")
    found = store.activity()
    assert sorted(found, key=lambda each: (each.at, each.model or "", each.requests)) == [
        Activity(filled.id, at[0], None, messages=1, prompts=1, **who),
        Activity(
            filled.id,
            at[0],
            "m1",
            requests=1,
            input=10,
            output=5,
            cache_read=3,
            cache_write=2,
            cost_usd=0.25,
            **who,
        ),
        Activity(filled.id, at[1], None, messages=1, **who),
        Activity(filled.id, at[1], "", requests=1, input=2, output=1, cost_usd=1.0, **who),
        Activity(filled.id, at[1], "m2", requests=1, input=1, output=1, unpriced=1, **who),
    ]
    assert [each.at for each in found] == sorted(each.at for each in found)


@pytest.mark.usefixtures("way")
def test_what_is_added_is_counted_once(store, filled):
    before = totals(store.activity())
    with store.open(filled.id) as session:
        session.append(holdfast.user("three"))
        session.usage(input=100, output=1, cost_usd=0.5, model="m1")
    after = totals(store.activity())
    assert after == totals(store.activity())
    assert after["input"] == before["input"] + 100
    assert after["messages"] == before["messages"] + 1


@pytest.mark.usefixtures("way")
def test_what_a_compaction_left_out_still_counts(store, filled, clock):
    before = totals(store.activity())
    clock("2026-03-04T05:06:07.000Z")
    with store.open(filled.id) as session:
        session.checkpoint("so far")
        session.append(holdfast.user("new"))
        session.compact()
        whole = session.totals
        messages = session.state.messages
    found = store.activity()
    after = totals(found)
    assert after["messages"] == messages == before["messages"] + 1
    for name in ("requests", "input", "output", "cache_read", "cache_write", "unpriced"):
        assert after[name] == getattr(whole, name) == before[name]
    assert after["cost_usd"] == pytest.approx(before["cost_usd"])
    assert {each.at for each in found} == {
        "2026-01-02T03:00",
        "2026-01-02T03:15",
        "2026-03-04T05:00",
    }


@pytest.mark.usefixtures("way")
def test_numbers_beyond_measure(store):
    with store.create() as session:
        session.append(holdfast.user("hello"))
        session.usage(input=10**30, output=1, model="\ud800")
    (usage,) = [each for each in store.activity() if each.requests]
    assert usage.input >= 10**15  # the index counts no further
    assert usage.model == "\ud800"


@pytest.mark.usefixtures("way")
def test_damage_and_what_is_gone(store, filled):
    with store.create() as session:
        session.append(holdfast.user("gone"))
    session.path.joinpath("journal.jsonl").unlink()
    with store.create() as session:
        session.append(holdfast.user("hello"))
        session.append(holdfast.user("there"))
    journal = session.path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"hello", b"he\0lo"))
    assert totals(store.activity())["messages"] == 3


@pytest.mark.usefixtures("way")
def test_what_only_a_mark_still_tells_counts_too(store, filled):
    with store.open(filled.id) as session:
        session.checkpoint("so far", keep_last=1)  # brings a mark
        whole = session.totals
    before = totals(store.activity())
    journal = filled.path / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(
        b"".join(b"\0\n" if b'"m1"' in line and b"mark" not in line else line for line in lines)
    )
    after = totals(store.activity())
    assert after == {**before, "cost_usd": pytest.approx(before["cost_usd"])}
    assert after["input"] == whole.input


@pytest.fixture
def fork(store, filled):
    with store.open(filled.id) as session, session.fork() as fork:
        return fork


def work_of(store, session):
    found = totals([each for each in store.activity() if each.session == session.id])
    return found["messages"], found["prompts"]


@pytest.mark.usefixtures("way")
def test_what_a_fork_has_copied_counts_where_it_came_from(store, filled, fork, clock):
    assert work_of(store, fork) == (0, 0)
    assert work_of(store, filled) == (2, 1)
    clock("2999-01-02T03:14:59.999Z")
    for expected in (1, 2):  # also where the index goes on from where it was
        with store.open(fork.id) as session:
            session.append(holdfast.user("of its own"))
        assert work_of(store, fork) == (expected, expected)
    with store.open(fork.id) as session:
        session.checkpoint("so far", keep_last=1)
        session.compact()  # writes the header anew
    messages, prompts = work_of(store, fork)
    assert messages == prompts <= 2
    assert messages >= 1
    assert work_of(store, filled) == (2, 1)


@pytest.mark.usefixtures("way")
def test_a_fork_under_a_name_that_tells_no_time(store, filled, fork):
    key = holdfast.open_store(store.path).session("a key").id
    place = store.path / "sessions" / "keyed" / key
    place.parent.mkdir(mode=0o700)
    fork.path.rename(place)
    assert totals(store.activity())["messages"] == 2


@pytest.mark.usefixtures("way")
def test_turns_are_counted_when_they_start(store, filled):
    with store.open(filled.id) as session:
        for state in ("started", "waiting", "started", "completed"):
            session.append(holdfast.Turn(state))
    assert totals(store.activity())["turns"] == 2
