"""The rehearsal model, in a small loop of its own."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from holdfast import (
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    tool_result,
    user,
)
from holdfast.errors import BadStatus, ConnectFailed, EmptyReply, TimedOut
from holdfast.runtime.providers.base import (
    SUM_UP,
    Finished,
    TextDelta,
    ThinkingDelta,
    TokenCounts,
    ToolCallDelta,
    ToolSpec,
)
from holdfast.runtime.providers.rehearsal import HELP, Rehearsal, serves
from holdfast.runtime.providers.rehearsal_script import ScriptedCall, ScriptStep
from tests.runtime.providers.asking import answer, ask, refused, request


def conversation(provider, *prompts, results=None, tools=()):
    """Run prompts to their ends, every call answered at once; return the messages."""

    async def run():
        messages: list[Message] = []
        for prompt in prompts:
            messages.append(user(prompt))
            while messages[-1].role != "assistant" or messages[-1].stop == "tool_calls":
                asked = request(*messages, model="rehearsal", tools=list(tools))
                messages.append((await answer(provider, asked)).message)
                calls = [part for part in messages[-1].content if isinstance(part, ToolCall)]
                messages += [(results or done)(call) for call in calls]
        await provider.close()
        return messages

    return asyncio.run(run())


def done(call):
    return tool_result(call.id, f"result of {call.name}")


def said(messages):
    return [message.text for message in messages if message.role == "assistant" and message.text]


def called(messages):
    return [
        [(part.id, part.name, part.arguments) for part in message.content]
        for message in messages
        if message.role == "assistant" and message.stop == "tool_calls"
    ]


def test_a_command_is_called_and_its_outcome_quoted():
    messages = conversation(Rehearsal(), "run: ls -l")
    assert called(messages) == [[("call-1-1", "bash", {"command": "ls -l"})]]
    assert said(messages) == ["Done. bash completed: “result of bash”."]
    assert [one.request for one in messages if one.request] == ["rehearsal-1", "rehearsal-2"]
    assert messages[-1].model == "rehearsal"
    assert messages[-1].stop == "end"


def test_what_did_not_complete_is_quoted_too():
    def denied(call):
        return tool_result(call.id, [], outcome="never_ran")

    assert said(conversation(Rehearsal(), "read: a", results=denied)) == ["Done. read never ran."]

    def long(call):
        return tool_result("another id", "x " * 500)

    (text,) = said(conversation(Rehearsal(), "read: a", results=long))
    assert text.startswith("Done. a tool completed: “x x")
    assert text.endswith("…”.")
    assert len(text) < 250


def test_it_streams_word_by_word():
    async def run():
        return await ask(Rehearsal(), request(user("think: a b\nsay: c  d\nrun: x")))

    *deltas, last = asyncio.run(run())
    assert deltas == [
        ThinkingDelta("a "),
        ThinkingDelta("b"),
        TextDelta("c  "),
        TextDelta("d"),
        ToolCallDelta("call-1-1", "", "bash"),
        ToolCallDelta("call-1-1", '{"command": '),
        ToolCallDelta("call-1-1", '"x"}'),
    ]
    assert isinstance(last, Finished)
    assert last.message.content == [
        Thinking(text="a b"),
        Text(text="c  d"),
        ToolCall(id="call-1-1", name="bash", arguments={"command": "x"}),
    ]
    assert last.counts == TokenCounts(input=8, output=5)
    assert asyncio.run(run()) == [*deltas, last], "the same again"


def test_commands_run_one_after_the_other_and_parallel_ones_at_once():
    messages = conversation(
        Rehearsal(), "run: one\nparallel:\nread: two\nsay: Both.\nglob: three\n\ngrep: four"
    )
    assert [[each[1] for each in calls if each[1]] for calls in called_names(messages)] == [
        ["bash"],
        ["read", "glob"],
        ["grep"],
    ]
    assert said(messages)[0] == "Both."
    assert said(messages)[-1].count("completed") == 4


def called_names(messages):
    return [
        [(part.id, part.name) for part in message.content if isinstance(part, ToolCall)]
        for message in messages
        if message.stop == "tool_calls"
    ]


def test_a_write_takes_the_lines_that_follow():
    messages = conversation(Rehearsal(), "write: a.txt\none\n\ntwo\nwrite: b.txt")
    assert [calls[0][2] for calls in called(messages)] == [
        {"path": "a.txt", "content": "one\n\ntwo\n"},
        {"path": "b.txt", "content": ""},
    ]


def test_arguments_are_named_as_the_tool_wants_them():
    spec = ToolSpec("read", "", {"type": "object", "required": ["file_path"]})
    odd = ToolSpec("other", "", {"type": "object"})
    messages = conversation(Rehearsal(), "read: a", tools=[odd, spec])
    assert called(messages)[0][0][2] == {"file_path": "a"}


def test_a_second_prompt_is_a_new_beginning_with_new_ids():
    messages = conversation(Rehearsal(), "run: a", "run: b")
    assert [calls[0][0] for calls in called(messages)] == ["call-1-1", "call-3-1"]


def test_a_closing_word_of_ones_own_replaces_the_sentence():
    assert said(conversation(Rehearsal(), "run: a\nsay: So: {result}!")) == ["So: result of bash!"]


def test_what_a_crash_left_is_gone_on_with():
    """After an interrupted answer and a restart, the next step is the one that was missing."""
    messages = [
        user("run: a\nrun: b"),
        assistant([ToolCall(id="call-1-1", name="bash", arguments={})], stop="tool_calls"),
        tool_result("call-1-1", "x", outcome="unknown"),
        assistant("Do", stop="interrupted"),
    ]
    last = asyncio.run(answer(Rehearsal(), request(*messages)))
    (call,) = last.message.content
    assert isinstance(call, ToolCall)
    assert call.arguments == {"command": "b"}


def test_the_mirror_of_an_image_is_no_prompt():
    image = Image(media_type="image/png", data="iVBORw0KGgo=")
    messages = [
        user("read: a.png"),
        assistant([ToolCall(id="call-1-1", name="read", arguments={})], stop="tool_calls"),
        tool_result("call-1-1", [Text(text="a picture"), image]),
        user([Text(text="The image that read showed:"), image]),
    ]
    last = asyncio.run(answer(Rehearsal(), request(*messages)))
    assert last.message.text == "Done. read completed: “a picture”."


@pytest.mark.parametrize("prompt", ["fix my code", "please run: ls", "ls", "", "run: ls\nplease"])
def test_any_other_prompt_is_not_its_own(prompt):
    assert not serves(prompt)
    assert not Rehearsal().serves(prompt)
    assert Rehearsal([]).serves(prompt)
    messages = [user(prompt)] if prompt else [tool_result("a", "b")]
    assert asyncio.run(answer(Rehearsal(), request(*messages))).message.text == HELP


@pytest.mark.parametrize(
    "prompt",
    ["run: ls", "\n  Run: ls\n", "say: hello\nworld", "run: wc\n\n<stdin>\nfix: this\n</stdin>\n"],
)
def test_its_own_prompts(prompt):
    assert serves(prompt)


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("529", BadStatus),
        ("400", BadStatus),
        ("disconnect", ConnectFailed),
        ("timeout", TimedOut),
        ("end", EmptyReply),
    ],
)
def test_it_fails_when_told(what, kind):
    provider = Rehearsal()
    deltas, error = asyncio.run(refused(provider, request(user(f"say: a b\nfail: {what}"))))
    assert deltas == [TextDelta("a "), TextDelta("b")]
    assert type(error) is kind
    assert error.retryable is (what != "400")


SCRIPT = [
    ScriptStep("think", "First."),
    ScriptStep("fail", "529", after=1),
    ScriptStep(
        "calls", calls=[ScriptedCall("look", {"at": "a"}), ScriptedCall("look", {"at": "b"})]
    ),
    ScriptStep("say", "Seen: {result}"),
    ScriptStep("stop", "length"),
    ScriptStep("say", "never"),
    ScriptStep("fail", "end", after=9, times=2),
]


def test_a_script_is_followed_and_fails_as_often_as_it_says():
    provider = Rehearsal(SCRIPT)
    asked = request(user("anything"))
    deltas, error = asyncio.run(refused(provider, asked))
    assert deltas == [ThinkingDelta("First.")]
    assert error.status == 529
    messages = conversation(provider, "anything")
    assert [one.stop for one in messages if one.role == "assistant"] == ["tool_calls", "length"]
    assert said(messages) == ["Seen: result of look\nresult of look"]
    later = request(*messages, user("more"))
    for _ in range(2):
        deltas, error = asyncio.run(refused(provider, later))
        assert (deltas, type(error)) == ([TextDelta("never")], EmptyReply)
    last = asyncio.run(answer(provider, later))
    assert last.message.text == "never"
    after = asyncio.run(answer(provider, request(*messages, last.message, user("more"))))
    assert after.message.text == "The script has ended."
    assert asyncio.run(answer(Rehearsal([]))).message.text == "The script has ended."


def test_it_can_be_slow_and_is_cancelled_at_any_word():
    async def run():
        provider = Rehearsal(delay_seconds=0.001)
        async with aclosing(provider.stream(request(user("say: one two three")))) as deltas:
            assert await anext(deltas) == TextDelta("one ")
        assert [delta async for delta in deltas] == []

    asyncio.run(run())


def test_results_without_text_are_quoted_without():
    image = Image(media_type="image/png", data="iVBORw0KGgo=")
    result = ToolResult(call_id="call-1-1", content=[image], outcome="completed")
    messages = conversation(
        Rehearsal(), "read: a", results=lambda call: Message(role="tool", content=[result])
    )
    assert said(messages) == ["Done. read completed."]


def test_a_summary_says_what_was_asked_and_where_a_script_stands():
    provider = Rehearsal(
        [ScriptStep("say", "one"), ScriptStep("stop", "end"), ScriptStep("say", "two")]
    )
    messages = conversation(provider, "first\nmore", "[a mirror]")
    finished = asyncio.run(answer(provider, request(*messages, user(SUM_UP))))
    summary = finished.message.text
    assert summary == "It was asked:\n- first\n(rehearsed up to answer 2)"
    later = asyncio.run(answer(provider, request(user(f"[So far:]\n\n{summary}"), user("on"))))
    assert later.message.text == "The script has ended."
