"""Reasonix: which of the files beside each other counts, and sessions in frames."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from holdfast.exchange.importers import importer, recognised
from holdfast.exchange.importing.source_files import SourceReader
from tests.exchange.growth import imported
from tests.exchange.sources import copied, take_all

zstd = pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")

STEM = "20260603-090000.000000001-deepseek-chat"


def texts(store, done):
    with store.open(done.session, mode="read") as session:
        return [message.text for message in session.context()]


def test_events_of_another_kind_are_left_alone(store, tmp_path):
    source = copied("reasonix/events", tmp_path)
    (source / f"{STEM}.events.jsonl").write_text('{"id":1,"type":"user.message"}\n')
    done, _ = take_all(store, "reasonix", source)
    assert texts(store, done) == ["You are a coding agent.", "the checkpoint is behind"]


def test_events_of_a_later_version_are_left_alone(store, tmp_path):
    source = copied("reasonix/events", tmp_path)
    (source / f"{STEM}.events.jsonl").write_text('{"schema_version":2,"type":"log"}\n')
    done, _ = take_all(store, "reasonix", source)
    assert texts(store, done) == ["You are a coding agent.", "the checkpoint is behind"]


def test_facts_that_cannot_be_read_cost_nothing_else(store, tmp_path):
    source = copied("reasonix/messages", tmp_path)
    next(source.glob("*.meta")).write_text("{")
    done, _ = take_all(store, "reasonix", source)
    assert done.action == "created"
    assert done.counts.messages == 5


def test_messages_that_become_events_are_the_same_session(store, tmp_path):
    path = tmp_path / "source" / f"{STEM}.jsonl"
    path.parent.mkdir()
    messages = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    (first,) = take_all(store, "reasonix", path.parent)
    event = {"schema_version": 1, "type": "replace", "revision": 1, "messages": messages}
    more = {"schema_version": 1, "type": "append", "revision": 2, "message_index": 2}
    more["messages"] = [{"role": "user", "content": "three"}]
    events = path.with_name(f"{STEM}.events.jsonl")
    events.write_text(json.dumps(event) + "\n" + json.dumps(more) + "\n")
    (again,) = take_all(store, "reasonix", path.parent)
    assert (again.session, again.action) == (first.session, "grown")
    assert again.counts.messages == 1
    assert texts(store, again) == ["one", "two", "three"]


def test_what_the_screen_alone_shows_counts_as_a_message_for_appends(store, tmp_path):
    path = tmp_path / "source" / f"{STEM}.events.jsonl"
    path.parent.mkdir()
    shown = {"role": "tool", "content": "half", "local_only": True}
    asked, done = {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}
    events: list[dict[str, object]] = [
        {"type": "replace", "messages": [asked, shown]},
        {"type": "append", "message_index": 2, "messages": [done]},
        {"type": "replace", "messages": [{"role": "user", "content": "in short"}, shown, done]},
        {"type": "append", "message_index": 3, "messages": [{"role": "user", "content": "three"}]},
    ]
    path.write_text("".join(json.dumps({"schema_version": 1, **each}) + "\n" for each in events))
    (imported,) = take_all(store, "reasonix", path.parent)
    assert imported.problem_count == 0
    assert texts(store, imported) == ["in short", "two", "three"]


def test_facts_that_cannot_be_read_are_reported(store, tmp_path):
    source = copied("reasonix/events", tmp_path)
    (source / f"{STEM}.jsonl.meta").write_text("{torn")
    done, _ = take_all(store, "reasonix", source)
    assert done.problems[0].path == str(source / f"{STEM}.jsonl.meta")


def framed(*batches):
    """Return batches of events in frames, as Reasonix 1.38 writes them."""
    out, seq = b"", 0
    for number, events in enumerate(batches):
        at = f"2026-11-01T10:00:{number:02d}.123456789Z"
        records = [{"recordType": "batch/begin", "createdAt": at, "eventCount": len(events)}]
        for kind, payload in events:
            seq += 1
            data = b64encode(json.dumps(payload).encode()).decode()
            event = {"id": f"e{seq}", "seq": seq, "kind": kind, "payload": data}
            records.append({"recordType": "batch/event", "event": event})
        records.append({"recordType": "batch/end", "eventCount": len(events), "sha256": "x"})
        for record in records:
            raw = json.dumps(record).encode()
            packed = zstd.compress(raw)
            out += b"RX4F" + len(packed).to_bytes(4) + len(raw).to_bytes(4) + packed
    return out


def told(role, content, **more):
    return "message/complete", {"message": {"role": role, "content": content, **more}}


CALLS = [
    {"id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
    {"id": "c2", "name": "bash", "arguments": '{"command": "false"}'},
]
BATCHES = [
    [told("system", "You are Reasonix.", id="m0"), ("session/config", {"modelRef": "ds/chat"})],
    [("turn/start", {"status": "in_progress"})],
    [
        told("user", "<session-context>", id="m1", origin="host"),
        told("user", "list the files", id="m2", origin="user", createdAt=1793527202000),
    ],
    [("tool/call", {"id": "c1", "partial": True})],
    [told("assistant", "Looking.", id="m3", reasoning_content="Hm.", tool_calls=CALLS)],
    [told("tool", "a.txt", id="m4", tool_call_id="c1", name="bash"), ("tool/result", {"id": "c1"})],
    [
        told(
            "tool",
            "exit 1",
            id="m5",
            tool_call_id="c2",
            name="bash",
            tool_execution={"state": "failed"},
        )
    ],
    [told("assistant", "There is a.txt.", id="m6")],
    [("turn/end", {"status": "completed"}), ("goal/set", {"goal": "x"})],
]


@pytest.fixture
def frames(tmp_path):
    home = tmp_path / ".reasonix"
    folder = home / "projects" / "-p" / "sessions-v4" / ("0" * 32)
    folder.mkdir(parents=True)
    manifest = {"schemaVersion": 4, "codec": "reasonix.session.linear/v4", "sessionId": "0" * 32}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (home / "stats").mkdir()
    lines = [
        {"ts": "2026-11-01T09:00:00.5Z", "model": "ds/chat", "prompt": 7, "requests": 1},
        {"ts": "2026-11-01T10:00:03.5Z", "model": "ds/other", "prompt": 7, "requests": 1},
        {
            "ts": "2026-11-01T10:00:03.6Z",
            "model": "ds/chat",
            "prompt": 100,
            "completion": 20,
            "cache_hit": 40,
            "requests": 1,
        },
        {"ts": "2026-11-01T10:00:05.6Z", "model": "ds/chat", "prompt": 50, "requests": 1},
        {"ts": "2026-11-01T10:00:08.6Z", "turn": True},
    ]
    day = home / "stats" / "2026-11-01.jsonl"
    day.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "events.frames"


def test_sessions_in_frames(store, frames):
    frames.write_bytes(framed(*BATCHES))
    projects = frames.parents[3]
    found = recognised(projects, SourceReader())
    assert found is not None
    assert found.name == "reasonix"
    (done,) = take_all(store, "reasonix", projects)
    assert done.source.id == "0" * 32
    with store.open(str(done.session), mode="read") as session:
        roles = [message.role for message in session.messages]
        assert roles == ["system", "user", "user", "assistant", "tool", "tool", "assistant"]
        outcomes = [message.content[0].outcome for message in session.messages[4:6]]
        assert outcomes == ["completed", "failed"]
        assert session.messages[1].extra == {"generated": True}
        totals = session.totals
        assert (totals.requests, totals.input, totals.output, totals.cache_read) == (2, 110, 20, 40)
        assert session.meta["model"] == "chat"
    (summary,) = store.list()
    assert summary.title == "list the files"


def test_a_batch_counts_when_its_end_is_there(frames):
    data = framed(*BATCHES)
    wanted, number = imported("reasonix", frames, [data])
    cuts = [len(framed(*BATCHES[:count])) for count in range(1, len(BATCHES))]
    cuts += [cut + extra for cut in cuts[:5] for extra in (3, 20, 150)]
    for cut in sorted(cuts):
        said, found = imported("reasonix", frames, [data[:cut], data])
        assert said == wanted
        assert found == number


def test_frames_that_are_damaged(store, frames):
    data = framed(*BATCHES)
    frames.write_bytes(data + b"nonsense, and no frame")
    (done,) = take_all(store, "reasonix", frames.parents[3])
    assert done.counts.messages == 7
    assert done.problems[0].reason == "is not a valid frame from here on"


def test_where_newer_sessions_are():
    found = importer("reasonix").found(Path("/home/me"), {"REASONIX_STATE_HOME": "/data/rx"})
    assert Path("/data/rx/projects") in found
