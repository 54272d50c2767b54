"""Tool calls from fragments, as the servers out there send them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import ToolCall
from holdfast.runtime.providers.openai import Calls
from tests.runtime.providers.wire import call


def taken(*deltas):
    """Put fragments together; return the calls, with ids of our own numbered."""
    numbers = iter(range(1, 100))
    calls = Calls(lambda: f"own-{next(numbers)}")
    out = [
        delta
        for each in deltas
        for fragment in each["tool_calls"]
        for delta in calls.take(fragment)
    ]
    parts = calls.parts(cut=False)
    # Whatever the server did: ids are unique, and the deltas add up to the calls.
    assert bool(calls) == bool(parts)
    assert len({part.id for part in parts}) == len(parts)
    for part in parts:
        mine = [delta for delta in out if delta.call_id == part.id]
        assert [delta.name for delta in mine if delta.name] == [part.name]
        assert mine[0].name == part.name
    return [(part.id, part.name, part.arguments) for part in parts]


TWO = [("a", "look", {"at": "x"}), ("b", "peek", {"at": "y"})]
X, Y = '{"at": "x"}', '{"at": "y"}'


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param([call(0, "a", "look", X), call(1, "b", "peek", Y)], id="in one piece"),
        pytest.param(
            [
                call(0, "a", "look", ""),
                call(0, None, None, '{"at"'),
                call(0, None, None, ': "x"}'),
                call(1, "b", "peek", ""),
                call(1, None, None, Y),
            ],
            id="as documented",
        ),
        pytest.param(
            [
                call(0, "a", "look", '{"at": '),
                call(1, "b", "peek", '{"at": '),
                call(0, None, None, '"x"}'),
                call(1, None, None, '"y"}'),
            ],
            id="interleaved",
        ),
        pytest.param(
            [
                call(0, "a", "look", '{"at"'),
                call(0, "a", "look", ': "x"}'),
                call(1, "b", "peek", Y),
                call(1, "b", "peek", ""),
            ],
            id="id and name in every fragment",
        ),
        pytest.param([call(0, "a", "look", X), call(0, "b", "peek", Y)], id="index always 0"),
        pytest.param([call(None, "a", "look", X), call(None, "b", "peek", Y)], id="no index"),
        pytest.param(
            [
                call(None, "a", "look", '{"at"'),
                call(None, None, None, ': "x"}'),
                call(None, "b", "peek", Y),
            ],
            id="no index, in pieces",
        ),
        pytest.param(
            [call(0, "a", "look", {"at": "x"}), call(1, "b", "peek", {"at": "y"})],
            id="arguments as objects",
        ),
        pytest.param(
            [call(0, "a", "look", json.dumps(X)), call(1, "b", "peek", Y)], id="encoded twice"
        ),
    ],
)
def test_two_calls_are_two_calls(deltas):
    assert taken(*deltas) == TWO


@pytest.mark.parametrize(
    ("deltas", "ids"),
    [
        ([call(0, None, "look", X), call(1, None, "peek", Y)], ["own-1", "own-2"]),
        ([call(0, "", "look", X), call(1, "", "peek", Y)], ["own-1", "own-2"]),
        ([call(0, "a", "look", X), call(1, "a", "peek", Y)], ["a", "own-1"]),
        ([call(None, "a", "look", X), call(None, "a", "peek", Y)], ["a", "own-1"]),
        ([call(None, None, "look", X), call(None, None, "peek", Y)], ["own-1", "own-2"]),
        ([call(0, None, "look", X), call(0, None, "peek", Y)], ["own-1", "own-2"]),
    ],
    ids=["no id", "empty id", "same id", "same id, no index", "no id, no index", "no id, index 0"],
)
def test_missing_and_repeated_ids_are_replaced(deltas, ids):
    found = taken(*deltas)
    assert [each[0] for each in found] == ids
    assert [each[1:] for each in found] == [each[1:] for each in TWO]


def test_calls_without_arguments_are_told_apart_by_their_ids():
    for index in (0, None):
        deltas = [call(index, "a", "look", ""), call(index, "b", "peek", None)]
        assert taken(*deltas) == [("a", "look", {}), ("b", "peek", {})]


def test_an_id_that_comes_late_does_not_change_the_call():
    deltas = [call(0, None, "look", '{"at"'), call(0, "late", None, ': "x"}')]
    assert taken(*deltas) == [("own-1", "look", {"at": "x"})]


@pytest.mark.parametrize("arguments", ["", None, "{}", "null", " "])
def test_a_call_may_have_no_arguments(arguments):
    assert taken(call(0, "a", "look", arguments)) == [("a", "look", {})]


def test_arguments_that_are_no_json_stay_text():
    assert taken(call(0, "a", "look", "{at: x}")) == [("a", "look", "{at: x}")]


def test_arguments_that_are_cut_are_partial_and_whole_ones_are_not():
    calls = Calls()
    for fragment in (call(0, "a", "look", X), call(1, "b", "look", '{"at')):
        list(calls.take(fragment["tool_calls"][0]))
    assert calls.parts(cut=True) == [
        ToolCall(id="a", name="look", arguments={"at": "x"}),
        ToolCall(id="b", name="look", arguments={}, partial='{"at'),
    ]


def test_a_fragment_without_a_function_is_harmless():
    calls = Calls()
    assert list(calls.take({"index": 0, "id": "a", "function": None})) == []
    assert [part.id for part in calls.parts(cut=False)] == ["a"]


def test_an_id_of_our_own_looks_like_one():
    calls = Calls()
    (delta,) = calls.take(call(0, None, "look", X)["tool_calls"][0])
    assert delta.call_id.startswith("call_")


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9)), min_size=1, max_size=4),
    st.sampled_from(["index", "id", "both"]),
    st.integers(1, 7),
)
def test_however_they_are_cut_the_calls_come_back(arguments, style, size):
    deltas = []
    for number, given_arguments in enumerate(arguments):
        text = json.dumps(given_arguments)
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        index = None if style == "id" else number
        call_id = None if style == "index" else f"id{number}"
        deltas.append(call(index, call_id, "look", pieces[0]))
        deltas += [call(index, None, None, piece) for piece in pieces[1:]]
    assert [each[2] for each in taken(*deltas)] == arguments
