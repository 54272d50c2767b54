"""What a shell is offered: commands, options, sessions, tags."""

import os
import subprocess
import sys

import pytest

import holdfast
from tests.cli.kept import BUILD, DOCS, HOSTILE, put
from tests.cli.program import Program


def offered(program: Program, *words: str, shell: str = "bash") -> str:
    line = " ".join(["holdfast", *words])
    done = program.run(
        _HOLDFAST_COMPLETE=f"{shell}_complete", COMP_WORDS=line, COMP_CWORD=str(len(words))
    )
    assert (done.code, done.err) == (0, "")
    return done.out


def completed(program: Program, *words: str) -> list[str]:
    return [line.partition(",")[2] for line in offered(program, *words).splitlines() if line]


@pytest.fixture
def program(program):
    put(program, BUILD, title="fix the build", tags=["release", "two words", "$(reboot)"])
    put(program, DOCS, title=HOSTILE, tags=["remote"])
    return program


def test_commands_are_offered_at_the_first_word(program):
    assert completed(program, "sh") == ["show"]
    assert set(completed(program, "re")) == {"rename", "restore", "rewind"}
    assert {"ls", "show", "gc", "completion", "import"} <= set(completed(program, "''"))
    assert "ask" not in completed(program, "''")
    assert "Show a conversation." in offered(program, "sh", shell="zsh")


def test_options_are_offered(program):
    options = completed(program, "-")
    assert {"-r", "--resume", "-p", "--help", "--version"} <= set(options)
    assert len(options) == len(set(options))
    assert completed(program, "gc", "--old") == ["--older-than"]
    assert completed(program, "-c", "--mod") == ["--model"]
    assert completed(program, "ls", "--state", "int") == ["interrupted"]
    assert completed(program, "shwo", "x") == []


@pytest.mark.parametrize(
    "words",
    [
        *(["-r"], ["--resume"], ["-p", "x", "-S"]),
        *([verb] for verb in ("show", "attach", "send", "stop", "cancel", "approve", "rewind")),
        *([verb] for verb in ("verify", "tree", "rm", "tag", "rename", "fork", "path", "tail")),
    ],
)
def test_sessions_are_offered(program, words):
    assert completed(program, *words, "2026010") == [DOCS, BUILD]


@pytest.mark.parametrize(("word", "ids"), [("aaaab", [BUILD]), ("FIX", [BUILD]), ("zzz", [])])
def test_sessions_are_offered_by_their_ids_never_by_titles_of_several_words(program, word, ids):
    assert completed(program, "show", word) == ids


def test_titles_are_told_and_harmless(program):
    told = offered(program, "show", "2026010", shell="zsh")
    assert "fix the build" in told
    assert all(each.isprintable() or each == "\n" for each in told)


@pytest.mark.parametrize("words", [["ls", "--tag"], ["rm", "--tag"], ["tag", BUILD]])
def test_tags_are_offered_if_they_are_one_word(program, words):
    assert completed(program, *words, "''") == ["release", "remote"]
    assert completed(program, *words, "rel") == ["release"]


def test_what_is_in_the_trash_is_offered_to_restore(program):
    assert completed(program, "restore", "2026") == []
    program.run("rm", BUILD, DOCS, "--yes")
    assert completed(program, "restore", "2026") == [DOCS, BUILD]
    assert completed(program, "restore", "aaaab") == [BUILD]
    assert "fix the build" in offered(program, "restore", "aaaab", shell="zsh")
    assert completed(program, "show", "2026") == []


def test_a_store_that_cannot_be_read_offers_nothing(program):
    holdfast.open_store(program.home).delete(BUILD)
    for name in ("sessions", "trash"):
        (program.home / name).rename(program.home / f"{name}.away")
        (program.home / name).write_bytes(b"")
    for words in (["show", "2026"], ["ls", "--tag", "r"], ["restore", "2026"]):
        assert completed(program, *words) == []


def test_bash_completes_with_it(program):
    script = program.run("completion", "bash").out
    asked = f"""
        {script}
        COMP_WORDS=(holdfast show aaaab) COMP_CWORD=2
        _holdfast_completion holdfast
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    program.folder.joinpath("holdfast").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n'
    )
    program.folder.joinpath("holdfast").chmod(0o755)
    path = f"{program.folder}{os.pathsep}{program.environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", asked],
        env=program.environment | {"PATH": path},
        cwd=program.folder,
        capture_output=True,
        check=False,
    )
    assert done.stdout.decode().split() == [BUILD], done.stderr.decode()
