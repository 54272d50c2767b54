"""What a provider gets to see of a conversation."""

from __future__ import annotations

import pytest

from holdfast import (
    File,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_result,
    user,
)
from holdfast.model.message import AnyPart, UnknownPart
from holdfast.runtime.agent.context import (
    CUT_OFF,
    GO_ON,
    Frame,
    build,
    estimate_tokens,
    system_prompt,
)
from tests.runtime.random_conversations import complaints, wire

CLAUDE = Frame(provider="anthropic", model="claude-sonnet-5-5")
HAIKU = Frame(provider="anthropic", model="claude-haiku-4-5", thinking=2000)
GPT = Frame(provider="openai", model="gpt-6-sol")
BOTH = pytest.mark.parametrize("frame", [CLAUDE, GPT], ids=["anthropic", "openai"])
IMAGE = Image(media_type="image/png", data="iVBORw0KGgo=")
CALL = ToolCall(id="a", name="look", arguments={})
SIGNED = Thinking(text="Hm.", signature="EqQB")
REDACTED = Opaque(vendor="anthropic", data={"type": "redacted_thinking", "data": "x"})


def sent(frame, *messages):
    """Return the messages of a request; the provider must accept it."""
    assert complaints(list(messages), frame) == []
    return build(messages, frame).messages


def answer(*parts, model="claude-sonnet-5-5", **more):
    return assistant(list(parts), model=model, **more)


def big(size=100_000, call_id="a"):
    return tool_result(call_id, "x" * size)


@BOTH
def test_nothing_at_all(frame):
    assert sent(frame) == [user(GO_ON)]


@BOTH
def test_only_a_summary(frame):
    assert sent(frame, system("s"), user("so far: all is well")) == [user("so far: all is well")]


@BOTH
@pytest.mark.parametrize(
    ("stop", "words"), [("interrupted", CUT_OFF), ("length", CUT_OFF), ("end", GO_ON)]
)
def test_an_answer_at_the_very_end(frame, stop, words):
    said = [user("q"), answer(Text(text="So I"), stop=stop)]
    assert sent(frame, *said) == [*said, user(words)]


@BOTH
def test_answers_one_after_the_other_and_one_at_the_beginning(frame):
    one, two, three = (
        answer(Text(text=each), stop=stop)
        for each, stop in [("one", "end"), ("two", "interrupted"), ("three", "end")]
    )
    first, *rest = sent(frame, one, two, three)
    assert first.role == "user"
    assert rest == [one, user(GO_ON), two, user(CUT_OFF), three, user(GO_ON)]


@BOTH
def test_what_says_nothing_is_left_out(frame):
    said = [
        user("q"),
        user(" \n"),
        answer(Text(text=""), Thinking(text="Hm.")),
        answer(IMAGE),
        answer(Opaque(vendor="gemini", data={"type": "thought"})),
        answer(REDACTED),
        user([UnknownPart(fields={"type": "novel"})]),
        user([CALL]),
        answer(Text(text="a")),
        user([IMAGE]),
    ]
    assert sent(frame, *said) == [user("q"), said[-2], said[-1]]


@BOTH
def test_calls_without_results_and_results_without_calls(frame):
    said = [user("q"), tool_result("x", "?"), answer(CALL), user("go on")]
    roles = [message.role for message in sent(frame, *said)]
    assert roles == ["user", "assistant", "tool", "user"]


@BOTH
@pytest.mark.parametrize("model", ["claude-opus-4-6", "gpt-6-sol", None])
def test_signed_thoughts_of_another_model_stay_out(frame, model):
    said = [user("q"), answer(SIGNED, REDACTED, Text(text="a"), model=model), user("w")]
    if model != frame.model:
        assert sent(frame, *said)[1] == answer(Text(text="a"), model=model)


def test_thoughts_of_the_same_model_go_back_to_it():
    said = [user("q"), answer(SIGNED, REDACTED, CALL), tool_result("a", "x")]
    assert sent(CLAUDE, *said) == said


