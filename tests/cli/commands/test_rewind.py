"""``holdfast rewind``, as a shell and as somebody at a terminal sees it."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

import holdfast
from holdfast import user
from tests.cli.shell import PROGRAM, Shell
from tests.processes import running
from tests.runtime.rehearsal_session import contents, prompt, write

ID = "20260102-030405-aaaabbbb"
QUESTION = "Undo this? [y/N]: "
PROMPTS = ["say: begin", write("a", "one"), "run: true\n" + write("a", "two") + "\nwrite: b\nx"]


@pytest.fixture
def shell(tmp_path):
    """A user whose agent wrote a, then a again and b, in the last two of three turns."""
    shell = Shell(tmp_path)
    store = holdfast.open_store(shell.home)
    with store.create(session_id=ID, workspace=shell.project) as session:
        prompt(session, shell.project, *PROMPTS)
    return shell


def told(shell: Shell, *words: str) -> Any:
    done = shell.run("rewind", ID, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def prompts(shell: Shell) -> list[str]:
    with holdfast.open_store(shell.home).open(ID, mode="read") as session:
        return [message.text for message in session.messages if message.role == "user"]


def numbers(shell: Shell) -> list[int]:
    listed = shell.run("rewind", ID, "--json").stdout.splitlines()
    return [json.loads(line)["seq"] for line in listed]


def test_without_a_target_it_lists_the_points(shell):
    done = shell.run("rewind", "aaaab")
    assert done.returncode == 0
    heading, *rows = [line.split() for line in done.stdout.splitlines()]
    assert heading == ["turns", "number", "time", "(UTC)", "files", "prompt"]
    assert [row[0] for row in rows] == ["3", "2", "1"]
    assert [int(row[1]) for row in rows] == numbers(shell)
    assert [row[4] for row in rows] == ["2", "2", "2"]
    assert [" ".join(row[5:]) for row in rows] == ["say: begin", "read: a", "run: true"]
    assert done.stderr == "--turns N or --to NUMBER undoes that prompt and everything after it.\n"
    assert contents(shell.project) == {"a": "two", "b": "x"}


def test_a_session_without_prompts(shell):
    store = holdfast.open_store(shell.home)
    with store.create(session_id="20260102-030405-ccccdddd") as session:
        session.append(holdfast.assistant("hello"))
    done = shell.run("rewind", "ccccdddd")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "There is no prompt to undo.\n"
    done = shell.run("rewind", "ccccdddd", "--turns", "1")
    assert done.returncode == 2


def test_both_go_back_and_the_conversation_can_be_had_again(shell):
    done = shell.run("rewind", ID, "--turns", "1")
    assert done.returncode == 0
    first, *steps = done.stdout.splitlines()
    assert first.startswith("The conversation continues from entry ")
    assert [line.split() for line in steps] == [["remove", "b"], ["restore", "a"]]
    assert "1 command was run since. Changes made by commands are not undone." in done.stderr
    assert contents(shell.project) == {"a": "one"}
    assert prompts(shell) == PROMPTS[:2]
    *_, undo = done.stderr.splitlines()
    assert undo.startswith(f"To undo this: holdfast rewind {ID} --conversation --to ")
    done = shell.run(*undo.partition("holdfast ")[2].split())
    assert done.returncode == 0
    assert prompts(shell) == PROMPTS
    assert contents(shell.project) == {"a": "one"}


def test_to_a_prompt_is_to_before_it_and_to_another_entry_behind_it(shell):
    _, second, third = numbers(shell)
    report = told(shell, "--to", str(third), "--dry-run")
    assert report["done"] is False
    assert {step["path"]: step["action"] for step in report["steps"]} == {
        "a": "restore",
        "b": "remove",
    }
    assert prompts(shell) == PROMPTS
    assert contents(shell.project) == {"a": "two", "b": "x"}
    report = told(shell, "--to", str(second))
    assert (report["done"], report["session"], report["what"]) == (True, ID, "both")
    assert second > report["to"]
    assert prompts(shell) == PROMPTS[:1]
    assert contents(shell.project) == {}
    last = report["to"]
    assert told(shell, "--to", str(last))["to"] == last
    assert prompts(shell) == PROMPTS[:1]
    assert told(shell, "--turns", "1")["to"] is None
    assert prompts(shell) == []


def test_files_alone_and_conversation_alone(shell):
    done = shell.run("rewind", ID, "--turns", "2", "--files")
    assert done.stdout.split() == ["remove", "b", "remove", "a"]
    assert contents(shell.project) == {}
    assert prompts(shell) == PROMPTS
    done = shell.run("rewind", ID, "--turns", "2", "--conversation", "--dry-run")
    assert done.stdout.startswith("The conversation continues from entry ")
    assert "file" not in done.stdout
    assert prompts(shell) == PROMPTS
    done = shell.run("rewind", ID, "--turns", "3", "--both")
    assert done.stdout.splitlines() == [
        "The conversation continues from its beginning.",
        "unchanged  b",
        "unchanged  a",
    ]


def test_no_file_was_changed(shell):
    with holdfast.open_store(shell.home).open(ID) as session:
        prompt(session, shell.project, "say: end", "run: true\nrun: true")
    done = shell.run("rewind", ID, "--turns", "2")
    assert done.stdout.splitlines()[1:] == ["No tool changed a file since."]
    assert "2 commands were run since" in done.stderr


def test_an_edit_by_somebody_else_is_left_unless_asked(shell):
    (shell.project / "b").write_text("theirs")
    done = shell.run("rewind", ID, "--turns", "1", "--files")
    assert done.returncode == 0
    assert "skipped    b  (b was changed by another program since.)" in done.stdout
    assert "1 file is left unchanged; --overwrite restores what can be restored." in done.stderr
    assert contents(shell.project) == {"a": "one", "b": "theirs"}
    done = shell.run("rewind", ID, "--turns", "1", "--overwrite")
    assert "remove     b" in done.stdout
    assert "left" not in done.stderr
    assert contents(shell.project) == {"a": "one"}


def test_what_cannot_be_put_back_is_told_afterwards(shell):
    with holdfast.open_store(shell.home).open(ID, mode="read") as session:
        blobs = session.path / "blobs"
    for blob in blobs.iterdir():
        blob.unlink()
    done = shell.run("rewind", ID, "--turns", "1", "--files")
    assert done.stdout.splitlines() == [
        "remove     b",
        "restore    a",
        "skipped    a  (What a was before is no longer stored.)",
    ]
    assert contents(shell.project) == {"a": "two"}


def test_the_folder_has_moved(shell):
    moved = shell.project.with_name("moved")
    shell.project.rename(moved)
    shell.project = moved
    done = shell.run("rewind", ID, "--turns", "1")
    assert done.returncode == 2
    assert "Name the session's folder with -C DIR" in done.stderr
    assert shell.run("rewind", ID, "--turns", "1", "--conversation").returncode == 0
    undone = shell.run("rewind", ID, "--turns", "1", "-C", ".")
    assert undone.returncode == 0
    assert contents(moved) == {"b": "x"}


def test_a_session_that_never_had_a_folder(shell):
    store = holdfast.open_store(shell.home)
    with store.create(session_id="20260102-030405-ccccdddd") as session:
        session.append(user("hello"))
    done = shell.run("rewind", "ccccdddd", "--turns", "1")
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        "The conversation continues from its beginning.",
    )


def test_folders_beside_the_workspace_are_those_that_are_configured(shell, tmp_path):
    beside = tmp_path / "beside"
    beside.mkdir()
    with holdfast.open_store(shell.home).open(ID) as session:
        prompt(session, shell.project, f"write: {beside}/a\nx", allowed=(beside,))
    assert (beside / "a").exists()
    done = shell.run("rewind", ID, "--turns", "1", "--dry-run")
    assert "is outside the workspace" in done.stdout
    shell.config.mkdir(parents=True, exist_ok=True)
    (shell.config / "config.toml").write_text(f'folders = ["{beside}"]\n')
    assert shell.run("rewind", ID, "--turns", "1").returncode == 0
    assert not (beside / "a").exists()


def test_a_session_by_its_path(shell, tmp_path):
    with holdfast.open_store(shell.home).open(ID, mode="read") as session:
        path = session.path
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    assert shell.run("rewind", str(elsewhere), "--turns", "1").returncode == 2, "who moved it?"
    assert shell.run("rewind", str(elsewhere), "--turns", "1", "--trust").returncode == 0
    assert contents(shell.project) == {"a": "one"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--to", "1", "--turns", "1"], 2, "not both"),
        (["--turns", "0"], 2, "--turns"),
        (["--to", "x"], 2, "--to"),
        (["--turns", "4"], 2, "this conversation has 3"),
        (["--to", "9999"], 2, "Entry 9999 is not on the current branch"),
        (["--to", "9999", "--conversation"], 2, "Entry 9999 is not on the current branch"),
        (["--to", "1", "-C", "nowhere"], 2, "Entry 1 is not on the current branch"),
    ],
)
def test_wrong_use(shell, words, code, said):
    done = shell.run("rewind", ID, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert contents(shell.project) == {"a": "two", "b": "x"}
    assert prompts(shell) == PROMPTS


def test_no_such_session(shell):
    assert shell.run("rewind", "zzzz").returncode == 1
    assert shell.run("rewind", "./zzzz").returncode == 1
    assert shell.run("rewind").returncode == 2


def test_a_session_that_is_held_can_be_looked_at(shell):
    source = f"session = store.open({ID!r})\nready()\n"
    with running(source, shell.home):
        assert shell.run("rewind", ID).returncode == 0
        assert shell.run("rewind", ID, "--turns", "1", "--dry-run").returncode == 0
        done = shell.run("rewind", ID, "--turns", "1")
        assert (done.returncode, done.stdout) == (75, "")
        assert "is being written by" in done.stderr
    assert contents(shell.project) == {"a": "two", "b": "x"}


def test_somebody_at_a_terminal_is_asked(shell):
    code, screen = shell.type("rewind", ID, "--turns", "1", answers={QUESTION: "\n"})
    assert code == 1
    assert "restore    a" in screen
    assert "Nothing was changed." in screen
    assert prompts(shell) == PROMPTS
    code, screen = shell.type("rewind", ID, "--turns", "1", "--json", answers={QUESTION: "n\n"})
    assert code == 1
    assert "restore    a" in screen
    code, screen = shell.type("rewind", ID, "--turns", "1", "--dry-run", answers={})
    assert code == 0
    code, screen = shell.type("rewind", ID, "--turns", "1", answers={QUESTION: "y\n"})
    assert code == 0
    assert contents(shell.project) == {"a": "one"}
    code, screen = shell.type("rewind", ID, "--turns", "1", "--yes", answers={})
    assert code == 0
    assert QUESTION not in screen
    assert prompts(shell) == PROMPTS[:1]


def test_a_name_that_would_move_the_cursor_is_harmless(shell):
    with holdfast.open_store(shell.home).open(ID) as session:
        prompt(session, shell.project, "write: \x1b[2Jevil\nx", "say: \x1b[2J")
    for words in ([], ["--turns", "2"]):
        done = shell.run("rewind", ID, *words)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout + done.stderr
    assert contents(shell.project) == {"a": "two", "b": "x"}


def test_a_command_that_still_runs_is_named(shell, eventually):
    source = f"""
