"""Sessions of one name at several places: copies are one session, others are not."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.exchange.sources import take_all

NAME = "11111111-1111-4111-8111-111111111111.jsonl"


def claude(path: Path, *words: str) -> Path:
    """Leave a session as Claude Code does, prompts and replies in turn."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, text in enumerate(words):
        role = "assistant" if number % 2 else "user"
        message: dict[str, object] = {"role": role, "content": [{"type": "text", "text": text}]}
        if number % 2:
            usage = {"input_tokens": 100, "output_tokens": 10}
            message |= {"id": f"m-{text}", "model": "m", "usage": usage}
        line = {"type": role, "uuid": f"u-{text}", "sessionId": "s", "message": message}
        parent = f"u-{words[number - 1]}" if number else None
        lines.append({**line, "parentUuid": parent, "timestamp": f"2026-05-06T18:00:{number:02}Z"})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def picoclaw(folder: Path, *words: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    at = "2026-05-06T18:00:00Z"
    lines = [{"role": "user", "content": text, "created_at": at} for text in words]
    (folder / "main.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def goose(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "sessions.db") as database:
        database.execute("CREATE TABLE sessions (id TEXT, name TEXT, created_at TEXT)")
        database.execute("INSERT INTO sessions VALUES ('20260506_1', ?, '2026-05-06')", (text,))
        database.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, "
            "content_json TEXT, created_timestamp INTEGER)"
        )
        content = json.dumps([{"type": "text", "text": text}])
        database.execute(
            "INSERT INTO messages VALUES (1, '20260506_1', 'user', ?, 1778000000)", (content,)
        )
    database.close()
    return folder


def gemini(path: Path, text: str) -> None:
    about = {"sessionId": "x", "projectHash": "h", "startTime": "2026-05-06T18:00:00Z"}
    said = {"id": text, "type": "user", "content": [{"text": text}]}
    if path.suffix == ".json":
        path.write_text(json.dumps({**about, "messages": [said]}))
    else:
        path.write_text(f"{json.dumps(about)}\n{json.dumps(said)}\n")


@pytest.fixture
def place(tmp_path):
    """A folder that has nothing but what a test leaves there."""
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


def sizes(store) -> dict[str, int]:
    return {each: (store.find(each) / "journal.jsonl").stat().st_size for each in store.ids()}


def conversations(store) -> list[list[str]]:
    found = []
    for session_id in store.ids():
        assert store.verify(session_id).ok
        with store.open(session_id, mode="read") as session:
            found.append([message.text for message in session.messages])
    return sorted(found)


def test_every_workspace_has_its_own_main(store, place):
    one = picoclaw(place / "w1", "I am one")
    two = picoclaw(place / "w2", "I am one", "and two")
    actions = [take_all(store, "picoclaw", folder)[0].action for folder in (one, two, one, two)]
    assert actions == ["created", "created", "unchanged", "unchanged"]
    assert conversations(store) == [["I am one"], ["I am one", "and two"]]
    picoclaw(one, "I am one", "more")
    assert take_all(store, "picoclaw", one)[0].action == "grown"
    assert conversations(store) == [["I am one", "and two"], ["I am one", "more"]]


def test_migrated_workspaces_stay_apart(store, place):
    for name in ("w1", "w2"):
        done = store.migrate(picoclaw(place / name, f"I am {name}"))
        assert [each.action for each in done.sources] == ["migrated"]
    assert conversations(store) == [["I am w1"], ["I am w2"]]


def test_databases_of_two_machines(store, place):
    places = [goose(place / name, name) for name in ("m1", "m2")]
    actions = [take_all(store, "goose", folder)[0].action for folder in places * 2]
    assert actions == ["created", "created", "unchanged", "unchanged"]
    assert conversations(store) == [["m1"], ["m2"]]


def test_two_forms_of_one_name_in_a_folder(store, place):
    folder = place / "chats"
    folder.mkdir()
    gemini(folder / "session-a.json", "old")
    gemini(folder / "session-a.jsonl", "new")
    take_all(store, "gemini-cli", folder)
    before = sizes(store)
    assert {each.action for each in take_all(store, "gemini-cli", folder)} == {"unchanged"}
    assert sizes(store) == before
    assert conversations(store) == [["new"], ["old"]]


def test_two_sessions_with_the_id_of_one(store, place):
    claude(place / "a" / NAME, "first", "x")
    claude(place / "b" / NAME, "OTHER", "y", "more")
    done = take_all(store, "claude-code", place)
    assert [each.action for each in done] == ["created", "created"]
    assert {each.action for each in take_all(store, "claude-code", place)} == {"unchanged"}
    assert conversations(store) == [["OTHER", "y", "more"], ["first", "x"]]


def test_one_of_two_namesakes_in_the_trash(store, place):
    claude(place / "a" / NAME, "first", "x")
    claude(place / "b" / NAME, "OTHER", "y")
    first, _ = take_all(store, "claude-code", place)
    store.delete(first.session)
    done = take_all(store, "claude-code", place)
    assert [each.action for each in done] == ["deleted", "unchanged"]


@pytest.mark.parametrize("copied", [True, False])
def test_a_file_that_went_elsewhere_is_the_same_session(store, place, copied):
    path = claude(place / "a" / NAME, "first", "x")
    take_all(store, "claude-code", path)
    moved = place / "b" / NAME
    moved.parent.mkdir()
    (shutil.copy2 if copied else shutil.move)(path, moved)
    assert take_all(store, "claude-code", moved)[0].action == "unchanged"
    before = sizes(store)
    assert {each.action for each in take_all(store, "claude-code", place)} == {"unchanged"}
    assert sizes(store) == before
    claude(moved, "first", "x", "more")
    assert take_all(store, "claude-code", moved)[0].action == "grown"
    assert conversations(store) == [["first", "x", "more"]]


def test_copies_that_went_different_ways_are_branches_that_stay_as_they_are(store, place):
    one, two = place / "a" / NAME, place / "b" / NAME
    claude(one, "first", "x", "one")
    claude(two, "first", "x", "two", "y")
    first, second = take_all(store, "claude-code", place)
    assert (first.action, second.action) == ("created", "branched")
    assert second.session == first.session
    before = sizes(store)
    for _ in range(3):
        done = take_all(store, "claude-code", place)
        assert {each.action for each in done} == {"unchanged"}
    assert sizes(store) == before
    claude(one, "first", "x", "one", "z")
    assert take_all(store, "claude-code", one)[0].action == "grown"
    with store.open(first.session, mode="read") as session:
        assert [message.text for message in session.messages] == ["first", "x", "one", "z"]
        assert session.state.messages == 6
        assert session.totals.requests == 3, "x, y and z"


def test_what_a_source_said_before_is_not_said_again(store, place):
    path = place / "a" / NAME
    wordings = [("first", "x", "one"), ("first", "x", "two"), ("other", "z", "three")]
    seen = []
    for words in wordings * 3:
        claude(path, *words)
        (done,) = take_all(store, "claude-code", path)
        with store.open(done.session, mode="read") as session:
            seen.append(session.state.messages)
    assert seen[3:] == [seen[2]] * 6
