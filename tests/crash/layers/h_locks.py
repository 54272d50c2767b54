"""Layer H: several processes want one session; one is stopped, killed, or forks.

``race``, ``key``, ``make``: all at once, with random kills. The others go step by step: a holder is
stopped, killed, forks, looks at its own lock file; a lock file or journal is replaced under it.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import holdfast
from tests.crash.lab.company import Company, Player, StuckError
from tests.crash.lab.layer import Layer
from tests.crash.lab.tally import Tally
from tests.crash.lab.turns import (
    judge_falls,
    judge_lines,
    judge_refusals,
    judge_session,
    judge_turns,
    lines_of,
    text_of,
)
from tests.crash.lab.writers import puppet, taking_turns

_SHARES = {  # of 200 cases
    "race": 56,
    "key": 24,
    "make": 16,
    "killed": 28,
    "fork": 24,
    "stopped": 16,
    "lock": 12,
    "journal": 10,
    "descriptor": 8,
    "swap": 6,
}
_NIGHTLY_TIMES = 50  # 10,000 cases
_FOR_MUTANTS = {"swap": 3, "descriptor": 6, "lock": 3, "race": 3, "fork": 3}
_LOOK_SECONDS = 1.1  # the writer looks at the names of its files once a second
_EXISTING = "20260102-030405-aaaabbbb"
_LOOKS = ("descriptor", "read", "list", "verify", "follow", "open again")
_FORKS = ("os", "multiprocessing", "subprocess")
_ENDS = ("kill", "close", "exit")
_REPLACED = ("renamed over", "unlinked", "moved", "shortened", "lengthened")


class Case:
    """One case: its players, its chances, and what it has come to so far."""

    def __init__(self, company: Company, chance: random.Random, number: int) -> None:
        self.company = company
        self.chance = chance
        self.number = number
        self.tally = Tally(cases=1)
        self.store = holdfast.open_store(company.home)
        self.target = _EXISTING
        self.sole_writer = True

    def make_session(self) -> None:
        with self.store.create(session_id=_EXISTING) as session:
            session.append(holdfast.user(text_of("first-0-1")))

    @property
    def session_id(self) -> str:
        if self.target.startswith("key "):
            with self.store.session(self.target, mode="read") as session:
                return session.id
        return self.target

    def puppet(self, name: str, heirs: Sequence[str] = ()) -> Player:
        return self.company.enter(name, puppet(self.target), heirs)

    def holder(self, heirs: Sequence[str] = ()) -> Player:
        """Return a player that has the session and has written to it."""
        player = self.puppet("a", heirs)
        self.expect(player.do("open"), "holds")
        self.expect(player.do("append"), "promised")
        return player

    def expect(self, answer: list[object], kind: str) -> None:
        if answer[0] != kind:
            self.tally.break_(f"{answer[1]} should have answered {kind!r} and said {answer}")

    def judge(self) -> None:
        said = self.company.said
        judge_falls(self.tally, said)
        judge_refusals(self.tally, said, self.company.pids)
        if self.sole_writer:
            judge_turns(self.tally, said)
        session_id = self.session_id
        judge_session(self.tally, self.store, session_id, writes=False)
        with self.store.open(session_id, mode="read") as session:
            lines, _ = lines_of(session.path)
        lines = [line for line in lines if not line.label.startswith("first")]
        judge_lines(self.tally, said, lines, self.company.pids)
        judge_session(self.tally, self.store, session_id)


class Locks(Layer):
    """One writer, whatever the others do."""

    letter = "H"
    title = "locks: races, a stopped holder, fork"
    least: ClassVar[dict[str, int]] = {"ci": 190}
    workers = 4  # they wait most of the time

    def cases(self) -> list[str]:
        shares = _FOR_MUTANTS if self.plan.level == "mutant" else _SHARES
        times = _NIGHTLY_TIMES if self.plan.level == "nightly" else 1
        cases = [f"{kind} {n}" for kind, share in shares.items() for n in range(share * times)]
        if self.plan.level != "mutant":
            random.Random(self.plan.seed).shuffle(cases)  # so that those that wait are spread
        return cases

    def run(self, case: str) -> Tally:
        kind, number = case.split()
        on_disk = int(number) % 4 == 0
        home = (self.plan.scratch if on_disk else self.plan.memory) / f"home of {case}"
        chance = random.Random(f"{self.plan.seed} {case}")
        try:
            with Company(home) as company:
                course = Case(company, chance, int(number))
                course.tally.count(kind)
                try:
                    _COURSES[kind](course)
                except StuckError as error:
                    course.tally.break_(str(error))
                    return course.tally
            course.judge()
            return course.tally
        finally:
            shutil.rmtree(home, ignore_errors=True)


# All at once


def _race(case: Case) -> None:
    case.make_session()
    _all_at_once(case, makes=False)


def _key(case: Case) -> None:
    case.target = f"key {case.number}"
    _all_at_once(case, makes=False)
    _judge_birth(case)


def _make(case: Case) -> None:
    _all_at_once(case, makes=True)
    _judge_birth(case)


def _all_at_once(case: Case, *, makes: bool) -> None:
    chance, company = case.chance, case.company
    longest = 0.4 if chance.random() < 0.3 else 0.02  # 0.25 s is how long an opener is patient
    play = taking_turns(
        case.target,
        f"{chance.random()}",
        turns=chance.randint(1, 4),
        longest_seconds=longest,
        makes=makes,
    )
    names = [f"p{n}" for n in range(chance.randint(2, 5))]
    players = [company.enter(name, play) for name in names]
    for player in players:
        player.cue("go")
    # One is always left to come to its end.
    for player in chance.sample(players, chance.randint(0, len(players) - 1)):
        company.listen(chance.random() * 0.03)
        player.kill()
        case.tally.count("killed")
    company.until_all_are_done()


def _judge_birth(case: Case) -> None:
    """Check that one made the session, and that others were told so or came later."""
    failed = [words for words in case.company.said if words[0] == "failed"]
    case.tally.count("came second", len(failed))
    for words in failed:
        if words[2] != "SessionExists":
            case.tally.break_(f"{words[1]} was refused for another reason: {words[2:]}")
    leavings = [path.name for path in (case.company.home / "sessions").glob(".new-*")]
    killed = sum(words[0] == "kills" for words in case.company.said)
    if len(leavings) > killed:
        case.tally.break_(f"left behind by {killed} killed processes: {leavings}")


# Step by step


def _stopped(case: Case) -> None:
    case.make_session()
    holder, other = case.holder(), case.puppet("b")
    began = time.monotonic()
    busy = case.chance.random() < 0.5
    if busy:
        holder.cue("append_until_killed")
        case.company.listen(case.chance.random() * 0.02)
    holder.stop()
    case.company.listen(0.01)
    before = _acknowledged(case)
    _expect_locked_by(case, other.do("open"), holder, began)
    read = other.do("read")
    case.expect(read, "read")
    if read[0] == "read" and read[2] < before:
        case.tally.lose(f"{before} entries were acknowledged, and a reader sees {read[2]}")
    case.expect(other.do("try_to_delete"), "not deleted")
    if _acknowledged(case) > before:
        case.tally.break_("a stopped process was acknowledged something")
    holder.signal(signal.SIGCONT)
    if busy:
        case.company.listen_until(
            lambda: _acknowledged(case) > before, "the holder does not go on after it was stopped"
        )
        holder.kill()
    else:
        case.expect(holder.do("append", 3), "promised")
        case.expect(holder.do("close"), "left")
    case.expect(other.do("open"), "holds")
    case.expect(other.do("append"), "promised")


def _acknowledged(case: Case) -> int:
    return sum(words[0] == "promised" for words in case.company.said)


def _expect_locked_by(case: Case, answer: list[object], holder: Player, began: float) -> None:
    """Check what a second opener is told: number, host and since when."""
    case.expect(answer, "locked")
    if answer[0] == "locked":
        told = answer[2]
        assert isinstance(told, dict)
        since = time.time() - (time.monotonic() - began) - 5
        earliest = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since))
        if told["pid"] != holder.pid or not earliest <= told["since"] <= holdfast_now():
            case.tally.break_(f"{holder.pid} holds it, and others are told {told}")


def holdfast_now() -> str:
    """Return the time as it stands in a lock file, a moment from now."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))


