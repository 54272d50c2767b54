"""What a narrower terminal makes of lines."""

from __future__ import annotations

import pytest

from holdfast.tui.resizing import rows_gained, wraps_again


def test_lines_gain_a_row_for_each_width_they_exceed():
    assert rows_gained([0, 1, 60], 60) == 0
    assert rows_gained([61, 120, 121], 60) == 1 + 1 + 2


@pytest.mark.parametrize(
    ("environment", "wraps"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(379)"}, False),
        ({"TERM": "tmux-256color", "XTERM_VERSION": "XTerm(379)", "TMUX": "/tmp/t"}, True),
        ({"TERM": "screen", "STY": "1.tty"}, False),
        ({"TERM": "linux"}, False),
    ],
)
def test_some_terminals_cut_their_lines(environment, wraps):
    assert wraps_again(environment) is wraps
