"""A follower that finds nothing looks again, until there is something."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import user


@pytest.fixture
def session(store):
    with store.create() as session:
        session.append(user("first"))
        yield session


@pytest.fixture
def follower(session, monkeypatch):
    """A follower at the end of the session; its first look is too early for what comes next."""
    with session.follow(session.state.seq) as follower:
        real = follower.poll
        looks = []

        def poll():
            looks.append(real())
            if len(looks) == 1:
                session.append(user("second"))
            return looks[-1]

        monkeypatch.setattr(follower, "poll", poll)
        follower.looks = looks
        yield follower


def test_it_waits(follower):
    assert next(follower).body == user("second")
    assert follower.looks[0] == []


def test_it_waits_without_blocking_the_loop(follower):
    entry = asyncio.run(follower.__anext__())
    assert entry.body == user("second")
    assert follower.looks[0] == []
