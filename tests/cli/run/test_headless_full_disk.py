"""A disk that fills up in mid-turn: it is said at once, waited for, and nothing is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests.cli.program import results, turns, until
from tests.crash.lab.mounts import mounted, why_not

LONG = f"{'x' * 4095} " * 500  # more than the journal keeps in reserve


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    reason = why_not("tmpfs")
    if reason is not None:
        pytest.skip(f"A full disk was NOT tried: {reason}.")
    with mounted("tmpfs", tmp_path / "small", "size=32m,mode=0700") as folder:
        yield folder


def fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with pytest.raises(OSError, match="No space left"):
                while True:
                    file.write(b"\0" * size)
    return ballast


def started(program, small_disk):
    """A turn whose next answer will not have room."""
    program.home = small_disk / "state"
    program.environment["HOLDFAST_HOME"] = str(program.home)
    script = program.script(
        {
            "call": "bash",
            "arguments": {"command": "touch begun; while ! [ -e go ]; do sleep 0.02; done"},
        },
        {"say": LONG},
    )
    words = ["--script", script, "--allow-all", "--output-format", "stream-json"]
    run = program.start("-p", "go", *words)
    run.end_input()
    until((program.folder / "begun").exists)
    ballast = fill(small_disk)
    (program.folder / "go").touch()
    run.says("Disk full")
    return run, ballast


def test_a_disk_that_is_full_is_said_and_waited_for(program, small_disk):
    run, ballast = started(program, small_disk)
    assert run.process.poll() is None
    ballast.unlink()
    result = run.lines_until(type="result")[-1]
    assert run.wait() == 0
    assert result["text"] == LONG
    assert turns(program.journal()) == ["started", "completed"]
    assert results(program.journal()) == [("completed", "[no output]")]
    with holdfast.open_store(program.home) as store, store.open(result["session_id"]) as session:
        assert session.messages[-1].text == LONG
    assert program.run("verify", result["session_id"]).code == 0


def test_a_signal_while_a_full_disk_is_waited_for_ends_it_and_what_is_there_is_whole(
    program, small_disk
):
    run, ballast = started(program, small_disk)
    run.send(signal.SIGTERM)
    result = run.lines_until(type="result")[-1]
    assert run.wait() == result["exit_code"] == 128 + signal.SIGTERM
    ballast.unlink()
    assert program.run("verify", result["session_id"]).code == 0
    done = program.run("-c", "-p", "say: on", "--provider", "rehearsal")
    assert (done.code, done.out) == (0, "on\n")
