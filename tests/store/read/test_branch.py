"""The walk from the head to the root where the way is damaged, and what is noted about it."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Turn, user
from holdfast.files import Files
from holdfast.journal.damage import Damage
from holdfast.store.local.reader import Journal
from holdfast.store.read.branch import walk


def texts(messages):
    return [message.text for message in messages]


def damage(session, text):
    """Make the line that contains ``text`` unreadable."""
    path = session.path / "journal.jsonl"
    lines = path.read_bytes().split(b"\n")
    (number,) = (number for number, line in enumerate(lines) if text in line)
    lines[number] = b"#" * len(lines[number])
    path.write_bytes(b"\n".join(lines))


@pytest.fixture
def session(store):
    with store.create() as session:
        for text in ("a", "b", "c", "d"):
            session.append(user(text))
    return session


@pytest.mark.parametrize("mode", ["read", "write"])
def test_an_unreadable_parent_resolves_to_the_nearest_earlier_message(store, session, mode):
    damage(session, b'"text":"c"')
    again = store.open(session.id, mode)
    assert texts(again.messages) == ["a", "b", "d"]
    assert [piece.kind for piece in again.recovery.damage] == ["unreadable"]


def test_an_unreadable_head_resolves_to_the_nearest_earlier_message(store, session):
    with store.open(session.id) as again:
        again.append(holdfast.Meta({"x": 1}))
    damage(session, b'"text":"d"')
    assert texts(store.open(session.id, "read").messages) == ["a", "b", "c"]


def test_an_unreadable_root_ends_the_branch(store, session):
    damage(session, b'"text":"a"')
    assert texts(store.open(session.id, "read").messages) == ["b", "c", "d"]


def test_a_turn_is_no_stand_in_but_a_checkpoint_is(store):
    with store.create() as session:
        session.append(user("a"))
        session.checkpoint("so far")
        session.append(Turn("started"))
        session.append(user("lost"))
        session.append(user("b"))
    damage(session, b'"text":"lost"')
    assert texts(store.open(session.id, "read").context()) == ["so far", "b"]


@pytest.mark.parametrize(
    "parent", [b"", b'"parent":4,', b'"parent":9,', b'"parent":-5,', b'"parent":"b",']
)
def test_a_parent_that_is_missing_or_cannot_be_is_the_line_before(store, session, parent):
    path = session.path / "journal.jsonl"
    changed = path.read_bytes().replace(b'"parent":3,', parent)
    path.write_bytes(changed)
    again = store.open(session.id, "read")
    assert texts(again.messages) == ["a", "b", "c", "d"]


def test_damage_on_the_way_is_reported(store, session):
    damage(session, b'"text":"b"')
    noticed: list[Damage] = []
    with Journal(Files(), session.path) as journal:
        found = list(walk(journal, 4, noticed))
    assert [entry.seq for entry in found] == [4, 3, 1]
    assert [piece.kind for piece in noticed] == ["unreadable"]


def test_damage_that_is_met_late_is_noted_by_the_next_append(store):
    with store.create() as session:
        session.append(user("a"))
        session.append(user("b"))
        session.checkpoint("so far")  # opening reads no further than its mark
    damage(session, b'"text":"a"')
    with store.open(session.id) as again:
        assert again.recovery.clean
        again.append(user("c"))
        assert texts(again.messages) == ["b", "c"]
        again.append(user("d"))
        (gap,) = again.state.gaps
        again.append(user("e"))
        assert again.state.gaps == [gap]
        assert [entry.type for entry in again.follow(wait=False)].count("gap") == 1
    with store.open(session.id) as again:
        assert texts(again.messages) == ["b", "c", "d", "e"]
        again.append(user("f"))
        assert again.state.gaps == [gap]


def test_a_rewind_across_many_blocks(store, monkeypatch):
    monkeypatch.setattr("holdfast.store.local.segment._BLOCK_BYTES", 2000)
    session = store.create()
    early = session.append(user("early"))
    for number in range(100):
        session.append(user(f"{number} " + "x" * 300))
    session.rewind(early)
    session.append(user("late"))
    session.close()
    with store.open(session.id) as again:
        assert texts(again.messages) == ["early", "late"]
