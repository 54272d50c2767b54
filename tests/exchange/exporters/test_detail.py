"""How much an export shows, that no secret is left in any, and that memory stays flat."""

from __future__ import annotations

import base64
import json
import tracemalloc
from typing import Any

import pytest

import holdfast
from holdfast import File, Opaque, Text, Thinking, ToolCall
from holdfast.exchange.archive.read import take_archive
from holdfast.exchange.exporters import BUILT_IN
from holdfast.exchange.exporting.export import export, export_to
from holdfast.exchange.exporting.transcript import ExportOptions
from holdfast.exchange.redaction.redactor import Redactor
from tests.exchange.exporters.conversations import exported

# Put together here, so that no scanner takes this file for a leak.
KEY = "sk-ant-" + "api03-" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cD1fG3hJ5"
READABLE = [name for name in BUILT_IN if name != "archive"]


@pytest.fixture
def talk(store):
    session = store.create(provider="anthropic", model="claude-opus-4-5")
    session.append(
        [
            holdfast.system("the prompt"),
            holdfast.user("the question"),
            holdfast.assistant(
                [
                    Thinking(text="the thought", signature="c2ln"),
                    Text(text="the words"),
                    ToolCall(id="1", name="the_tool", arguments={"a": "the argument"}),
                ],
                model="claude-opus-4-5",
            ),
            holdfast.tool_result("1", "the result" + "\n" * 100 + "the end of it"),
        ]
    )
    return session


@pytest.mark.parametrize("name", READABLE)
def test_depth_says_how_much_is_shown(name, talk):
    little = exported(talk, name, ExportOptions(depth="messages"))
    some = exported(talk, name, ExportOptions(depth="tools"))
    all_of_it = exported(talk, name)
    for text in (b"the question", b"the words"):
        assert text in little
        assert text in some
        assert text in all_of_it
    for text in (b"the_tool", b"the argument", b"the result"):
        assert text not in little
        assert text in some
        assert text in all_of_it
    assert b"the thought" not in some
    assert b"the end of it" not in some
    assert b"more characters)" in some
    assert b"the end of it" in all_of_it
    assert b"the prompt" not in some
    if name not in ("openai", "codex"):  # which have no place for it, or not for this vendor's
        assert b"the thought" in all_of_it
    if name not in ("claude-code", "pi"):
        assert b"the prompt" in all_of_it


def test_openai_has_thoughts_where_servers_look_for_them(talk):
    lines = [json.loads(line) for line in exported(talk, "openai").splitlines()]
    assert lines[2]["reasoning_content"] == "the thought"


def test_a_depth_that_does_not_exist_is_refused(talk):
    with pytest.raises(holdfast.UsageError, match="messages, tools, everything"):
        export(talk, "json", ExportOptions(depth="deep"))


def test_an_archive_is_the_whole_session(talk):
    with pytest.raises(holdfast.UsageError, match="always contains the whole session"):
        exported(talk, "archive", ExportOptions(depth="tools"))


@pytest.fixture
def leaky(store):
    """A session with a secret in every place that there is."""
    session = store.create(title=f"with {KEY}", note={"deep": [KEY]})
    held = base64.b64encode(f"token {KEY}".encode()).decode()
    session.append(
        [
            holdfast.system(KEY),
            holdfast.user([Text(text=KEY), File(name="env", media_type="text/x", data=held)]),
        ]
    )
    kept = session.keep(f"a file with {KEY}".encode())
    change = holdfast.FileChange(path=KEY, before=None, after=kept)
    result = holdfast.ToolResult(
        call_id="1",
        content=[Text(text="x" * 300_000 + f" {KEY}")],
        outcome="completed",
        changes=[change],
        kept=[kept],
    )
    session.append(
        [
            holdfast.assistant(
                [
                    Thinking(text=KEY, signature="c2ln"),
                    ToolCall(id="1", name="sh", arguments={"env": {"K": KEY}}),
                    ToolCall(id="2", name="sh", arguments={}, partial=f'{{"k": "{KEY}'),
                    Opaque(vendor="anthropic", data={"type": "x", "k": KEY}),
                ]
            ),
            holdfast.Message(role="tool", content=[result], extra={"odd": KEY}),
            holdfast.Custom("event", {"k": KEY}),
            holdfast.Queued(content=[Text(text=KEY)]),
            holdfast.Turn(state="failed", cause=KEY),
        ]
    )
    session.checkpoint(f"so far: {KEY}")
    return session