import os
from pathlib import Path
from tests.runtime.rehearsal_session import prompt
session = store.open({ID!r})
session.on_entry(lambda entry: entry.type == "tool" and os.write(1, b"ready\\n"))
prompt(session, Path({str(shell.project)!r}),
    "run: touch begun; while [ ! -e stop ]; do sleep 0.01; done; touch stopped")
"""
    with running(source, shell.home) as agent:
        eventually((shell.project / "begun").exists)
        agent.kill()
    done = shell.run("rewind", ID, "--turns", "1", "--dry-run")
    (shell.project / "stop").touch()
    assert done.returncode == 0
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("Careful: bash “touch")]
    assert "is still running (process" in said
    eventually((shell.project / "stopped").exists)


def test_a_reader_that_has_gone(shell):
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [*PROGRAM, "rewind", ID],
            env=shell.environment,
            stdout=write_end,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(write_end)
    assert done.returncode == 141


HOOK_QUESTION = "Restore them, too? [y/N]: "


@pytest.mark.parametrize("answer", ["y", "n"])
def test_about_files_that_run_by_themselves_a_terminal_asks_separately(shell, answer):
    hook = shell.project / ".husky" / "pre-commit"
    with holdfast.open_store(shell.home).open(ID) as session:
        prompt(session, shell.project, "write: .husky/pre-commit\nx", ask=True)
    assert hook.exists()
    answers = {QUESTION: "y\n", HOOK_QUESTION: f"{answer}\n"}
    code, screen = shell.type("rewind", ID, "--turns", "1", answers=answers)
    assert code == 0
    assert "Other programs run these files automatically:\r\n  .husky/pre-commit" in screen
    assert hook.exists() == (answer == "n")
