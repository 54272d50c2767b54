"""Whatever a conversation holds, the next request is one that the provider accepts."""

from __future__ import annotations

import copy
import json
from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import Message, Text, ToolCall, ToolResult
from holdfast.runtime.agent.context import build
from tests.runtime.random_conversations import (
    Conversation,
    complaints,
    damaged,
    frames,
    whole,
    wire,
)

thoroughly = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@thoroughly
@given(damaged(), frames())
def test_every_request_is_accepted(said, frame):
    assert complaints(said, frame) == []


@thoroughly
@given(damaged(), frames(window_tokens=12_300))
def test_every_request_is_accepted_where_there_is_hardly_any_room(said, frame):
    assert complaints(said, frame) == []


@thoroughly
@given(damaged(), frames())
def test_the_same_is_sent_the_same_and_the_conversation_stays_as_it_is(said, frame):
    before = copy.deepcopy(said)
    assert build(said, frame) == build(iter(said), frame)
    assert wire(said, frame) == wire(said, frame)
    assert said == before


@thoroughly
@given(damaged(), frames())
def test_no_word_of_the_user_is_lost(said, frame):
    sent = json.dumps(wire(said, frame), ensure_ascii=False)
    words = [
        part.text.replace("\ud800", "\ufffd").strip()
        for message in said
        if message.role in {"user", "tool"}
        for part in message.content
        if isinstance(part, Text) and part.text.startswith("<said")
    ]
    places = [sent.find(word) for word in words]
    assert -1 not in places


@thoroughly
@given(whole(), frames())
def test_every_result_is_with_its_own_call(said, frame):
    assert _answers(wire(said, frame)) == _truth(said)


@thoroughly
@given(damaged(), frames())
def test_a_result_that_can_only_be_of_one_call_is_with_it(said, frame):
    sent = _answers(wire(said, frame))
    for mark, result in _truth(said).items():
        assert sent[mark] == result


@st.composite
def growing(draw: Any) -> tuple[Any, list[list[Message]]]:
    """A conversation of one model at each moment when a request is made."""
    frame = draw(frames())
    talk = Conversation(draw)
    said = [talk.prompt()]
    moments = [list(said)]
    for _ in talk.many(6, 1):
        match talk.some("answer", "calls", "broken"):
            case "answer":
                said += [talk.answer([frame.model], odd=True, calls=False), talk.prompt()]
            case "calls":
                said.append(talk.answer([frame.model], odd=True, calls=True))
                said += talk.results(said[-1])
                said += [talk.prompt() for _ in talk.many(1)]
            case "broken":
                said.append(talk.broken([frame.model]))
        moments.append(list(said))
    return frame, moments


@thoroughly
@given(growing())
def test_what_was_sent_stands_unchanged_in_the_next_request(grown):
    """It holds for one frame, and as long as nothing is cut.

    There is one exception: where a model takes a budget and the answer that goes on did not begin
    with thinking, thinking is off for that request, and thoughts are left out.
    """
    frame, moments = grown
    for earlier, later in pairwise(moments):
        request = build(earlier, frame)
        assert request.cached[-1] == len(request.messages) - 1
        before, after = wire(earlier, frame), wire(later, frame)
        if before.get("thinking") == after.get("thinking"):
            sent = _unmarked(before["messages"])
            assert _unmarked(after["messages"])[: len(sent)] == sent
            assert before.get("system") == after.get("system")


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(item) for name, item in value.items() if name != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def _answers(body: dict[str, Any]) -> dict[str, str]:
    """Return the mark of the result that stands for each mark of a call."""
    calls: dict[str, str] = {}
    found: dict[str, str] = {}
    for message in body["messages"]:
        for call in message.get("tool_calls", []):
            calls[call["id"]] = json.loads(call["function"]["arguments"])["mark"]
        if message["role"] == "tool":
            found[calls[message["tool_call_id"]]] = _mark(message["content"])
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_use":
                calls[block["id"]] = block["input"]["mark"]
            if block["type"] == "tool_result":
                texts = [inner.get("text", "") for inner in block["content"]]
                found[calls[block["tool_use_id"]]] = _mark(" ".join(texts))
    return found


def _mark(text: str) -> str:
    start = text.find("<result")
    return text[start : text.find(">", start) + 1] if start >= 0 else ""


def _truth(said: list[Message]) -> dict[str, str]:
    """Return which result can only be that of which call; each said by its mark.

    Its id is not empty, no other call or result before the next answer has it, and no call occurs
    twice in the conversation.
    """
    found: dict[str, str] = {}
    calls: dict[str, ToolCall] = {}
    results: list[ToolResult] = []
    everywhere = Counter(
        part.arguments.get("mark")
        for message in said
        for part in message.content
        if isinstance(part, ToolCall)
    )
    for message in [*said, Message(role="assistant", content=[])]:
        if message.role == "assistant":
            ids = Counter(result.call_id for result in results)
            for result in results:
                if result.call_id in calls and ids[result.call_id] == 1:
                    mark = calls[result.call_id].arguments["mark"]
                    found[mark] = _mark(" ".join(_texts(result)))
            wanted = [part for part in message.content if isinstance(part, ToolCall)]
            known = Counter(call.id for call in wanted if call.partial is None)
            calls = {
                call.id: call
                for call in wanted
                if call.id
                and call.partial is None
                and known[call.id] == 1
                and everywhere[call.arguments["mark"]] == 1
            }
            results = []
        results += [part for part in message.content if isinstance(part, ToolResult)]
    return found


def _texts(result: ToolResult) -> list[str]:
    return [part.text for part in result.content if isinstance(part, Text)]
