"""ggcode: events of viewers, and compactions by name."""

from __future__ import annotations

import holdfast
from tests.exchange.sources import copied, take_all


def test_events_of_a_viewer_keep_what_they_say_and_whether_they_are_all(store, tmp_path):
    (done,) = take_all(store, "ggcode", copied("ggcode/turns", tmp_path))
    with store.open(done.session, mode="read") as session:
        bodies = [each.body for each in session.follow(wait=False)]
    events = [body for body in bodies if isinstance(body, holdfast.Custom)]
    (event,) = [body for body in events if body.name == "ggcode.tunnel_event"]
    assert event.complete is True
    assert event.data["event_id"] == "ev-000000002"
    assert event.data["data"] == {"id": "msg-1", "chunk": "Hi"}


def test_a_summary_that_nobody_has_seen_leaves_the_context_whole(store, tmp_path):
    source = copied("ggcode/checkpoints", tmp_path)
    (path,) = source.glob("*bb.jsonl")
    path.write_text(path.read_text().replace('"msg_3"', '"msg_9"', 1))
    _, done = take_all(store, "ggcode", source)
    with store.open(done.session, mode="read") as session:
        assert len(session.context()) == 4
