"""A chat started in other ways: with options, in the foreground, on other terminals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.cli.program import alive, until

HOLDS = """
import sys, holdfast
with holdfast.open_store(sys.argv[1]).open(sys.argv[2]) as session:
    print("held", flush=True)
    for line in sys.stdin:
        session.append(holdfast.assistant(line.strip()))
"""


def made(desk):
    assert desk.program.run("-p", "say: hello", "-n", "Made").code == 0
    (folder,) = desk.program.sessions()
    return folder.name


def test_options_that_come_too_late_are_told_and_the_chat_goes_on(desk):
    session = made(desk)
    first = desk.chat("-r", session)
    first.rests()
    pane = desk.chat("-r", session, "--allow-all", "-n", "Renamed")
    pane.shows("This session is already running. --allow, --allow-all")
    pane.stands("saved ✓ seq")
    pane.stands("Renamed")
    first.stands("Renamed")
    pane.enter("say: here")
    first.shows("here")


def test_c_goes_on_with_the_last_one_of_the_folder(desk):
    made(desk)
    pane = desk.chat("-c")
    pane.shows("> say: hello")
    pane.stands("Made")


def test_fork_goes_on_in_a_copy(desk):
    session = made(desk)
    pane = desk.chat("-r", session, "--fork")
    pane.enter("say: only in the copy")
    pane.shows("only in the copy", times=2)
    names = [folder.name for folder in desk.program.sessions()]
    assert len(names) == 2
    assert "only in the copy" not in desk.said("assistant", session)


def test_an_ephemeral_chat_leaves_nothing(desk):
    pane = desk.chat("--ephemeral")
    pane.enter("say: gone soon")
    pane.shows("gone soon", times=2)
    pane.stands("^say: gone soon · .*saved ✓ seq")
    pane.press("C-d")
    pane.shows("this session was not saved")
    pane.left(0)
    assert desk.program.sessions() == []
    assert desk.runners() == []


def test_the_commands_of_an_ephemeral_chat_work_without_a_session_on_disk(desk):
    """It runs in memory: only the spool of a running command is on disk, and no socket is."""
    pane = desk.chat("--ephemeral", "--allow-all")
    pane.enter("run: ls -d $TMPDIR/*/*/spool && ls $HOLDFAST_HOME | wc -l")
    pane.stands("^run: ls .*saved ✓ seq")
    pane.sees("/spool")
    pane.enter("/session")
    pane.sees("in       memory://")
    pane.enter("/rename a title in memory")
    pane.stands("^a title in memory")
    pane.enter("/search spool")
    pane.sees("user")
    pane.enter("/tree")
    pane.sees("marks the current branch")
    pane.enter("/stats")
    pane.sees("1 session")
    pane.enter("/export markdown out.md")
    pane.sees("written: ")
    assert "spool" in (desk.program.folder / "out.md").read_text()
    pane.enter("/export archive out.holdfast")
    pane.sees("out.holdfast")
    pane.enter("/fork")
    pane.stands("^a title in memory .*seq 1[6-9]")
    pane.enter("say: only in the copy")
    pane.shows("only in the copy", times=2)
    pane.press("C-d")
    pane.shows("this session was not saved")
    pane.left(0)
    assert desk.program.sessions() == []
    assert not (desk.program.home / "run").exists()
    assert list(desk.program.temporary.iterdir()) == []
    assert desk.program.run("import", "out.holdfast").code == 0
    (brought,) = desk.program.sessions()
    assert "spool" in (brought / "journal.jsonl").read_text()


def test_in_the_foreground_one_process_does_it_all_and_asks_before_it_ends_a_turn(desk):
    script = desk.program.script({"pace": 0.05}, {"say": "word " * 400}, {"stop": "end"})
    pane = desk.chat("--foreground", "--script", script)
    pane.enter("go")
    pane.sees("word word")
    pane.enter("/new")
    pane.asks("A turn is running. It stops when this program exits.")
    pane.press("b")
    client = pane.client
    os.kill(client, signal.SIGTERM)
    pane.left(143)
    until(lambda: not alive(client), "the end of the chat")
    assert desk.turns() == ["started", "cancelled"]
    assert desk.said("assistant")[0].startswith("word word")
    assert desk.runners() == []


def test_a_command_that_ends_something_is_not_guessed(desk):
    made(desk)
    pane = desk.chat("-c")
    pane.stands("saved ✓ seq")
    pane.enter("/sto")
    pane.shows("There is no command /sto")
    pane.stands("saved ✓ seq")


def test_a_session_that_a_library_holds_can_be_looked_at_or_forked(desk):
    session = made(desk)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(desk.program.home), session],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        pane = desk.pane()
        pane.enter(f"holdfast -r {session}; echo left with $?")
        pane.asks(
            "is being written by process", "[t] try again", "[r] open it read-only", "[f] fork it"
        )
        pane.press("r")
        pane.stands("read-only · seq")
        pane.enter("say: hello")
        pane.shows("This session is open read-only")
        pane.press("C-c")
        holder.stdin.write("written elsewhere\n")
        holder.stdin.flush()
        pane.shows("written elsewhere")
        pane.press("C-d")
        pane.left(0)
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()


def test_a_torn_end_is_told_and_nothing_is_claimed(desk):
    session = made(desk)
    (folder,) = desk.program.sessions()
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"seq":99,"at":"2026')
    pane = desk.chat("-r", session)
    pane.shows("╭ Repaired")
    pane.stands("saved ✓ seq")


def test_a_runner_that_is_stopped_is_told(desk):
    made(desk)
    pane = desk.chat("-c")
    pane.stands("saved ✓ seq")
    runner = desk.runner
    os.kill(runner, signal.SIGSTOP)
    try:
        pane.enter("say: are you there?")
        pane.stands("! the runner does not answer")
    finally:
        os.kill(runner, signal.SIGCONT)
    pane.stands("saved ✓ seq")
    pane.shows("are you there?", times=2)


def test_a_terminal_that_only_takes_lines_gets_lines(desk):
    session = made(desk)
    pane = desk.pane()
    pane.enter(f"TERM=dumb holdfast -r {session}; echo left with $?")
    pane.shows("> say: hello")
    pane.enter("say: in lines")
    pane.shows("in lines", times=2)
    pane.enter("/quit")
    pane.left(0)
    assert b"\x1b[?25" not in pane.raw()
