"""A turn that is killed at one operation on its session's folder, and what the next process finds.

Run as ``python -m tests.runtime.killed_turn FOLDER WORKERS before|after ENDING``: lets the turn run
a few times to see its operations, kills it before or after each of them, goes on in one way, and
prints a JSON object for each case. Every turn, and everything that is done about it afterwards,
runs in a fork of its own; sessions are opened behind the fork. A worker takes in whatever they
leave running, so that it can wait for the last command before it counts what the commands did.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast
from holdfast.model.entry import Entry
from holdfast.model.message import Text, ToolCall, ToolResult
from holdfast.runtime.agent import context
from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.recovery import examine
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.policy.policy import Policy
from holdfast.runtime.providers import anthropic_request, openai_request
from holdfast.runtime.providers.rehearsal import Rehearsal
from holdfast.runtime.tools.shell import wrapper
from tests.disk import FakeUnsyncedFiles
from tests.runtime.killed_process import Fate, make_mortal
from tests.runtime.request_validators import anthropic_complaints, openai_complaints

PROMPT = """parallel:
run: echo said; sleep 0.05; echo one >> one
run: echo two >> two

write: three
hello
"""
EFFECTS = {
    "echo said; sleep 0.05; echo one >> one": "one",
    "echo two >> two": "two",
    "three": "three",
}
# Just after one operation is just before the next, but for what is no operation: so the ways to go
# on are shared out between the two.
ENDINGS = (
    ("before", "continue"),
    ("before", "settle"),
    ("after", "continue"),
    ("after", "look and settle"),
)
_PR_SET_CHILD_SUBREAPER = 36
_LONGEST_SECONDS = 60
# Threads meet, or do not: two results may share a write, a folder may be made by the other call.
_RUNS = 3
_ATTEMPTS = 4


def equipment(session: holdfast.Session, workspace: Path) -> TurnServices:
    return TurnServices(
        session=session,
        provider=Rehearsal(),
        model="rehearsal",
        workspace=workspace,
        system="Be exact.",
        policy=Policy("allow-all"),
    )


def live(folder: Path, at: str, *, after: bool, say: Callable[[str], None]) -> None:
    """Run the turn, to its end or to operation ``at``; ``say`` hears of every durable entry."""
    files = make_mortal(Fate(at, after=after, say=say), folder)
    store = holdfast.open_store(folder / "home", files=files)
    with store.create(workspace=folder / "work") as session:
        session.on_entry(lambda entry: say(f"durable {entry.seq} {entry.sum.decode()}"))
        agent = Agent(equipment(session, folder / "work"))
        outcome = asyncio.run(agent.prompt([Text(text=PROMPT)]))
    say(outcome.state)


class Aftermath:
    """What the next process finds and does; ``complaints`` are what it must not be."""

    def __init__(self, folder: Path, heard: list[str]) -> None:
        self._folder = folder
        self._durable = dict(line.split()[1:] for line in heard if line.startswith("durable"))
        self.complaints: list[str] = []
        self.states: dict[str, str] = {}
        self.outcomes: dict[str, str] = {}
        self.report = ""

    def find(self, ending: str) -> None:
        store = holdfast.open_store(self._folder / "home", files=FakeUnsyncedFiles())
        ids = [summary.id for summary in store.list()]
        if not ids:
            self._expect(not self._durable, f"there is no session, but {self._durable} was durable")
            return
        with store.open(ids[0]) as session:
            self._hold_promises(session)
            self._check_request(session, "before")
            asyncio.run(self._go_on(Agent(equipment(session, self._folder / "work")), ending))
            self._check_request(session, "after")
            self._read_outcomes(session)
            leftover = [str(path) for path in (session.path / "spool").glob("*")]
            if ending == "continue" or "running" not in self.states.values():
                self._expect(not leftover, f"left in the spool: {leftover}")
        self._expect(store.verify(ids[0]).ok, "verify finds damage")

    async def _go_on(self, agent: Agent, ending: str) -> None:
        with_ = equipment(agent.session, self._folder / "work")
        looked = examine(with_, claim=False)
        found = await agent.interrupted()
        self._expect(
            (looked is None) == (found is None), "whether it was interrupted depends on the claim"
        )
        if found is not None:
            self.report = str(found)
            self.states = {one.subject: one.state for one in found.calls}
        if ending == "continue":
            outcome = await agent.continue_turn()
            self._expect((outcome is None) == (found is None), "it is not continued")
        else:
            if ending == "look and settle":
                wait_for_siblings()
            settled = await agent.settle()
            self._expect((settled is None) == (found is None), "it is not settled")
            outcome = await agent.prompt([Text(text="say: hi")])
        self._expect(outcome is None or outcome.state == "completed", f"it ended as {outcome}")
        self._expect(examine(with_) is None, "it is interrupted still")
        await agent.close()

    def _hold_promises(self, session: holdfast.Session) -> None:
        with session.follow(wait=False) as follower:
            there = {str(one.seq): one.sum.decode() for one in follower if isinstance(one, Entry)}
        lost = self._durable.items() - there.items()
        self._expect(not lost, f"acknowledged and lost: {lost}")

    def _check_request(self, session: holdfast.Session, when: str) -> None:
        messages = session.context()
        frame = equipment(session, self._folder / "work").frame
        for provider, judge in (("anthropic", _anthropic), ("openai", _openai)):
            framed = context.Frame(
                provider=provider, model="some-model", system=frame.system, tools=frame.tools
            )
            for complaint in judge(context.build(messages, framed)):
                self.complaints.append(f"{provider}, {when}: {complaint}")

    def _read_outcomes(self, session: holdfast.Session) -> None:
        """Note the last outcome that the journal has of each call."""
        subjects: dict[str, str] = {}
        for message in session.messages:
            for part in message.content:
                if isinstance(part, ToolCall) and isinstance(part.arguments, dict):
                    values = part.arguments
                    subjects[part.id] = values.get("command") or values.get("path", "")
                elif isinstance(part, ToolResult):
                    self.outcomes[subjects[part.call_id]] = part.outcome

    def _expect(self, fine: bool, complaint: str) -> None:
        if not fine:
            self.complaints.append(complaint)


def _anthropic(request: Any) -> list[str]:
    return anthropic_complaints(anthropic_request.parameters(request))


def _openai(request: Any) -> list[str]:
    return openai_complaints(openai_request.parameters(request, openai_request.Quirks()))


def effects(folder: Path) -> dict[str, int]:
    """Count how often each call has had its effect."""
    counted = {}
    for name in EFFECTS.values():
        path = folder / "work" / name
        counted[name] = len(path.read_text().splitlines()) if path.exists() else 0
    return counted


def judged(found: dict[str, Any], done: dict[str, int], ending: str) -> list[str]:
    """Hold what was said of each call, first and last, against what happened."""
    complaints = []
    states, outcomes = found["states"], found["outcomes"]
    run_later = ("completed", "unknown") if ending == "continue" else ()
    for subject, name in EFFECTS.items():
        said, outcome, times = states.get(subject), outcomes.get(subject), done[name]
        true_then = {
            "completed": outcome == "completed" and times == 1,
            "running": outcome in ("completed", "unknown") and times == 1,
            "never_ran": outcome == "never_ran" or outcome in run_later,
            "unknown": outcome == "unknown" and times <= 1,
            None: True,  # the message that calls it had not come yet, or all had ended
        }.get(said, False)
        true_now = {
            "completed": times == 1,
            "never_ran": times == 0,
            "unknown": times <= 1,
            None: times == 0,
        }.get(outcome, False)
        if not true_then or not true_now:
            complaints.append(f"{name}: {said}, then {outcome}, and it was done {times} times")
    return complaints


# Forks


def forked(work: Callable[[Callable[[str], None]], None]) -> tuple[int, list[str]]:
    """Run something in a fork; return its exit status and the lines that it said."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.close(ours)
            signal.alarm(_LONGEST_SECONDS)
            work(lambda line: void(os.write(theirs, f"{line}\n".encode())))
            status = 0
        except BaseException:  # noqa: BLE001  told to the one who forked
            os.write(theirs, f"raised {traceback.format_exc()!r}\n".encode())
        finally:
            os._exit(status)
    os.close(theirs)
    with os.fdopen(ours, encoding="utf-8") as said:
        lines = said.read().splitlines()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), lines


