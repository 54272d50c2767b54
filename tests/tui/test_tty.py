"""What a terminal can do."""

from __future__ import annotations

import io
import os
import pty

import pytest

from holdfast.tui.tty import can_move_cursor, is_terminal, wants_colour


@pytest.mark.parametrize(
    ("environment", "on_terminal", "wanted"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"CLICOLOR_FORCE": "1"}, False, True),
        ({"CLICOLOR_FORCE": "0"}, False, False),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_colours_can_be_turned_off_and_on(environment, on_terminal, wanted):
    assert wants_colour(environment, on_terminal=on_terminal) is wanted


@pytest.mark.parametrize("term", ["xterm-256color", "tmux"])
def test_a_terminal_with_a_screen(term):
    assert can_move_cursor({"TERM": term})


@pytest.mark.parametrize("environment", [{}, {"TERM": ""}, {"TERM": "dumb"}, {"TERM": "unknown"}])
def test_a_terminal_that_only_prints_lines(environment):
    assert not can_move_cursor(environment)


def test_what_is_a_terminal():
    ours, theirs = pty.openpty()
    with open(theirs, "w") as stream:
        assert is_terminal(stream)
    assert not is_terminal(stream), "it is closed"
    os.close(ours)
    assert not is_terminal(io.StringIO())
    assert not is_terminal(None)