def test_thoughts_without_a_signature_are_for_whoever_wants_them():
    said = [user("q"), answer(Thinking(text="Hm."), CALL, model="m"), tool_result("a", "x")]
    body = wire(said, Frame(provider="openai", model="deepseek-chat"))
    assert body["messages"][1]["reasoning_content"] == "Hm."
    assert "Hm." not in str(wire(said, CLAUDE))


def test_thoughts_before_another_system_prompt_stay_out():
    said = [user("q"), answer(SIGNED, Text(text="a")), system("new"), user("w")]
    said += [answer(SIGNED, Text(text="b")), user("e")]
    messages = sent(CLAUDE, *said)
    assert messages[1] == answer(Text(text="a"))
    assert messages[3] == answer(SIGNED, Text(text="b"))


def test_a_budget_is_asked_for_only_if_the_answer_began_with_thinking():
    def thinking(*said):
        assert complaints(list(said), HAIKU) == []
        return "thinking" in wire(list(said), HAIKU)

    def own(*parts):
        return answer(*parts, model=HAIKU.model)

    seen = tool_result("a", "x")
    again, seen_again = own(ToolCall(id="b", name="look", arguments={})), tool_result("b", "x")
    assert thinking(user("q"), own(SIGNED, CALL), seen)
    assert thinking(user("q"), own(REDACTED, CALL), seen)
    assert thinking(user("q"), own(SIGNED, CALL), seen, again, seen_again)
    assert thinking(user("q"), own(CALL), seen, own(Text(text="done")), user("more"))
    assert not thinking(user("q"), own(CALL), seen)
    assert not thinking(user("q"), own(Text(text="I look."), CALL), seen)
    assert not thinking(user("q"), answer(SIGNED, CALL), seen)
    assert not thinking(user("q"), own(SIGNED, CALL), seen, user("hurry"), again, seen_again)
    assert not thinking(user("q"), own(CALL), seen, own(SIGNED, *again.content), seen_again)


def test_images_of_tools_are_in_place_for_one_and_mirrored_for_the_other():
    result = tool_result("a", [Text(text="see"), IMAGE], outcome="failed")
    said = [user("q"), answer(CALL), result, user("so?")]
    assert sent(CLAUDE, *said) == said
    block = wire(said, CLAUDE)["messages"][2]["content"][0]
    assert [inner["type"] for inner in block["content"]] == ["text", "text", "image"]
    assert block["content"][0]["text"] == "[failed]"
    _, _, seen, mirror, last = sent(GPT, *said)
    assert seen == tool_result(
        "a", [Text(text="see"), Text(text="[shown below]")], outcome="failed"
    )
    assert mirror.role == "user"
    assert mirror.content[1:] == [IMAGE]
    assert last == user("so?")


