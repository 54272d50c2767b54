"""Points in time as people type them."""

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.ui.filter_options import SINCE, UNTIL
from holdfast.errors import UsageError
from holdfast.keeper.times import parse_time

NOW = datetime(2026, 11, 18, 9, 30, tzinfo=UTC)  # a Wednesday


@pytest.fixture(autouse=True)
def zone(monkeypatch):
    """New York: not UTC, and days of 23 and 25 hours."""
    monkeypatch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("1.5h", timedelta(minutes=90)),
        ("14d", timedelta(days=14)),
        ("2w", timedelta(days=14)),
        ("6mo", timedelta(days=180)),
        ("1y", timedelta(days=365)),
        ("3 days ago", timedelta(days=3)),
        ("  2 Weeks ", timedelta(days=14)),
        ("now", timedelta()),
    ],
)
def test_an_age_counts_back_from_now(text, age):
    assert parse_time(text, now=NOW) == NOW - age
    assert parse_time(text, end=True, now=NOW) == NOW - age


@pytest.mark.parametrize(
    ("text", "begins", "ends"),
    [
        ("today", "2026-11-18T05:00", "2026-11-19T05:00"),
        ("Yesterday", "2026-11-17T05:00", "2026-11-18T05:00"),
        ("monday", "2026-11-16T05:00", "2026-11-17T05:00"),
        ("wednesday", "2026-11-11T05:00", "2026-11-12T05:00"),
        ("2026-11-01", "2026-11-01T04:00", "2026-11-02T05:00"),  # 25 hours long
        ("2026-03-08", "2026-03-08T05:00", "2026-03-09T04:00"),  # 23 hours long
    ],
)
def test_a_day_is_one_of_this_time_zone(text, begins, ends):
    assert parse_time(text, now=NOW) == datetime.fromisoformat(begins).replace(tzinfo=UTC)
    assert parse_time(text, end=True, now=NOW) == datetime.fromisoformat(ends).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-18 14:30", "2026-11-18T19:30"),
        ("2026-11-18T14:30:05", "2026-11-18T19:30:05"),
        ("2026-11-18T14:30Z", "2026-11-18T14:30"),
        ("2026-11-18T14:30+02:00", "2026-11-18T12:30"),
    ],
)
def test_a_time_is_local_unless_it_names_its_zone(text, expected):
    wanted = datetime.fromisoformat(expected).replace(tzinfo=UTC)
    assert parse_time(text, now=NOW) == parse_time(text, end=True, now=NOW) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "soon", "14", "14 parsecs", "-3d", "2026-13-01", "999999999y", "0001-01-01T00:00+14:00"],
)
def test_a_mistake_is_told_with_what_would_do(text):
    with pytest.raises(UsageError, match="is not a time: use an age such as 14d"):
        parse_time(text, now=NOW)


@given(st.text())
def test_whatever_is_typed_is_a_time_or_a_mistake(text):
    with suppress(UsageError):
        assert parse_time(text).tzinfo == UTC


def test_options_take_it():
    assert UNTIL.convert("today", None, None) - SINCE.convert("today", None, None) >= timedelta(
        hours=23
    )
    assert SINCE.convert(NOW, None, None) is NOW
    with pytest.raises(click.BadParameter, match="not a time"):
        SINCE.convert("soon", None, None)
