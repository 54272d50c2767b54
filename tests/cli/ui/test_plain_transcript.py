"""A session as plain text: every character once, be it live, again, or beside the journal."""

from __future__ import annotations

from io import StringIO

import pytest

from holdfast.cli.ui.plain_transcript import PlainTranscript
from holdfast.runtime.protocol.messages import LiveText

LONG = "long " * 3


@pytest.fixture
def out():
    return StringIO()


@pytest.fixture
def transcript(out):
    return PlainTranscript(out, 10, {"abc": LONG.encode()}.get)


def live(text: str, *, kind: str = "text", stream: str = "s", call_id: str | None = None):
    return LiveText(stream=stream, kind=kind, text=text, call_id=call_id)


def message(seq: int, *parts, role: str = "assistant", stream: str | None = "s"):
    return {"seq": seq, "type": "message", "role": role, "stream": stream, "content": [*parts]}


def text(words: str):
    return {"type": "text", "text": words}


def test_the_entry_adds_what_was_not_live(transcript, out):
    transcript.caught_up()
    transcript.live(live("One "))
    transcript.live(live("two "))
    transcript.entry(message(1, text("One two three.")))
    assert out.getvalue() == "One two three.\n"


def test_who_attaches_again_is_shown_only_what_is_new(transcript, out):
    transcript.attached()
    transcript.caught_up()
    transcript.live(live("One two "))
    transcript.attached()
    transcript.caught_up()
    for piece in ("One ", "two th", "ree"):  # it need not come in the same pieces
        transcript.live(live(piece))
    transcript.entry(message(1, text("One two three.")))
    assert out.getvalue() == "One two three.\n"


def test_a_stream_that_ended_meanwhile_is_shown_to_its_end(transcript, out):
    transcript.caught_up()
    transcript.live(live("One "))
    transcript.attached()
    transcript.entry(message(1, text("One two.")))
    transcript.caught_up()
    transcript.live(live("Next", stream="t"))
    assert out.getvalue() == "One two.\nNext"
    assert transcript.after == 1


def test_outputs_of_two_calls_are_kept_apart(transcript, out):
    transcript.caught_up()
    for words, call in (("a1", "a"), ("b1", "b"), ("a2", "a")):
        transcript.live(live(words, kind="tool_output", call_id=call))
    results = [
        {"type": "tool_result", "call_id": call, "outcome": "completed", "content": [text(words)]}
        for call, words in (("a", "a1a2a3"), ("b", "b1"))
    ]
    transcript.entry(message(1, *results, role="tool"))
    assert out.getvalue() == "a1\nb1\na2a3\n"


@pytest.mark.parametrize(("name", "shown"), [("abc", LONG), ("gone", "It began")])
def test_a_text_that_is_too_long_for_an_entry_is_shown(transcript, out, name, shown):
    blob = {
        "sha256": name,
        "size_bytes": len(LONG),
        "media_type": "text/plain",
        "encoding": "text",
        "preview": "It began",
    }
    transcript.entry(message(1, {**text(""), "blob": blob}))
    transcript.entry(message(2, {**text(""), "blob": blob}, role="user"))
    transcript.caught_up()
    assert out.getvalue() == f"{shown}\n> {shown}\n"


def test_only_the_end_of_the_history_is_shown(out):
    transcript = PlainTranscript(out, 1, lambda _: None)
    for seq, words in enumerate(("one", "two", "three")):
        transcript.entry(message(seq, text(words), stream=str(seq)))
    transcript.caught_up()
    transcript.end()
    assert out.getvalue() == "· … 2 earlier messages\nthree\n"