def test_images_of_parallel_calls_are_shown_behind_all_results():
    other = ToolCall(id="b", name="look", arguments={})
    said = [user("q"), answer(CALL, other), tool_result("a", [IMAGE]), tool_result("b", [IMAGE])]
    roles = [message["role"] for message in wire(said, GPT)["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "user"]
    assert sent(GPT, *said)[-1].content[1:] == [IMAGE, IMAGE]


def test_tools_of_the_provider_go_back_in_pairs():
    use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    blocks = [Opaque(vendor="anthropic", data=data) for data in (use, found)]
    said = [user("q"), answer(*blocks, Text(text="so")), user("w")]
    kinds = [block["type"] for block in wire(said, CLAUDE)["messages"][1]["content"]]
    assert kinds == ["server_tool_use", "web_search_tool_result", "text"]
    for half in blocks:
        messages = wire([user("q"), answer(half, Text(text="so")), user("w")], CLAUDE)["messages"]
        assert [block["type"] for block in messages[1]["content"]] == ["text"]
    assert complaints([user("q"), answer(blocks[0]), user("w")], CLAUDE) == []
    assert complaints(said, GPT) == []


@BOTH
def test_lone_surrogates_do_no_harm(frame):
    call = ToolCall(id="\ud800", name="\ud800", arguments={"\ud800": "\udfff"})
    said = [user("\ud800"), answer(call), tool_result("\ud800", "\udfff")]
    assert estimate_tokens(said) > 0
    assert len(sent(frame, *said)) == 3


@BOTH
def test_the_oldest_output_is_cut_first_and_no_word_of_the_user(frame):
    small = Frame(provider=frame.provider, model=frame.model, max_tokens=1000, window_tokens=51_000)
    old = tool_result("a", [Text(text="x" * 90_000), IMAGE])
    said = [user("y" * 90_000), answer(SIGNED, CALL, model=frame.model), old]
    said += [answer(SIGNED, CALL, model=frame.model), big(20_000), user("w")]
    first, one, cut, *_, two, kept, last = sent(small, *said)
    assert (first, last) == (said[0], said[-1])
    assert one.content[0] == SIGNED
    text = cut.content[0].content[0].text
    assert text.startswith("x" * 1000 + "\n[… 88,000 characters left out")
    assert cut.content[0].content[1] == Text(text="[left out to save room]")
    assert two.content[0] != SIGNED
    assert kept.content[0].content == said[4].content[0].content


@BOTH
def test_output_that_does_not_fit_is_cut_even_if_it_is_the_last(frame):
    small = Frame(provider=frame.provider, model=frame.model, max_tokens=1000, window_tokens=9_000)
    messages = sent(small, user("q"), answer(CALL), big(1_000_000))
    assert estimate_tokens(messages) < 8_000


def test_what_is_cut_stays_the_same_for_a_while():
    small = Frame(provider="anthropic", model="m", max_tokens=1000, window_tokens=141_000)
    said = []
    for _ in range(100):
        said += [user("q"), answer(CALL, model="m"), big(5_000)]
    cuts = set()
    for n in range(40):
        messages = build([*said, *[user("w" * 800)] * n], small).messages
        cuts.add(sum(estimate_tokens([each]) < 1000 for each in messages[2:300:3]))
    assert 0 not in cuts
    assert len(cuts) <= 2


def test_caches_end_at_the_last_message_and_where_the_request_before_ended():
    said = [user("q"), answer(CALL), tool_result("a", "x")]
    assert build(said[:1], CLAUDE).cached == (0,)
    assert build(said, CLAUDE).cached == (0, 2)
    assert build([*said, answer(Text(text="done")), user("w")], CLAUDE).cached == (2, 4)


def test_the_frame_is_in_the_request():
    frame = Frame("anthropic", "m", system="s", max_tokens=5, thinking=7)
    request = build([user("q")], frame)
    assert (request.model, request.system, request.tools) == ("m", "s", [])
    assert (request.max_tokens, request.thinking) == (5, 7)


def test_the_system_prompt_that_was_recorded_last_counts():
    assert system_prompt([user("q")]) is None
    assert system_prompt([system("one"), user("q"), system("two"), user("w")]) == "two"


def test_estimates_grow_with_what_is_there():
    parts: list[AnyPart] = [
        Text(text="x" * 350),
        Thinking(text="x" * 350),
        IMAGE,
        File(name="a", media_type="application/pdf", data="x"),
        ToolCall(id="a", name="b", arguments={"c": "x" * 350}),
        ToolCall(id="a", name="b", arguments={"c": "\ud800" + "x" * 350}),
        ToolResult(call_id="a", content=[Text(text="x" * 350)], outcome="completed"),
        Opaque(vendor="v", data={"c": "x" * 350}),
    ]
    for part in parts:
        assert estimate_tokens([user([part])]) >= 100
    unknown = UnknownPart(fields={"type": "novel"})
    assert estimate_tokens([user([unknown])]) == estimate_tokens([Message("user", [])])
