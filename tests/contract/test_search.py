"""Finding text in all sessions."""

from __future__ import annotations

import pytest

import holdfast


def put(store: holdfast.Store, *messages: holdfast.Message) -> str:
    with store.create() as session:
        for message in messages:
            session.append(message)
    return session.id


def test_a_hit_says_where_it_is(store):
    put(store, holdfast.user("nothing here"))
    session = put(store, holdfast.user("first"), holdfast.assistant("the Build is broken"))
    (hit,) = store.search("bUILD")
    entries = {entry.seq: entry for entry in store.open(session, mode="read").follow(wait=False)}
    assert hit.session == session
    assert hit.role == "assistant"
    assert hit.at == entries[hit.seq].at
    assert hit.snippet == "the Build is broken"
    assert entries[hit.seq].body == holdfast.assistant("the Build is broken")


def test_a_message_is_a_hit_once_and_shown_with_the_words_around(store):
    put(store, holdfast.user("a" * 100 + " needle " + "b" * 100 + " needle"))
    (hit,) = store.search("needle")
    assert hit.snippet == "a" * 59 + " needle " + "b" * 59


def test_letters_that_change_their_length_do_not_move_the_words_around(store):
    put(store, holdfast.user("ß" * 100 + " Maß und Ziel"))
    (hit,) = store.search("MASS")
    assert "mass und ziel" in hit.snippet


def test_every_part_that_has_text_is_searched(store):
    call = holdfast.ToolCall(id="c", name="grep", arguments={"pattern": "needle1"})
    put(
        store,
        holdfast.assistant([holdfast.Thinking(text="needle2"), call]),
        holdfast.tool_result("c", [holdfast.Text(text="needle3")]),
        holdfast.user([holdfast.Image(media_type="image/png", data="needle4")]),
        holdfast.user("needle5" + "x" * 300_000),
    )
    for number, role in ((1, "assistant"), (2, "assistant"), (3, "tool"), (5, "user")):
        (hit,) = store.search(f"needle{number}")
        assert hit.role == role
    assert store.search("needle4") == []


def test_newest_sessions_first_and_a_limit(store, monkeypatch):
    ids = []
    for day in (2, 1, 3):
        monkeypatch.setattr(
            "holdfast.journal.format.timestamp", lambda day=day: f"2026-01-0{day}T00:00:00.000Z"
        )
        ids.append(put(store, holdfast.user("needle"), holdfast.user("needle too")))
    hits = store.search("needle")
    assert [hit.session for hit in hits] == [ids[2]] * 2 + [ids[0]] * 2 + [ids[1]] * 2
    assert store.search("needle", limit=3) == hits[:3]


@pytest.mark.parametrize("text", ["", None, 7])
def test_nothing_to_search_for_is_refused(store, text):
    with pytest.raises(holdfast.UsageError):
        store.search(text)


@pytest.mark.parametrize("word", ["needle", "needl", "eedle"])
def test_of_each_session_one_message_if_that_is_enough(store, word):
    """As whole words and beginnings, which the index knows, and inside of words, which it reads."""
    ids = [put(store, *[holdfast.user("needle")] * 5) for _ in range(3)]
    hits = store.search(word, once=True, limit=3)
    assert sorted(hit.session for hit in hits) == sorted(ids)
    assert len(store.search(word)) == 15


def test_who_asks_is_told_how_far_it_is_while_files_are_read(store):
    for _ in range(3):
        put(store, holdfast.user("needle"))
    told: list[tuple[int, int]] = []
    assert len(store.search("eedl", progress=lambda *far: told.append(far))) == 3
    assert told[-3:] == [(0, 3), (1, 3), (2, 3)]
