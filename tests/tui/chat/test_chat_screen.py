"""What is on the screen and what stays in the scrollback, whatever the text and the terminal."""

from __future__ import annotations

import re

import pytest

DONE = ("started", "completed")
HOSTILE = (
    "t0 \x1b]0;owned\x07t1 \x1b]52;c;b3duZWQ=\x07t2 \x1b[2J\x1b[1;1Ht3 \x1b[31mt4 \x9b5At5 "
    "\x1b[?1049ht6 \x1bct7 \x1bP+q544e\x1b\\t8 \x07\x08 t9 \u202etxt.exe\u202c"
)
PAGE = """\
# Heading t0

t1 with `code t2` and **bold t3**, <t4> and a line
that goes on t5.

- item t6

  more t7
- item t8

```python
t9 = 1

    t10 = "<html>"
```

| a | b |
|---|---|
| t11 | t12 |

> quoted t13

[t14]: https://example.org/t15

![t16](https://example.org/t17)
The end t18."""


def numbered(text):
    return [int(number) for number in re.findall(r"\bt(\d+)\b", text)]


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 60)])
def test_every_word_is_in_the_scrollback_once(desk, columns, rows):
    long = " ".join(f"t{number}" for number in range(19, 700))
    steps = {"think": "not shown"}, {"pace": 0.001}, {"say": PAGE}, {"say": f"\n\n{long}"}
    script = desk.program.script(*steps, {"stop": "end"})
    pane = desk.chat("--script", script, columns=columns, rows=rows)
    pane.enter("go")
    pane.shows("✻ thought · 2 words")
    desk.await_turns(*DONE)
    pane.until(lambda: numbered(pane.text()) == list(range(700)), "every word once, in order")
    pane.rests()
    assert desk.said("assistant") == [f"not shown{PAGE}\n\n{long}"]
    assert max(map(len, pane.screen().split("\n"))) <= columns


def test_resizing_in_the_middle_of_an_answer_leaves_nothing_behind(desk):
    words = "lorem ipsum dolor sit amet " * 7
    text = "\n\n".join(f"t{number} {words}" for number in range(10))
    script = desk.program.script({"pace": 0.01}, {"say": text}, {"stop": "end"})
    pane = desk.chat("-n", "A title that takes room", "--script", script, rows=24)
    pane.enter("go")
    for number, size in enumerate([(60, 20), (120, 30), (45, 24), (100, 24)]):
        pane.shows(f"t{2 * number + 1} lorem")
        pane.resize(*size)
    desk.await_turns(*DONE)
    pane.rests()
    pane.until(lambda: pane.text().split().count("lorem") == 70, "every word once")
    shown = pane.text()
    assert numbered(shown) == list(range(10))
    assert shown.count("A title that takes room") == 2  # the command, and the status line
    assert shown.count("\n>\n") == 1


def test_nothing_that_models_and_tools_write_reaches_the_terminal(desk):
    script = desk.program.script(
        {"say": HOSTILE},
        {"call": "bash", "arguments": {"command": r"printf '\033]0;owned\007\033[2J\033c t10'"}},
        {"say": HOSTILE.replace("\n", " ")},
        {"stop": "end"},
    )
    pane = desk.chat("--script", script)
    before = desk.tmux("display-message", "-p", "-t", pane.name, "#{pane_title}")
    pane.enter("go")
    pane.asks("[y] allow")
    assert "\\033]0;owned" in pane.screen()  # what is to be run is shown as it is
    pane.press("y")
    desk.await_turns(*DONE)
    pane.rests()
    pane.until(lambda: numbered(pane.text()).count(9) == 2, "both answers")
    raw = pane.raw()
    for sequence in (b"\x1b]0;", b"\x1b]52;", b"\x1b[2J", b"\x1bc", b"\x1b[?1049h", b"\xc2\x9b"):
        assert sequence not in raw
    assert "\u202e" not in raw.decode()
    assert desk.tmux("display-message", "-p", "-t", pane.name, "#{pane_title}") == before
    assert "> go" in pane.text()


def test_no_colours_where_none_are_wanted(desk):
    script = desk.program.script({"say": PAGE}, {"stop": "end"})
    pane = desk.chat("--script", script, NO_COLOR="1")
    pane.enter("go")
    pane.shows("The end t18.")
    pane.rests()
    codes = {
        code for found in re.findall(rb"\x1b\[([0-9;]*)m", pane.raw()) for code in found.split(b";")
    }
    assert codes <= {b"", b"0", b"1", b"3", b"4", b"7"}
    coloured = desk.chat("--script", script)
    coloured.enter("go")
    coloured.shows("The end t18.")
    assert re.search(rb"\x1b\[[0-9;]*3[0-9]", coloured.raw())


