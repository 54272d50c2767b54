"""What counts as a promise when the power is cut, and what may never be one."""

from __future__ import annotations

from typing import Any

from tests.crash.lab.stage import Play
from tests.crash.lab.tally import Tally
from tests.crash.layers.e_power_cut import Cut, judge_afterlife, said_in_time

CUT = Cut(begun=5.0, done=6.0)


def called(number: int, op: str, at: float, **facts: Any) -> list[Any]:
    return ["intends", "a", number, op, {**facts, "at": at}]


def promised(number: int, at: float, **result: Any) -> list[Any]:
    return ["promised", "a", number, {**result, "at": at}]


def judged(*said: list[Any], status: int = -9) -> Tally:
    tally = Tally()
    judge_afterlife(Play(list(said), status), CUT, tally)
    return tally


def test_only_promises_from_before_the_cut_must_be_kept():
    early = [called(1, "append", 1.0, labels=["a1"]), promised(1, 4.9, seq=2)]
    late = [called(2, "append", 4.0, labels=["a2"]), promised(2, 5.1, seq=3)]
    assert said_in_time([*early, *late], CUT) == [*early, late[0]]


def test_what_was_done_to_a_fork_that_came_too_late_is_not_asked_for():
    fork = [called(1, "fork", 4.0), promised(1, 5.1, session="x")]
    append = called(2, "fork-append", 5.2, labels=["a1fork"], session="x")
    heard = said_in_time([*fork, append, ["refused", "a", 2, "WriteFailed"], ["done", "a"]], CUT)
    assert heard == [fork[0], ["done", "a"]]
    in_time = [called(1, "fork", 4.0), promised(1, 4.1, session="x"), append]
    assert said_in_time(in_time, CUT) == in_time


def test_a_promise_that_was_on_its_way_is_no_offence():
    tally = judged(called(1, "append", 5.9, labels=["a1"]), promised(1, 6.5, seq=2))
    assert not tally.failed
    assert tally.facts["promises that arrived after the cut"] == 1


def test_an_append_to_a_dead_file_system_must_not_be_acknowledged():
    begun = called(1, "append", 6.1, labels=["a1"])
    assert judged(begun, promised(1, 6.2, seq=2)).broken == 1
    assert not judged(begun, ["refused", "a", 1, "WriteFailed"]).failed
    assert not judged(begun).failed


def test_other_calls_are_held_to_the_same():
    for op, result in (("finish", {"seq": 2}), ("usage", {"seq": 2}), ("fork", {"session": "x"})):
        assert judged(called(1, op, 6.1, label="a1"), promised(1, 6.2, **result)).broken == 1
    assert not judged(called(1, "piece", 6.1, label="a1"), promised(1, 6.2)).failed
    assert not judged(called(1, "open", 6.1), promised(1, 6.2, session="x")).failed


def test_what_was_appended_before_may_be_named_again():
    first = called(1, "append", 1.0, labels=["a1once"]), promised(1, 2.0, seq=2)
    again = called(2, "append", 6.1, labels=["a1once"]), promised(2, 6.2, seq=2)
    assert not judged(*first, *again).failed


def test_waiting_for_what_was_submitted_too_late_must_fail():
    submitted = called(1, "submit", 6.1, labels=["a1"]), promised(1, 6.1)
    waited = called(2, "wait", 6.2, label="a1"), promised(2, 6.3, seq=2)
    assert judged(*submitted, *waited).broken == 1
    in_time = called(1, "submit", 5.5, labels=["a1"]), promised(1, 5.6)
    assert not judged(*in_time, *waited).failed


def test_a_process_that_ends_by_itself_is_noticed():
    assert judged(status=-11).broken == 1
    assert not judged(status=0).failed
