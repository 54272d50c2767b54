"""What is exported of sessions that are damaged, strange, or in the middle of something."""

from __future__ import annotations

import json

import pytest

import holdfast
from holdfast import File, Image, Message, Text, ToolCall
from holdfast.exchange.archive.read import take_archive
from holdfast.exchange.exporters import BUILT_IN, exporter
from holdfast.exchange.exporting.export import export_to
from holdfast.exchange.exporting.transcript import ExportOptions, Line, Transcript
from holdfast.exchange.redaction.redactor import Redactor
from holdfast.journal.format import seal
from holdfast.model.message import UnknownPart
from tests.exchange.exporters.conversations import exported

KEY = "sk-ant-" + "api03-" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1fG3hJ5"
READABLE = [name for name in BUILT_IN if name != "archive"]


@pytest.fixture
def other(tmp_path):
    with holdfast.open_store(tmp_path / "other") as store:
        yield store


@pytest.mark.parametrize("name", READABLE)
def test_text_that_was_being_streamed_is_in_it(name, store):
    session = store.create()
    session.append(holdfast.user("go on"))
    stream = session.stream()
    stream.write("half a reply")
    left = {each: (session.path / each).read_bytes() for each in ("journal.jsonl", "live.jsonl")}
    session.close()
    for each, data in left.items():  # as if it had been killed
        (session.path / each).write_bytes(data)
    with store.open(session.id, mode="read") as again:
        assert b"half a reply" in exported(again, name)
        assert exported(again, name).count(b"go on") >= 1


@pytest.mark.parametrize("name", READABLE)
def test_only_the_current_branch_is_in_it(name, store):
    session = store.create()
    first = session.append(holdfast.user("a question"))
    session.append(holdfast.assistant("abandoned"))
    session.usage(input=7, output=7)
    session.rewind(first)
    session.append(holdfast.assistant("taken"))
    made = exported(session, name)
    assert b"abandoned" not in made
    assert b"taken" in made


@pytest.mark.parametrize("name", READABLE)
def test_damage_does_not_end_it(name, store):
    session = store.create()
    for number in range(4):
        session.append(holdfast.user(f"message {number}"))
    session.close()
    path = session.path / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b"message 1", b'"}{{{', 1))
    with store.open(session.id, mode="read") as again:
        made = exported(again, name)
    assert b"message 0" in made
    assert b"message 3" in made
    assert b"message 1" not in made


def test_a_missing_blob_shows_its_beginning_and_no_secret(store):
    session = store.create()
    session.append(holdfast.user(f"begins with {KEY} " + "x" * 300_000))
    session.close()
    for blob in (session.path / "blobs").iterdir():
        blob.unlink()
    with store.open(session.id, mode="read") as again:
        for name in READABLE:
            made = exported(again, name, ExportOptions(redactor=Redactor()))
            assert KEY.encode() not in made
            assert b"begins with [redacted: Anthropic key 1]" in made


def test_what_this_version_does_not_know_is_searched_too(store):
    session = store.create()
    odd = UnknownPart(fields={"type": "hologram", "key": KEY})
    text = Text(text="words", extra={"later": KEY})
    media = [Image(media_type="image/png", url=f"https://x.example/?k={KEY}")]
    files = [File(name=KEY, media_type="a/b", data="AAAA"), File(name="b", media_type="a/b")]
    session.append([holdfast.user([odd, text, *media, *files]), holdfast.user("plain")])
    for name in READABLE:
        made = exported(session, name, ExportOptions(redactor=Redactor()))
        assert KEY.encode() not in made
        assert b"plain" in made
    whole = json.loads(exported(session, "json"))
    assert whole["messages"][0]["content"][0] == {"type": "hologram", "key": KEY}
    assert b"[hologram]" in exported(session, "html")


def test_lists_in_arguments_are_shortened_too(store):
    session = store.create()
    call = ToolCall(id="1", name="t", arguments={"a": [{"b": "y" * 9000}], "n": 1})
    half = ToolCall(id="2", name="t", arguments=None, partial="z" * 9000)
    session.append([holdfast.user("q"), holdfast.assistant([call, half])])
    made = exported(session, "json", ExportOptions(depth="tools"))
    assert b"y" * 4001 not in made
    assert b"z" * 4001 not in made
    assert b'"n":1' in made


