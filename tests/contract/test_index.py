"""What a list shows of a session, in which order, and of which sessions."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import holdfast


@pytest.fixture
def clock(monkeypatch):
    """Set the time that entries get."""

    def set_to(at: str) -> None:
        monkeypatch.setattr("holdfast.journal.format.timestamp", lambda: at)

    return set_to


def put(store: holdfast.Store, text: str = "hello", **meta: Any) -> str:
    with store.create(**meta) as session:
        session.append(holdfast.user(text))
    return session.id


def test_the_title_is_the_first_user_text_if_none_was_given(store):
    put(store, "do this")
    assert store.list()[0].title == "do this"


def test_the_key_is_listed(store):
    with store.session("telegram:42") as session:
        session.append(holdfast.user("hello"))
    assert store.list()[0].key == "telegram:42"


def test_strange_facts_do_not_break_the_list(store):
    with store.create(title="\ud800 lone", workspace=os.fsdecode(b"/no/\xff/utf8")) as session:
        session.append(holdfast.user("hello"))
        session.update(provider=7, model=["m"], tags=["plain", 10**30, {"deep": [None]}], x=10**30)
        session.usage(input=10**30, output=1)
    put(store, "the next one")
    for _ in range(2):  # the second time from the cache
        listed = {summary.id: summary for summary in store.list()}
        summary = listed[session.id]
        assert summary.title == "\ud800 lone"
        assert summary.workspace == os.fsdecode(b"/no/\xff/utf8")
        assert (summary.provider, summary.model, summary.tags) == (None, None, ["plain"])
        assert summary.totals.input == 10**30
        assert len(listed) == 2
        assert len(store.list(workspace=os.fsdecode(b"/no/\xff/utf8"))) == 1
    with store.open(session.id) as again:
        again.update(tags="not a list", title=None)
    assert [s.tags for s in store.list() if s.id == session.id] == [[]]


def test_last_updated_first_and_a_limit(store, clock):
    ids = []
    for day in (3, 1, 2):
        clock(f"2026-01-0{day}T00:00:00.000Z")
        ids.append(put(store))
    expected = [ids[0], ids[2], ids[1]]
    assert [summary.id for summary in store.list()] == expected
    for limit in (0, 1, 2, 3, 9):
        assert [summary.id for summary in store.list(limit=limit)] == expected[:limit]
    clock("2026-01-04T00:00:00.000Z")
    with store.open(ids[1]) as session:
        session.append(holdfast.user("again"))
    assert store.list(limit=1)[0].id == ids[1]


@pytest.mark.parametrize("limit", [-1, "3", 1.5])
def test_a_limit_that_is_none_is_refused(store, limit):
    put(store)
    with pytest.raises(holdfast.UsageError):
        store.list(limit=limit)


def test_sessions_of_a_time(store, clock):
    ids = []
    for day in (1, 2, 3):
        clock(f"2026-01-0{day}T00:00:00.000Z")
        ids.append(put(store))

    def listed(**times: datetime) -> list[str]:
        return sorted(summary.id for summary in store.list(**times))

    second = datetime(2026, 1, 2, tzinfo=UTC)
    assert listed(since=second) == sorted(ids[1:])
    assert listed(until=second) == ids[:1]
    assert listed(since=second, until=second + timedelta(milliseconds=1)) == ids[1:2]
    elsewhere = datetime(2026, 1, 2, 5, tzinfo=timezone(timedelta(hours=5)))
    assert listed(since=elsewhere) == sorted(ids[1:])
    naive = datetime(2026, 1, 2, tzinfo=UTC).astimezone().replace(tzinfo=None)
    assert listed(until=naive) == ids[:1]
    # A year of fewer than four digits is long ago, not after 2026.
    assert listed(since=datetime(300, 1, 1, tzinfo=UTC)) == sorted(ids)
    assert listed(until=datetime(300, 1, 1, tzinfo=UTC)) == []