def void(_: object) -> None:
    """Forget a result."""


def take_in_orphans() -> None:
    """Become the parent of what this process's children leave running."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def wait_for_orphans() -> None:
    """Return when every process below this one has ended."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def wait_for_siblings() -> None:
    """Return when the process that forked this one has no other child that runs."""
    parent = os.getppid()
    own = os.getpid()
    while True:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if not any(wrapper.start_of(int(pid)) for pid in children if int(pid) != own):
            return
        time.sleep(0.002)


def case(folder: Path, at: str, *, after: bool, ending: str) -> dict[str, Any]:
    """Play one case and judge it."""
    (folder / "work").mkdir(parents=True)
    status, heard = forked(lambda say: live(folder, at, after=after, say=say))
    complaints = []
    if status not in (0, -signal.SIGKILL) or (status == 0 and heard[-1] != "completed"):
        complaints.append(f"the turn ended with {status}: {heard[-1:]}")
    killed = status == -signal.SIGKILL
    aftermath = Aftermath(folder, heard)

    def find(say: Callable[[str], None]) -> None:
        aftermath.find(ending)
        say(json.dumps(vars(aftermath), default=str))

    status, said = forked(find)
    wait_for_orphans()
    if status == 0:
        found = json.loads(said[-1])
        complaints += found["complaints"] + judged(found, effects(folder), ending)
    else:
        found = {"states": {}}
        complaints.append(f"the next process ended with {status}: {said}")
    return {
        "case": f"{'after' if after else 'before'} {at}, {ending}",
        "killed": killed,
        "states": sorted(found["states"].values()),
        "complaints": complaints,
    }


