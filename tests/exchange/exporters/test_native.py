"""Native exports: what other agents' files hold comes back through their importers."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings

import holdfast
from holdfast import File, Image, Message, Text, Thinking, ToolCall, ToolResult
from holdfast.exchange.exporting.export import export_to
from holdfast.exchange.importers import importer
from holdfast.exchange.importing.source_files import SourceReader
from tests.exchange.exporters.conversations import (
    as_source,
    brought_back,
    conversations,
    session_of,
)
from tests.exchange.sources import CASES, copied, take_all

AGENTS = ("claude-code", "codex", "pi")
_HALF = re.compile("[\ud800-\udfff]")


def whole(value):
    """Return a value without halves of characters, which not every parser reads."""
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, dict):
        return {whole(key): whole(held) for key, held in value.items()}
    if isinstance(value, list):
        return [whole(each) for each in value]
    return value


def words(part):
    if isinstance(part, Text):
        return part.text
    where = f" at {part.url}" if part.url else ""
    if isinstance(part, Image):
        return f"[image, {part.media_type}{where}]"
    note = f"[{part.name}, {part.media_type}{where}]"
    text = readable(part)
    return note if text is None else f"{note}\n{text}"


def readable(part):
    try:
        data = base64.b64decode(part.data, validate=True)
        return data.decode() if data and b"\0" not in data else None
    except ValueError:
        return None


def carried(part, agent, message):
    """Return what a format has a place for: the documented losses, as a rule of its own."""
    if isinstance(part, Text):
        return [part] if part.text else []
    if isinstance(part, ToolCall):
        return carried_call(part, agent)
    if isinstance(part, Thinking):
        # Who made an unknown model is the session's provider: here, Anthropic.
        maker = "codex" if message.model == "gpt-5" else "claude-code"
        return [part] if agent == "pi" or (part.signature and maker == agent) else []
    if isinstance(part, ToolResult):
        inner = [each for one in part.content for each in carried(one, agent, message)]
        outcome = "completed" if part.outcome == "completed" or agent == "codex" else "failed"
        return [ToolResult(call_id=part.call_id, content=inner, outcome=outcome)]
    if isinstance(part, Image | File):
        return carried_media(part, agent)
    own = {"claude-code": "anthropic", "codex": "openai"}.get(agent)
    return [part] if part.vendor == own and part.data.get("type", "").startswith(("s", "w")) else []


def carried_call(part, agent):
    if part.partial is not None:
        return [msgspec.structs.replace(part, arguments={})] if agent == "codex" else []
    is_object = isinstance(part.arguments, dict) or agent == "codex"
    arguments = part.arguments if is_object else {"arguments": part.arguments}
    return [msgspec.structs.replace(part, arguments=arguments)]


def carried_media(part, agent):  # noqa: PLR0911  one return a loss
    if isinstance(part, Image):
        if agent == "pi" and not part.data:
            return [Text(text=words(part))]
        if not part.data and not part.url:
            return []
        if part.data:
            return [Image(media_type=part.media_type, data=part.data)]
        return [Image(media_type="image/png", url=part.url)]
    if agent != "claude-code":
        return [Text(text=words(part))]
    if readable(part) is not None:
        return [msgspec.structs.replace(part, media_type="text/plain", url=None)]
    if part.data:
        return [msgspec.structs.replace(part, url=None)]
    if part.url:
        return [msgspec.structs.replace(part, media_type="text/plain")]
    return [Text(text=words(part))]


def expected(messages, agent):
    """Return the messages that have to come back, as role and content."""
    said: list[tuple[str, list[Any]]] = []
    for message in messages:
        if message.role == "system" and agent != "codex":
            continue
        parts = [each for part in message.content for each in carried(part, agent, message)]
        if message.role == "tool" and agent != "claude-code":
            said += [("tool", [each]) for each in parts]  # a result is a message of its own there
        elif (
            agent == "codex" and message.role == "assistant" and said and said[-1][0] == "assistant"
        ):
            said[-1][1].extend(parts)
        elif parts:
            said.append((message.role, parts))
    return whole([[role, msgspec.to_builtins(parts)] for role, parts in said])


def told(messages):
    return [[each.role, msgspec.to_builtins(each.content)] for each in messages]


def can_be_told(messages):
    """Leave out what an importer takes for something else, whoever wrote it."""
    for message in messages:
        for part in message.content:
            if isinstance(part, ToolCall) and part.partial is not None:
                return False  # tested below
            inner = part.content if isinstance(part, ToolResult) else [part]
            for each in inner:
                if isinstance(each, Text) and each.text.startswith("{"):
                    return False  # for Codex, the result of a command
                if isinstance(each, Image) and not re.fullmatch(r"[\w/+.-]+", each.media_type):
                    return False
                if isinstance(each, Image) and each.url and each.url.startswith("data:"):
                    return False
                if isinstance(each, File) and not (each.name and each.media_type):
                    return False
    return True


@pytest.mark.parametrize("agent", AGENTS)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(messages=conversations)
def test_messages_come_back(agent, messages):
    assume(can_be_told(messages))
    wanted = expected(messages, agent)
    assume(any(role != "tool" for role, _ in wanted))
    with session_of(messages) as session, brought_back(session, agent) as again:
        assert told(again.messages) == wanted
        assert again.meta["title"] == "A title"
        assert again.meta["workspace"] == "/srv/app"


@pytest.mark.parametrize("case", [case for case in CASES if case.partition("/")[0] in AGENTS])
def test_an_agents_own_sessions_come_back_as_they_were(case, store, tmp_path):
    agent = case.partition("/")[0]
    for done in take_all(store, agent, copied(case, tmp_path)):
        with (
            store.open(done.session, mode="read") as session,
            brought_back(session, agent) as again,
        ):
            before = [_with_known_outcome(each, agent) for each in session.messages]
            assert again.messages == before
            assert [m.text for m in again.context()] == [m.text for m in session.context()]
            assert again.meta.get("title") == session.meta.get("title")


def _with_known_outcome(message, agent):
    """Return a message as Codex would hold it: only what a result says tells how a call ended."""
    if agent != "codex" or message.role != "tool":
        return message
    (result,) = message.content
    if result.content and result.content[0].text.startswith("{"):
        return message
    return holdfast.tool_result(result.call_id, result.content)


@pytest.mark.parametrize("agent", AGENTS)
def test_the_context_is_the_same_after_a_compaction(agent, store):
    session = store.create(provider="anthropic", model="claude-opus-4-5")
    for number in range(3):
        session.append([holdfast.user(f"q{number}"), holdfast.assistant(f"a{number}")])
    session.checkpoint("first summary")
    session.append([holdfast.user("q3"), holdfast.assistant("a3")])
    session.checkpoint("the summary", keep_last=1)
    session.append(holdfast.user("q4"))
    with brought_back(session, agent) as again:
        assert [each.text for each in again.messages] == [each.text for each in session.messages]
        assert [each.text for each in again.context()] == ["the summary", "a3", "q4"]


@pytest.mark.parametrize("agent", AGENTS)
def test_what_requests_cost_comes_back(agent, store):
    session = store.create(provider="anthropic")
    session.append([holdfast.user("q"), holdfast.assistant("a", model="claude-opus-4-5")])
    session.usage(input=10, output=3, cache_read=5, cost_usd=0.25, model="claude-opus-4-5")
    session.append([holdfast.user("q"), holdfast.assistant("a", model="claude-opus-4-5")])
    session.usage(input=20, output=4, cache_read=6, cost_usd=0.5, model="claude-opus-4-5")
    session.usage(input=500, output=500, model="somebody else's")  # not what led to the reply
    with brought_back(session, agent) as again:
        totals = again.totals
        assert (totals.requests, totals.input, totals.output) == (2, 30, 7)
        assert totals.cache_read == 11
        assert totals.cost_usd == (0.75 if agent == "pi" else 0)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_call_that_broke_off_is_never_sent(agent, store):
    session = store.create(provider="openai")
    half = ToolCall(id="1", name="sh", arguments=None, partial='{"cmd": "rm')
    nearly = ToolCall(id="2", name="sh", arguments=None, partial='{"cmd": "ls"}')
    session.append([holdfast.user("go"), holdfast.assistant([Text(text="Yes."), half, nearly])])
    with brought_back(session, agent) as again:
        calls = [part for part in again.messages[1].content if isinstance(part, ToolCall)]
    assert [call.partial for call in calls] == (['{"cmd": "rm'] if agent == "codex" else [])


@pytest.mark.parametrize("agent", AGENTS)
def test_an_export_is_where_the_agent_looks_for_it(agent, store, tmp_path):
    session = store.create(workspace="/srv/my app/../x", title="t")
    session.append(holdfast.user("hello"))
    path = as_source(session, agent, tmp_path / "sessions")
    assert importer(agent).sniff(path, SourceReader())
    (source,) = importer(agent).sessions(tmp_path / "sessions", SourceReader())
    assert re.fullmatch(r"[0-9a-f-]{36}", source.id)
    assert as_source(session, agent, tmp_path / "sessions") == path, "a second export is the same"
    folder = {"claude-code": "-srv-x", "pi": "--srv-x--"}.get(agent)
    assert folder is None or path.parent.name == folder


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    "workspace",
    ["../../../etc", "/" + "x" * 5000, "/a\nb\0c", ".", "/\ud800x", "/" + "\u6f22" * 120],
)
def test_no_fact_becomes_a_path_of_its_own(agent, workspace, store, tmp_path):
    session = store.create()
    session.append(holdfast.user("hello"))
    session.append(holdfast.Meta({"workspace": workspace}))  # as somebody else may write it
    path = as_source(session, agent, tmp_path / "sessions")
    (tmp_path / "out").mkdir()
    assert export_to(session, agent, tmp_path / "out").path.is_file()
    inside = path.relative_to(tmp_path / "sessions").parts
    assert ".." not in inside
    assert len(inside) == (4 if agent == "codex" else 2)


def test_two_replies_of_one_request_stay_two_in_claude_code(store):
    session = store.create()
    reply = Message(role="assistant", content=[Text(text="a")], request="msg_1")
    session.append([holdfast.user("q"), reply, reply])
    with brought_back(session, "claude-code") as again:
        assert [each.text for each in again.messages] == ["q", "a", "a"]
        assert again.messages[1].request == "msg_1"


def test_what_a_tool_said_is_not_taken_for_an_exit_code_by_codex(store):
    session = store.create(provider="openai")
    said = '{"metadata":{"exit_code":1},"output":"x"}'
    session.append([holdfast.user("q"), holdfast.tool_result("1", said)])
    session.append(holdfast.tool_result("2", said, outcome="failed"))
    with brought_back(session, "codex") as again:
        assert again.messages == session.messages
