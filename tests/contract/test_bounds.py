"""What an open session holds: facts of a bounded size, and no more of the branch than needed."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Meta, user


def test_facts_that_are_too_large_together_are_rejected(store):
    with pytest.raises(holdfast.UsageError, match=r"session\.put"):
        store.create(notes="x" * 300_000)
    session = store.create(one="x" * 150_000)
    with pytest.raises(holdfast.UsageError, match="at most 262144 bytes together"):
        session.update(two="x" * 150_000)
    session.append(user("a"))
    for call in (
        lambda: session.update(two="x" * 150_000),
        lambda: session.append(Meta({"two": "x" * 150_000})),
        lambda: session.append([Meta({"two": "x" * 80_000}), Meta({"three": "x" * 80_000})]),
    ):
        with pytest.raises(holdfast.UsageError, match="Nothing was changed"):
            call()
    session.update(one="y" * 250_000)  # in the place of the first
    assert set(session.meta) == {"one"}


def test_a_checkpoint_lets_go_of_what_it_covers(store):
    session = store.create()
    session.append([user(str(number)) for number in range(50)])
    assert len(session.messages) == 50
    session.checkpoint("so far", keep_last=2)
    assert [message.text for message in session.context()] == ["so far", "48", "49"]
    assert len(session._recorder.branch.messages) == 2
    session.append(user("50"))
    assert [message.text for message in session.messages] == [str(n) for n in range(51)]
    session.checkpoint("again")
    assert session._recorder.branch.messages == []
    assert [message.text for message in session.context()] == ["again"]
    assert len(session.messages) == 51
