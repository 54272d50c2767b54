"""Text on one line: what is ordinary stays, what could steer a terminal does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.sanitize import for_terminal, is_one_line, one_line, quoted_line


@pytest.mark.parametrize(
    "text",
    ["", "plain", "👩\u200d💻 work", "می\u200cرود", "完成\u3000した", "a\u00a0b", "\ufe0f\u2060"],
)
def test_ordinary_text_stays_as_it_is(text):
    assert is_one_line(text)
    assert one_line(text) == for_terminal(text) == text


@pytest.mark.parametrize(
    "character", [*"\0\t\n\r\x1b\x7f\x85\x9b\u061c\u200e\u2028\u202e\u2066\u2069", "\udcff"]
)
def test_what_leaves_its_line_or_turns_it_is_a_blank(character):
    assert not is_one_line(f"a{character}b")
    assert one_line(f"a{character}b") == "a b"


@given(st.text() | st.text("\x1b[m\t\r\n\u202ea", max_size=20))
def test_a_line_has_nothing_that_a_terminal_must_not_get(text):
    line = one_line(text)
    assert len(line) == len(text)  # places in it stay what they are
    assert is_one_line(line)
    assert for_terminal(line) == line


def test_a_row_of_beginnings_takes_no_longer_than_other_text():
    """Each is looked at once: if each were followed to the end, this would take hours."""
    row = "\x9d" * 400_000
    assert for_terminal(row) == "\\x9d" * 400_000


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("short", "“short”"),
        ("two\nlines  here", "“two lines here”"),
        ("x" * 81, f"“{'x' * 80}…”"),
        ("a" + " " * 1000, "“a”"),
        ("a" + " " * 1000 + "b", "“a…”"),
    ],
)
def test_the_beginning_of_a_text_in_quotes(text, quoted):
    assert quoted_line(text) == quoted


def test_nothing_in_quotes_acts():
    assert "\x1b" not in quoted_line("\x1b[2Jx")
