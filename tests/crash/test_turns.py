"""The judge of writers who take turns: what it lets pass, and what it does not."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.crash.lab.tally import Tally
from tests.crash.lab.turns import Line, judge_lines, judge_refusals, judge_turns, text_of

PIDS = {10: "a", 20: "b"}
FINE: list[list[Any]] = [
    ["tries", "a"],
    ["tries", "b"],
    ["holds", "a", 1],
    ["intends", "a", ["a-1-1"]],
    ["promised", "a", ["a-1-1"], 3],
    ["intends", "a", ["a-1-2", "a-1-3"]],
    ["kills", "a"],
    ["promised", "a", ["a-1-2", "a-1-3"], 5],
    ["holds", "b", 1],
    ["dead", "a"],
    ["intends", "b", ["b-1-1"]],
    ["promised", "b", ["b-1-1"], 7],
    ["leaves", "b"],
]
LABELS = {"a-1-1": 3, "a-1-2": 4, "a-1-3": 5, "b-1-1": 7}


def line(label: str, seq: int | None = None, **fields) -> Line:
    pid = 10 if label.startswith("a") else 20
    return Line(
        label, LABELS[label] if seq is None else seq, fields.get("text", text_of(label)), pid
    )


LINES = [line(label) for label in LABELS]


def turns(said):
    tally = Tally()
    judge_turns(tally, said)
    return tally


def entries(lines, said=FINE):
    tally = Tally()
    judge_lines(tally, said, lines, PIDS)
    return tally


def refusals(*told):
    tally = Tally()
    judge_refusals(tally, list(told), PIDS)
    return tally


def locked(who, pid, **fields):
    return ["locked", who, {"pid": pid, "host": socket.gethostname(), "since": "…Z", **fields}]


def test_turns_one_after_the_other_are_fine():
    assert not turns(FINE).failed
    assert turns(FINE).facts == {"turns": 2}
    assert not entries(LINES).failed
    assert entries(LINES).acknowledged == 4


def test_two_at_once_are_not():
    without_kill = [words for words in FINE if words[0] != "kills"]
    assert turns(without_kill).broken == 1


def test_who_is_killed_must_not_speak_after_another_has_it():
    late = [*FINE[:7], *FINE[8:10], FINE[7]]
    assert turns(late).broken == 1


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (LINES[:-1], "lost"),
        ([line("a-1-1", 2), *LINES[1:]], "lost"),
        ([*LINES, line("a-1-1", 8)], "duplicates"),
        ([line("a-1-1", text="other"), *LINES[1:]], "lost"),
        ([LINES[3], *LINES[:3]], "broken"),
        ([*LINES[:2], LINES[3], LINES[2]], "broken"),
        ([*LINES[:3], Line("b-1-1", 7, text_of("b-1-1"), 10)], "broken"),
    ],
)
def test_what_is_missing_altered_repeated_or_out_of_turn_is_seen(lines, what):
    assert getattr(entries(lines), what) >= 1


def test_a_batch_that_nobody_acknowledged_is_there_whole_or_not_at_all():
    said = [words for words in FINE if words != FINE[7]]
    assert not entries([LINES[0], LINES[3]], said).failed
    assert not entries(LINES, said).failed
    assert entries([LINES[0], LINES[1], LINES[3]], said).broken == 1


def test_one_who_made_the_session_may_be_killed_before_it_says_so():
    said = [["tries", "a"], ["intends", "a", ["a-1-1"]], ["kills", "a"], ["dead", "a"], *FINE[8:]]
    assert not entries([LINES[0], LINES[3]], said).failed
    assert entries([LINES[3], LINES[0]], said).broken == 1
    assert entries([LINES[0], LINES[3]], [*said[:2], *said[4:]]).broken == 1


def test_a_refusal_names_one_who_may_have_it():
    begin = [["tries", "a"], ["holds", "a", 1], ["tries", "b"]]
    assert not refusals(*begin, locked("b", 10)).failed
    assert refusals(*begin, locked("b", 20)).broken
    assert refusals(*begin, locked("b", 99)).broken
    assert refusals(*begin, locked("b", 10, host="elsewhere")).broken
    gone = [["tries", "a"], ["holds", "a", 1], ["leaves", "a"], ["done", "a"], ["tries", "b"]]
    assert refusals(*gone, locked("b", 10)).broken
    dead = [["tries", "a"], ["holds", "a", 1], ["kills", "a"], ["dead", "a"], ["tries", "b"]]
    assert refusals(*dead, locked("b", 10)).broken
