"""Which session is gone on with, where, and what is left behind."""

from __future__ import annotations

import signal
import subprocess

import pytest

import holdfast
from tests.cli.program import of_type, said, until

ID = "20260102-030405-aaaabbbb"
WAIT = "run: touch begun; while ! [ -e go ]; do sleep 0.02; done"


def git(folder, *words: str) -> None:
    names = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


def answered_in(program, *words: str) -> str:
    """Run a prompt; return the session it was answered in."""
    done = program.run(*words, "--json")
    assert done.code == 0, done.err
    return str(done.object["session_id"])


# -c


def test_continue_takes_the_newest_session_of_the_folder(program):
    first = answered_in(program, "-p", "say: one")
    second = answered_in(program, "-p", "say: two")
    assert first != second
    assert answered_in(program, "-c", "-p", "say: three") == second
    assert answered_in(program, "-r", first, "-p", "say: four") == first
    assert answered_in(program, "-c", "-p", "say: five") == first
    assert said(program.journal(first), "assistant") == ["one", "four", "five"]


def test_continue_without_a_session_begins_one_and_says_so(program):
    done = program.run("-c", "-p", "say: one")
    assert done.code == 0
    assert f"there is no session in {program.folder} yet; starting a new one" in done.err
    assert len(program.sessions()) == 1
    other = program.folder.parent / "other"
    other.mkdir()
    done = program.run("-C", other, "-c", "-p", "--continue-turn")
    assert done.code == 2
    assert "no session" in done.err


def test_continue_finds_the_session_of_a_git_folder_that_was_moved(program):
    git(program.folder, "init")
    git(program.folder, "commit", "--allow-empty", "-m", "root")
    session = answered_in(program, "-p", "say: one")
    moved = program.folder.with_name("moved")
    program.folder.rename(moved)
    program.folder = moved
    assert answered_in(program, "-c", "-p", "run: pwd > where", "--allow-all") == session
    assert (moved / "where").read_text() == f"{moved}\n"
    assert of_type(program.journal(), "meta")[-1]["workspace"] == str(moved)
    assert answered_in(program, "-c", "-p", "say: three") == session


# -r


def test_resume_by_id_part_title_and_path_from_any_folder(program):
    session = answered_in(program, "-p", "say: one", "--session-id", ID, "-n", "My Title")
    answered_in(program, "-p", "say: something else")
    other = program.folder.parent / "other"
    other.mkdir()
    path = program.home / "sessions" / "2026-01" / ID
    project, program.folder = program.folder, other
    for number, name in enumerate([ID, "aaaabb", "my title", str(path)]):
        done = program.run("-r", name, "-p", f"run: pwd > {number}", "--allow-all", "--json")
        assert done.code == 0, done.err
        assert done.object["session_id"] == session
        assert (project / f"{number}").read_text() == f"{project}\n"


def test_a_name_that_fits_no_session_or_several_is_refused(program):
    answered_in(program, "-p", "say: one", "--session-id", ID, "-n", "twice")
    answered_in(program, "-p", "say: two", "--session-id", "20260102-030405-aaaacccc")
    program.run("-r", "aaaacccc", "-n", "twice", "-p", "say: named")
    for name, code, told in [
        ("aaaa", 2, "part of 2 session ids"),
        ("twice", 2, "2 sessions have that title"),
        ("zzzz", 1, "holdfast ls"),
        ("/nowhere/at/all", 1, "no session"),
        (str(program.folder), 1, "no journal"),
        ("../../etc", 1, "no session"),
    ]:
        done = program.run("-r", name, "-p", "say: hello")
        assert done.code == code, name
        assert told in done.err
    assert len(program.sessions()) == 2


def test_a_session_id_that_is_taken_is_refused(program):
    answered_in(program, "-p", "say: one", "--session-id", ID)
    before = (program.sessions()[0] / "journal.jsonl").read_bytes()
    done = program.run("-p", "say: two", "--session-id", ID)
    assert done.code == 1
    assert "already exists" in done.err
    assert (program.sessions()[0] / "journal.jsonl").read_bytes() == before


# One at a time


def test_a_session_that_another_process_holds_exits_75_and_can_be_forked(program):
    run = program.start("-p", WAIT, "--allow-all")
    run.end_input()
    until((program.folder / "begun").exists)
    (held,) = program.sessions()
    before = (held / "journal.jsonl").read_bytes()
    done = program.run("-c", "-p", "say: hello")
    assert done.code == 75
    assert str(run.pid) in done.err
    assert "--fork" in done.err
    fork = answered_in(program, "-c", "--fork", "-p", "say: in a copy")
    assert fork != held.name
    assert (held / "journal.jsonl").read_bytes() == before
    (program.folder / "go").touch()
    assert run.wait() == 0
    assert said(program.journal(fork), "user") == [WAIT, "say: in a copy"]
    assert said(program.journal(held), "user") == [WAIT]


