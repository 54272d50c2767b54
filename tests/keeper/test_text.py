"""Text in columns: as wide as a terminal shows it."""

import pytest

from holdfast.keeper.text import cut, padded, width_of


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("plain", 5),
        ("完成", 4),
        ("e\u0301", 1),
        ("می\u200cرود", 5),
        ("❤\ufe0f", 1),
        ("a\u200db\u2060", 2),
        ("\x1b[31mred\x1b[0m", 3),
    ],
)
def test_marks_and_joiners_take_no_room(text, width):
    assert width_of(text) == width
    assert width_of(padded(text, 10)) == 10


def test_a_cut_text_fits():
    assert cut("می\u200cرود", 4) == "می\u200cر…"
    assert width_of(cut("می\u200cرود", 4)) == 4
