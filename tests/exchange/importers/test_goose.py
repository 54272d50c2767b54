"""goose: compactions, which hide old messages from the agent and the summary from the user."""

from __future__ import annotations

import json
import sqlite3

import pytest

from tests.exchange.sources import take_all

BOTH = {"userVisible": True, "agentVisible": True}
USER = {"userVisible": True, "agentVisible": False}
AGENT = {"userVisible": False, "agentVisible": True}
NOBODY = {"userVisible": False, "agentVisible": False}
NOTICE = [{"type": "systemNotification", "notificationType": "inlineMessage", "msg": "Compacted"}]


@pytest.fixture
def put(tmp_path):
    folder = tmp_path / "sessions"
    folder.mkdir()

    def write(*rows):
        path = folder / "sessions.db"
        path.unlink(missing_ok=True)
        database = sqlite3.connect(path)
        database.execute(
            "CREATE TABLE sessions (id TEXT, name TEXT, working_dir TEXT, "
            "created_at TEXT, updated_at TEXT)"
        )
        database.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, message_id TEXT, "
            "session_id TEXT, role TEXT, content_json TEXT, "
            "created_timestamp INTEGER, metadata_json TEXT)"
        )
        database.execute(
            "INSERT INTO sessions VALUES ('20261101_1', 'T', '/p', '2026-11-01 00:00:00', ?)",
            (str(len(rows)),),
        )
        for number, (role, content, metadata) in enumerate(rows):
            text = [{"type": "text", "text": content}] if isinstance(content, str) else content
            values = (role, json.dumps(text), 1_793_000_000 + number, json.dumps(metadata))
            database.execute(
                "INSERT INTO messages (session_id, role, content_json, created_timestamp, "
                "metadata_json) VALUES ('20261101_1', ?, ?, ?, ?)",
                values,
            )
        database.commit()
        database.close()
        return folder

    return write


def contents(store):
    (summary,) = store.list()
    with store.open(summary.id, mode="read") as session:
        messages = [message.text for message in session.messages]
        return messages, [message.text for message in session.context()], session.state.messages


TALK = [("user", "one"), ("assistant", "1."), ("user", "two"), ("assistant", "2.")]


def test_a_compaction(store, put):
    take_all(store, "goose", put(*[(*each, BOTH) for each in TALK]))
    rows = [
        *[(*each, USER) for each in TALK],
        ("assistant", NOTICE, USER),
        ("user", "Summary.", AGENT),
        ("assistant", "I go on.", AGENT),
        ("user", "three", BOTH),
        ("assistant", "3.", BOTH),
    ]
    (done,) = take_all(store, "goose", put(*rows))
    assert done.action == "grown"
    messages, context, recorded = contents(store)
    assert messages == ["one", "1.", "two", "2.", "three", "3."]
    assert context == ["Summary.", "I go on.", "three", "3."]
    assert recorded == 6


def test_a_second_compaction(store, put):
    rows = [
        *[(*each, USER) for each in TALK],
        ("user", "First summary.", NOBODY),
        ("user", "three", USER),
        ("user", "Summary.", AGENT),
        ("user", "four", BOTH),
    ]
    take_all(store, "goose", put(*rows))
    messages, context, _ = contents(store)
    assert messages == ["one", "1.", "two", "2.", "three", "four"]
    assert context == ["Summary.", "four"]


def test_what_is_only_for_the_screen_is_no_message(store, put):
    take_all(store, "goose", put(("user", "one", BOTH), ("assistant", NOTICE, USER)))
    assert contents(store) == (["one"], ["one"], 1)