def test_a_fork_goes_on_in_a_copy(program):
    session = answered_in(program, "-p", "say: one")
    before = (program.sessions()[0] / "journal.jsonl").read_bytes()
    fork = answered_in(program, "-r", session, "--fork", "-n", "another way", "-p", "say: two")
    assert said(program.journal(fork), "assistant") == ["one", "two"]
    assert program.journal(fork)[0]["forked_from"]["session"] == session
    (original,) = [path for path in program.sessions() if path.name == session]
    assert (original / "journal.jsonl").read_bytes() == before


def test_a_fork_that_nobody_can_answer_in_is_not_made(program):
    answered_in(program, "-p", "say: one")
    assert program.run("-c", "--fork", "-p", "fix my code").code == 4
    assert program.run("-c", "--fork", "-p", "hello", "--provider", "openai").code == 4
    assert len(program.sessions()) == 1


# Where


def test_a_folder_can_be_given(program):
    other = program.folder.parent / "other"
    other.mkdir()
    session = answered_in(program, "-C", "../other", "-p", "run: touch here", "--allow-all")
    assert (other / "here").exists()
    assert of_type(program.journal(), "meta")[0]["workspace"] == str(other)
    assert answered_in(program, "-C", str(other), "-c", "-p", "say: two") == session


def test_a_folder_that_is_gone_has_to_be_named_anew(program):
    session = answered_in(program, "-p", "say: one")
    moved = program.folder.with_name("moved")
    program.folder.rename(moved)
    program.folder = moved
    done = program.run("-r", session, "-p", "say: two")
    assert done.code == 2
    assert "no longer exists. Name its new place with -C DIR" in done.err
    assert answered_in(program, "-r", session, "-C", ".", "-p", "say: two") == session
    assert answered_in(program, "-r", session, "-p", "say: three") == session


def test_a_current_folder_that_is_gone_is_said(program):
    gone = program.folder.parent / "gone"
    gone.mkdir()
    run = program.start("-p", "say: hello", before=f"cd {gone} && rmdir {gone}")
    run.end_input()
    assert run.wait() == 2
    assert "The current folder no longer exists" in run.err


# Its name


def test_a_title_survives_a_change_of_model(program):
    session = answered_in(program, "-p", "say: one", "-n", "A Title")
    answered_in(program, "-c", "-p", "say: two", "--provider", "rehearsal")
    with holdfast.open_store(program.home) as store:
        (found,) = store.list()
    assert (found.id, found.title) == (session, "A Title")


# Nothing


@pytest.mark.parametrize("output", ["text", "stream-json"])
def test_an_ephemeral_session_leaves_nothing(program, output):
    words = ["-p", "run: echo hi", "--allow-all", "--output-format", output]
    kept = program.run(*words)
    before = sorted(program.home.rglob("*"))
    done = program.run(*words, "--ephemeral")
    assert done.code == kept.code == 0
    if output == "text":
        assert done.out == kept.out
        assert "Resume with" not in done.err
    else:
        kinds = [[line["type"] for line in each.lines] for each in (done, kept)]
        assert kinds[0] == kinds[1]
        assert done.lines[-1]["resume"] is None
    assert sorted(program.home.rglob("*")) == before
    assert list(program.temporary.iterdir()) == []


def test_an_ephemeral_session_that_is_ended_leaves_nothing(program):
    run = program.start("-p", "run: touch begun; sleep 1000", "--allow-all", "--ephemeral")
    run.end_input()
    until((program.folder / "begun").exists)
    (folder,) = program.temporary.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    run.send(signal.SIGTERM)
    while run.process.poll() is None:  # also while it tidies up
        run.send(signal.SIGTERM)
    assert run.wait() == 143
    assert list(program.temporary.iterdir()) == []
    assert not program.home.exists()


def test_an_ephemeral_session_that_cannot_begin_leaves_nothing(program):
    assert program.run("-p", "fix my code", "--ephemeral").code == 4
    assert list(program.temporary.iterdir()) == []


# Between turns


def test_compact_sums_up_and_the_session_goes_on(program):
    for number in range(3):
        answered_in(program, "-c", "-p", f"say: {number}")
    done = program.run("-c", "-p", "--compact")
    assert done.code == 0
    assert "The context was compacted" in done.err
    assert len(of_type(program.journal(), "checkpoint")) == 1
    answered_in(program, "-c", "-p", "say: on")
    assert said(program.journal(), "assistant") == ["0", "1", "2", "on"]
