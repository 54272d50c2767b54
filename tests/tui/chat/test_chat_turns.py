"""Turns in the chat: what is said, asked, cancelled, queued, held."""

from __future__ import annotations

from tests.cli.program import of_type, results

SLOW = "pace: 0.3\nsay: " + " ".join(f"slow{n}" for n in range(100))
DONE = ("started", "completed")


def test_a_conversation_with_an_approval_and_a_denial(desk):
    pane = desk.chat()
    pane.enter("say: hello **world**")
    pane.shows("\nhello world\n")
    pane.enter("write: made.txt\nfirst line")
    pane.asks("? write wants: made.txt", "[y] allow   [n] deny")
    assert not (desk.folder / "made.txt").exists()
    pane.press("y")
    pane.loses("[y] allow")
    desk.await_turns(*DONE * 2)
    assert (desk.folder / "made.txt").read_text() == "first line\n"
    pane.shows("made.txt  new", "+first line")
    pane.enter("run: touch other.txt")
    pane.asks("? bash wants: touch other.txt")
    pane.type("a word")  # whoever types something has not decided
    pane.sees("> a word")
    pane.press("C-u")
    pane.press("n")
    desk.await_turns(*DONE * 3)
    pane.shows("╰ denied")
    assert not (desk.folder / "other.txt").exists()
    assert [outcome for outcome, _ in results(desk.journal())] == ["completed", "denied"]
    pane.rests()
    pane.press("C-d")
    pane.shows(f"Resume with: holdfast -r {desk.session}")
    pane.left(0)


def test_the_first_letter_of_a_sentence_decides_nothing(desk):
    pane = desk.chat()
    pane.enter("run: touch made")
    pane.asks("? bash wants: touch made")
    pane.type("you should not")  # begins with the key that allows
    pane.sees("> you should not", "[y] allow")
    pane.press("C-u")
    pane.type("n")
    pane.press("BSpace")  # whoever takes it back has not decided either
    pane.type("your")
    pane.sees("> your", "[y] allow")
    assert desk.turns() == ["started"]
    pane.press("C-u")
    pane.press("y", "Enter")
    desk.await_turns(*DONE)
    pane.loses("[y] allow", "> y")
    assert (desk.folder / "made").exists()
    assert desk.said("user") == ["run: touch made"]


def test_thoughts_and_output_are_folded_and_can_be_unfolded(desk):
    pane = desk.chat("--allow-all")
    pane.enter("think: deep one two\nrun: seq 100 130")
    pane.shows("✻ thought · 3 words (Ctrl+O)", "│ … 25 more lines (Ctrl+O)", "│ 130")
    desk.await_turns(*DONE)
    assert "│ 104" not in pane.text()
    pane.press("C-o")
    pane.shows("│ 104")
    pane.enter("/details")
    pane.shows("✻ deep one two")


def test_a_turn_is_cancelled_and_the_second_time_the_chat_is_left(desk):
    pane = desk.chat()
    pane.enter(SLOW)
    pane.sees("\nslow0 slow1")
    pane.press("C-c")
    pane.shows("turn cancelled")
    desk.await_turns("started", "cancelled")
    pane.rests()
    (answer,) = desk.said("assistant")
    assert answer.startswith("slow0")
    pane.enter("say: still here")  # one Ctrl+C later is the first again
    pane.shows("\nstill here\n")
    pane.rests()
    pane.press("C-c")
    pane.shows("press Ctrl+C again to exit")
    pane.type("half a thought")
    pane.press("C-c")
    pane.loses("half a thought")
    pane.press("C-c")
    pane.left(130)


def test_twice_in_a_row_cancels_and_leaves(desk):
    pane = desk.chat()
    pane.enter(SLOW)
    pane.sees("\nslow0 slow1")
    pane.press("C-c", "C-c")
    pane.left(130)
    desk.await_turns("started", "cancelled")


def test_who_cancels_at_once_is_not_too_early(desk):
    pane = desk.chat()
    pane.enter(SLOW)
    pane.press("C-c", "C-c")
    pane.left(130)
    assert "still running" not in pane.text()
    if desk.program.sessions():
        assert desk.turns() in ([], ["started", "cancelled"])


def test_prompts_queue_up_while_a_turn_runs_and_can_be_edited(desk):
    pane = desk.chat("--allow-all")
    pane.enter("run: while ! [ -e go ]; do sleep 0.02; done")
    pane.sees("● bash")
    for number in (1, 2, 3):
        pane.enter(f"say: number {number}")
        pane.sees(f"queued: “say: number {number}”", f"{number} queued")
    pane.press("Up")
    pane.sees("edit> say: number 3", "Enter saves the change")
    pane.press("BSpace")
    pane.type("three")
    pane.press("Enter")
    pane.sees("queued: “say: number three”")
    pane.press("Up")
    pane.sees("edit> say: number three")
    pane.press("Escape")
    pane.sees("queued: “say: number three”\n>")  # left as it was
    pane.loses("edit>")
    pane.press("Up")
    pane.sees("edit>")
    pane.press("C-u")
    pane.type("-")
    pane.press("Enter")
    pane.loses("number three")
    (desk.folder / "go").touch()
    desk.await_turns(*DONE * 3)
    pane.shows("\nnumber 1\n", "\nnumber 2\n")
    pane.rests()
    assert desk.said("user")[1:] == ["say: number 1", "say: number 2"]
    assert "queued" not in pane.status()


def test_of_a_long_queue_the_last_prompts_are_seen(desk):
    pane = desk.chat("--allow-all", columns=80, rows=24)
    pane.enter("run: while ! [ -e go ]; do sleep 0.02; done")
    pane.sees("● bash")
    for number in range(26):
        pane.enter(f"say: number {number}")
    pane.sees("… 21 more", "queued: “say: number 21”", "queued: “say: number 25”")
    assert "number 20”" not in pane.screen()
    assert "● bash" in pane.screen()  # there is room for what else happens
    pane.press("C-c")
    pane.sees("… 21 more", "held: “say: number 25”", "/run runs the prompts on hold")


def test_what_waits_behind_a_cancelled_turn_is_held_until_it_is_asked_for(desk):
    pane = desk.chat()
    pane.enter(SLOW)
    pane.sees("\nslow0 slow1")
    pane.enter("say: one")
    pane.enter("say: two")
    pane.sees("queued: “say: two”")
    pane.press("C-c")
    pane.sees("held: “say: one”", "held: “say: two”", "/run runs the prompts on hold", "2 held")
    desk.await_turns("started", "cancelled")
    pane.enter("/run")
    desk.await_turns("started", "cancelled", *DONE * 2)
    pane.shows("\none\n", "\ntwo\n")
    assert len(of_type(desk.journal(), "queued")) == 3
