import re

import pytest

from holdfast.drill.results import Drilled, DrillResult, Moments
from holdfast.drill.svg_report import Look, report

GOOD = DrillResult(
    "stream",
    "kill -9 while it streams",
    "survived",
    shown_characters=43_313,
    survived_characters=43_313,
    commands=2,
    recovery_seconds=0.4321,
    moments=Moments(0.5, 1.0, 2.0),
)
BAD = DrillResult(
    "tool",
    "kill -9 while a tool runs",
    "failed",
    shown_characters=400,
    survived_characters=12,
    commands=2,
    run_twice=1,
    recovery_seconds=0.1,
    moments=Moments(0.0, 0.0, 0.0),
    problems=["the first command was run 2 times", "a long story " * 20],
)
OUT = DrillResult("disk", "the disk is full", "left_out", note="there is none")
STUCK = DrillResult("hangup", "the terminal is closed", "failed", problems=["it did not come"])


def shown(*findings, look=None, scratch=None):
    drilled = Drilled("0.1.0", 12.34, list(findings), scratch)
    return report(drilled, look or Look())


def lines_of_time(text):
    return [line.strip() for line in text.splitlines() if re.fullmatch(r"\s+[▓✗░▒✓]+", line)]


def test_a_line_of_time_shows_the_parts_in_proportion():
    (line,) = lines_of_time(shown(GOOD))
    assert len(line) == 77
    blow, back, done = (line.index(mark) for mark in "✗▒✓")
    assert re.fullmatch("▓+✗░+▒+✓", line)
    assert (blow, back, done) == (19, 38, 76)


def test_all_lines_have_one_scale_and_what_took_no_time_shows_too():
    first, second = lines_of_time(shown(GOOD, BAD))
    assert len(first) == 77
    assert second == "▓✗░▒✓"


def test_what_was_found_is_told():
    text = shown(GOOD)
    assert "43,313 of 43,313 characters saved · 2 commands, each once · back in 0.43 s" in text
    assert "Nothing was lost. Scenarios: 1. Characters compared: 43,313. Time: 12.3 s." in text


def test_a_failure_is_told_with_its_reasons_and_where_to_look():
    text = shown(GOOD, BAD, scratch="/tmp/here")
    assert "12 of 400 characters saved · 1 of 2 commands run twice" in text
    assert "! the first command was run 2 times" in text
    assert "1 of 2 failed." in text
    assert "Nothing was lost" not in text
    assert text.endswith("The temporary home was kept: /tmp/here")


def test_one_that_got_nowhere_has_no_line_of_time():
    text = shown(STUCK)
    assert "! it did not come" in text
    assert lines_of_time(text) == []


def test_a_part_that_was_left_out_is_never_counted_as_passed():
    text = shown(GOOD, OUT)
    assert "there is none" in text
    assert "Scenarios: 1." in text
    assert "Skipped: 1." in text
    alone = shown(OUT)
    assert "Nothing was tried." in alone
    assert "Nothing was lost" not in alone


@pytest.mark.parametrize(
    ("findings", "ok"),
    [([GOOD], True), ([GOOD, OUT], True), ([GOOD, BAD], False), ([OUT], False), ([], False)],
)
def test_the_verdict(findings, ok):
    assert Drilled("0.1.0", 1.0, findings).ok is ok


@pytest.mark.parametrize("width", [1, 40, 60, 80, 81, 120, 500])
@pytest.mark.parametrize("is_unicode", [True, False])
def test_no_line_is_wider_than_the_screen(width, is_unicode):
    text = shown(GOOD, BAD, OUT, look=Look(width, is_unicode))
    longest = max(len(line) for line in text.splitlines())
    assert longest < min(max(width, 40), 121)


def test_plain_characters_are_ascii():
    assert shown(GOOD, BAD, OUT, STUCK, look=Look(is_unicode=False)).isascii()


def test_colour_is_there_only_if_wanted_and_changes_nothing_else():
    plain = shown(GOOD, BAD, OUT)
    coloured = shown(GOOD, BAD, OUT, look=Look(has_colour=True))
    assert "\033" not in plain
    assert re.sub(r"\033\[[0-9;]*m", "", coloured) == plain
    assert coloured != plain


@pytest.mark.parametrize("moments", [(0.1, 2.0, 2.0), (2.0, 2.0, 2.0), (0.0, 1.99, 2.0)])
def test_a_line_of_time_is_never_wider_than_the_screen(moments):
    finding = DrillResult("disk", "the disk is full", "survived", moments=Moments(*moments))
    text = shown(finding, look=Look(width=60))
    assert max(map(len, text.splitlines())) < 60
    (line,) = lines_of_time(text)
    assert set(line) == set("▓✗░▒✓")
