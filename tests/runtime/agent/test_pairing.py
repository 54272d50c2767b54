"""How calls and results are put together."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from holdfast import Message, Opaque, Text, Thinking, ToolCall, ToolResult, assistant, user
from holdfast.runtime.agent.pairing import NO_RESULT, calls_of, matched, paired


def call(call_id, name="look", **more):
    return ToolCall(id=call_id, name=name, arguments={"of": call_id}, **more)


def result(call_id, text="seen", outcome="completed"):
    return ToolResult(call_id=call_id, content=[Text(text=text)], outcome=outcome)


def tool(*results):
    return Message(role="tool", content=list(results))


def texts(message):
    return [part.content[0].text for part in message.content]


def ids(message):
    return [part.id if isinstance(part, ToolCall) else part.call_id for part in message.content]


def test_a_history_in_order_stays_as_it_is():
    said = [user("q"), assistant([call("a"), call("b")]), tool(result("a"), result("b"))]
    assert paired(said) == said


def test_results_are_one_message_in_the_order_of_the_calls():
    said = [assistant([call("a"), call("b")]), tool(result("b", "B")), tool(result("a", "A"))]
    answer, results = paired(said)
    assert answer == said[0]
    assert texts(results) == ["A", "B"]


def test_a_call_without_a_result_gets_one_that_says_so():
    answer, results = paired([assistant([call("a"), call("b")]), tool(result("b"))])
    assert ids(answer) == ids(results) == ["a", "b"]
    assert results.content == [replace(result("a", NO_RESULT), outcome="unknown"), result("b")]


def test_results_of_no_call_are_left_out():
    said = [tool(result("x")), user("q"), assistant([call("a")]), tool(result("a"), result("y"))]
    assert paired([*said, assistant("done"), tool(result("a", "late"))]) == [
        user("q"),
        assistant([call("a")]),
        tool(result("a")),
        assistant("done"),
    ]


def test_words_among_the_results_come_behind_them():
    said = [
        assistant([call("a"), call("b")]),
        user("hurry"),
        tool(result("b", "B")),
        Message(role="tool", content=[Text(text="by the way"), result("a", "A")]),
    ]
    _, results, *words = paired(said)
    assert texts(results) == ["A", "B"]
    assert words == [user("hurry"), user("by the way")]


def test_a_result_in_the_answer_itself_is_a_result():
    assert paired([assistant([call("a"), result("a")])]) == [
        assistant([call("a")]),
        tool(result("a")),
    ]


def test_equal_ids_are_answered_in_order_and_sent_apart():
    said = [assistant([call("a"), call("a")]), tool(result("a", "one"), result("a", "two"))]
    answer, results = paired(said)
    assert ids(answer) == ids(results)
    assert len(set(ids(answer))) == 2
    assert ids(answer)[0] == "a"
    assert texts(results) == ["one", "two"]


@pytest.mark.parametrize(
    ("called", "answered", "found"),
    [
        (["", ""], ["", ""], [0, 1]),
        (["a", "b"], ["", ""], [0, 1]),
        (["", ""], ["a", "b"], [0, 1]),
        (["a", "b"], ["", "a"], [1, 0]),
        (["", "b"], ["b", "x"], [1, 0]),
        (["", "b"], ["", ""], [0, 1]),
        (["a", "b"], ["x", "b"], [None, 1]),
        (["a"], ["a", "a"], [0]),
        (["a", "b"], [], [None, None]),
        ([], ["a", ""], []),
    ],
)
def test_ids_that_are_empty_or_missing(called, answered, found):
    results = [result(each, str(n)) for n, each in enumerate(answered)]
    expected = [None if n is None else results[n] for n in found]
    assert matched([call(each) for each in called], results) == expected


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("unknown", "completed", "second"),
        ("unknown", "failed", "second"),
        ("unknown", "unknown", "second"),  # what was streamed, and what recovery says of it
        ("completed", "unknown", "first"),
        ("completed", "failed", "first"),
    ],
)
def test_of_two_results_the_one_that_is_known_counts(first, second, kept):
    said = [
        assistant([call("a")]),
        tool(result("a", "first", first)),
        user("?"),
        tool(result("a", "second", second)),
    ]
    assert texts(paired(said)[1]) == [kept]


def test_ids_used_again_in_later_rounds_are_kept_apart():
    said = []
    for text in ("one", "two", "three"):
        said += [assistant([call("call_0")]), tool(result("call_0", text))]
    sent = paired(said)
    assert [texts(message) for message in sent[1::2]] == [["one"], ["two"], ["three"]]
    assert [ids(message) for message in sent[::2]] == [ids(message) for message in sent[1::2]]
    assert len({each for message in sent[::2] for each in ids(message)}) == 3
    assert paired(said[:4]) == sent[:4]


def test_a_made_up_id_that_is_taken_is_not_used_again():
    made = ids(paired([assistant([call("")])])[0])[0]
    sent = paired([assistant([call(made), call(""), call("")])])[0]
    assert len(set(ids(sent))) == 3


@pytest.mark.parametrize("odd", ["", "x" * 41, "functions.bash:0", "é", "\ud800", "a b"])
def test_ids_are_such_as_every_provider_takes(odd):
    answer, results = paired([assistant([call(odd)]), tool(result(odd))])
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", ids(answer)[0])
    assert ids(answer) == ids(results)
    assert texts(results) == ["seen"]


@pytest.mark.parametrize(
    ("name", "sent"),
    [("mcp.a/b c", "mcp_a_b_c"), ("", "unnamed"), ("n" * 70, "n" * 64), ("ü\ud800", "__")],
)
def test_names_are_such_as_every_provider_takes(name, sent):
    assert [each.name for each in calls_of(paired([assistant([call("a", name)])])[0])] == [sent]


def test_a_half_received_call_is_told_in_words_and_answered_by_nothing():
    half = call("a", partial='{"of')
    said = [assistant([Text(text="I look."), half], stop="interrupted"), tool(result("a"))]
    assert calls_of(said[0]) == []
    (answer,) = paired(said)
    assert answer.text == "I look.[interrupted while calling look; nothing was run]"
    assert calls_of(answer) == []


def test_an_interrupted_answer_keeps_the_calls_that_have_results():
    said = assistant([call("a"), call("b"), Thinking(text="Hm.")], stop="interrupted")
    answer, results = paired([said, tool(result("a"))])
    note = Text(text="[interrupted while calling look; nothing was run]")
    assert answer.content == [note, call("a"), Thinking(text="Hm.")]
    assert ids(results) == ["a"]


def test_tools_of_the_provider_are_not_touched():
    use = Opaque(vendor="anthropic", data={"type": "server_tool_use", "id": "s"})
    found = Opaque(vendor="anthropic", data={"type": "web_search_tool_result", "tool_use_id": "s"})
    said = [user("q"), assistant([use, found, Text(text="so"), call("a")]), tool(result("a"))]
    assert paired(said) == said


def test_nothing_comes_of_nothing():
    assert paired([]) == []
    assert paired([tool()]) == []


def test_many_calls_are_not_each_compared_with_each_result():
    """A forged journal may claim any number: comparing each with each would take minutes."""
    compared = 0

    class CountedId(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    count = 2000
    called = [call(CountedId(f"c{n}")) for n in range(count)]
    results = [result(CountedId(f"c{n}")) for n in range(count)]
    assert matched(called, results) == results
    assert compared < 20 * count
