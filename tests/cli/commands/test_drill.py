"""A drill tells the truth: what survives, what does not, and what was left out."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from holdfast.drill.scenarios import SCENARIOS
from tests.cli.program import PROGRAM, Program, until

NAMES = [scenario.name for scenario in SCENARIOS]

# Defects of the program, each with the blow that must bring it to light and what is said then.
DEFECTS = {
    "streamed text is shown and not written": (
        "stream",
        "characters were on the screen",
        """
from holdfast.store.local.live import LiveFile
LiveFile.append = lambda self, events: None
""",
    ),
    "recovery takes every command for one that never ran": (
        "tool",
        "the first command was run 2 times",
        """
from holdfast.runtime.tools.shell import spool
spool.recover_folder = lambda folder, claim=True: spool.Recovered("never_ran", folder / "output")
""",
    ),
    "the turn ends with the terminal": (
        "hangup",
        "the second command was never run",
        """
import msgspec
from holdfast.runtime.config import load as config
load = config.load

def stopping(*words, **given):
    found = load(*words, **given)
    settings = msgspec.structs.replace(found.settings, on_hangup="stop")
    return msgspec.structs.replace(found, settings=settings)

config.load = stopping
""",
    ),
    "a full disk is taken for a written one": (
        "disk",
        "the program did not report that the disk is full",
        """
from holdfast.files import NO_ROOM, Files
write = Files.write

def pretending(self, descriptor, data):
    try:
        return write(self, descriptor, data)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        return len(data)

Files.in_one = False
Files.write = pretending
""",
    ),
    "SIGTERM ends the runner before anything is saved": (
        "sigterm",
        "characters were on the screen",
        """
import os
from holdfast.store.local.live import LiveFile
from holdfast.runtime.runner.runner import Runner
LiveFile.append = lambda self, events: None
Runner._told_to_end = lambda self, name: os._exit(1)
""",
    ),
}


def everything_with(path: Path) -> list[int]:
    """The processes that know a path from their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and str(path).encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def with_defect(program: Program, source: str) -> dict[str, str]:
    """An environment in which every process of the program has a defect."""
    folder = program.folder.parent / "defect"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(source)
    path = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), path]))}


def test_everything_survives_and_nothing_is_left_behind(program, tmp_path):
    base = tmp_path / "a folder with spaces"
    base.mkdir()
    run = program.start("drill", "--json", TMPDIR=str(base))
    assert run.process.stdout is not None
    drilled = json.loads(run.process.stdout.readline())
    assert (run.wait(), run.err) == (0, "")
    assert drilled["ok"] is True
    assert drilled["scratch"] is None
    assert [finding["name"] for finding in drilled["findings"]] == NAMES
    for finding in drilled["findings"]:
        assert (finding["state"], finding["problems"]) == ("survived", [])
        assert finding["survived_characters"] == finding["shown_characters"] > 200
        assert (finding["commands"] > 0, finding["run_twice"]) == (True, 0)
        moments = finding["moments"]
        assert 0 <= moments["blow"] <= moments["back"] <= moments["done"]
        assert finding["recovery_seconds"] > 0
    assert list(base.iterdir()) == []
    assert everything_with(base / "holdfast-drill") == []
    assert not program.home.exists()


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_brought_to_light(program, defect):
    name, told, source = DEFECTS[defect]
    done = program.run("drill", "--scenario", name, "--json", **with_defect(program, source))
    assert done.code == 1
    assert done.object["ok"] is False
    (finding,) = done.object["findings"]
    assert finding["state"] == "failed"
    assert any(told in problem for problem in finding["problems"]), finding["problems"]
    scratch = Path(done.object["scratch"])
    assert scratch.parent == program.temporary
    assert list(scratch.glob("*/*/sessions/*/*/journal.jsonl"))


def test_what_a_limit_stands_in_for_is_said_and_what_cannot_be_tried_is_never_passed(program):
    bin_folder = program.folder.parent / "bin"
    bin_folder.mkdir()
    (bin_folder / "unshare").write_text("#!/bin/sh\necho not allowed >&2\nexit 1\n")
    (bin_folder / "unshare").chmod(0o755)
    path = f"{bin_folder}:{os.environ['PATH']}"
    limited = program.run("drill", "--scenario", "disk", PATH=path)
    assert (limited.code, limited.err) == (0, "")
    assert "no small disk could be created here (not allowed)" in limited.out
    assert "Nothing was lost." in limited.out

    without = with_defect(program, "import resource\ndel resource.prlimit\n")
    left_out = program.run("drill", "--scenario", "disk", PATH=path, **without)
    assert left_out.code == 1
    assert "skipped" in left_out.out
    assert "Nothing was tried." in left_out.out
    assert list(program.temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_everything_that_was_started(program, number):
    run = program.start("drill", "--scenario", "tool")
    until(lambda: list(program.temporary.glob("*/tool/marks")), "the command")
    (scratch,) = program.temporary.iterdir()
    assert everything_with(scratch)
    run.send(number)
    assert (run.wait(), run.err) == (128 + number, "")
    assert everything_with(scratch) == []
    assert list(program.temporary.iterdir()) == []


def test_on_a_dumb_terminal_progress_and_report_are_plain_and_the_scratch_home_can_be_kept(program):
    ours, its = pty.openpty()
    environment = {**program.environment, "TERM": "dumb", "COLUMNS": "60"}
    words = [*PROGRAM, "drill", "--scenario", "disk", "--keep"]
    process = subprocess.Popen(words, stdout=its, stderr=its, env=environment)
    os.close(its)
    shown = b""
    while data := _read(ours):
        shown += data
    os.close(ours)
    assert process.wait() == 0
    lines = shown.decode("ascii").split("\r\n")
    assert lines[0] == "1 of 1: the disk is full"
    assert max(map(len, lines[:-2])) < 60  # but for the path at the end
    assert "\x1b" not in shown.decode()
    (scratch,) = program.temporary.iterdir()
    assert lines[-2] == f"The temporary home was kept: {scratch}"
    assert everything_with(scratch) == []


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # nobody has the terminal any more
        return b""


def test_an_unknown_scenario_is_refused(program):
    done = program.run("drill", "--scenario", "flood")
    assert done.code == 2
    assert "flood" in done.err
