"""Answers of Chat Completions servers, through the real SDK."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Text, Thinking, ToolCall
from holdfast.errors import ConnectFailed, EmptyReply
from holdfast.runtime.providers.base import Finished, TextDelta, ThinkingDelta, TokenCounts
from holdfast.runtime.providers.openai import OpenAI
from tests.runtime.providers.asking import KEY, LOOK, answer, ask, refused, request
from tests.runtime.providers.wire import DONE, FakeVendor, Reply, call, chat_reply, chunk


def asked(reply, asking=None, how=ask, **options):
    async def run():
        async with FakeVendor(reply) as vendor:
            provider = OpenAI(KEY, base_url=vendor.url + "/v1", **options)
            try:
                return await how(provider, asking or request(model="m"))
            finally:
                await provider.close()

    return asyncio.run(run())


def test_text_is_streamed_and_then_whole():
    start = {"role": "assistant", "content": "", "refusal": None}
    *deltas, last = asked(chat_reply([start, {"content": "Hel"}, {"content": "lo"}]))
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert isinstance(last, Finished)
    assert last.message.content == [Text(text="Hello")]
    assert last.message.stop == "end"
    assert last.message.request == "req_7"
    assert last.message.model == "served-model"
    assert last.counts == TokenCounts(input=100, output=7)


def test_the_key_and_the_address_are_those_of_the_configuration():
    async def run():
        async with FakeVendor(*[chat_reply([{"content": "a"}])] * 4) as vendor:
            for key in (KEY, None):
                provider = OpenAI(key, base_url=vendor.url + "/v1/")
                assert provider.endpoint == vendor.url + "/v1"
                for _ in range(2):
                    await answer(provider, request(model="m"))
                await provider.close()
            assert [one.path for one in vendor.received] == ["/v1/chat/completions"] * 4
            return [one.headers["authorization"] for one in vendor.received]

    assert asyncio.run(run()) == [f"Bearer {KEY}"] * 2 + ["Bearer none"] * 2


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_thinking(name):
    deltas = [{name: "Let me "}, {name: "see."}, {"content": "42"}, {name: "Hm."}]
    *deltas, last = asked(chat_reply(deltas))
    assert deltas == [
        ThinkingDelta("Let me "),
        ThinkingDelta("see."),
        TextDelta("42"),
        ThinkingDelta("Hm."),
    ]
    assert last.message.content == [
        Thinking(text="Let me see."),
        Text(text="42"),
        Thinking(text="Hm."),
    ]


def test_both_names_of_reasoning_at_once_are_one_thought():
    deltas = asked(chat_reply([{"reasoning_content": "Hm.", "reasoning": "Hm."}, {"content": "a"}]))
    assert deltas[:2] == [ThinkingDelta("Hm."), TextDelta("a")]


def test_parallel_calls_end_with_the_right_word_whatever_the_server_says():
    calls = [call(0, "a", "look", '{"at": "x"}'), call(1, "b", "look", '{"at": "y"}')]
    for word in ("tool_calls", "stop", "function_call"):
        last = asked(chat_reply(calls, word), request(model="m", tools=[LOOK]), how=answer)
        assert last.message.stop == "tool_calls"
        assert last.message.content == [
            ToolCall(id="a", name="look", arguments={"at": "x"}),
            ToolCall(id="b", name="look", arguments={"at": "y"}),
        ]


def test_a_call_that_the_limit_cut_off_is_partial():
    last = asked(chat_reply([call(0, "a", "look", '{"at": "x')], "length"), how=answer)
    assert last.message.stop == "length"
    assert last.message.content == [
        ToolCall(id="a", name="look", arguments={}, partial='{"at": "x')
    ]


@pytest.mark.parametrize(
    ("word", "stop"),
    [("stop", "end"), ("length", "length"), ("content_filter", "refusal"), ("novel", "novel")],
)
def test_stop_reasons_are_our_words(word, stop):
    assert asked(chat_reply([{"content": "a"}], word), how=answer).message.stop == stop


def test_a_refusal_is_text_and_the_reason():
    last = asked(chat_reply([{"refusal": "I "}, {"refusal": "won't."}]), how=answer)
    assert last.message.stop == "refusal"
    assert last.message.text == "I won't."


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 90}}, TokenCounts(10, 7, cache_read=90)),
        (
            {"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}},
            TokenCounts(10, 7, cache_read=60, cache_write=30),
        ),
        ({"prompt_cache_hit_tokens": 64}, TokenCounts(36, 7, cache_read=64)),
        ({"cached_tokens": 200}, TokenCounts(0, 7, cache_read=200)),
        ({"prompt_tokens_details": None}, TokenCounts(100, 7)),
    ],
)
def test_what_was_cached_is_not_counted_twice(more, counts):
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107, **more}
    assert asked(chat_reply([{"content": "a"}], usage=usage), how=answer).counts == counts


def test_a_server_that_does_not_count_has_no_counts():
    last = asked(chat_reply([{"content": "a"}], usage=None), how=answer)
    assert last.counts == TokenCounts(input=0, output=0, known=False)


def test_usage_may_stand_in_the_choice():
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    choice = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}
    chunks = [chunk({"content": "a"}), chunk(choices=[choice]), DONE]
    assert asked(Reply(chunks), how=answer).counts == TokenCounts(5, 2)


def test_counts_are_asked_for_unless_told_otherwise():
    async def run(**options):
        async with FakeVendor(chat_reply([{"content": "a"}])) as vendor:
            provider = OpenAI(base_url=vendor.url + "/v1", **options)
            await answer(provider, request(model="m"))
            await provider.close()
            return vendor.body.get("stream_options")

    assert asyncio.run(run()) == {"include_usage": True}
    assert asyncio.run(run(counts=False)) is None


def test_the_chunk_id_stands_in_for_a_missing_request_id():
    reply = chat_reply([{"content": "a"}])
    reply.headers.pop("x-request-id")
    assert asked(reply, how=answer).message.request == "chatcmpl-1"


def test_an_answer_with_nothing_in_it_is_an_error():
    _, error = asked(chat_reply([]), how=refused)
    assert isinstance(error, EmptyReply)
    assert error.retryable


def test_a_stream_without_a_reason_to_stop_broke_off():
    deltas, error = asked(Reply([chunk({"content": "a"}), DONE]), how=refused)
    assert deltas == [TextDelta("a")]
    assert isinstance(error, ConnectFailed)
    assert error.retryable
    _, error = asked(Reply([DONE]), how=refused)
    assert isinstance(error, EmptyReply)


def test_text_that_is_no_text_is_an_error():
    _, error = asked(chat_reply([{"content": {"deep": 1}}]), how=refused)
    assert isinstance(error, EmptyReply)
    assert "cannot be understood" in str(error)
