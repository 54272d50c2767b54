"""Answers of Anthropic's Messages API, through the real SDK."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Opaque, Text, Thinking, ToolCall
from holdfast.errors import ConnectFailed, EmptyReply
from holdfast.runtime.providers.anthropic import Anthropic
from holdfast.runtime.providers.base import (
    Finished,
    TextDelta,
    ThinkingDelta,
    TokenCounts,
    ToolCallDelta,
)
from tests.runtime.providers.asking import KEY, LOOK, answer, ask, refused, request
from tests.runtime.providers.wire import (
    FakeVendor,
    Reply,
    block,
    call_block,
    event,
    message_end,
    message_start,
    messages_reply,
    text_block,
)


def asked(reply, asking=None, how=ask):
    async def run():
        async with FakeVendor(reply) as vendor:
            provider = Anthropic(KEY, base_url=vendor.url)
            try:
                return await how(provider, asking)
            finally:
                await provider.close()

    return asyncio.run(run())


def test_text_is_streamed_and_then_whole():
    *deltas, last = asked(messages_reply(text_block(0, "Hel", "lo")))
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert isinstance(last, Finished)
    assert last.message.content == [Text(text="Hello")]
    assert last.message.role == "assistant"
    assert last.message.stop == "end"
    assert last.message.request == "req_9"
    assert last.message.model == "claude-haiku-4-5-20251001"


def test_a_client_serves_more_than_one_request():
    async def run():
        async with FakeVendor(*[messages_reply(text_block(0, "a"))] * 2) as vendor:
            provider = Anthropic(KEY, base_url=vendor.url + "/")
            assert provider.endpoint == vendor.url
            texts = [(await answer(provider)).message.text for _ in range(2)]
            await provider.close()
            await provider.close()
            assert [one.path for one in vendor.received] == ["/v1/messages"] * 2
            assert vendor.connections == 1
            assert KEY in " ".join(vendor.received[0].headers.values()).split()
            return texts

    assert asyncio.run(run()) == ["a", "a"]


def test_thinking_keeps_its_signature_and_redacted_thinking_is_opaque():
    redacted = {"type": "redacted_thinking", "data": "EmwKAhgB"}
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Let me "},
        {"type": "thinking_delta", "thinking": "see."},
        {"type": "signature_delta", "signature": "EqQB"},
        {"type": "signature_delta", "signature": "Cg=="},
    )
    reply = messages_reply(thinking, block(1, redacted), text_block(2, "42"))
    *deltas, last = asked(reply)
    assert deltas == [ThinkingDelta("Let me "), ThinkingDelta("see."), TextDelta("42")]
    assert last.message.content == [
        Thinking(text="Let me see.", signature="EqQBCg=="),
        Opaque(vendor="anthropic", data=redacted),
        Text(text="42"),
    ]


def test_thinking_that_is_not_shown_is_kept_for_its_signature():
    hidden = block(
        0, {"type": "thinking", "thinking": ""}, {"type": "signature_delta", "signature": "Eq"}
    )
    empty = block(1, {"type": "thinking", "thinking": ""})
    last = asked(messages_reply(hidden, empty, text_block(2, "42")), how=answer)
    assert last.message.content == [Thinking(text="", signature="Eq"), Text(text="42")]


def test_parallel_calls_are_told_apart():
    reply = messages_reply(
        text_block(0, "Two."),
        call_block(1, "toolu_1", "look", '{"at', '": "a"}'),
        call_block(2, "toolu_2", "look"),
        stop="tool_use",
    )
    *deltas, last = asked(reply, request(tools=[LOOK]))
    assert deltas[1:] == [
        ToolCallDelta("toolu_1", "", "look"),
        ToolCallDelta("toolu_1", '{"at'),
        ToolCallDelta("toolu_1", '": "a"}'),
        ToolCallDelta("toolu_2", "", "look"),
    ]
    assert last.message.stop == "tool_calls"
    assert last.message.content[1:] == [
        ToolCall(id="toolu_1", name="look", arguments={"at": "a"}),
        ToolCall(id="toolu_2", name="look", arguments={}),
    ]


def test_text_and_thinking_may_come_with_the_start_of_a_block():
    reply = messages_reply(
        block(0, {"type": "thinking", "thinking": "Hm.", "signature": "Eq"}),
        block(1, {"type": "text", "text": "Hi"}),
        block(2, {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "a"}}),
        block(3, {"type": "text", "text": ""}),
    )
    *deltas, last = asked(reply)
    assert deltas[:2] == [ThinkingDelta("Hm."), TextDelta("Hi")]
    assert last.message.content == [
        Thinking(text="Hm.", signature="Eq"),
        Text(text="Hi"),
        ToolCall(id="toolu_1", name="look", arguments={"at": "a"}),
    ]


def test_a_call_that_the_limit_cut_off_is_partial():
    reply = messages_reply(call_block(0, "toolu_1", "look", '{"at": "a'), stop="max_tokens")
    last = asked(reply, how=answer)
    assert last.message.stop == "length"
    assert last.message.content == [
        ToolCall(id="toolu_1", name="look", arguments={}, partial='{"at": "a')
    ]


def test_arguments_that_are_no_json_reach_the_tool_as_they_are():
    reply = messages_reply(call_block(0, "toolu_1", "look", "{at: a}"), stop="tool_use")
    last = asked(reply, how=answer)
    assert last.message.content == [ToolCall(id="toolu_1", name="look", arguments="{at: a}")]


def test_blocks_of_the_server_are_kept_whole():
    start = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    search = block(0, start, {"type": "input_json_delta", "partial_json": '{"query": "x"}'})
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    *deltas, last = asked(messages_reply(search, block(1, found), stop="pause_turn"))
    assert deltas == []
    assert last.message.content == [
        Opaque(vendor="anthropic", data={**start, "input": {"query": "x"}}),
        Opaque(vendor="anthropic", data=found),
    ]
    assert last.message.stop == "pause_turn"


@pytest.mark.parametrize(
    ("word", "stop"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("something_new", "something_new"),
    ],
)
def test_stop_reasons_are_our_words(word, stop):
    assert asked(messages_reply(text_block(0, "a"), stop=word), how=answer).message.stop == stop


def test_usage_comes_from_the_start_and_the_end():
    start = message_start(cache_read_input_tokens=900, cache_creation_input_tokens=80)
    reply = Reply([start, *text_block(0, "a"), *message_end(output_tokens=15)])
    counts = asked(reply, how=answer).counts
    assert counts == TokenCounts(input=25, output=15, cache_read=900, cache_write=80)


def test_a_server_that_does_not_count_has_no_counts():
    delta = {"stop_reason": "end_turn"}
    chunks = [*text_block(0, "a"), event("message_delta", delta=delta), event("message_stop")]
    last = asked(Reply(chunks), how=answer)
    assert last.counts == TokenCounts(input=0, output=0, known=False)
    assert last.message.model == "claude-haiku-4-5"
    assert last.message.request is None


def test_the_message_id_stands_in_for_a_missing_request_id():
    reply = Reply([message_start(), *text_block(0, "a"), *message_end()])
    assert asked(reply, how=answer).message.request == "msg_1"


def test_events_and_deltas_that_are_new_are_passed_over():
    strange = block(0, {"type": "text", "text": ""}, {"type": "novel_delta", "novel": 1})
    reply = messages_reply([event("novel", more=1)], strange, text_block(1, "a"))
    assert asked(reply)[0] == TextDelta("a")


def test_a_refusal_may_be_empty_and_anything_else_may_not():
    assert asked(messages_reply(stop="refusal"), how=answer).message.content == []
    _, error = asked(messages_reply(), how=refused)
    assert isinstance(error, EmptyReply)
    assert error.retryable


def test_a_stream_without_its_last_event_broke_off():
    deltas, error = asked(Reply([message_start(), *text_block(0, "a", "b")]), how=refused)
    assert deltas == [TextDelta("a"), TextDelta("b")]
    assert isinstance(error, ConnectFailed)
    assert error.retryable
    _, error = asked(Reply([message_start()]), how=refused)
    assert isinstance(error, EmptyReply)


def test_calls_with_one_id_or_none_get_ids_of_their_own():
    reply = messages_reply(
        call_block(0, "same", "look", '{"at": "a"}'),
        call_block(1, "same", "look", '{"at": "b"}'),
        call_block(2, "", "look", '{"at": "c"}'),
        stop="tool_use",
    )
    *deltas, last = asked(reply, request(tools=[LOOK]))
    calls = last.message.content
    assert [call.arguments["at"] for call in calls] == ["a", "b", "c"]
    ids = [call.id for call in calls]
    assert ids[0] == "same"
    assert len({*ids}) == 3
    assert "" not in ids
    assert list(dict.fromkeys(delta.call_id for delta in deltas)) == ids


@pytest.mark.parametrize("given", ['{"at": NaN}', '{"at": 1e999}', "[" * 100_000])
def test_arguments_that_no_journal_can_hold_reach_the_tool_as_text(given):
    reply = messages_reply(call_block(0, "toolu_1", "look", given), stop="tool_use")
    last = asked(reply, how=answer)
    assert last.message.content == [ToolCall(id="toolu_1", name="look", arguments=given)]
