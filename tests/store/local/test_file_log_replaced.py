"""Journals that are replaced or deleted while a reader opens them."""

from __future__ import annotations

import errno
import os

import pytest

from holdfast import user
from holdfast.model.entry import Entry
from holdfast.model.message import Message
from holdfast.store.local.reader import Journal
from tests.fakes import FakeFiles


def texts(journal):
    return [
        record.body.text
        for record in journal.records()
        if isinstance(record, Entry) and isinstance(record.body, Message)
    ]


@pytest.fixture
def session(fragile, files):
    """A session in two files."""
    session = fragile.create()
    session.append(user("a"))
    files.fail("sync", errno.EIO, name="journal.jsonl")
    session.append(user("b"))
    assert (session.path / "journal.2.jsonl").exists()
    return session


def test_a_compaction_while_a_reader_opens_hides_nothing(session):
    slow = FakeFiles()

    def compact() -> None:
        session.compact()
        assert not (session.path / "journal.2.jsonl").exists()
        raise FileNotFoundError

    slow.on("open_read", compact, name="journal.2.jsonl")
    with Journal(slow, session.path) as journal:
        assert texts(journal) == ["a", "b"]
        session.append(user("c"))
    assert slow.left_open == []
    assert [message.text for message in session.messages] == ["a", "b", "c"]


def test_a_session_that_is_deleted_while_a_reader_opens_can_still_be_read(session):
    slow = FakeFiles()

    def delete() -> None:
        session.close()
        os.rename(session.path, session.path.with_name("away"))
        raise FileNotFoundError

    slow.on("status_of", delete, name="journal.jsonl")
    with Journal(slow, session.path) as journal:
        assert texts(journal) == ["a", "b"]
    assert slow.left_open == []
