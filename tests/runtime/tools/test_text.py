"""Encodings and line ends: every byte that is not replaced stays."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.tools.base import Refusal
from holdfast.runtime.tools.text_encoding import (
    Form,
    decode,
    encode,
    find,
    is_binary,
    substitute,
    with_ends,
    with_feeds,
)

TEXT = st.text(st.sampled_from("ab\n\r€ä\U0001f600\ufeff "), max_size=40)


@given(st.binary() | TEXT.map(str.encode) | TEXT.map(lambda text: text.encode("utf-16")))
def test_decoding_loses_nothing(data):
    text, form = decode(data)
    assert encode(text, form) == data


@pytest.mark.parametrize(
    ("data", "text", "encoding", "mark"),
    [
        (b"", "", "utf-8", b""),
        ("ä€".encode(), "ä€", "utf-8", b""),
        (codecs.BOM_UTF8 + b"x", "x", "utf-8", codecs.BOM_UTF8),
        (codecs.BOM_UTF16_LE + "ä\n".encode("utf-16-le"), "ä\n", "utf-16-le", b"\xff\xfe"),
        (codecs.BOM_UTF16_BE + "ä\n".encode("utf-16-be"), "ä\n", "utf-16-be", b"\xfe\xff"),
        (b"\xe4\xff", "äÿ", "latin-1", b""),
        (b"\xff\xfex", "ÿþx", "latin-1", b""),
    ],
)
def test_encodings_are_told_apart(data, text, encoding, mark):
    found, form = decode(data)
    assert (found, form.encoding, form.mark) == (text, encoding, mark)


@pytest.mark.parametrize(
    ("text", "line_end"),
    [
        ("", "\n"),
        ("a", "\n"),
        ("a\nb\r", "\n"),
        ("a\r\nb", "\r\n"),
        ("a\r\nb\nc\r\n", "\r\n"),
        ("a\r\nb\n", "\n"),
        ("a\rb", "\r"),
    ],
)
def test_the_line_end_is_that_of_most_lines(text, line_end):
    assert decode(text.encode())[1].line_end == line_end


def test_what_does_not_fit_is_refused():
    with pytest.raises(Refusal, match=r"'\\u20ac' cannot be written in LATIN-1"):
        encode("a€", Form("latin-1"))
    with pytest.raises(Refusal, match="UTF-8"):
        encode("\ud800", Form())


@pytest.mark.parametrize(
    ("data", "binary"),
    [(b"", False), (b"a\0", True), ("a".encode("utf-16"), False), (b"a" * 9000 + b"\0", False)],
)
def test_binary_files_are_told_apart(data, binary):
    assert is_binary(data) is binary


def test_a_form_says_what_is_unusual():
    assert Form().described == ""
    assert Form(line_end="\r\n").described == "CRLF line ends"
    assert Form("utf-16-le", b"\xff\xfe", "\r").described == (
        "UTF-16-LE with byte order mark, CR line ends"
    )


# Replacing


@given(
    st.text("ab\r€ \n", max_size=30), st.text("ab\r\n", min_size=1, max_size=3), st.text("ab\n€")
)
def test_with_line_feeds_it_is_what_replace_does(text, old, new):
    text = text.replace("\r\n", "\n").strip("\r") + "\n"
    if "\r\n" in text:
        return
    result, lines = substitute(text, decode(text.encode())[1], old, new)
    assert result == text.replace(old, new)
    assert len(lines) == text.count(old)


@given(st.text("ab€\n", max_size=30), st.text("ab\n", min_size=1, max_size=3), st.text("ab\n€"))
def test_with_other_line_ends_it_is_what_replace_does_to_lines(text, old, new):
    for line_end in ("\r\n", "\r"):
        form = decode((text.replace("\n", line_end) or line_end).encode())[1]
        if "\n" not in text:
            continue
        result, _ = substitute(text.replace("\n", line_end), form, old, new)
        assert result == text.replace(old, new).replace("\n", line_end)
        spelled = (old.replace("\n", line_end), new.replace("\n", line_end))
        assert substitute(text.replace("\n", line_end), form, *spelled)[0] == result


@given(
    st.lists(st.sampled_from(["a", "b", "\n", "\r\n"]), max_size=20), st.text("ab\n", max_size=3)
)
def test_mixed_line_ends_stay_outside_the_places(pieces, old):
    text = "".join(pieces)
    if not old or "\r\n" not in text:
        return
    form = decode(text.encode())[1]
    result, lines = substitute(text, form, old, "X")
    assert result.replace("\r\n", "\n") == text.replace("\r\n", "\n").replace(old, "X")
    # What stands between the places is there, line ends and all.
    places = find(text.replace("\r\n", "\n"), old)
    assert len(lines) == len(places)
    rest = text
    for kept in result.split("X"):
        place = rest.find(kept)
        assert place >= 0
        rest = rest[place + len(kept) :]
    ends = result.count("\r\n")
    assert ends + (old.count("\n") * len(places)) >= text.count("\r\n")


def test_the_lines_of_the_places_are_told():
    assert substitute("a\nb\na a\n", Form(), "a", "c") == ("c\nb\nc c\n", [1, 3, 3])
    assert substitute("a\r\n\r\na", Form(line_end="\r\n"), "a", "\n")[1] == [1, 3]


def test_text_for_models_and_back():
    form = Form(line_end="\r\n")
    assert with_feeds("a\r\nb\rc\n", form) == "a\nb\rc\n"
    assert with_ends("a\nb\r\n", form) == "a\r\nb\r\n"
    assert with_feeds("a\rb\r\nc", Form(line_end="\r")) == "a\nb\nc"
    assert with_ends("a\nb", Form()) == "a\nb"
