"""``holdfast -p`` as a new user meets it, and the limits that it keeps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import holdfast
from tests.cli.program import of_type, results, said, turns
from tests.cli.vendor import streamed
from tests.runtime.providers.wire import call, chat_reply


def everything_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


# Without a key and without a network


def test_a_new_user_runs_a_command_and_is_told_which_model_answers(program):
    done = program.run("-p", "run: pwd", "--allow-all")
    assert done.code == 0
    assert str(program.folder) in done.out
    assert "using rehearsal (no API key was found)" in done.err
    (session,) = program.sessions()
    assert f"Resume with: holdfast -r {session.name}\n" in done.err
    assert turns(program.journal()) == ["started", "completed"]


def test_without_a_key_a_prompt_exits_4_with_help_and_leaves_nothing(program):
    before = everything_below(program.folder.parent)
    done = program.run("-p", "fix my code")
    assert done.code == 4
    assert done.out == ""
    assert "ANTHROPIC_API_KEY" in done.err
    assert "holdfast login" in done.err
    assert "--base-url" in done.err
    assert len(done.err.splitlines()) == 1
    assert everything_below(program.folder.parent) == before


def test_a_session_of_the_rehearsal_model_says_how_to_choose_another(program):
    assert program.run("-p", "say: hello").code == 0
    before = (program.sessions()[0] / "journal.jsonl").read_bytes()
    done = program.run("-c", "-p", "fix my code")
    assert done.code == 4
    assert "--provider" in done.err
    assert (program.sessions()[0] / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-p"], "empty"),
        (["-c"], "A chat needs a terminal"),
        (["nonsense"], "no command 'nonsense'"),
        (["-p", "one", "two"], "in quotes, so that it is one argument"),
        (["-p", "say: x", "-r"], "-r needs a session"),
        (["-p", "say: x", "-c", "-r", "abc"], "two sessions"),
        (["-p", "say: x", "--fork"], "Name it with -c or -r"),
        (["-p", "say: x", "-c", "--ephemeral"], "new sessions"),
        (["-p", "--continue-turn"], "-c or -r"),
        (["-p", "say: x", "--time-limit", "soon"], "is not a duration"),
        (["-p", "say: x", "--max-budget-usd", "nan"], "is not an amount"),
        (["-p", "say: x", "--max-turns", "0"], "not in the range"),
        (["-p", "say: x", "-C", "/nowhere/at/all"], "is not a folder"),
        (["-p", "say: x", "--session-id", "mine"], "is not a session id"),
        (["-p", "-", "--input-format", "stream-json"], "come from standard input"),
    ],
)
def test_a_mistake_gets_one_sentence_exit_code_2_and_no_session(program, words, told):
    done = program.run(*words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert len(done.err.splitlines()) == 1
    assert program.sessions() == []


# Limits


def test_max_turns_ends_the_turn_and_exits_3(program):
    done = program.run("-p", "run: echo a\nrun: echo b", "--allow-all", "--max-turns", "1")
    assert done.code == 3
    assert "--max-turns" in done.err
    assert turns(program.journal()) == ["started", "cancelled"]
    assert results(program.journal()) == [("completed", "a\n")]


def test_the_time_limit_ends_a_command_and_exits_3(program):
    words = ["--allow-all", "--time-limit", "4s", "--json"]  # time enough to begin
    done = program.run("-p", "run: echo begun; sleep 1000", *words)
    assert done.code == done.object["exit_code"] == 3
    assert "--time-limit" in done.object["cause"]
    (outcome, text) = results(program.journal())[0]
    assert outcome == "cancelled"
    assert text.startswith("begun\n")


def test_a_budget_needs_a_price(program, vendor):
    server = vendor()
    done = program.run(
        "-p", "hello", "--max-budget-usd", "1", *server.options("openai", "nobody-knows-it")
    )
    assert done.code == 2
    assert "no price for nobody-knows-it" in done.err
    assert program.sessions() == []


def test_a_budget_that_is_used_up_exits_3(program, vendor):
    program.configure('[prices."served-model"]\ninput = 1000000\noutput = 1000000\n')
    server = vendor(
        chat_reply([call(0, "c1", "bash", '{"command": "echo hi"}')], "tool_calls"),
    )
    done = program.run(
        *("-p", "hello", "--allow-all", "--json"),
        *("--max-budget-usd", "50", *server.options("openai")),
    )
    assert done.code == 3
    assert "--max-budget-usd" in done.object["cause"]
    assert done.object["cost_usd"] == 107.0
    assert len(server.received) == 1
    assert results(program.journal()) == [("completed", "hi\n")]


# What tools may do


def test_what_is_not_allowed_is_refused_told_to_the_model_and_listed(program):
    done = program.run("-p", "run: touch made", "--json")
    assert done.code == 0
    assert [(one["tool"], one["subject"]) for one in done.object["denied"]] == [
        ("bash", "touch made")
    ]
    assert not (program.folder / "made").exists()
    (outcome, text) = results(program.journal())[0]
    assert outcome == "denied"
    assert "not run" in text
    (decision,) = of_type(program.journal(), "approval")
    assert decision["decision"] == "deny"


def test_text_output_lists_what_was_denied_on_standard_error(program):
    done = program.run("-p", "run: touch made")
    assert "denied: bash “touch made”" in done.err


def test_allow_lets_one_command_through_and_no_other(program):
    prompt = "run: echo yes\nrun: echo yes; touch made"
    done = program.run("-p", prompt, "--allow", "bash(echo:*)", "--json")
    assert done.code == 0
    assert [outcome for outcome, _ in results(program.journal())] == ["completed", "denied"]
    assert [one["subject"] for one in done.object["denied"]] == ["echo yes; touch made"]
    assert not (program.folder / "made").exists()


def test_keys_are_seen_neither_by_commands_nor_by_the_journal(program):
    program.configure('base_url = "https://models.invalid/v1"\nkey_variable = "MY_OWN_KEY"\n')
    secrets = {
        "ANTHROPIC_API_KEY": "sk-ant-kept-to-ourselves",
        "OPENAI_API_KEY": "sk-kept-to-ourselves",
        "OPENROUTER_API_KEY": "or-kept-to-ourselves",
        "MY_OWN_KEY": "my-kept-to-ourselves",
    }
    words = ["-p", "run: env", "--allow-all", "--provider", "rehearsal"]
    done = program.run(*words, HARMLESS="shown to commands", **secrets)
    assert done.code == 0
    ((outcome, text),) = results(program.journal())
    assert outcome == "completed"
    assert "HARMLESS=shown to commands" in text
    stored = b"".join(path.read_bytes() for path in program.home.rglob("*") if path.is_file())
    for written in (text.encode(), done.out.encode(), done.err.encode(), stored):
        assert b"kept-to-ourselves" not in written


def test_a_key_that_was_used_is_in_no_file(program, vendor):
    server = vendor(streamed("openai", "Hello."))
    words = ["-p", "hello", "--provider", "openai", "--model", "served-model"]
    key = "sk-kept-to-ourselves"
    done = program.run(*words, OPENAI_API_KEY=key, OPENAI_BASE_URL=f"{server.url}/v1")
    assert (done.code, done.out) == (0, "Hello.\n")
    assert server.received[0].headers["authorization"] == f"Bearer {key}"
    assert of_type(program.journal(), "meta")[-1]["login"] == "OPENAI_API_KEY"
    for path in program.home.rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes()


def test_everything_on_disk_is_for_the_user_alone(program):
    assert program.run("-p", "run: echo hi", "--allow-all").code == 0
    for path in program.home.rglob("*"):
        assert os.stat(path).st_mode & 0o077 == 0, path


def test_the_library_sees_what_the_program_wrote(program):
    assert program.run("-p", "say: hello").code == 0
    with holdfast.open_store(program.home) as store, store.open(store.list()[0].id) as session:
        assert [message.role for message in session.messages] == ["system", "user", "assistant"]
        assert session.recovery.clean
    assert said(program.journal(), "assistant") == ["hello"]
