"""Choices: which one is asked, which keys count, and what is seen of it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.tui.chat import choices
from holdfast.tui.chat.choices import BACK, ChoicePrompt, Choices, Option
from holdfast.tui.chat.render import exactly


class FakeClock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(choices, "time", clock)
    return clock


def choice(name, keys="yn", question="?", **given):
    done = []

    def way(key):
        async def do():
            done.append(key)

        return Option(key, f"way {key}", do)

    return ChoicePrompt(name, question, tuple(map(way, keys)), **given), done


def waiting():
    changes = []
    return Choices(lambda: changes.append(1)), changes


def test_a_key_counts_only_after_a_moment_and_once(clock):
    some, changes = waiting()
    asked, done = choice("a")
    assert some.way("y") is None
    some.ask(asked)
    assert changes
    clock.now += 0.3
    assert some.way("y") is None
    clock.now += 0.2
    assert some.way("x") is None
    assert some.offers("y")
    assert not some.offers("x")
    way = some.way("y")
    assert way is not None
    asyncio.run(way.do())
    assert done == ["y"]
    assert some.current is None
    assert some.way("y") is None


def test_the_next_choice_is_not_decided_by_a_key_that_was_meant_for_the_one_before(clock):
    some, _ = waiting()
    for name in ("a", "b"):
        some.ask(choice(name)[0])
    clock.now += 1
    assert some.way("y") is not None
    assert some.current is not None
    assert some.current.name == "b"
    assert some.way("y") is None
    clock.now += 1
    assert some.way("y") is not None


def test_what_people_ask_for_themselves_comes_first_and_the_rest_is_not_forgotten(clock):
    some, _ = waiting()
    some.ask(choice("a")[0])
    clock.now += 1
    some.ask(choice("leave", "kb", enter="k")[0], first=True)
    assert "(+1 more)" in some.lines(80, 8)[-1]
    assert some.way("k") is None  # it was put this very moment
    clock.now += 1
    assert some.way("\r") is not None
    assert some.current is not None
    assert some.current.name == "a"
    clock.now += 1
    assert some.way("\r") is None  # Enter allows nothing


def test_choices_are_replaced_and_withdrawn_by_name():
    some, _ = waiting()
    for name in ("approve:1", "approve:2", "other"):
        some.ask(choice(name)[0])
    some.ask(choice("other", question="changed")[0])
    some.clear("approve:")
    assert some.lines(80, 8)[0] == "changed"
    assert some.withdraw("other")
    assert not some.withdraw("other")
    assert some.lines(80, 8) == []


def test_a_way_back_is_taken_without_its_key_and_ways_that_say_the_same_are_put_together():
    some, _ = waiting()

    async def nothing():
        return

    numbers = tuple(Option(key, "that one", nothing) for key in "123")
    some.ask(choice("approve:1")[0])
    assert not some.can_go_back
    some.go_back()
    assert some.current is not None
    some.ask(ChoicePrompt("which", "Which?", (*numbers, Option("b", BACK, nothing))), first=True)
    assert some.lines(80, 8)[-1] == "[1-3] that one   [b] back   (+1 more)"
    assert some.can_go_back
    some.go_back()
    assert some.current is not None
    assert some.current.name == "approve:1"


@settings(deadline=None)
@given(st.text(max_size=400).map(exactly), st.integers(20, 120), st.integers(1, 20))
def test_both_ends_of_a_question_and_all_ways_are_seen(question, columns, most):
    some, _ = waiting()
    some.ask(choice("a", question=f"begin {question} end")[0])
    *rows, ways = some.lines(columns, most)
    assert ways == "[y] way y   [n] way n"
    assert len(rows) <= max(most, 3)
    assert rows[0].startswith("begin")
    assert "".join(rows).endswith("end")
    if not any("shown in full above" in row for row in rows):
        assert len("".join(rows)) >= len(question.replace("\n", ""))
