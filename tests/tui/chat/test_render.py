"""Lines for a terminal: nothing is in them that we did not put there, and nothing is left out."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from holdfast.runtime.protocol.messages import QuestionAsked
from holdfast.tui.chat import terminal_notify
from holdfast.tui.chat.render import Renderer, exactly, question_of, subject, wrapped

OURS = re.compile(r"\x1b\[[0-9;]*m")
FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
NASTY = st.lists(
    st.one_of(
        st.text(st.characters(), max_size=8),
        st.sampled_from(
            [
                *("\x1b]0;title\x07", "\x1b]52;c;b3duZWQ=\x07", "\x1b[2J", "\x1b[31m", "\x9b5A"),
                *("\x1b", "\x1b[", "\x1b]", "\x90", "\x07", "\r", "\x08", "\t", "\ud800", "\u202e"),
                *("\n", "\n\n", "```\n", "- ", "1. ", "> ", "#", "| a | b |\n|---|---|\n| c |"),
                *(
                    "`",
                    "**",
                    "[a](b)",
                    "![a](b)",
                    "<b>",
                    "&amp;",
                    "&#x202e;",
                    "&rlm;",
                    "[a](&#x202e; '&rlm;')",
                    "\\",
                    "~~",
                    "漢字",
                    "👩‍👩‍👧",
                    "é",
                ),
                *(">" * 60, "- " * 30, "    ", "http://x.y/" + "z" * 90, "[x]: y"),
            ]
        ),
    ),
    max_size=12,
).map("".join)
often = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def asked(tool, **arguments):
    subject = arguments.get("path", "")
    return QuestionAsked(
        call_id="c", tool=tool, subject=subject, arguments=arguments, arguments_sha256=""
    )


def every(renderer: Renderer, text: str) -> list[str]:
    data = text.encode("utf-8", "surrogatepass")
    return [
        renderer.markdown(text),
        renderer.prompt(text, [text]),
        renderer.call(text, {"a": text, text: [text]}),
        renderer.output(text, text),
        renderer.output(text, "completed", folded=False),
        renderer.thought(text),
        renderer.thought(text, folded=False),
        renderer.change(text, None, data),
        renderer.change(text, data, b"other\n" + data),
        renderer.note(text),
        renderer.warning(text),
        renderer.panel(text, [text, text]),
        "".join(map(renderer.note, question_of(asked("edit", old=text, new=text)).split("\n"))),
        "\n".join(wrapped(subject(text) or subject({"a": text}), 20)) + "\n",
    ]


@often
@given(NASTY, st.integers(20, 120), st.booleans())
def test_no_control_character_comes_through(text, columns, colour):
    renderer = Renderer(columns, colour=colour)
    for shown in every(renderer, text):
        assert colour or "\x1b" not in shown
        bare = OURS.sub("", shown)
        assert not FORBIDDEN.search(bare.replace("\t", "")), bare
        assert not shown or shown.endswith("\n")
        if colour and "\x1b" in shown:
            assert OURS.findall(shown)[-1] == "\x1b[0m"  # nothing runs on


@often
@given(st.lists(st.text("abcxyz <>&*_#[]()!-\\.:/\n", max_size=40), max_size=6).map("".join))
def test_no_letter_of_an_answer_is_left_out(text):
    shown = Renderer(60, colour=False).markdown(text)
    assert Counter(re.findall("[a-z]", shown)) == Counter(re.findall("[a-z]", text))


MARKS = [
    "> ",
    ">" * 7,
    ">" * 25,
    "- ",
    "- " * 7,
    "- " * 12,
    "1. ",
    "7) ",
    "# ",
    "    ",
    "| ",
    "```\n",
]
LINES = st.tuples(
    st.lists(st.sampled_from(MARKS), max_size=12).map("".join),
    st.sampled_from(
        ["some", "words | of", "an | answer | 42", "|---|---|\n", "a" * 70, "**b**", ""]
    ),
).map("".join)


@often
@given(st.lists(LINES, max_size=8).map("\n".join), st.integers(10, 90), st.booleans())
@example(">" * 30 + " deep", 80, False)
@example("\n".join("  " * level + f"- level{level}" for level in range(15)), 80, True)
@example("| a | b |\n|---|---|\n| c | d | 99 |", 80, False)
@example("|" + " 7 |" * 60 + "\n|" + "---|" * 60, 40, False)
@example("[a](b 'title')", 80, False)
def test_however_deep_or_narrow_all_is_on_the_screen(text, columns, colour):
    shown = OURS.sub("", Renderer(columns, colour=colour).markdown(text))
    letters = Counter(re.findall("[a-z]", text))
    assert not letters - Counter(re.findall("[a-z]", shown))
    if not re.search(r"\d[.)]", text):
        assert not Counter(re.findall("[0-9]", text)) - Counter(re.findall("[0-9]", shown))


def test_entities_are_not_decoded_behind_our_back():
    shown = Renderer(80, colour=False).markdown("**bold** &#x202e; &rlm; &amp;")
    assert shown == "bold &#x202e; &rlm; &amp;\n"


def test_code_that_is_too_long_for_colours_is_shown_all_the_same():
    lines = [f"line{number} = 1" for number in range(10_000)]
    shown = Renderer(80, colour=True).markdown("```python\n" + "\n".join(lines) + "\n```")
    assert [line for line in shown.split("\n") if line.startswith("line")] == lines
    assert "\x1b" not in shown  # to colour it takes seconds, in which nothing moves


@pytest.mark.parametrize(
    "written",
    ["<name>", "a <b>bold</b> word", "<div>\nx\n</div>", "![i](http://x.y)", "[r]: http://x.y"],
)
def test_what_looks_like_html_or_is_defined_apart_is_shown(written):
    shown = Renderer(80, colour=False).markdown(f"{written}\n\nend")
    for word in re.findall(r"[\w:/.]+", written):
        assert word in shown


@given(st.text(max_size=300).map(lambda text: text.replace("\n", "")), st.integers(2, 60))
def test_a_line_is_wrapped_without_loss(line, columns):
    rows = wrapped(line, columns)
    assert "".join(rows) == line
    assert all(get_cwidth(row) <= columns for row in rows)


def test_what_is_decided_on_hides_nothing():
    hidden = "ls \x1b]0;`rm -rf x`\x07 \r \x9b31m"
    assert exactly(hidden) == r"ls \x1b]0;`rm -rf x`\x07 \x0d \x9b31m"
    assert exactly("a\u200bb\u2060c\U000e0041d\u202ee") == r"a\u200bb\u2060c\U000e0041d\u202ee"
    assert exactly("a\u2028b\u2029c\xa0d\u3164e") == r"a\u2028b\u2029c\xa0d\u3164e"
    assert exactly("é 漢字 👍 \n") == "é 漢字 👍 \n"


@given(st.text())
def test_nothing_unseen_is_in_a_question(text):
    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    for shown in (exactly(text), question_of(asked("write", path=text, content=text))):
        assert not {unicodedata.category(each) for each in shown.replace("\n", "")} & unseen


def test_a_question_shows_what_would_be_written():
    write = asked("write", path="a.sh", content="one\n\ttwo\n")
    assert question_of(write) == "? write wants: a.sh\n+ one\n+ ⇥   two"
    edit = asked("edit", path="a.sh", old="one", new="1\n\u200b2", replace_all=True)
    assert question_of(edit) == ("? edit wants: a.sh\n- one\n+ 1\n+ \\u200b2\n(everywhere in it)")
    assert question_of(asked("bash", path="ls")) == "? bash wants: ls"
    assert question_of(asked("write", path="a", content=7)) == "? write wants: a"
    long = question_of(asked("write", path="a", content="b" * 9_000_000 + "end"))
    assert len(long) < 100_000
    assert "… 8,950,003 more characters …" in long
    assert long.endswith("bend")


def test_a_long_line_of_output_says_how_much_is_left_out():
    renderer = Renderer(80, colour=False)
    text = "a" * 10_000_000
    folded = renderer.output(text, "completed")
    assert len(wrapped(folded.rstrip("\n"), 80)) == 2
    assert re.search(r"a … [\d,]+ more characters \(Ctrl\+O\)\n$", folded)
    shown = max(len(run) for run in re.findall("a+", folded))
    assert f"{10_000_000 - shown:,} more characters" in folded
    whole = renderer.output(text, "completed", folded=False)
    assert re.findall("a+", whole)[0] == "a" * 20_000
    assert "a … 9,980,000 more characters\n" in whole
    wide = renderer.output("漢" * 500, "completed")
    assert len(wrapped(wide.rstrip("\n"), 80)) == 2
    assert "… 4" in wide


def test_long_output_is_folded_and_says_so():
    renderer = Renderer(80, colour=False)
    text = "".join(f"line {number}\n" for number in range(20))
    folded = renderer.output(text, "failed")
    assert "… 14 more lines (Ctrl+O)" in folded
    assert "line 14" in folded
    assert "line 13" not in folded
    assert "╰ failed" in folded
    assert renderer.output(text, "completed", folded=False).count("line") == 20


def test_a_change_is_a_diff():
    shown = Renderer(80, colour=True).change("a.py", b"one\ntwo\n", b"one\nTWO\n")
    assert "a.py  +1 -1" in shown
    assert "\x1b[32m  +TWO" in shown
    assert "\x1b[31m  -two" in shown
    assert "not text" in Renderer(80, colour=False).change("a.bin", None, b"\xff\xfe")


def test_sequences_of_our_own_carry_nothing_else(monkeypatch):
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("STY", raising=False)
    assert terminal_notify.notice("a\x1b]0;b\x07\nc") == "\a\x1b]9;a c\x07"
    assert terminal_notify.copied("é") == "\x1b]52;c;w6k=\x07"
    assert terminal_notify.copied("x" * 200_000) is None
    monkeypatch.setenv("TMUX", "/tmp/tmux")
    assert terminal_notify.notice("a") == "\a\x1bPtmux;\x1b\x1b]9;a\x07\x1b\\"
    monkeypatch.delenv("TMUX")
    monkeypatch.setenv("STY", "1.tty")
    assert terminal_notify.copied("é") == "\x1bP\x1b]52;c;w6k=\x07\x1b\\"
