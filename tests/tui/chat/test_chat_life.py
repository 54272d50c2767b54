"""Chats and runners that come, go and die: nothing is lost, and everybody sees the same."""

from __future__ import annotations

import fcntl
import os
import re
import signal

from tests.cli.program import alive, until

DONE = ("started", "completed")
WORDS = [f"word{number}" for number in range(60)]


def slowly(desk, pace=0.02):
    """A turn that can be interrupted anywhere, whose answer is known."""
    return desk.program.script({"pace": pace}, {"say": " ".join(WORDS)}, {"stop": "end"})


def told(pane):
    """The words of the answer that a terminal has, in its order."""
    return [word for word in pane.text().split() if word.startswith("word")]


def test_a_runner_that_is_killed_is_replaced_and_the_turn_goes_on(desk):
    pane = desk.chat("--script", slowly(desk, 0.05))
    pane.enter("go")
    pane.sees("word5 ")
    os.kill(desk.runner, signal.SIGKILL)
    pane.asks("╭ Recovered", "The last turn was interrupted.", "[c] continue the turn")
    kept = desk.said("assistant")[0].split()
    assert kept == WORDS[: len(kept)]
    pane.until(lambda: told(pane) == kept, "what was kept, once")
    pane.type("can you")
    pane.sees("> can you", "[c] continue the turn")
    pane.press("C-u")
    pane.press("c")
    desk.await_turns("started", "completed")
    pane.shows("word59")
    pane.rests()
    assert desk.said("user") == ["go"]
    pane.until(lambda: told(pane) == " ".join(desk.said("assistant")).split(), "all, once")


def test_a_chat_names_the_sessions_that_run_or_wait_and_not_those_whose_runner_is_idle(desk):
    idle = desk.chat()
    idle.enter("say: it is idle")
    idle.shows("\nit is idle\n")
    idle.rests()
    first = desk.session
    waits = desk.chat()
    waits.enter("run: touch made")
    waits.asks("[y] allow")
    (second,) = {folder.name for folder in desk.program.sessions()} - {first}
    before = desk.runners()
    runs = desk.chat("--allow-all")
    runs.enter("run: while ! [ -e go ]; do sleep 0.02; done")
    runs.sees("● bash")
    (third,) = {folder.name for folder in desk.program.sessions()} - {first, second}
    (pid,) = {*desk.runners()} - {*before}
    text = desk.chat().text()
    assert re.search(f"· waiting: .*{second}\n", text)
    assert re.search(f"· running: .*{third}\n", text)
    assert first not in text
    os.kill(pid, signal.SIGSTOP)
    try:
        stopped = desk.chat()
        assert re.search(f"· has a runner: .*{third}\n", stopped.text())
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_client_that_is_killed_loses_nothing(desk):
    pane = desk.chat("--script", slowly(desk))
    pane.enter("go")
    pane.sees("word3 ")
    os.kill(pane.client, signal.SIGKILL)
    pane.shows("left with 137")
    other = desk.chat("-r", desk.session)
    desk.await_turns(*DONE)
    other.until(lambda: told(other) == WORDS, "every word once")
    other.rests()


def test_a_terminal_that_is_closed_does_not_end_the_turn(desk):
    pane = desk.chat("--script", slowly(desk))
    pane.enter("go")
    pane.sees("word3 ")
    client = pane.client
    pane.kill()
    until(lambda: not alive(client), "the end of the chat whose terminal has gone")
    desk.await_turns(*DONE)
    assert desk.said("assistant") == [" ".join(WORDS)]


def test_two_terminals_see_the_same_and_one_of_them_decides(desk):
    one = desk.chat()
    one.enter("run: touch made")
    one.asks("[y] allow")
    two = desk.chat("-r", desk.session)
    two.asks("? bash wants: touch made")
    two.press("y")
    one.shows("allowed in another terminal")
    one.loses("[y] allow")
    desk.await_turns(*DONE)
    assert (desk.folder / "made").exists()
    one.enter("say: from the first")
    two.shows("> say: from the first", "\nfrom the first\n")
    two.enter("/rename Shared")
    one.stands("Shared · ")
    two.enter("say: from the second")
    one.shows("\nfrom the second\n")
    two.rests()
    assert "from elsewhere" not in two.text()
    two.press("C-d")
    two.left(0)
    one.enter("say: alone again")
    one.shows("\nalone again\n")


def test_leaving_a_turn_it_can_be_kept_running(desk):
    pane = desk.chat("--script", slowly(desk, 0.15))
    pane.enter("go")
    pane.sees("word3 ")
    pane.press("C-d")
    pane.asks("A turn is running.", "[k] keep it running   [s] stop it   [b] back")
    pane.press("b")
    pane.loses("A turn is running")
    pane.press("C-d")
    pane.asks("A turn is running.")
    pane.press("Escape")
    pane.loses("A turn is running")
    pane.enter("/quit")
    pane.asks("A turn is running.")
    pane.press("k")
    pane.shows(f"still running; attach with: holdfast attach {desk.session}")
    pane.left(0)
    assert desk.turns() == ["started"]
    desk.await_turns(*DONE)
    assert desk.said("assistant") == [" ".join(WORDS)]


def test_leaving_a_turn_it_can_be_stopped_also_while_it_asks(desk):
    pane = desk.chat()
    pane.enter("run: touch made")
    pane.asks("[y] allow")
    pane.press("C-d")
    pane.asks("A turn is running.", "(+1 more)")
    runner = desk.runner
    pane.press("s")
    pane.shows(f"Resume with: holdfast -r {desk.session}")
    pane.left(0)
    until(lambda: not alive(runner), "the end of the runner")
    assert not (desk.folder / "made").exists()
    assert desk.turns() == ["started", "cancelled"]


def test_suspended_and_back_again(desk):
    pane = desk.chat("--script", slowly(desk))
    pane.enter("go")
    pane.sees("word3 ")
    pane.press("C-z")
    pane.shows("Stopped")
    desk.await_turns(*DONE)  # meanwhile
    assert "word59" not in pane.text()
    pane.enter("fg")
    pane.until(lambda: told(pane)[-len(WORDS) :] == WORDS, "the whole answer")
    pane.enter("/rename Back again")
    pane.stands("Back again · ")


def test_a_prompt_that_is_on_its_way_is_not_dropped_by_leaving(desk):
    pane = desk.pane()
    home = desk.program.home / "run"
    home.mkdir(mode=0o700, parents=True)
    held = os.open(home / "starting", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)  # no runner can be started yet
    try:
        pane.enter("holdfast; echo left with $?")
        pane.sees("starting …")
        pane.enter("say: keep this")
        pane.sees("sending: “say: keep this”")
        pane.press("C-d")
        pane.shows("sending your last prompt")
    finally:
        os.close(held)
    pane.left(0)
    desk.await_turns(*DONE)
    assert desk.said("user") == ["say: keep this"]
