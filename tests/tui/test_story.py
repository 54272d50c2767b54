"""A story told from entries and live pieces: every character once, however they come together."""

from __future__ import annotations

import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.control.story import Story

TEXT = st.text("ab \n漢", max_size=12)


class FakePage:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str | None, str]] = []
        self.events: list[str] = []

    def prompt(self, text: str, attached: list[str]) -> None:
        self.told.append(("prompt", None, text))

    def piece(self, kind: str, call_id: str | None, text: str) -> None:
        self.told.append((kind, call_id, text))

    def whole(self, kind: str, text: str) -> None:
        self.events.append(f"whole {kind}")

    def call(self, call: dict[str, Any]) -> None:
        self.events.append("call")

    def result(self, result: dict[str, Any], text: str) -> None:
        self.events.append("result")

    def message_end(self, stop: str | None) -> None:
        self.events.append(f"end {stop}")

    def turn(self, state: str, cause: str | None) -> None:
        self.events.append(state)

    def other(self, entry: dict[str, Any]) -> None:
        self.events.append(entry["type"])

    def all(self, kind: str, call_id: str | None = None) -> str:
        return "".join(text for k, c, text in self.told if (k, c) == (kind, call_id))


def message(seq: int, parts: list[dict[str, Any]], stream: str) -> dict[str, Any]:
    role = "tool" if parts and parts[0]["type"] == "tool_result" else "assistant"
    return {"type": "message", "role": role, "seq": seq, "content": parts, "stream": stream}


def pieces(stream: str, kind: str, text: str, cuts: list[int], call_id: str | None = None):
    ends = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    for begin, end in zip([0, *ends], ends, strict=False):
        live = {"type": "live", "stream": stream, "kind": kind, "text": text[begin:end]}
        yield live if call_id is None else {**live, "call_id": call_id}


@st.composite
def sessions(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """Entries of messages, and for each the live pieces that came before it."""
    entries, live = [], []
    for seq in range(draw(st.integers(1, 4))):
        stream = f"s{seq}"
        cuts = st.lists(st.integers(0, 12), max_size=4)
        if draw(st.booleans()):
            parts: list[dict[str, Any]] = []
            events: list[dict[str, Any]] = []
            for _ in range(draw(st.integers(1, 3))):
                kind, text = draw(st.sampled_from(["text", "thinking"])), draw(TEXT)
                parts.append({"type": kind, "text": text})
                events += pieces(stream, kind, text, draw(cuts))
        else:
            text, call = draw(TEXT), f"c{seq}"
            content = [{"type": "text", "text": text}]
            parts = [{"type": "tool_result", "call_id": call, "content": content}]
            events = list(pieces(stream, "tool_output", text, draw(cuts), call))
        entries.append(message(seq, parts, stream))
        live.append(events)
    return entries, live


@given(sessions(), st.data())
def test_every_character_is_told_once_through_all_re_attachments(session, data):
    entries, live = session
    page = FakePage()
    story = Story(page, lambda _: None)
    for entry, events in zip(entries, live, strict=True):
        heard = data.draw(st.integers(0, len(events)), label="pieces heard before the entry")
        position = 0
        while position < heard:
            story.live(events[position])
            position += 1
            if data.draw(st.booleans(), label="attached again"):
                story.attached()
                position = 0  # a running stream is heard from its beginning
                heard = data.draw(st.integers(heard, len(events)), label="now heard so far")
                for event in events[:heard]:
                    story.live(event)
                position = heard
        if data.draw(st.booleans(), label="attached again before the entry"):
            story.attached()
        story.entry(entry)
    for kind in ("text", "thinking"):
        parts = [part for entry in entries for part in entry["content"] if part["type"] == kind]
        assert page.all(kind) == "".join(part["text"] for part in parts)
    for entry in entries:
        for part in entry["content"]:
            if part["type"] == "tool_result":
                assert page.all("tool_output", part["call_id"]) == part["content"][0]["text"]
    assert story.after == entries[-1]["seq"]


def test_what_is_not_text_is_handed_on_as_it_is():
    page = FakePage()
    story = Story(page, {"ab": b"all of it"}.get)
    blob = {"type": "text", "blob": {"sha256": "ab", "preview": "all"}}
    lost = {"type": "text", "blob": {"sha256": "cd", "preview": "the beginning"}}
    image = {"type": "image", "media_type": "image/png", "data": ""}
    story.entry({"type": "message", "role": "system", "seq": 1, "content": [blob]})
    story.entry({"type": "message", "role": "user", "seq": 2, "content": [blob, lost, image]})
    story.entry({"type": "turn", "state": "failed", "cause": "no", "seq": 3})
    story.entry({"type": "usage", "seq": 4})
    story.live({"stream": "s", "kind": "tool_call", "text": '{"a'})
    assert page.told == [("prompt", None, "all of itthe beginning")]
    assert page.events == ["failed", "usage"]
    assert story.after == 4


def test_output_that_was_cut_in_the_journal_is_not_told_again():
    page = FakePage()
    story = Story(page, lambda _: None)
    for event in pieces("s", "tool_output", "a" * 50, [10, 20], "c"):
        story.live(event)
    content = [{"type": "text", "text": "aaa … 40 left out … aaa"}]
    part = {"type": "tool_result", "call_id": "c", "content": content}
    story.entry(message(0, [part], "s"))
    assert page.all("tool_output", "c") == "a" * 50


def test_what_was_told_is_not_copied_with_every_piece():
    story = Story(FakePage(), lambda _: None)
    live = {"stream": "s", "kind": "text", "text": "a" * 1000}
    story.live(live)
    tracemalloc.start()
    for _ in range(1000):
        story.live(live)
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    story.live(live)
    grown = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert grown < 100_000  # of a million characters
