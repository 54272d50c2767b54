"""The chat's commands, as they are typed."""

from __future__ import annotations

import base64
import json

import pytest

from tests.cli.program import of_type
from tests.cli.vendor import streamed, vendor_on_loopback

DONE = ("started", "completed")


@pytest.fixture
def pane(desk):
    """A chat with one exchange in it."""
    pane = desk.chat()
    pane.enter("say: the first answer")
    pane.shows("\nthe first answer\n")
    pane.rests()
    return pane


def test_a_title_an_export_a_search_and_where_it_all_is(desk, pane):
    pane.enter("/rename The parser's \x1b[31mrewrite")
    pane.stands(r"The parser's .*rewrite · rehearsal")
    assert of_type(desk.journal(), "meta")[-1]["title"].startswith("The parser's ")
    pane.enter("/export")
    pane.shows(f"written: {desk.folder}/{desk.session}.md")
    page = (desk.folder / f"{desk.session}.md").read_text()
    assert page.startswith("# ")
    assert page.count("the first answer") == 2  # asked for, and answered
    pane.enter("/export json all.json")
    pane.shows("written: ", times=2)
    assert json.loads((desk.folder / "all.json").read_text())["session"] == desk.session
    pane.enter("/export json all.json")
    pane.shows("all.json already exists")
    pane.enter("/export talk.html")
    pane.shows("written: ", times=3)
    assert (desk.folder / "talk.html").read_text().lower().startswith("<!doctype html>")
    pane.enter("/stats --by model")
    pane.shows("1 session · 1 turn · 1 prompt", "by model", "█")
    pane.enter("/stats --pretty")
    pane.shows("--pretty is not an option of /stats. Use: /stats [--by ")
    pane.press("C-u")
    pane.enter("/search answer")
    pane.shows("“the first answer”")
    pane.enter("/search nowhere-to-be-found")
    pane.shows("no message contains “nowhere-to-be-found”")
    pane.enter("/session")
    pane.shows(f"session  {desk.session}", f"pid {desk.runner}", "clients  1", "on disk  ")
    pane.enter("/tree")
    pane.shows("> “say: the first answer”", "· “the first answer”")
    pane.enter("/help")
    pane.shows("/rewind /undo", "Ctrl+O ")
    pane.enter("/etc/hosts is what?")
    pane.shows("There is no command /etc/hosts")
    pane.sees("> /etc/hosts is what?")  # and can be sent after all
    pane.press("C-a")
    pane.type("/")
    pane.press("Enter")
    desk.await_turns(*DONE * 2)
    assert desk.said("user")[-1] == "/etc/hosts is what?"


def test_the_last_answer_goes_to_the_terminals_clipboard(desk, pane):
    pane.enter("/copy")
    pane.shows("copied the last answer to the terminal's clipboard")
    assert desk.tmux("show-buffer") == "the first answer"
    data = base64.b64encode(b"the first answer")
    assert b"\x1bPtmux;\x1b\x1b]52;c;" + data + b"\x07\x1b\\" in pane.raw()


def test_prompts_are_taken_back(desk, pane):
    pane.enter("say: the second answer")
    pane.shows("\nthe second answer\n")
    pane.rests()
    pane.enter("/rewind")
    pane.asks("1  “say: the second answer”", "2  “say: the first answer”")
    pane.sees("[1-2] that prompt   [b] back")
    pane.press("1")
    pane.shows("the conversation continues from entry")
    pane.sees("> say: the second answer")  # to be said better
    pane.press("BSpace", "BSpace", "BSpace", "BSpace", "BSpace", "BSpace")
    pane.type("try")
    pane.press("Enter")
    pane.shows("\nthe second try\n")
    pane.rests()
    pane.press("Escape", "Escape")
    pane.asks("1  “say: the second try”")
    pane.press("Escape")
    pane.loses("Undo which prompt")
    pane.enter("/tree")
    pane.shows("“the second answer”", "“the second try”", "* marks the current branch")
    with_both = [line for line in pane.text().split("\n") if "· “the second" in line]
    assert [("*" in line) for line in with_both] == [False, True]


def test_of_many_prompts_the_last_are_offered_and_no_key_means_two_things(desk):
    pane = desk.chat("--allow-all")
    for number in range(9):
        pane.enter(f"say: answer {number}")
        pane.shows(f"\nanswer {number}\n")
    pane.enter("write: made.txt\nhello")
    pane.shows("made.txt  new")
    pane.rests()
    made = desk.folder / "made.txt"
    pane.enter("/rewind")
    pane.asks(f"… 1 older: holdfast rewind {desk.session}", "[1-9] that prompt   [b] back")
    pane.press("1")
    what = "[a] all   [c] the conversation   [f] the files   [b] back"
    pane.asks(what)
    pane.press("b")
    pane.loses(what)
    assert made.exists()
    pane.enter("/rewind")
    pane.asks("[1-9] that prompt")
    pane.press("1")
    pane.asks(what)
    pane.press("a")
    pane.shows("removed: made.txt")
    pane.sees("> write: made.txt")
    assert not made.exists()


def test_another_session_and_back_and_a_copy(desk, pane):
    first = desk.session
    pane.enter("/new")
    pane.shows(f"Resume with: holdfast -r {first}")
    pane.stands(r"saved ✓$")
    pane.enter("say: in the second session")
    pane.shows("\nin the second session\n")
    pane.press("C-d")
    pane.left(0)
    (second,) = {folder.name for folder in desk.program.sessions()} - {first}
    pane.enter("clear")
    pane.chat("-r", first)
    pane.sees("> say: the first answer\n\nthe first answer\n")
    assert "\nin the second session\n" not in pane.screen()
    pane.enter("/fork")
    pane.shows("Resume with")
    pane.stands("saved ✓")
    pane.enter("say: only in the copy")
    pane.shows("\nonly in the copy\n")
    (copy,) = {folder.name for folder in desk.program.sessions()} - {first, second}
    assert desk.said("user", copy) == ["say: the first answer", "say: only in the copy"]
    assert desk.said("user", first) == ["say: the first answer"]


def test_the_context_is_summed_up(desk, pane):
    for number in range(4):
        pane.enter(f"say: answer {number}")
        pane.shows(f"\nanswer {number}\n")
    pane.rests()
    pane.enter("/compact")
    pane.shows("the context was compacted here")
    pane.rests()
    assert of_type(desk.journal(), "checkpoint")


def test_another_model(desk):
    replies = [streamed("openai", "Hi", "<you>", "there"), streamed("openai", "Other.")]
    with vendor_on_loopback(*replies) as server:
        pane = desk.chat(*server.options("openai"), OPENAI_API_KEY="sk-none")
        pane.enter("hello")
        pane.shows("\nHi<you>there\n")  # what looks like HTML is not left out
        pane.rests()
        pane.enter("/model")
        pane.shows("served-model answers")
        pane.enter("/model second-model")
        pane.shows("second-model is used from now on")
        pane.stands("second-model")
        pane.enter("hello again")
        pane.shows("\nOther.\n")
        pane.enter("/session")  # also with a price that nobody knows
        pane.shows("model    second-model", "cost     $")
        assert [each.body["model"] for each in server.received] == ["served-model", "second-model"]
        pane.enter("/model rehearsal")
        pane.stands("rehearsal · ")
        pane.enter("say: rehearsed")
        pane.shows("\nrehearsed\n")
