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


def keyed(store: holdfast.Store, key: str, **meta: Any) -> str:
    with store.session(key, **meta) as session:
        session.append(holdfast.user("hello"))
    return session.id


def test_a_key_is_in_the_store_once_something_was_appended(store):
    assert "telegram:42" not in store
    with store.session("telegram:42") as session:
        assert "telegram:42" not in store
        session.append(holdfast.user("hello"))
        assert "telegram:42" in store
    assert "telegram:4" not in store
    assert session.id not in store  # an id is not a key
    with pytest.raises(holdfast.UsageError):
        assert 42 in store
    store.delete(session.id)
    assert "telegram:42" not in store


def test_sessions_are_listed_by_the_start_of_their_keys(store):
    put(store, "without a key")
    for key in ("telegram:1", "telegram:2", "telegram", "slack:1", "ü:1", "\ud800:1", "\U0010ffff"):
        keyed(store, key)

    def keys(prefix: str, **where: Any) -> set[str | None]:
        return {each.key for each in store.list(key_prefix=prefix, **where)}

    for _ in range(2):  # the second time from the cache
        assert keys("telegram:") == {"telegram:1", "telegram:2"}
        assert keys("telegram") == {"telegram:1", "telegram:2", "telegram"}
        assert keys("ü") == {"ü:1"}
        assert keys("\ud800") == {"\ud800:1"}
        assert keys("\U0010ffff") == {"\U0010ffff"}
        assert keys("none") == set()
        assert len(keys("")) == 7
    assert len(keys("telegram:", limit=1)) == 1
    page = store.page(key_prefix="telegram:", limit=1)
    assert (len(page.sessions), page.fitting, page.placed, page.total) == (1, 2, 2, 8)
    with pytest.raises(holdfast.UsageError, match="key_prefix"):
        store.list(key_prefix=42)


def test_a_summary_has_the_small_facts_that_no_field_shows(store):
    deep: Any = "deep"
    for _ in range(9):
        deep = [deep]
    many = {f"fact{number:02}": "x" * 900 for number in range(12)}
    put(store, "many", **many)
    put(
        store,
        "few",
        title="Build",
        tags=["a"],
        customer=7,
        owner={"name": "Ada", "roles": ["admin"]},
        large="x" * 1024,
        huge=10**30,
        half="\ud800",
        deep=deep,
        level=deep[0],
    )
    for _ in range(2):  # the second time from the cache
        facts = {each.first_text: each.meta for each in store.list()}
        assert facts["few"] == {
            "customer": 7,
            "owner": {"name": "Ada", "roles": ["admin"]},
            "level": deep[0],
        }
        assert list(facts["many"]) == [f"fact{number:02}" for number in range(8)]
