"""Markdown that is cut into blocks while it is being written."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from holdfast.tui.chat import markdown_stream as blocks_module
from holdfast.tui.chat.markdown_stream import Blocks

LINES = st.sampled_from(
    [
        *("", "", "", " ", "words", "more words", "    indented", "\tindented", "# heading"),
        *("```", "```python", "````", "~~~", "~~~~ text", "   ```", "        ```", "``` not `one`"),
        *("- item", "* item", "1. item", "12) item", "-", "  continued", "- ```", "  ```"),
        *("> quoted", "> ```", "| a | b |", "|---|---|", "[name]: address", "<div>", "---"),
    ]
)
TEXTS = st.lists(LINES, max_size=14).map("\n".join)


def blocks(text: str, cuts: list[int]) -> list[str]:
    """Cut a text as a page does that gets it in pieces."""
    found, waiting = [], Blocks()
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        if done := waiting.add(text[begin:end]):
            found.append(done)
        left = text[len("".join(found)) : end]
        assert bool(waiting) == bool(left)
        for characters in (1, 3, 1000):
            assert waiting.end(characters) == left[-characters:]
    found.append(waiting.rest())
    assert not waiting
    return found


def finished(text: str) -> int:
    """Return how many characters of a text are finished blocks."""
    return len(Blocks().add(text))


@st.composite
def texts_in_pieces(draw: st.DrawFn) -> tuple[str, list[int]]:
    text = draw(TEXTS)
    return text, sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))


@given(texts_in_pieces())
def test_no_character_is_lost_or_told_twice_and_every_block_ends_with_a_blank_line(given_text):
    text, cuts = given_text
    found = blocks(text, cuts)
    assert "".join(found) == text
    for block in found[:-1]:
        assert block.endswith("\n")
        assert not block.split("\n")[-2].strip()


@given(texts_in_pieces())
@example(("```\n        ```\n\nstill code\n```\n\nend", [30]))
def test_a_fence_is_never_cut(given_text):
    text, cuts = given_text
    ends, line = set(), 0
    for block in blocks(text, cuts)[:-1]:
        line += block.count("\n")
        ends.add(line)
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("reference")
    for token in parser.parse(text):
        if token.type == "fence" and token.map is not None:
            begin, end = token.map
            assert not ends & set(range(begin + 1, end)), (begin, end, ends)


def test_what_is_finished_is_known_as_soon_as_the_next_line_begins():
    assert finished("one\n\ntwo\n") == 5
    assert finished("one\n\nt") == 5
    assert finished("one\n\n") == 0
    assert finished("one\ntwo\nthree\n") == 0
    assert finished("- one\n\n- two\n\nend\n") == 14
    assert finished("- one\n\n  more\n\n  and more\n") == 0
    assert finished("```\n\n\ncode\n\nmore\n") == 0
    assert finished("```\n\ncode\n```\n\nend") == 15


def test_an_open_fence_is_not_looked_at_again_and_again(monkeypatch):
    looked_at = []
    closes = blocks_module._closes

    def counted(line: str, fence: str) -> bool:
        looked_at.append(line)
        return closes(line, fence)

    monkeypatch.setattr(blocks_module, "_closes", counted)
    code = [f"line {number}\n" for number in range(500)]
    waiting = Blocks()
    for piece in ["```\n", *code]:
        assert not waiting.add(piece)
    assert len(looked_at) == len(code)
    assert waiting.add("```\n\nend") == "```\n" + "".join(code) + "```\n\n"
    assert waiting.rest() == "end"
