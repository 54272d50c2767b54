"""kill -9 at a random moment, seen from outside only.

``babble N``: a writer without end is killed ten times in one session. After some kills the session
is judged; after the others the next writer finds it as it is, and may be killed while it repairs.
``one N``, ``eight N`` and so on: a variant of the scenario is killed once, somewhere on its way.
"""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import holdfast
from tests.crash.lab import babbler
from tests.crash.lab.layer import Layer
from tests.crash.lab.oracle import Oracle
from tests.crash.lab.promises import Promises
from tests.crash.lab.scenario import VARIANTS
from tests.crash.lab.stage import Stage, length_seconds
from tests.crash.lab.tally import Tally
from tests.disk import contents

_KILLS_A_SESSION = 10
_LONGEST_LIFE_SECONDS = 0.15
_BABBLES = {"ci": 12, "nightly": 600, "mutant": 6}
_KILLS_OF_A_VARIANT = {"ci": 18, "nightly": 800, "mutant": 4}


class KillLayer(Layer):
    """Kills writers."""

    letter = "D"
    title = "kill -9 at random times"
    least: ClassVar[dict[str, int]] = {"ci": 190}
    workers = 4  # they sleep most of the time

    def cases(self) -> Sequence[str]:
        """Return the babbling writers, then the scenarios."""
        return [
            *(f"babble {number}" for number in range(_BABBLES[self.plan.level])),
            *(
                f"{variant} {number}"
                for number in range(_KILLS_OF_A_VARIANT[self.plan.level])
                for variant in VARIANTS
            ),
        ]

    def start(self) -> None:
        """Start a stage."""
        self._stage = Stage(self.plan)
        self._lengths: dict[str, float] = {}

    def stop(self) -> None:
        """End the stage."""
        self._stage.close()

    def run(self, case: str) -> Tally:
        """Kill one writer, or ten in one session."""
        kind, _, number = case.partition(" ")
        rng = random.Random(f"{self.plan.seed} {case}")
        home = self.plan.scratch / f"home of {case}"
        try:
            if kind == "babble":
                return self._kill_babblers(home, int(number), rng)
            return self._kill_scenario(home, kind, rng)
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def _kill_scenario(self, home: Path, variant: str, rng: random.Random) -> Tally:
        if variant not in self._lengths:
            folder = self.plan.scratch / "to its end"
            self._lengths[variant] = length_seconds(self._stage, folder, variant)
        life_seconds = rng.random() * self._lengths[variant]
        play = self._stage.play(home, options={"variant": variant}, kill_after=life_seconds)
        tally = Oracle(home, play.said).judge()
        if play.status == -signal.SIGKILL:
            tally.count("kills")
        elif play.status == 0:
            tally.count("came to its end before the kill")
        else:
            tally.break_(f"the process ended by itself, with status {play.status}")
        return tally

    def _kill_babblers(self, home: Path, number: int, rng: random.Random) -> Tally:
        session = f"20260102-{number:06d}-{self.plan.seed % 10**8:08d}"
        promises = Promises()
        tally = Tally()
        for kill in range(_KILLS_A_SESSION):
            tally.cases += 1
            writer = 1 + number * _KILLS_A_SESSION + kill
            play = self._stage.play(
                home,
                play=babbler.PLAY,
                options={"session": session, "number": writer},
                kill_after=rng.random() * _LONGEST_LIFE_SECONDS,
            )
            if play.status != -signal.SIGKILL:
                tally.break_(f"the writer ended by itself, with status {play.status}")
            tally.count("kills")
            promises.hear(play.said)
            if kill == _KILLS_A_SESSION - 1 or rng.random() < 0.5:
                judge_session(holdfast.open_store(home), session, promises, tally)
                if tally.failed:
                    break  # what is lost would be counted again after every further kill
            else:
                tally.count("left to the next writer to repair")
        tally.acknowledged += len(promises.acked)
        tally.count("characters of live text shown", sum(map(len, promises.shown.values())))
        return tally


def judge_session(store: holdfast.Store, session_id: str, promises: Promises, tally: Tally) -> None:
    """Hold a session against what its writers were promised, and to the rules about reopening."""
    try:
        session = store.open(session_id)
    except holdfast.SessionNotFound:
        if not promises.none:
            tally.lose(f"session {session_id} is gone")
        return
    with session:
        if session.recovery.interrupted:
            tally.count("streams that were cut off", len(session.recovery.interrupted))
        if session.recovery.set_aside:
            tally.count("torn ends")
        with session.follow(wait=False) as follower:
            entries = [
                (entry.seq, entry.body)
                for entry in follower
                if isinstance(entry, holdfast.Entry) and isinstance(entry.body, holdfast.Message)
            ]
        messages = session.messages
    promises.judge(entries, tally)
    if messages != [message for _, message in entries]:
        tally.break_("the branch is not what the journal has")
    _judge_second_opening(store, session, messages, tally)
    _judge_index(store, tally)


def _judge_second_opening(
    store: holdfast.Store,
    first: holdfast.Session,
    messages: list[holdfast.Message],
    tally: Tally,
) -> None:
    before = contents(first.path)
    with store.open(first.id) as again:
        if not again.recovery.clean:
            tally.break_(f"a second opening repairs again: {again.recovery}")
        if again.messages != messages:
            tally.break_("a second opening finds other messages")
    if contents(first.path) != before:
        tally.break_("a second opening changes files")
    report = store.verify(first.id)
    if not report.ok:
        tally.break_(f"verify finds {report.problems}")


def _judge_index(store: holdfast.Store, tally: Tally) -> None:
    live = store.list()
    (store.path / "index.db").unlink()
    rebuilt = store.list()
    if live != rebuilt:
        tally.break_(f"the index says {live}, the journals {rebuilt}")
    if any(summary.state != "clean" for summary in live):
        tally.break_(f"what was repaired is listed as {[summary.state for summary in live]}")