def operations(folder: Path) -> list[str]:
    """Return the names of all operations that the turn was seen to do in a few runs."""
    names: dict[str, None] = {}
    for number in range(_RUNS):
        names |= dict.fromkeys(_operations(folder / str(number) / "case"))
    return list(names)


def _operations(folder: Path) -> list[str]:
    (folder / "work").mkdir(parents=True)
    status, heard = forked(lambda say: live(folder, "", after=False, say=say))
    if status != 0 or heard[-1] != "completed":
        raise AssertionError(f"the turn does not even run by itself: {heard[-1:]}")
    return [line.partition(" ")[2] for line in heard if line.startswith("operation")]


def reached(folder: Path, at: str, *, after: bool, ending: str) -> dict[str, Any]:
    """Play a case until its operation is met, but not for ever."""
    for attempt in range(1, _ATTEMPTS):
        played = case(folder / str(attempt), at, after=after, ending=ending)
        if played["killed"] or played["complaints"]:
            return played
    return case(folder / "last", at, after=after, ending=ending)


def work(folder: Path, names: list[str], *, after: bool, ending: str) -> None:
    """Play the cases of some operations."""
    take_in_orphans()
    for number, at in enumerate(names):
        played = reached(folder / str(number), at, after=after, ending=ending)
        os.write(1, f"{json.dumps(played)}\n".encode())  # at once: others write too


def main(folder: Path, count: int, when: str, ending: str) -> None:
    """Play all cases of one ending, in a few processes at once."""
    names = operations(folder / "unharmed")
    workers = []
    for number in range(count):
        worker = os.fork()
        if worker == 0:
            try:
                place = folder / f"worker {number}"
                work(place, names[number::count], after=when == "after", ending=ending)
                os._exit(0)
            finally:
                os._exit(1)
        workers.append(worker)
    if any([os.waitpid(worker, 0)[1] for worker in workers]):  # noqa: C419  wait for all
        sys.exit("a worker fell")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
