"""A last batch that was acknowledged and damaged later is not one that was never finished."""

from __future__ import annotations

import pytest

from holdfast import user


def texts(session):
    return [message.text for message in session.messages]


@pytest.fixture
def closed(store):
    with store.create() as session:
        session.append(user("before"))
        session.append([user("one"), user("two"), user("three")])
    return session


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize(("hit", "left"), [("one", ["two", "three"]), ("two", ["one", "three"])])
def test_a_damaged_line_of_an_acknowledged_batch_costs_only_itself(store, closed, mode, hit, left):
    path = closed.path / "journal.jsonl"
    lines = path.read_bytes().split(b"\n")
    number = next(n for n, line in enumerate(lines) if f'"{hit}"'.encode() in line)
    lines[number] = b"#" * len(lines[number])
    path.write_bytes(b"\n".join(lines))
    with store.open(closed.id, mode) as again:
        assert again.recovery.set_aside == []
        assert len(again.recovery.damage) == 1
        assert texts(again) == ["before", *left]
        if mode == "write":
            again.append(user("after"))
    assert ("after" in texts(store.open(closed.id, "read"))) == (mode == "write")


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize("lines_cut", [1, 2])
@pytest.mark.parametrize("extra_bytes", [0, 7])
def test_a_batch_that_was_cut_off_is_cut_as_one(store, closed, mode, lines_cut, extra_bytes):
    path = closed.path / "journal.jsonl"
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    kept = b"".join(lines[:-lines_cut])
    path.write_bytes(content[: len(kept) + extra_bytes])
    with store.open(closed.id, mode) as again:
        assert texts(again) == ["before"]
        assert len(again.recovery.set_aside) == (mode == "write")
        if mode == "write":
            again.append(user("after"))
            assert texts(again) == ["before", "after"]
