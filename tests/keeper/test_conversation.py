"""Pages of a conversation: nothing twice, nothing left out, only the current branch."""

from __future__ import annotations

import pytest

from holdfast import Message, Text, assistant, open_store, user
from holdfast.exchange.exporting.depth import EVERYTHING, MESSAGES
from holdfast.keeper.conversation import conversation_page, entries_to_show, entry_to_json


@pytest.fixture
def session(tmp_path):
    with open_store(tmp_path / "home") as store, store.create() as session:
        for number in range(3):
            session.append(user(f"question {number}"))
            session.append(assistant(f"answer {number}"))
        last = session.state.head
        session.append(user("a mistake"))
        session.rewind(last)
        session.append(Message(role="system", content=[Text(text="be brief")]))
        session.append(user("another question"))
        yield session


def texts(entries):
    return [each.messages[0].text for each in entries]


def pages(session, depth, limit):
    before = None
    while True:
        page = conversation_page(session, depth, limit=limit, before=before)
        yield page.entries
        before = page.before
        if before is None:
            return


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("depth", [MESSAGES, EVERYTHING])
def test_pages_have_the_whole_branch_once(session, depth, limit):
    whole = list(entries_to_show(session, depth))
    assert "a mistake" not in texts(whole)
    assert ("be brief" in texts(whole)) == (depth == EVERYTHING)
    found = list(pages(session, depth, limit))
    assert [each for page in reversed(found) for each in page] == whole
    assert all(len(page) == limit for page in found[:-1])


def test_a_page_stays_the_same_while_the_session_grows(session):
    first = conversation_page(session, MESSAGES, limit=2)
    second = conversation_page(session, MESSAGES, limit=2, before=first.before)
    session.append(assistant("a new answer"))
    assert conversation_page(session, MESSAGES, limit=2, before=first.before) == second


def test_a_summary_is_an_entry(session):
    session.checkpoint("in short")
    session.append(user("and now?"))
    *_, summary, last = conversation_page(session, MESSAGES, limit=9).entries
    assert entry_to_json(summary)["type"] == "checkpoint"
    assert entry_to_json(last)["content"] == [{"type": "text", "text": "and now?"}]
    assert entry_to_json(last)["seq"] == last.seq
