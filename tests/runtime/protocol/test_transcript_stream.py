"""A story told from entries and live pieces: every character once, however they come together."""

from __future__ import annotations

import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.protocol.messages import LiveText
from holdfast.runtime.protocol.transcript_stream import TranscriptStream

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


def result(call_id: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    completed = {"outcome": "completed", "content": content}
    return {"type": "tool_result", "call_id": call_id, **completed}


def pieces(stream: str, kind: str, text: str, cuts: list[int], call_id: str | None = None):
    ends = sorted({min(cut, len(text)) for cut in cuts} | {len(text)})
    for begin, end in zip([0, *ends], ends, strict=False):
        yield LiveText(stream=stream, kind=kind, text=text[begin:end], call_id=call_id)


@st.composite
def sessions(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[list[LiveText]]]:
    """Entries of messages, and for each the live pieces that came before it."""
    entries, live = [], []
    for seq in range(draw(st.integers(1, 4))):
        stream = f"s{seq}"
        cuts = st.lists(st.integers(0, 12), max_size=4)
        if draw(st.booleans()):
            parts: list[dict[str, Any]] = []
            events: list[LiveText] = []
            for _ in range(draw(st.integers(1, 3))):
                kind, text = draw(st.sampled_from(["text", "thinking"])), draw(TEXT)
                parts.append({"type": kind, "text": text})
                events += pieces(stream, kind, text, draw(cuts))
        else:
            text, call = draw(TEXT), f"c{seq}"
            content = [{"type": "text", "text": text}]
            parts = [result(call, content)]
            events = list(pieces(stream, "tool_output", text, draw(cuts), call))
        entries.append(message(seq, parts, stream))
        live.append(events)
    return entries, live


@given(sessions(), st.data())
def test_every_character_is_told_once_through_all_re_attachments(session, data):
    entries, live = session
    page = FakePage()
    stream = TranscriptStream(page, lambda _: None)
    for entry, events in zip(entries, live, strict=True):
        heard = data.draw(st.integers(0, len(events)), label="pieces heard before the entry")
        position = 0
        while position < heard:
            stream.live(events[position])
            position += 1
            if data.draw(st.booleans(), label="attached again"):
                stream.attached()
                position = 0  # a running stream is heard from its beginning
                heard = data.draw(st.integers(heard, len(events)), label="now heard so far")
                for event in events[:heard]:
                    stream.live(event)
                position = heard
        if data.draw(st.booleans(), label="attached again before the entry"):
            stream.attached()
        stream.entry(entry)
    for kind in ("text", "thinking"):
        parts = [part for entry in entries for part in entry["content"] if part["type"] == kind]
        assert page.all(kind) == "".join(part["text"] for part in parts)
    for entry in entries:
        for part in entry["content"]:
            if part["type"] == "tool_result":
                assert page.all("tool_output", part["call_id"]) == part["content"][0]["text"]
    assert stream.after == entries[-1]["seq"]


def test_what_is_not_text_is_handed_on_as_it_is():
    page = FakePage()
    stream = TranscriptStream(page, {"ab": b"all of it"}.get)
    kept = {"size_bytes": 9, "media_type": "text/plain", "encoding": "text"}
    blob = {"type": "text", "text": "", "blob": {**kept, "sha256": "ab", "preview": "all"}}
    lost = {
        "type": "text",
        "text": "",
        "blob": {**kept, "sha256": "cd", "preview": "the beginning"},
    }
    image = {"type": "image", "media_type": "image/png", "data": ""}
    stream.entry({"type": "message", "role": "system", "seq": 1, "content": [blob]})
    stream.entry({"type": "message", "role": "user", "seq": 2, "content": [blob, lost, image]})
    stream.entry({"type": "turn", "state": "failed", "cause": "no", "seq": 3})
    stream.entry({"type": "usage", "seq": 4})
    stream.live(LiveText(stream="s", kind="tool_call", text='{"a'))
    assert page.told == [("prompt", None, "all of itthe beginning")]
    assert page.events == ["failed", "usage"]
    assert stream.after == 4


def test_output_that_was_cut_in_the_journal_is_not_told_again():
    page = FakePage()
    stream = TranscriptStream(page, lambda _: None)
    for event in pieces("s", "tool_output", "a" * 50, [10, 20], "c"):
        stream.live(event)
    content = [{"type": "text", "text": "aaa … 40 left out … aaa"}]
    part = result("c", content)
    stream.entry(message(0, [part], "s"))
    assert page.all("tool_output", "c") == "a" * 50


def test_what_was_told_is_not_copied_with_every_piece():
    stream = TranscriptStream(FakePage(), lambda _: None)
    live = LiveText(stream="s", kind="text", text="a" * 1000)
    stream.live(live)
    tracemalloc.start()
    for _ in range(1000):
        stream.live(live)
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    stream.live(live)
    grown = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert grown < 100_000  # of a million characters
