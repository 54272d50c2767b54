"""What is typed at a session: nothing is lost because no runner is there yet, or input ends."""

from __future__ import annotations

import os
import signal

import pytest

from tests.cli.program import said, until
from tests.cli.terminal import terminal


@pytest.fixture
def session(program):
    assert program.run("-p", "say: hello").code == 0
    (folder,) = program.sessions()
    yield folder.name
    program.run("stop", "--all")


def test_a_line_that_was_there_before_the_runner_is_a_prompt(program, session):
    done = program.run("attach", session, given=b"say: first\n\nsay: last")
    assert done.code == 0
    until(lambda: said(program.journal(), "assistant") == ["hello", "first", "last"])


def test_what_is_wrong_is_told_and_the_rest_is_done(program, session):
    done = program.run("attach", session, given=b"/nothing\nsay: but this\n")
    assert done.code == 0
    assert "There is no command /nothing" in done.out
    until(lambda: said(program.journal(), "assistant")[-1] == "but this")


def test_a_reader_who_goes_away_ends_the_client_and_not_the_turn(program, session):
    attached = program.start("attach", session)
    attached.leave()
    attached.process.stdin.write(b"say: to nobody\n")
    attached.process.stdin.flush()
    assert attached.wait() == 128 + signal.SIGPIPE
    until(lambda: said(program.journal(), "assistant")[-1] == "to nobody")


def test_a_hangup_that_is_ignored_stays_ignored(program, session):
    attached = program.start("attach", session, before="trap '' HUP")
    attached.process.stdin.write(b"say: still there\n")
    attached.process.stdin.flush()
    until(lambda: said(program.journal(), "assistant")[-1] == "still there")
    attached.send(signal.SIGHUP)
    attached.end_input()
    assert attached.wait() == 0


def test_a_file_is_read_to_its_end(program, session):
    prompts = program.folder / "prompts"
    prompts.write_text("say: from a file\n/nothing\nsay: its end")
    done = program.run("attach", session, shell="< prompts")
    assert done.code == 0, done.err
    assert "There is no command /nothing" in done.out
    until(lambda: said(program.journal(), "assistant") == ["hello", "from a file", "its end"])


def test_where_nothing_can_be_typed_it_follows_to_the_end(program, session):
    program.configure('mode = "allow-all"')
    program.run("send", session, "run: sleep 0.3; echo over")
    done = program.run("attach", session, shell="< /dev/null")
    assert (done.code, "over" in done.out) == (0, True)


@pytest.mark.parametrize("word", ["/run-queue", "/run"])
def test_what_is_held_is_said_and_can_be_run(program, session, word):
    program.configure('mode = "allow-all"')
    program.run("send", session, "run: touch begun; while ! [ -e go ]; do sleep 0.02; done")
    until((program.folder / "begun").exists)
    for text in ("say: one", "say: two"):
        program.run("send", session, text)
    assert "  2 queued" in program.run("status").out
    program.run("cancel", session)
    until(lambda: program.run("status", "--json").lines[0]["state"] == "idle")
    with terminal(program, "attach", session) as seen:
        seen.shows("2 prompt(s) are on hold; /run-queue runs them")
        seen.type(f"{word}\n")
        seen.shows("\ntwo\n")
        assert seen.screen.count("on hold") == 1
        seen.type("/quit\n")
        assert seen.wait() == 0


def test_what_is_held_is_said_to_who_only_follows(program, session):
    program.configure('mode = "allow-all"')
    program.run("send", session, "run: touch begun; sleep 1000")
    until((program.folder / "begun").exists)
    program.run("send", session, "say: one")
    (row,) = program.run("status", "--json").lines
    os.kill(row["pid"], signal.SIGKILL)
    done = program.run("attach", session, "--no-input")
    assert (done.code, "1 prompt(s) are on hold" in done.out) == (0, True), done.out