def _killed(case: Case) -> None:
    case.make_session()
    holder, other = case.holder(), case.puppet("b")
    holder.cue("append_until_killed")
    case.company.listen(case.chance.random() * 0.03)
    holder.kill()
    if case.chance.random() < 0.5:
        _name_a_living_process(case)
    # The dead one has not been waited for, so that its number is alive; and it is open at once.
    case.expect(other.do("open"), "holds")
    case.expect(other.do("append", 3), "promised")


def _name_a_living_process(case: Case) -> None:
    """Let the lock file name a process that lives: a number may be given again."""
    path = case.company.home / "sessions" / "2026-01" / _EXISTING / "lock"
    pid = case.company.players["a"].pid
    text = path.read_bytes()
    path.write_bytes(text.replace(b'"pid":%d,' % pid, b'"pid":%d,' % os.getpid()))
    case.tally.count("a living process is named")


def _fork(case: Case) -> None:
    case.make_session()
    how, end = _FORKS[case.number % 3], _ENDS[case.number // 3 % 3]
    if (how, end) == ("multiprocessing", "exit"):
        end = "kill"  # multiprocessing has a program wait for its children
    case.tally.count(f"fork by {how}")
    holder, other = case.holder(["c"]), case.puppet("b")
    forked = holder.do("fork", how, "c")
    case.expect(forked, "forked")
    child = case.company.players["c"]
    child.pid = int(forked[2])
    if how != "subprocess":
        _expect_harmless(case, child)
    case.expect(holder.do("append"), "promised")
    if end == "kill":
        holder.kill()
    elif end == "close":
        case.expect(holder.do("close"), "left")
    else:
        holder.cue("exit")
        holder.await_death()
    # The child lives on and has what the holder had; the lock it has not.
    case.expect(other.do("open"), "holds")
    if how != "subprocess":
        _expect_harmless(case, child)
    case.expect(other.do("append"), "promised")
    if how != "subprocess":
        case.expect(child.do("open_anew"), "locked")
        case.expect(other.do("close"), "left")
        case.expect(child.do("open_anew"), "holds")
        case.expect(child.do("append"), "promised")


def _expect_harmless(case: Case, child: Player) -> None:
    answer = child.do("append")
    case.expect(answer, "failed")
    if answer[2] != "UsageError":
        case.tally.break_(f"a forked child may write, and is told: {answer[2:]}")
    if case.chance.random() < 0.5:
        case.expect(child.do("run_exit_functions"), "ran")


def _descriptor(case: Case) -> None:
    case.make_session()
    holder, other = case.holder(), case.puppet("b")
    how = _LOOKS[case.number % len(_LOOKS)]
    began = time.monotonic()
    case.expect(holder.do("look", how), "looked")
    case.tally.count(f"looked: {how}")
    _expect_locked_by(case, other.do("open"), holder, began)
    case.expect(holder.do("append"), "promised")
    case.expect(holder.do("close"), "left")
    case.expect(other.do("open"), "holds")


def _swap(case: Case) -> None:
    """Let the name go to another lock file between opening and locking."""
    how = ("unlinked", "deleted and made again", "deleted and restored")[case.number % 3]
    case.target = "key swapped"
    with case.store.session(case.target) as session:
        session.append(holdfast.user(text_of("first-0-1")))
    late, other = case.puppet("a"), case.puppet("b")
    case.expect(late.do("open_with_a_pause"), "pauses")
    if how == "unlinked":
        (session.path / "lock").unlink()
    else:
        case.store.delete(session.id)
    if how == "deleted and restored":
        case.store.restore(session.id)
        case.expect(late.do("go on"), "holds")
        case.expect(other.do("open"), "locked")
        case.expect(late.do("append"), "promised")
        return
    if how == "unlinked":
        case.expect(other.do("open"), "holds")
    else:
        other.cue("open")  # which makes nothing yet
        case.expect(other.do("append"), "holds")
    case.expect(late.do("go on"), "locked")
    case.expect(other.do("append"), "promised")


def _lock(case: Case) -> None:
    """Let somebody remove the lock file while it is held: two may hold, but one may write."""
    case.make_session()
    case.sole_writer = False
    holder, other = case.holder(), case.puppet("b")
    path = case.company.home / "sessions" / "2026-01" / _EXISTING / "lock"
    path.unlink()
    if case.chance.random() < 0.5:
        path.touch(0o600)
    if case.number % 3 == 0:
        case.company.listen(_LOOK_SECONDS)
        case.expect(holder.do("append"), "failed")
        case.expect(other.do("open"), "holds")
        case.expect(other.do("append"), "promised")
        return
    case.expect(other.do("open"), "holds")
    since = len(case.company.said)
    for _ in range(6):
        case.chance.choice((holder, other)).do("append", case.chance.choice((1, 3)))
    answers = [words[:2] for words in case.company.said[since:]]
    both = {name for kind, name in answers if kind == "promised"}
    if len(both) > 1:
        case.tally.break_("two writers were acknowledged, one after the other")
    for player in (holder, other):
        player.do("close")
    case.tally.count("refused to a second writer", sum(kind == "failed" for kind, _ in answers))


def _journal(case: Case) -> None:
    """Let somebody replace the journal under its writer: nothing is acknowledged into the old."""
    case.make_session()
    holder = case.holder()
    how = _REPLACED[case.number % len(_REPLACED)]
    path = case.company.home / "sessions" / "2026-01" / _EXISTING / "journal.jsonl"
    data = path.read_bytes()
    _REPLACE[how](path, data)
    case.tally.count(f"journal {how}")
    if how == "moved":  # noticed within a second; until then it is still there, by another name
        case.company.listen(_LOOK_SECONDS)
    for _ in range(2):
        answer = holder.do("append")
        case.expect(answer, "failed")
        if answer[2] != "WriteFailed":
            case.tally.break_(f"the holder is told {answer[2:]}")
    holder.do("close")
    # The one who did it brings back what was acknowledged.
    path.write_bytes(data)
    path.chmod(0o600)


def _rename_over(path: Path, data: bytes) -> None:
    other = path.with_name("other")
    other.write_bytes(data)
    other.rename(path)


def _move(path: Path, data: bytes) -> None:
    path.rename(path.with_name("moved"))
    path.write_bytes(data)


_REPLACE: dict[str, Callable[[Path, bytes], object]] = {
    "renamed over": _rename_over,
    "unlinked": lambda path, _: path.unlink(),
    "moved": _move,
    "shortened": lambda path, data: os.truncate(path, len(data) - 10),
    "lengthened": lambda path, data: path.open("ab").write(b"{}\n"),
}
_COURSES: dict[str, Callable[[Case], None]] = {
    "race": _race,
    "key": _key,
    "make": _make,
    "stopped": _stopped,
    "killed": _killed,
    "fork": _fork,
    "descriptor": _descriptor,
    "swap": _swap,
    "lock": _lock,
    "journal": _journal,
}