@pytest.mark.parametrize("name", list(BUILT_IN))
@pytest.mark.parametrize("at", ["../../../x", 'now","evil":"', "", "9999-99-99T99:99:99.999Z"])
def test_a_time_that_is_none_harms_nobody(name, at, store, other, tmp_path):
    """A journal may say anything, and file names are made from times."""
    session_id = "20260101-000000-abcdefgh"
    fields = {"format": 1, "session": session_id, "uid": "u"}
    header = json.dumps({"seq": 0, "at": at, "type": "header", **fields})
    said = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    line = json.dumps({"seq": 1, "at": at, "parent": None, "type": "message", **said})
    folder = store.path / "sessions" / "2026-01" / session_id
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_text(f"{header}\n{line}\n")
    with store.open(session_id, mode="read") as session:
        options = ExportOptions(redactor=Redactor(), strip_workspace=True)
        transcript = Transcript(session, options)
        suggested = exporter(name).file_name(transcript)
        assert ".." not in suggested.split("/")
        made = tmp_path / "made"
        made.write_bytes(exported(session, name, options))
    if name == "archive":
        take_archive(other, made)
        assert other.verify(session_id).ok
        with other.open(session_id, mode="read") as copy:
            assert [each.text for each in copy.messages] == ["hello"]
    else:
        assert b"hello" in made.read_bytes()


def rewritten(store, session_id, other, tmp_path, options):
    with store.open(session_id, mode="read") as session:
        path = export_to(session, "archive", tmp_path / "a.holdfast", options).path
    take_archive(other, path)
    return other.open(session_id, mode="read")


@pytest.mark.parametrize("redactor", [None, Redactor()])
def test_large_payloads_survive_being_written_anew(redactor, store, other, tmp_path):
    session = store.create(workspace=tmp_path)
    session.append(holdfast.user("x" * 300_000))
    kept = session.keep(b"\0binary")
    result = holdfast.ToolResult(call_id="1", content=[], outcome="completed", kept=[kept, "../x"])
    session.append(Message(role="tool", content=[result]))
    session.append(holdfast.Tool(call_id="1", name="sh", state="started", effect="writes"))
    session.checkpoint([holdfast.user("y" * 300_000)])
    session.close()
    options = ExportOptions(redactor=redactor, strip_workspace=True)
    with rewritten(store, session.id, other, tmp_path, options) as copy:
        assert other.verify(session.id).ok
        assert copy.messages == session.messages
        assert copy.context() == session.context()
        assert copy.blob(kept) == b"\0binary"


def test_a_damaged_session_can_be_written_anew(store, other, tmp_path):
    session = store.create(workspace=tmp_path)
    for number in range(3):
        session.append(holdfast.user(f"message {number}"))
    session.close()
    path = session.path / "journal.jsonl"
    lines = path.read_bytes().split(b"\n")
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    last = json.loads(lines[-2])
    strange = seal(last["seq"] + 1, last["at"], "odd", deep, last["sum"].encode())
    lines[0] = b"no header"
    path.write_bytes(b"\n".join([*lines[:-1], strange, b""]))
    with store.open(session.id) as again:  # notes the damage, as any writer does
        again.append(holdfast.user("message 3"))
    with rewritten(store, session.id, other, tmp_path, ExportOptions(strip_workspace=True)) as copy:
        assert other.verify(session.id).ok
        assert [each.text for each in copy.messages] == [f"message {n}" for n in range(4)]
        assert "workspace" not in copy.meta


def test_a_compacted_session_can_be_written_anew(store, other, tmp_path):
    session = store.create(workspace=tmp_path)
    for number in range(5):
        session.append([holdfast.user(f"q{number}"), holdfast.assistant(f"a{number}")])
        session.usage(input=1, output=1, cost_usd=0.5)
    session.checkpoint("summary", keep_last=2)
    session.compact()
    session.append(holdfast.user("more"))
    session.close()
    with rewritten(store, session.id, other, tmp_path, ExportOptions(redactor=Redactor())) as copy:
        assert other.verify(session.id).ok
        assert copy.totals == session.totals
        assert [each.text for each in copy.context()] == ["summary", "q4", "a4", "more"]
        assert copy.meta == session.meta


def test_results_of_calls_before_the_summary_are_left_out(store):
    call = ToolCall(id="c1", name="sh", arguments={})
    with store.create() as session:
        session.append([holdfast.user("go"), Message(role="assistant", content=[call])])
        kept = session.append(holdfast.tool_result("c1", "out"))
        session.append(holdfast.user("on"))
        session.append(holdfast.Checkpoint([holdfast.user("Summary.")], kept.seq))
        seen = [each for each in Transcript(session).as_seen() if isinstance(each, Line)]
        assert [each.message.role for each in seen] == ["user", "assistant", "user"]
