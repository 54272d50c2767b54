"""Every exporter on a conversation that is known, and on texts that mean harm."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings

import holdfast
from holdfast import File, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from holdfast.exchange.exporters import BUILT_IN, exporter, names
from holdfast.exchange.exporting.export import export, export_to
from holdfast.exchange.importing.content_blocks import anthropic_parts, openai_message
from holdfast.model.codec import loads, plain
from holdfast.model.message import AnyPart, UnknownPart
from tests.credulous import Credulous
from tests.exchange.exporters.conversations import (
    GOLDEN,
    HOSTILE,
    WRITTEN,
    conversations,
    exported,
    golden_export,
    golden_session,
    session_of,
)

DATA = ("jsonl", "openai", "anthropic", "claude-code", "codex", "pi")


@pytest.mark.parametrize("name", WRITTEN)
def test_a_known_conversation_becomes_what_it_should(name, tmp_path):
    with golden_session(tmp_path) as session:
        assert golden_export(session, name) == (GOLDEN / name).read_bytes()


def test_every_format_is_looked_at():
    assert {*WRITTEN, "archive"} == set(BUILT_IN) == set(names())


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_an_exporter_says_what_it_is(name):
    assert exporter(name).name == name
    assert exporter(name).title


def test_a_format_that_does_not_exist_is_refused():
    with pytest.raises(holdfast.UsageError, match="Did you mean markdown"):
        exporter("markdwon")


def test_a_session_without_entries_is_refused(store):
    with pytest.raises(holdfast.UsageError, match="no entries"):
        export(store.create(), "json")


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(conversations)
def test_whatever_is_said_every_format_is_whole(messages):
    with session_of(messages) as session:
        for name in DATA:
            for line in exported(session, name).split(b"\n")[:-1]:
                assert isinstance(loads(line), dict)
        whole = json.loads(exported(session, "json"))
        assert [_own(row) for row in whole["messages"]] == [plain(each) for each in messages]
        assert exported(session, "archive").startswith(b"PK")
        page = exported(session, "markdown").decode()  # UTF-8, with no half characters
        assert all(each in "\n\t" or each.isprintable() or ord(each) >= 0xA0 for each in page)


def _own(row):
    return {name: value for name, value in row.items() if name not in ("seq", "at")}


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_cannot_steer_a_terminal(text):
    with session_of([holdfast.user(text), holdfast.tool_result("1", text)]) as session:
        page = exported(session, "markdown").decode()
    assert not set(page) & {"\x1b", "\x07", "\x9b", "\x00", "\u202e", "\u2028"}


def test_markdown_shows_what_compactions_summed_up(store):
    session = store.create(title="t")
    session.append([holdfast.user("one"), holdfast.assistant("two")])
    pixel = holdfast.Image(media_type="image/png", url="x")
    session.checkpoint([holdfast.user([Text(text="so far:\n```\n<b>"), pixel])], keep_last=1)
    session.append(holdfast.user("three"))
    page = exported(session, "markdown").decode()
    assert page.endswith(
        """## Assistant

two

*From here on the model sees a summary of what came before:*

> so far:
> ```
> <b>
> ```

*[image, image/png at x]*

## User

three
"""
    )


EVERYWHERE = "<script>x</script>\n![i](http://evil/x.png) [a](javascript:x) <!-- \n```\n"


def test_no_field_of_a_session_becomes_more_than_text_in_markdown():
    """Judged by a renderer that lets everything through."""
    said = EVERYWHERE
    parts: list[AnyPart] = [
        *(Text(text=said), Thinking(text=said), Opaque(vendor=said, data=said)),
        *(UnknownPart(fields={"type": said}), Image(media_type=said, url=said)),
        *(File(name=said, media_type=said, url=said), ToolCall(id=said, name=said, arguments=said)),
        ToolCall(id="1", name="n", arguments=None, partial=said),
        ToolResult(call_id=said, outcome=said, content=[Text(text=said), Image(media_type=said)]),
    ]
    parser = Credulous()
    for part in parts:
        message = Message(role="assistant", content=[part], stop=said, model=said)
        with session_of([message, holdfast.user("behind")]) as session:
            facts = dict.fromkeys(("title", "workspace", "provider", "model"), said)
            session.append(holdfast.Meta(facts))
            tokens = parser.parse(exported(session, "markdown").decode())
        inner = [each for token in tokens for each in (token, *(token.children or []))]
        kinds = {each.type for each in inner}
        assert not kinds & {"html_block", "html_inline", "image"}, part
        links = {each.attrGet("href") for each in inner if each.type == "link_open"}
        assert links <= {"http://evil/x.png"}, part
        headings = [
            tokens[place + 1].content
            for place, token in enumerate(tokens)
            if token.type == "heading_open" and token.tag == "h2"
        ]
        assert headings == ["Assistant", "User"], part
        assert tokens[-2].content == "behind"


def test_messages_in_openais_shape_are_what_importers_read(tmp_path):
    with golden_session(tmp_path) as session:
        said = [json.loads(line) for line in exported(session, "openai").splitlines()]
        texts = [message.text for message in session.messages if message.role != "tool"]
    assert [line["role"] for line in said].count("tool") == 2
    read = [openai_message(line) for line in said]
    assert [each.text for each in read if each and each.role != "tool"] == texts


def test_messages_in_anthropics_shape_are_what_importers_read(tmp_path):
    with golden_session(tmp_path) as session:
        said = [json.loads(line) for line in exported(session, "anthropic").splitlines()]
        messages = session.messages
    assert [anthropic_parts(line["content"]) for line in said] == [
        each.content for each in messages
    ]
    assert {line["role"] for line in said} == {"user", "assistant"}


def test_a_request_and_its_answers_stay_together_in_every_shape(store):
    session = store.create(provider="openai")
    call = holdfast.ToolCall(id="c1", name="sh", arguments={"x": 1})
    session.append([holdfast.user("go"), holdfast.assistant([call])])
    session.append(holdfast.tool_result("c1", "done", outcome="denied"))
    openai = [json.loads(line) for line in exported(session, "openai").splitlines()]
    assert openai[1]["tool_calls"][0]["function"] == {"name": "sh", "arguments": '{"x":1}'}
    assert openai[2] == {"role": "tool", "tool_call_id": "c1", "content": "done"}
    anthropic = [json.loads(line) for line in exported(session, "anthropic").splitlines()]
    assert anthropic[2]["content"][0]["is_error"] is True


def test_a_file_is_there_whole_or_not_at_all(store, tmp_path):
    session = store.create()
    session.append(holdfast.user("hello"))
    made = export_to(session, "markdown", tmp_path)
    assert made.path == tmp_path / f"{session.id}.md"
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert made.path.read_bytes() == exported(session, "markdown")
    with pytest.raises(holdfast.UsageError, match="already exists"):
        export_to(session, "markdown", made.path)
    session.append(holdfast.user("more"))
    export_to(session, "markdown", made.path, replace=True)
    assert b"more" in made.path.read_bytes()
    before = made.path.read_bytes()

    def stop(size):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_to(session, "json", made.path, replace=True, progress=stop)
    assert made.path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{session.id}.md", "home"]


@pytest.mark.parametrize("call", ["open_append", "write", "sync", "rename"])
def test_a_disk_that_fails_leaves_nothing(store, files, tmp_path, call):
    session = store.create()
    session.append(holdfast.user("hello"))
    files.fail(call, 28)  # no space left
    with pytest.raises(holdfast.DiskFull):
        export_to(session, "json", tmp_path / "out.json", files=files)
    assert [each.name for each in tmp_path.iterdir()] == ["home"]