@pytest.mark.parametrize("name", READABLE)
def test_no_secret_is_left(name, leaky):
    redactor = Redactor()
    made = exported(leaky, name, ExportOptions(redactor=redactor))
    assert KEY.encode() not in made
    assert KEY.encode() in exported(leaky, name)
    assert b"[redacted: Anthropic key 1]" in made
    assert {found.kind for found in redactor.findings} == {"Anthropic key"}
    where = [found.where for found in redactor.findings]
    assert len(where) > 5
    assert "facts" in where
    assert any(each.startswith("entry ") for each in where)


def test_no_secret_is_left_in_an_archive(leaky, tmp_path):
    redactor = Redactor()
    made = export_to(leaky, "archive", tmp_path / "s.holdfast", ExportOptions(redactor=redactor))
    assert len(made.findings) > 10
    with holdfast.open_store(tmp_path / "other") as other:
        take_archive(other, made.path)
        assert other.verify(leaky.id).ok
        with other.open(leaky.id, mode="read") as session:
            data = b"".join(each.read_bytes() for each in session.path.rglob("*") if each.is_file())
            assert KEY.encode() not in data
            assert base64.b64encode(KEY.encode())[:40] not in data
            assert [m.role for m in session.messages] == [m.role for m in leaky.messages]
            assert session.state.head == leaky.state.head
            content: list[Any] = session.messages[-1].content
            (result,) = content
            thought: Any = session.messages[2].content[0]
            assert result.content[0].text.endswith("x [redacted: Anthropic key 1]")
            assert session.blob(result.kept[0]) == b"a file with [redacted: Anthropic key 1]"
            assert result.changes[0].after == result.kept[0]
            assert thought.signature is None, "it would not fit any more"


def test_a_secret_that_would_be_cut_in_two_is_found(store):
    session = store.create()
    session.append([holdfast.user("q"), holdfast.tool_result("1", "." * 3980 + f" {KEY} end")])
    for name in READABLE:
        made = exported(session, name, ExportOptions(depth="tools", redactor=Redactor()))
        assert b"sk-ant-" not in made


def test_findings_are_listed_once(store):
    session = store.create()
    session.append([holdfast.user(KEY), holdfast.assistant("ok")])
    session.checkpoint("summary")
    for name in BUILT_IN:
        redactor = Redactor()
        exported(session, name, ExportOptions(redactor=redactor))
        places = [found.where for found in redactor.findings]
        assert places.count("entry 1") + places.count("entry 2") == 1, name


def test_the_workspace_is_left_out_on_request(store, tmp_path):
    session = store.create(workspace=tmp_path, model="m")
    session.append(holdfast.user("hello"))
    session.update(imported={"path": str(tmp_path)})
    for name in BUILT_IN:
        assert str(tmp_path).encode() not in exported(
            session, name, ExportOptions(strip_workspace=True)
        )
    for name in ("markdown", "html", "json", "claude-code", "codex", "pi"):
        assert str(tmp_path).encode() in exported(session, name)


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_memory_does_not_grow_with_the_session(name, store):
    session = store.create()
    for number in range(40):
        text = f"{number} " + "words and words " * 2000  # 32 KB
        session.append([holdfast.user(text), holdfast.tool_result("1", text * 4)])
    session.close()
    with store.open(session.id, mode="read") as again:
        tracemalloc.start()
        size = sum(len(chunk) for chunk in export(again, name))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert size > (20_000 if name == "archive" else 6_000_000)
    assert peak < 5_000_000
