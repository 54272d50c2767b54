"""Part of a list, with how much is left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

import holdfast
from holdfast import user
from holdfast.store.catalog.index import page_of_default_home


@pytest.fixture
def five(store, tmp_path):
    for number in range(5):
        place = tmp_path / ("here" if number < 3 else "there")
        place.mkdir(exist_ok=True)
        with store.create(session_id=f"20260102-03040{number}-aaaabbbb", workspace=place) as made:
            made.append(user("hello"))
    return store


def counts(page):
    return len(page.sessions), page.fitting, page.placed, page.total


def test_everything_is_counted(five, tmp_path):
    soon = datetime.now(UTC) + timedelta(hours=1)
    assert counts(five.page()) == (5, 5, 5, 5)
    assert counts(five.page(limit=2)) == (2, 5, 5, 5)
    assert counts(five.page(limit=2, workspace=tmp_path / "here")) == (2, 3, 3, 5)
    assert counts(five.page(workspace=tmp_path / "there", since=soon)) == (0, 0, 2, 5)
    assert counts(five.page(until=soon)) == (5, 5, 5, 5)
    assert counts(five.page(project="git:nothing")) == (0, 0, 0, 5)


def test_it_is_the_list(five):
    assert five.page().sessions == five.list()
    assert five.page(limit=3).sessions == five.list(limit=3)


def test_a_home_that_is_not_there(home):
    assert counts(holdfast.open_store(home).page()) == (0, 0, 0, 0)
    assert not home.exists()


def test_a_session_is_found_without_being_opened(five, home):
    folder = five.find("030403")
    assert folder == home / "sessions" / "2026-01" / "20260102-030403-aaaabbbb"
    (folder / "journal.jsonl").write_bytes(b"\0")
    assert five.find(folder) == folder
    with pytest.raises(holdfast.SessionNotFound):
        five.find("zzzz")


@pytest.mark.parametrize(
    "zone", [None, *(timezone(timedelta(hours=hours)) for hours in (-12, 0, 14))]
)
def test_the_edges_of_time_mean_everything_or_nothing(five, zone):
    first, last = datetime.min.replace(tzinfo=zone), datetime.max.replace(tzinfo=zone)
    for ask in (five.list, lambda **when: five.page(**when).sessions):
        assert len(ask(since=first)) == len(ask(until=last)) == 5
        assert ask(until=first) == ask(since=last) == []
    assert len(five.search("hello", since=first, until=last)) == 5


def test_the_default_home_is_listed_without_a_store(store, monkeypatch):
    with store.create() as session:
        session.append(user("hello"))
    monkeypatch.setenv("HOLDFAST_HOME", str(store.path))
    page = page_of_default_home(limit=5)
    assert [summary.id for summary in page.sessions] == [session.id]
    assert page_of_default_home(until=datetime(2000, 1, 1, tzinfo=UTC)).sessions == []
