"""kill -9 at every operation of a turn: the next process knows, and nothing is done twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.recovery import Interrupted, left_running
from holdfast.runtime.agent.turn import Outcome
from tests.runtime.bench import Bench, comes_before_the_end, results, text_of
from tests.runtime.killed_process import CHANGE
from tests.runtime.killed_process import COMMAND as START
from tests.runtime.killed_turn import ENDINGS
from tests.runtime.tools.desk import alive

ROOT = Path(__file__).parents[3]
WORKERS = 2
SESSION = "20260101-000000-sleepera"
SLEEPER = """
import asyncio, sys
from pathlib import Path
from holdfast.model.message import Text
from tests.runtime.bench import Bench

folder, session_id, prompt = sys.argv[1:]
bench = Bench(Path(folder))

async def main(session):
    await bench.agent(session).prompt([Text(text=prompt)])

with bench.store.create(workspace=bench.workspace, session_id=session_id) as session:
    asyncio.run(main(session))
"""
COMMAND = "echo ready; until [ -e go ]; do sleep 0.01; done; echo end | tee -a log"

pytestmark = pytest.mark.crash


def played(folder: Path, when: str, ending: str) -> list[dict[str, Any]]:
    """Play every case of an ending, in a few processes at once."""
    words = [str(folder), str(WORKERS), when, ending]
    command = [sys.executable, "-m", "tests.runtime.killed_turn", *words]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in said.splitlines()]


@pytest.mark.parametrize(("when", "ending"), ENDINGS, ids=map(" ".join, ENDINGS))
def test_a_turn_that_is_killed_at_any_operation_is_known_and_can_be_gone_on_with(
    tmp_path, when, ending
):
    cases = played(tmp_path, when, ending)
    wrong = [f"{case['case']}: {each}" for case in cases for each in case["complaints"]]
    assert wrong == []
    # That it was no turn of straw: nearly all was met (the rest depends on how threads meet),
    # and the calls were in every state that a kill of this process alone leaves them in for long.
    met = [case["case"] for case in cases if case["killed"]]
    assert len(met) > 0.9 * len(cases) > 82
    if (when, ending) != ("after", "continue"):
        for name in ("write journal.jsonl 7", "rename .new-* 1", f"{START} 2", f"{CHANGE} 1"):
            assert f"{when} {name}, {ending}" in met
    assert {"completed", "never_ran"} <= {state for case in cases for state in case["states"]}


@pytest.fixture
def orphaned(tmp_path: Path, eventually: Callable[..., None]) -> Iterator[Bench]:
    """A session whose agent was killed while its command ran; it runs until there is ``go``."""
    bench = Bench(tmp_path)
    bench.id = SESSION
    agent = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(tmp_path), SESSION, f"run: {COMMAND}"], cwd=ROOT
    )
    live = tmp_path / "home" / "sessions" / "2026-01" / SESSION / "live.jsonl"
    try:
        eventually(lambda: live.exists() and "ready" in live.read_text())
    finally:
        agent.kill()
        agent.wait()
    yield bench
    bench.file("go").touch()


def interrupted(bench: Bench) -> Interrupted:
    found = bench.run(lambda agent: agent.interrupted())
    assert found is not None
    return found


def process_of(bench: Bench) -> int:
    """Return the process of the command."""
    (call,) = interrupted(bench).calls
    assert call.pid is not None
    return call.pid


def once_waiting(bench: Bench, act: Callable[[Agent], None]) -> Outcome:
    """Continue, and act as soon as people are told what is waited for."""
    waiting = asyncio.Event()

    async def main(agent: Agent) -> Outcome | None:
        going_on = asyncio.ensure_future(agent.continue_turn())
        await comes_before_the_end(waiting, going_on)
        act(agent)
        return await going_on

    outcome = bench.run(main, tell=lambda text: waiting.set() if "running" in text else None)
    assert outcome is not None
    return outcome


def lines(bench: Bench) -> list[str]:
    return bench.file("log").read_text().splitlines() if bench.file("log").exists() else []


def test_a_command_that_still_runs_is_reported_with_its_process(orphaned):
    found = interrupted(orphaned)
    (call,) = found.calls
    assert (call.state, lines(orphaned)) == ("running", [])
    assert call.pid is not None
    assert alive(call.pid)
    assert str(found).splitlines() == [
        f"The last turn was interrupted: “run: {COMMAND}”",
        f"  bash “{COMMAND}” is still running (process {call.pid})",
    ]


def test_waiting_for_it_gives_the_whole_output(orphaned):
    outcome = once_waiting(orphaned, lambda _: orphaned.file("go").touch())
    assert outcome.state == "completed"
    result = results(orphaned.entries())["call-1-1"]
    assert (result.outcome, text_of(result)) == ("completed", "ready\nend\n")
    assert lines(orphaned) == ["end"]


def test_one_that_ended_before_the_next_start_is_completed(orphaned, eventually):
    pid = process_of(orphaned)
    orphaned.file("go").touch()
    eventually(lambda: not alive(pid) and lines(orphaned))
    eventually(lambda: interrupted(orphaned).calls[0].state != "running")
    found = interrupted(orphaned)
    assert [str(call) for call in found.calls] == [f"bash “{COMMAND}” completed"]
    outcome = orphaned.run(lambda agent: agent.continue_turn())
    assert outcome.state == "completed"
    result = results(orphaned.entries())["call-1-1"]
    assert (result.outcome, text_of(result)) == ("completed", "ready\nend\n")
    assert lines(orphaned) == ["end"]


def test_cancelling_while_it_is_waited_for_ends_the_command(orphaned, eventually):
    pid = process_of(orphaned)
    outcome = once_waiting(orphaned, lambda agent: agent.cancel("enough"))
    assert (outcome.state, outcome.cause) == ("cancelled", "enough")
    assert results(orphaned.entries())["call-1-1"].outcome == "cancelled"
    eventually(lambda: not alive(pid))
    assert lines(orphaned) == []


def test_a_new_prompt_leaves_it_running_and_says_so(orphaned, eventually):
    pid = process_of(orphaned)
    outcome = orphaned.prompt("say: something else")
    assert outcome.state == "completed"
    result = results(orphaned.entries())["call-1-1"]
    assert (result.outcome, text_of(result)) == (
        "unknown",
        f"ready\n[the command is still running as process {pid}]",
    )
    assert alive(pid)
    orphaned.file("go").touch()
    eventually(lambda: lines(orphaned) == ["end"])


def test_when_its_wrapper_was_killed_too_nobody_knows_and_it_is_not_run_again(orphaned, eventually):
    pid = process_of(orphaned)
    os.kill(os.getsid(pid), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: interrupted(orphaned).calls[0].state == "unknown")
    outcome = orphaned.run(lambda agent: agent.continue_turn())
    assert outcome.state == "completed"
    result = results(orphaned.entries())["call-1-1"]
    assert result.outcome == "unknown"
    assert text_of(result).startswith("ready\n[the command is gone and left no status")
    assert lines(orphaned) == []


def test_what_still_runs_can_be_ended_before_anything_else(orphaned):
    pid = process_of(orphaned)
    assert orphaned.run(lambda agent: agent.end_running()) == 1
    assert not alive(pid)
    assert interrupted(orphaned).calls[0].state == "cancelled"
    assert orphaned.prompt("say: something else").state == "completed"
    result = results(orphaned.entries())["call-1-1"]
    assert (result.outcome, text_of(result)) == ("cancelled", "ready\n[cancelled]")
    assert lines(orphaned) == []
    assert orphaned.run(lambda agent: agent.end_running()) == 0


def test_what_an_earlier_turn_left_running_can_still_be_ended(orphaned):
    pid = process_of(orphaned)
    assert orphaned.prompt("say: something else").state == "completed"
    with orphaned.session() as session:
        (left,) = left_running(session)
        assert left.processes[-1].pid == pid
    assert orphaned.run(lambda agent: agent.end_running()) == 1
    assert not alive(pid)
    with orphaned.session() as session:
        assert left_running(session) == []
        assert not list((session.path / "spool").glob("*"))
