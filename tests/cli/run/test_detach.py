"""What is asked of a session that has a runner: it reaches the runner, or is refused."""

from __future__ import annotations

import pytest

from tests.cli.program import of_type, said, turns, until
from tests.cli.vendor import streamed


@pytest.fixture
def program(program):
    yield program
    program.run("stop", "--all")


@pytest.fixture
def session(program):
    """A session with a runner that has nothing to do."""
    done = program.run("-p", "say: first", "--detach")
    until(lambda: turns(program.journal()) == ["started", "completed"])
    return done.out.strip()


def title(program) -> str:
    return str(program.run("ls", "--json").lines[0]["title"])


@pytest.mark.parametrize(
    "words",
    [["--allow-all"], ["--allow", "bash(ls)"], ["--chaos", "end@3"], ["--script", "x.jsonl"]],
)
@pytest.mark.parametrize("detach", [False, True])
def test_what_counts_from_a_runner_s_start_is_refused(program, session, words, detach):
    program.script({"say": "x"}).rename(program.folder / "x.jsonl")
    more = ["--detach"] if detach else []
    done = program.run("-c", "-p", "say: second", *words, *more)
    assert done.code == 2
    assert words[0] in done.err
    assert f"holdfast stop {session}" in done.err
    assert said(program.journal(), "user") == ["say: first"]


def test_commands_left_running_are_not_ended_behind_a_runner_s_back(program, session):
    done = program.run("-c", "-p", "--kill-running")
    assert (done.code, "--kill-running" in done.err) == (2, True)
    assert program.run("-c", "-p", "say: x", "--kill-running", "--detach").code == 2


def test_limits_that_a_runner_would_not_keep_are_refused(program, session):
    for asked in ("--continue-turn", "--run-queue"):
        for more in ([], ["--detach"]):
            done = program.run("-c", "-p", asked, "--max-turns", "1", *more)
            assert done.code == 2
            assert "does not support limits" in done.err


@pytest.mark.parametrize("detach", [False, True])
def test_a_title_and_a_model_reach_the_runner(program, session, vendor, detach):
    server = vendor(streamed("openai", "by ", "another"))
    words = ["-n", "renamed", *server.options("openai", "another-model")]
    done = program.run("-c", "-p", "who?", *words, *["--detach"] * detach)
    assert done.code == 0, done.err
    until(lambda: said(program.journal(), "assistant") == ["first", "by another"])
    assert title(program) == "renamed"
    assert "another-model" in [entry.get("model") for entry in of_type(program.journal(), "meta")]


def test_a_title_reaches_a_session_whose_runner_is_started_for_it(program):
    assert program.run("-p", "say: first").code == 0
    assert program.run("-c", "-p", "say: second", "--detach", "-n", "renamed").code == 0
    assert title(program) == "renamed"


def test_a_compaction_is_waited_for(program, session):
    done = program.run("-c", "-p", "--compact")
    assert done.code == 0
    assert "compact" in done.err


def test_a_compaction_behind_a_turn_is_waited_for(program, session):
    busy = "run: touch begun; while ! [ -e go ]; do sleep 0.02; done"
    program.run("stop", session)
    assert program.run("-c", "-p", busy, "--detach", "--allow-all").code == 0
    until((program.folder / "begun").exists)
    run = program.start("-c", "-p", "--compact")
    run.end_input()
    run.says("session")
    until(lambda: program.run("status", "--json").lines[0]["clients"] == 1)  # it has asked
    assert run.process.poll() is None
    (program.folder / "go").touch()
    assert run.wait() == 0
    assert turns(program.journal()) == ["started", "completed"] * 2
    assert "compact" in run.err


def test_without_a_prompt_what_there_is_to_do_is_handed_over(program, session):
    program.run("stop", session)
    busy = "run: echo once >> log; sleep 1000"
    assert program.run("-c", "-p", busy, "--detach", "--allow-all").code == 0
    until((program.folder / "log").exists)
    assert program.run("send", session, "say: queued").code == 0
    assert program.run("stop", session).code == 0
    done = program.run("-c", "-p", "--run-queue", "--compact", "--detach", "--json")
    assert (done.code, done.object["seq"]) == (0, None)
    until(lambda: said(program.journal(), "assistant")[-1] == "queued")


def test_a_key_in_a_variable_of_the_user_s_own_reaches_the_runner_anew(program, vendor):
    server = vendor(streamed("openai", "one"), streamed("openai", "two"))
    program.configure(
        f'provider = "openai"\nmodel = "m"\nbase_url = "{server.url}/v1"\nkey_variable = "MINE"\n'
    )
    assert program.run("-p", "first?", "--detach", MINE="key-one").code == 0
    until(lambda: turns(program.journal()) == ["started", "completed"])
    (folder,) = program.sessions()
    assert program.run("send", folder.name, "second?", MINE="key-two").code == 0
    until(lambda: turns(program.journal()) == ["started", "completed"] * 2)
    keys = [{k.lower(): v for k, v in each.headers.items()} for each in server.received]
    assert [each["authorization"] for each in keys] == ["Bearer key-one", "Bearer key-two"]
    assert b"key-two" not in (folder / "journal.jsonl").read_bytes()
