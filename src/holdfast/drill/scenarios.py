"""The blows: what each does to the program, and how one comes back from it.

A blow is struck at a moment that shows on the screen, never after a time, so that it falls in the
same place on every machine.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.drill.full_disk import disk_filled
from holdfast.drill.pty import StuckError, until
from holdfast.drill.results import Drilled, DrillResult
from holdfast.drill.sandbox import Sandbox, Scratch
from holdfast.drill.scripted_turn import FIRST, SECOND, SHORT, ScriptedTurn
from holdfast.errors import HoldfastError
from holdfast.version import __version__

_PART = 0.6  # of the text that is on the screen when the blow is struck
_EARLY_PART = 0.3
_LINES = 30


class Scenario(NamedTuple):
    """A blow: its name on the command line, what it is called, and what does it."""

    name: str
    title: str
    run: Callable[[Sandbox, str, str], DrillResult]


def killed_while_streaming(ground: Sandbox, name: str, title: str) -> DrillResult:
    """Kill runner and client in the middle of an answer; go on with the turn."""
    stage = ScriptedTurn(ground, cut=True)
    screen = stage.begin()
    runner = stage.runner()
    stage.let_it_stream(screen, _PART)
    screen.kill()  # first, so that nothing is shown behind the blow
    os.kill(runner, signal.SIGKILL)
    stage.struck(screen)
    stage.await_end(runner)
    stage.resume("--continue-turn")
    return stage.finding(name, title, [])


def killed_while_a_tool_runs(ground: Sandbox, name: str, title: str) -> DrillResult:
    """Kill runner and client under a command, which ends with nobody there; go on."""
    stage = ScriptedTurn(ground, text=SHORT, lines=_LINES)
    ground.put(f"{FIRST}-end")  # however slow the screen is, the command is not done yet
    screen = stage.begin()
    runner = stage.runner()
    ground.take(FIRST)
    screen.shows(f"line {_LINES // 2:02d}\n")
    screen.kill()
    os.kill(runner, signal.SIGKILL)
    stage.struck(screen)
    stage.await_end(runner)
    ground.take(f"{FIRST}-end")
    until(lambda: f"{FIRST} ended" in ground.marks(), "the end of the command left running")
    stage.resume("--continue-turn")
    return stage.finding(name, title, [])


def hung_up(ground: Sandbox, name: str, title: str) -> DrillResult:
    """Close the terminal under the client; attach another while the turn goes on."""
    stage = ScriptedTurn(ground)
    screen = stage.begin(answers=True)
    runner = stage.runner()
    stage.let_it_stream(screen, _EARLY_PART)
    stage.struck(screen)
    screen.hang_up()
    until(lambda: screen.process.poll() is not None, "the end of the client that was hung up on")
    start = time.monotonic()
    again = stage.attach()
    again.until(lambda: len(again.text) >= len(stage.shown), "what was on the screen")
    stage.came_back(start)
    problems = [] if stage.runner() == runner else ["the runner ended with the terminal"]
    ground.take(SECOND)
    again.whole()
    return stage.finding(name, title, problems)


def told_to_end(ground: Sandbox, name: str, title: str) -> DrillResult:
    """Send the runner SIGTERM in the middle of an answer; ask again in the same session."""
    stage = ScriptedTurn(ground, cut=True)
    screen = stage.begin()
    runner = stage.runner()
    stage.let_it_stream(screen, _PART)
    stage.struck(screen)
    os.kill(runner, signal.SIGTERM)
    screen.kill()  # it would start another, should this one not say that it leaves
    stage.await_end(runner)
    stage.resume("again")
    return stage.finding(name, title, [])


SCENARIOS = (
    Scenario("stream", "kill -9 while it streams", killed_while_streaming),
    Scenario("tool", "kill -9 while a tool runs", killed_while_a_tool_runs),
    Scenario("hangup", "the terminal is closed", hung_up),
    Scenario("disk", "the disk is full", disk_filled),
    Scenario("sigterm", "SIGTERM while it streams", told_to_end),
)


def held(scenario: Scenario, scratch: Scratch) -> DrillResult:
    """Hold one scenario; whatever goes wrong is a finding."""
    try:
        with scratch.ground(scenario.name) as ground:
            return scenario.run(ground, scenario.name, scenario.title)
    except (StuckError, HoldfastError, OSError) as error:
        told = [str(error)]
        return DrillResult(scenario.name, scenario.title, "failed", problems=told)


def drill(
    scenarios: Sequence[Scenario], tell: Callable[[str], object], *, keep: bool = False
) -> Drilled:
    """Hold scenarios, one after the other; ``tell`` hears of each before it begins.

    The scratch home is kept if something failed, or if that is wished; never after an interrupt.
    """
    began = time.monotonic()
    scratch = Scratch()
    kept = False
    try:
        findings: list[DrillResult] = []
        for number, scenario in enumerate(scenarios, 1):
            tell(f"{number} of {len(scenarios)}: {scenario.title}")
            findings.append(held(scenario, scratch))
        kept = keep or any(finding.state == "failed" for finding in findings)
        return Drilled(
            version=__version__,
            seconds=round(time.monotonic() - began, 3),
            findings=findings,
            scratch=str(scratch.folder) if kept else None,
        )
    finally:
        if not kept:
            scratch.remove()
