"""A command whose wrapper, or which itself, is killed at one step of the wrapper's life.

A step is a call of the wrapper to the system that others can see the effect of. The wrapper is the
real one, started by the real tool of a real agent; only its source is handed over with a few lines
that count its steps and kill. With ``alone`` the agent is killed first, and another one goes on.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import signal
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any

import holdfast
from holdfast.model.entry import Turn
from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.policy.policy import Policy
from holdfast.runtime.tools.shell import bash
from holdfast.runtime.tools.shell.bash import Bash
from tests.crash.lab.layer import Plan
from tests.crash.lab.stage import Stage
from tests.crash.lab.tally import Tally
from tests.crash.lab.terminals import until
from tests.crash.lab.witness import Witness
from tests.runtime.bench import FakeProvider, calling, entries_of, results, saying, text_of

WHO = ("wrapper", "command")
SAID = "begun\nended\n"
_CALL = "call-1"
_COMMAND = "echo ran >> {}; echo begun; sleep 0.1; echo ended"
_PLAY = f"{__name__}:act"
_MAIN = b'if __name__ == "__main__":'
_STRIKE = """
def _count_steps(strike_at, who, alone, steps):
    wrapper, parent, kill, note = os.getpid(), os.getppid(), os.kill, open(steps, "a", buffering=1)
    count, child = [0], [0]

    def counted(name):
        real = getattr(os, name)

        def call(*given):
            if os.getpid() == wrapper:
                count[0] += 1
                note.write(name + "\\n")
                if count[0] == strike_at:
                    if alone:
                        kill(parent, signal.SIGKILL)
                    kill(wrapper if who == "wrapper" else child[0], signal.SIGKILL)
            result = real(*given)
            if name == "fork" and result:
                child[0] = result
            return result

        setattr(os, name, call)

    for name in "open pipe fork setpgid write fsync link unlink rename waitpid".split():
        counted(name)


_count_steps({strike_at}, {who!r}, {alone}, {steps!r})
"""


def act(home: Path, witness: Witness, strike_at: int, who: str, *, alone: bool, steps: str) -> None:
    """On stage: run a turn with one command, whose wrapper meets a strike."""
    del witness
    lines = _STRIKE.format(strike_at=strike_at, who=who, alone=alone, steps=steps).encode()
    source = bash._WRAPPER.source
    assert source.count(_MAIN) == 1, "the wrapper does not begin as it did"
    bash._WRAPPER.source = source.replace(_MAIN, lines + _MAIN)
    store = holdfast.open_store(home / "home")
    command = _COMMAND.format(shlex.quote(str(home / "effect")))
    provider = FakeProvider(calling((_CALL, "bash", {"command": command})), saying("Done."))
    with store.create(workspace=home) as session:
        _run(session, home, provider, lambda agent: agent.prompt([holdfast.Text(text="Go.")]))


def _run(
    session: holdfast.Session,
    home: Path,
    provider: FakeProvider,
    work: Callable[[Agent], Coroutine[Any, Any, Any]],
) -> None:
    async def main() -> None:
        agent = Agent(
            TurnServices(
                session=session,
                provider=provider,
                model="none",
                workspace=home,
                tools={"bash": Bash()},
                policy=Policy("allow-all"),
            )
        )
        try:
            await work(agent)
        finally:
            await agent.close()

    asyncio.run(main())


@cache
def steps_of(plan: Plan) -> list[str]:
    """Return the steps of a wrapper that nobody strikes."""
    folder = plan.scratch / "the steps of a wrapper"
    with Stage(plan) as stage:
        try:
            tally = struck(stage, folder, 0, WHO[0], alone=False)
            assert not tally.failed, tally.failures
            return _steps_in(folder)
        finally:
            shutil.rmtree(folder)


def cases(plan: Plan) -> list[str]:
    """Return a case for each step and each who can be killed at it, watched and alone."""
    steps = steps_of(plan)
    born, ended = steps.index("fork") + 1, steps.index("waitpid") + 1
    strikes = [("wrapper", number) for number in range(1, len(steps) + 1)]
    strikes += [("command", number) for number in range(born + 1, ended + 1)]
    return [f"{who}{alone} {number}" for who, number in strikes for alone in ("", " alone")]


def _steps_in(folder: Path) -> list[str]:
    note = folder / "steps"
    return note.read_text().split() if note.exists() else []


def struck(stage: Stage, folder: Path, strike_at: int, who: str, *, alone: bool) -> Tally:
    """Play with one strike, and judge what came of it; the folder is left to the caller."""
    folder.mkdir(parents=True)
    tally = Tally(cases=1)
    options = {"strike_at": strike_at, "who": who, "alone": alone}
    played = stage.play(folder, play=_PLAY, options={**options, "steps": str(folder / "steps")})
    expected = -signal.SIGKILL if alone else 0
    if strike_at and played.status != expected:
        tally.break_(f"the agent ended with {played.status}, not {expected}: {played.said}")
    if strike_at > len(_steps_in(folder)):
        tally.err(f"there is no step {strike_at}")
    effect = folder / "effect"
    if alone:
        _go_on(folder)
    until(lambda: not _processes_about(effect), "the end of the command")
    _judge(folder, effect, tally)
    tally.count(f"{who} killed, {'the agent too' if alone else 'its agent watching'}")
    return tally


def _go_on(folder: Path) -> None:
    """Go on with the turn, as another agent does."""
    store = holdfast.open_store(folder / "home")
    (session_id,) = store.ids()
    with store.open(session_id) as session:
        provider = FakeProvider(saying("Done."))
        _run(session, folder, provider, lambda agent: agent.continue_turn())


def _processes_about(effect: Path) -> list[int]:
    """Return the processes that have a path in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(effect).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    return found


def _judge(folder: Path, effect: Path, tally: Tally) -> None:
    """Hold what the journal says of the command to what it did."""
    store = holdfast.open_store(folder / "home")
    (session_id,) = store.ids()
    with store.open(session_id, mode="read") as session:
        entries = entries_of(session)
    tally.acknowledged += len(entries)
    ends = [each.body.state for each in entries if isinstance(each.body, Turn)]
    if ends[-1:] != ["completed"]:
        tally.break_(f"the turn went {ends}")
    times = len(effect.read_text().splitlines()) if effect.exists() else 0
    if times > 1:
        tally.repeat(f"the command has run {times} times")
    result = results(entries).get(_CALL)
    if result is None:
        tally.lose("the command has no result")
        return
    text, outcome = text_of(result), result.outcome
    if outcome == "completed" and (times, text) != (1, SAID):
        tally.break_(f"completed, it is said, after {times} times: {text!r}")
    # A command that was never let go is told from one that may have done something.
    if times and (outcome == "never_ran" or "could not be started" in text):
        tally.break_(f"it has run, and is said to be {outcome}: {text!r}")
    if outcome not in ("completed", "failed", "unknown"):
        tally.break_(f"a command that was struck is {outcome}: {text!r}")