def test_wide_characters_and_other_directions(desk):
    wide = "漢字かな交じり文" * 12
    right = "שלום עולם"
    pane = desk.chat(columns=60)
    pane.enter(f"say: {wide}\n\n{right} 👩‍👩‍👧 é end")
    desk.await_turns(*DONE)
    pane.rests()
    joined = pane.text().replace("\n", "")
    assert joined.count(wide) == 2
    assert joined.count(right) == 2
    assert pane.text().count("\n>") == 4  # three lines of the prompt, and the empty input


def test_a_paste_of_several_lines_is_one_prompt(desk):
    pane = desk.chat()
    pane.paste("say: one\n\ny\n\ttwo \x1b[31mthree\nfour")
    pane.sees("four")
    assert not desk.program.sessions()
    pane.press("Enter")
    desk.await_turns(*DONE)
    assert desk.said("user") == ["say: one\n\ny\n\ttwo \x1b[31mthree\nfour"]
    pane.rests()
    pane.paste("/help\nsay: no command")  # also this
    pane.sees("say: no command")


def test_bytes_that_are_no_characters_are_not_in_the_way(desk):
    pane = desk.chat()
    pane.type("say: caf")
    desk.tmux("send-keys", "-t", pane.name, "-H", "e9")
    pane.type(" \x1b[31mcolour")
    pane.press("Enter")
    desk.await_turns(*DONE)
    assert desk.said("user") == ["say: caf? colour"]
    pane.rests()


def test_the_editor_is_not_one_of_the_project_and_gets_no_key(desk):
    outside, inside = desk.root / "tools", desk.folder / "tools"
    for folder in (outside, inside):
        folder.mkdir()
        (folder / "mine").write_text(f'#!/bin/sh\necho "say: $OPENAI_API_KEY{folder}" > "$1"\n')
        (folder / "mine").chmod(0o755)
    pane = desk.pane(200, 30, EDITOR="mine", OPENAI_API_KEY="sk-secret")
    pane.enter(f"export PATH={inside}:{outside}:$PATH")
    pane.chat("--provider", "rehearsal")
    pane.press("C-g")
    pane.sees(f"> say: {outside}")


def test_a_prompt_is_written_in_the_editor_and_what_comes_meanwhile_waits(desk):
    editor = desk.root / "editor"
    editor.write_text(
        "#!/bin/sh\necho the editor has it\n"
        f'until [ -e {desk.folder}/done ]; do sleep 0.02; done\ncat "$1" > {desk.folder}/was\n'
        "printf 'say: edited\\n\\nin two paragraphs\\n' > \"$1\"\n"
    )
    editor.chmod(0o755)
    script = desk.program.script({"pace": 0.01}, {"say": "t1\n\nt2\n\nt3\n\nt4"}, {"stop": "end"})
    pane = desk.chat("--script", script, EDITOR=str(editor))
    pane.enter("go")
    pane.type("a draft")
    pane.sees("> a draft")
    pane.press("C-g")
    pane.shows("the editor has it")
    desk.await_turns(*DONE)
    end = pane.text().rstrip().rpartition("\n")[2]
    assert end == "the editor has it"
    (desk.folder / "done").touch()
    pane.sees("> say: edited", "in two paragraphs")
    pane.until(lambda: numbered(pane.text()) == [1, 2, 3, 4], "what was waiting")
    assert (desk.folder / "was").read_text() == "a draft"
    pane.press("Enter")
    desk.await_turns(*DONE * 2)
    assert desk.said("user")[-1] == "say: edited\n\nin two paragraphs"


def test_the_end_of_a_long_command_and_the_ways_are_seen_before_it_is_allowed(desk):
    pane = desk.chat(columns=80, rows=24)
    pane.enter(f"run: echo {'harmless ' * 300}; rm -rf everything")
    pane.sees("? bash wants: echo harmless", "rm -rf everything", "[y] allow   [n] deny", "\n>")
    pane.shows("lines, shown in full above")
    assert pane.text().replace("\n", "").count("harmless " * 300) == 2  # typed, and asked


def test_a_long_paragraph_moves_with_its_end_in_sight(desk):
    words = " ".join(f"t{number}" for number in range(600))
    steps = {"say": words}, {"call": "bash", "arguments": {"command": "touch x"}}
    pane = desk.chat("--script", desk.program.script({"pace": 0.002}, *steps), columns=80, rows=24)
    pane.enter("go")
    pane.until(lambda: "t500" in pane.screen() and "\n>" in pane.screen(), "the end, and the input")
    pane.sees("[y] allow")
