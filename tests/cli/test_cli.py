"""The command line as a shell sees it: output, one sentence for a mistake, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

FIRST = "20260102-030405-aaaabbbb"
PROGRAM = [sys.executable, "-c", "from holdfast.cli.main import main; main()"]


@pytest.fixture
def holdfast_command(home):
    """Run the command on the test's home; return the finished process."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *words],
            env={**os.environ, "HOLDFAST_HOME": str(home), "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def put(store: holdfast.Store, text: str = "hello", *, session_id: str | None = None) -> Path:
    with store.create(session_id=session_id) as session:
        session.append(holdfast.user(text))
    return session.path / "journal.jsonl"


def test_the_installed_command_says_its_version():
    command = Path(sys.executable).with_name("holdfast")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"holdfast {holdfast.__version__}\n"


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["ls", "--help"], ["verify", "-h"]])
def test_help(holdfast_command, words, home):
    done = holdfast_command(*words)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: holdfast")
    assert done.stderr == ""
    assert not home.exists()


def test_help_groups_the_commands_by_purpose(holdfast_command):
    lines = holdfast_command("--help").stdout.splitlines()
    groups: dict[str, list[str]] = {}
    for line in lines[1:]:
        if line.endswith(":") and not line.startswith(" "):
            groups[line] = []
        elif groups and line.strip():
            groups[[*groups][-1]].append(line.split()[0])
    assert [*groups][:5] == ["Talk:", "Background:", "Library:", "Repair:", "Set-up:"]
    options = groups.pop("Options of the chat and of -p:")
    assert {"-c,", "--detach", "--version"} <= set(options)
    assert groups["Talk:"][:2] == ["(no", "-p"]
    assert "stop" in groups["Background:"]
    assert {"ls", "search"} <= set(groups["Library:"])
    assert groups["Repair:"] == ["doctor", "verify", "drill"]
    assert "login" in groups["Set-up:"]
    assert max(map(len, lines)) <= 80


def test_ls_shows_sessions_and_makes_nothing_where_there_are_none(holdfast_command, store, home):
    done = holdfast_command("ls")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not home.exists()
    put(store, "fix the build", session_id=FIRST)
    done = holdfast_command("ls")
    assert done.returncode == 0
    assert done.stdout.split(maxsplit=3) == [FIRST, "clean", "1", "fix the build\n"]


def test_ls_says_how_many_it_does_not_show(holdfast_command, store):
    for _ in range(3):
        put(store)
    done = holdfast_command("ls", "--limit", "2")
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == "2 shown · 1 more (--all)\n"
    done = holdfast_command("ls", "--limit", "2", "--all")
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == ""


def test_ls_as_json_has_every_field(holdfast_command, store):
    put(store, "lone \ud800", session_id=FIRST)
    done = holdfast_command("ls", "--json")
    (shown,) = [json.loads(line) for line in done.stdout.splitlines()]
    (summary,) = store.list()
    assert set(shown) == set(summary.__struct_fields__)
    assert shown["id"] == FIRST
    assert shown["state"] == "clean"
    assert shown["messages"] == 1
    assert shown["title"] == "lone \ud800"


def test_ls_shows_damage_and_no_control_characters(holdfast_command, store):
    put(store, "\x1b[2J\x07 bell and\u202e more")
    put(store).write_bytes(b"\0")
    done = holdfast_command("ls")
    assert done.returncode == 0
    assert "damaged" in done.stdout
    assert "cannot be read: not a journal" in done.stdout
    assert "[2J" in done.stdout
    assert all(letter.isprintable() or letter == "\n" for letter in done.stdout)


def test_verify_an_intact_session(holdfast_command, store):
    journal = put(store, session_id=FIRST)
    done = holdfast_command("verify", "aaaab")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{FIRST}: 2 entries, {journal.stat().st_size} bytes, intact\n"
    done = holdfast_command("verify", FIRST, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["problems"] == []


def test_verify_a_damaged_session_exits_65(holdfast_command, store):
    journal = put(store, session_id=FIRST)
    journal.write_bytes(journal.read_bytes().replace(b"hello", b"HELLO"))
    done = holdfast_command("verify", FIRST)
    assert done.returncode == 65
    assert done.stdout.startswith("edited")
    assert done.stdout.endswith("1 problem(s)\n")
    done = holdfast_command("verify", FIRST, "--json")
    assert done.returncode == 65
    assert json.loads(done.stdout)["problems"][0]["kind"] == "edited"


def test_verify_what_is_not_a_journal_exits_65_with_one_sentence(holdfast_command, store):
    put(store, session_id=FIRST).write_bytes(b"Dear diary")
    done = holdfast_command("verify", FIRST)
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr.startswith("holdfast: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["verify", "zzzz"], 1, "No session has 'zzzz' in its id"),
        (["verify", FIRST], 1, "There is no session"),
        (["verify", "../x"], 1, "There is no session at '../x'"),
    ],
)
def test_a_mistake_gets_one_sentence(holdfast_command, home, words, code, said):
    done = holdfast_command(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("holdfast: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert not home.exists()


@pytest.mark.parametrize(
    "words",
    [["bogus"], ["verify"], ["ls", "--bogus"], ["ls", "--limit", "x"], ["ls", "--limit", "-1"]],
)
def test_wrong_usage_gets_one_sentence_and_exits_2(holdfast_command, words):
    done = holdfast_command(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("holdfast: ")
    assert done.stderr.count("\n") == 1


def test_nothing_at_all_without_a_terminal_gets_one_sentence(holdfast_command):
    done = holdfast_command()
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == "holdfast: A chat needs a terminal. Without one, use holdfast -p PROMPT.\n"
    )


def test_a_home_that_cannot_be_read_gets_one_sentence(holdfast_command, home):
    home.write_bytes(b"a file")
    done = holdfast_command("ls")
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot be listed" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [["ls", "--all"], ["ls", "--json"], ["verify", FIRST]])
def test_a_reader_that_has_gone_ends_the_command_quietly(store, home, words):
    put(store, session_id=FIRST)
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [*PROGRAM, *words],
            env={**os.environ, "HOLDFAST_HOME": str(home)},
            stdout=write_end,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_interrupt_exits_130(home, store):
    put(store)
    code = """
import holdfast
def interrupt(*_, **__):
    raise KeyboardInterrupt
from holdfast.store.catalog.index import Index
Index.page = interrupt
import sys
sys.argv = ["holdfast", "ls"]
from holdfast.cli.main import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HOLDFAST_HOME": str(home)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 130
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["ls"], ["status"], ["config"]])
def test_an_output_without_room_gets_one_sentence(program, words):
    assert program.run("-p", "say: hello").code == 0
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PROGRAM, *words],
            env=program.environment,
            cwd=program.folder,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    if words != ["status"]:  # which has nothing to say there
        assert done.returncode == 1
        assert done.stderr == b"holdfast: Cannot write to standard output: the disk is full.\n"
    assert b"Traceback" not in done.stderr
