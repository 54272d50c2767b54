"""Checkpoints, truncation, replacement, rewinding, branches. Nothing is ever destroyed."""

from __future__ import annotations

import pytest

from holdfast import assistant, user


@pytest.fixture
def session(store):
    """A session with messages 0 to 5."""
    session = store.create()
    for number in range(6):
        session.append(user(str(number)) if number % 2 == 0 else assistant(str(number)))
    return session


def test_the_context_after_a_checkpoint_reads_only_the_end(fragile, files, monkeypatch):
    monkeypatch.setattr("holdfast.store.local.segment._BLOCK_BYTES", 4096)
    session = fragile.create()
    for number in range(300):
        session.append(user(f"{number} " + "x" * 500))
    session.checkpoint("so far", keep_last=2)
    session.append(user("next"))
    session.close()
    size = (session.path / "journal.jsonl").stat().st_size
    read: list[int] = []
    original = type(files).read_at

    def counting(self, descriptor, size, offset):
        data = original(self, descriptor, size, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(type(files), "read_at", counting)
    with fragile.open(session.id) as again:
        assert len(again.context()) == 4
    assert sum(read) < size / 3
