"""The walk from the head to the root where the way is damaged, and what is noted about it."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import user


@pytest.fixture
def session(store):
    with store.create() as session:
        for text in ("a", "b", "c", "d"):
            session.append(user(text))
    return session


def test_the_branch_is_given_from_the_head_back(store):
    session = store.create()
    assert list(session.branch()) == []
    first = session.append(holdfast.user("a"))
    session.append([holdfast.Turn("started"), holdfast.assistant("b")])
    session.rewind(first)
    session.usage(input=1, output=1)
    last = session.append(holdfast.user("c"))
    assert [entry.seq for entry in session.branch()] == [last.seq, first.seq]
    session.close()
    assert [entry.seq for entry in session.branch()] == [last.seq, first.seq]
    with store.open(session.id, mode="read") as reader:
        assert [entry.seq for entry in reader.branch()] == [last.seq, first.seq]
