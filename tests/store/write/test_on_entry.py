"""Listeners: after durability, in order, outside locks."""

from __future__ import annotations

import errno

import pytest

import holdfast
from holdfast import user


def recorded(session):
    heard: list[holdfast.Entry] = []
    stop = session.on_entry(heard.append)
    return heard, stop


def heard_texts(heard):
    return [entry.body.text for entry in heard if isinstance(entry.body, holdfast.Message)]


def test_a_listener_hears_entries_after_they_are_durable(store):
    session = store.create()
    on_disk: list[bool] = []

    def callback(entry: holdfast.Entry) -> None:
        data = (session.path / "journal.jsonl").read_bytes()
        on_disk.append(data[entry.offset :].startswith(entry.line + b"\n"))

    session.on_entry(callback)
    session.append(user("a"))
    session.append([user("b"), user("c")])
    assert len(on_disk) == 4  # the header is an entry too
    assert all(on_disk)


def test_a_listener_is_not_told_what_did_not_become_durable(fragile, files):
    session = fragile.create()
    session.append(user("a"))
    heard, _ = recorded(session)
    files.fail("sync", errno.EIO, name="journal", times=None)
    with pytest.raises(holdfast.WriteFailed):
        session.append(user("lost"))
    assert heard == []


def test_a_listener_is_not_told_before_the_sync(fragile, files):
    session = fragile.create()
    session.append(user("a"))
    heard, _ = recorded(session)
    at_sync: list[int] = []
    files.on("sync", lambda: at_sync.append(len(heard)), name="journal.jsonl")
    session.append(user("b"))
    assert at_sync == [0]
    assert heard_texts(heard) == ["b"]
