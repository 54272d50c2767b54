"""A command of the user's own is run when a turn has ended or waits, also with nobody there."""

from __future__ import annotations

import pytest

from tests.cli.program import Program, until

COMMAND = 'echo "$HOLDFAST_EVENT $HOLDFAST_SESSION $HOLDFAST_TITLE ${OPENAI_API_KEY-none}" >> told'


@pytest.fixture
def told(program: Program):
    """Return what the command was told, a list of words for each time."""
    path = program.folder / "told"
    config = program.folder / "settings"
    config.mkdir()
    command = COMMAND.replace(">> told", f">> '{path}'").replace('"', '\\"')
    (config / "config.toml").write_text(f'on_attention = "{command}"\n')
    program.environment["HOLDFAST_CONFIG"] = str(config)
    program.environment["OPENAI_API_KEY"] = "sk-of-nobody"

    def read() -> list[list[str]]:
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    return read


def test_it_is_called_when_a_turn_waits_and_when_it_ends(program, told):
    flags = ["--provider", "rehearsal", "--json"]
    done = program.run("-p", "run: touch x", "--detach", "-n", "Job", *flags)
    session = done.object["session_id"]
    until(lambda: len(told()) == 1, "waiting")
    assert told() == [["waiting", session, "Job", "none"]]
    program.run("approve", session, "--deny")
    until(lambda: len(told()) == 2, "completed")
    assert told()[1] == ["completed", session, "Job", "none"]
    program.run("stop", session)


def test_a_command_that_fails_is_no_failure_of_the_turn(program, told):
    config = program.folder / "settings" / "config.toml"
    config.write_text('on_attention = "exit 3"\n')
    flags = ["--provider", "rehearsal", "--json"]
    session = program.run("-p", "say: hi", "--detach", *flags).object["session_id"]
    program.run("attach", session, "--no-input")
    assert "hi" in program.run("attach", session, "--no-input").out
    program.run("stop", session)
