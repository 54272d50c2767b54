"""Every command on every odd journal: a sentence and an exit code, never a traceback.

A healthy session stands beside the odd one in each home, and has to be there for every command that
lists, counts or searches. Commands run in this process: there are thousands of calls.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import holdfast
from holdfast import user
from holdfast.cli.main import cli
from holdfast.errors import HoldfastError
from tests.hostile import SESSION
from tests.odd_journals import FILES, put_odd

HEALTHY = "20260102-030405-aaaabbbb"
READING = [
    ["ls", "--all", "--json"],
    ["ls", "--all"],
    ["search", "needle"],
    ["search", "--substring", "eedl", "--json"],
    ["stats", "--json"],
    ["stats"],
    ["verify", SESSION],
    ["verify", SESSION, "--json"],
    ["doctor"],
    ["show", SESSION],
    ["show", SESSION, "--depth", "everything", "--json"],
    ["show", SESSION, "--seq", "2-999999999999999"],
    ["tail", SESSION],
    ["tail", SESSION, "--json", "--last", "1000"],
    ["tree", SESSION],
    ["path", SESSION],
    ["status"],
    *[
        ["export", SESSION, "-t", name]
        for name in (
            "markdown",
            "html",
            "json",
            "jsonl",
            "openai",
            "anthropic",
            "claude-code",
            "codex",
            "pi",
        )
    ],
    ["export", SESSION, "-t", "markdown", "--redact", "--strip-workspace"],
    ["export", SESSION, "-t", "holdfast", "-o", "{folder}/x.holdfast"],
    ["export", SESSION, "-t", "holdfast", "-o", "{folder}/y.holdfast", "--redact"],
    ["gc", "--dry-run", "--older-than", "1d"],
]
WRITING = [
    ["fork", SESSION],
    ["tag", SESSION, "x"],
    ["rename", SESSION, "another"],
    ["rewind", SESSION, "--turns", "1", "--conversation", "--yes"],
    ["trust", SESSION, "--yes"],
    ["gc", "--blobs", "--yes"],
    ["gc", "--compress", "--yes"],
    ["show", SESSION],
    ["verify", SESSION],
    ["rename", SESSION, "unpacked"],
    ["doctor", "--fix"],
    ["rm", SESSION, "--yes"],
    ["restore", SESSION],
    ["ls", "--all"],
]
PATIENCE_SECONDS = 300
LISTING = {"ls", "search", "stats"}


class Endless(BaseException):
    """A command has worked for so long that it will hardly ever end."""


@pytest.fixture
def safety_net() -> Iterator[None]:
    """Keep a command without an end from stopping all other tests."""

    def stop(*_: object) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def untidy(done: Result) -> str | None:
    """Return the traceback that a user would have seen, if any."""
    error = done.exception
    if error is None or isinstance(error, SystemExit | HoldfastError | click.ClickException):
        return None
    return "".join(traceback.format_exception(error))


@pytest.mark.usefixtures("safety_net")
@pytest.mark.parametrize("name", FILES)
def test_no_command_ends_in_a_traceback(name, tmp_path: Path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    with holdfast.open_store(home).create(session_id=HEALTHY) as session:
        session.append(user("needle of the healthy one"))
    put_odd(home, name)
    runner, found = CliRunner(), []
    for command in [*READING, *WRITING]:
        words = [word.replace("{folder}", str(tmp_path)) for word in command]
        done = runner.invoke(cli, words)
        if (seen := untidy(done)) is not None:
            found.append(f"{' '.join(words)}\n{seen[-1500:]}")
        elif words[0] in LISTING and words[0] != "stats" and HEALTHY[-8:] not in done.output:
            found.append(f"{' '.join(words)} does not show the healthy session: {done.output}")
        elif words[0] == "stats" and done.exit_code != 0:
            found.append(f"{' '.join(words)} exits with {done.exit_code}: {done.output}")
    assert not found, "\n".join(found)
