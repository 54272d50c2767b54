from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.sanitize import for_terminal

HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\ud800-\udfff]")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain ä €\tx\n", "plain ä €\tx\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;c2VjcmV0\x1b\\x", "x"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$q\x1b\\x\x1b_app\x9cy", "xy"),
        ("\x9b31mred\x9d0;t\x9c", "red"),
        ("\x1b]0;no end\nsecret", "0;no end\nsecret"),
        ("\x1bc\x1b(B\x1b7x", "x"),
        ("a\rb\r\nc\r\r\n", "a\nb\nc\n"),
        ("a\bb\x07\x00\x7f", "a\\x08b\\x07\\x00\\x7f"),
        ("\x1b", "\\x1b"),
        ("\x1b[", ""),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("\ud800", "\\ud800"),
    ],
)
def test_nothing_harmful_is_left(text, clean):
    assert for_terminal(text) == clean


@given(st.text() | st.text("\x1b[]\\;0m\x07\x9b\x9c\r\nPa", max_size=30))
def test_no_text_gets_a_control_character_through(text):
    clean = for_terminal(text)
    assert not HARMFUL.search(clean)
    assert for_terminal(clean) == clean
    clean.encode()


@given(st.lists(st.text("\x1b[]\\;0m\x07\x9b\x9c\r\nPa", max_size=6)))
def test_chunks_are_harmless_wherever_they_are_cut(chunks):
    assert not HARMFUL.search("".join(map(for_terminal, chunks)))


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_text_is_left_alone(text):
    assert for_terminal(text) == text
