"""Players who write to one session: one who takes turns with others, and one who does as told."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from holdfast.files import Files
from tests.crash.lab.company import Part, perform
from tests.crash.lab.turns import text_of

_FORK = multiprocessing.get_context("fork")


class Desk:
    """A player's session: opened, written and left in turns, each step said aloud."""

    def __init__(self, part: Part, store: holdfast.Store, target: str) -> None:
        self._part = part
        self._store = store
        self._target = target  # a session id, or "key …"
        self.session: holdfast.Session | None = None
        self.turn = 0
        self._number = 0
        self._holds = False

    def open(self) -> bool:
        """Open the session, or get ready to make it; tell whether that worked."""
        self._part.say("tries")
        try:
            if self._target.startswith("key "):
                self.session = self._store.session(self._target)
            else:
                self.session = self._store.open(self._target)
        except holdfast.SessionLocked as error:
            self._part.say("locked", msgspec.to_builtins(error.holder))
            return False
        self._begin_turn()
        if self.session.state.seq >= 0:
            self._say_holds()
        return True

    def create(self) -> None:
        """Get ready to make a session of the target's id, or say that it exists."""
        try:
            self.session = self._store.create(session_id=self._target)
        except holdfast.SessionExists:
            return
        self._part.say("tries")
        self._begin_turn()

    def _begin_turn(self) -> None:
        self.turn += 1
        self._number = 0
        self._holds = False

    def _say_holds(self) -> None:
        self._holds = True
        self._part.say("holds", self.turn)

    def append(self, count: int = 1) -> bool:
        """Append a batch; tell whether it was acknowledged."""
        assert self.session is not None
        labels = []
        for _ in range(count):
            self._number += 1
            labels.append(f"{self._part.name}-{self.turn}-{self._number}")
        self._part.say("intends", labels)
        try:
            position = self.session.append([holdfast.user(text_of(label)) for label in labels])
        except holdfast.HoldfastError as error:
            self._part.say("failed", type(error).__name__, str(error)[:300])
            return False
        if not self._holds:  # it is made with its first entry, and held from then on
            self._say_holds()
        self._part.say("promised", labels, position.seq)
        return True

    def close(self) -> None:
        """Let go."""
        if self.session is None:
            return
        self._part.say("leaves")
        try:
            self.session.close()
        except holdfast.HoldfastError as error:
            self._part.say("refused to close", type(error).__name__, str(error)[:300])
        self.session = None


def taking_turns(
    target: str, seed: str, *, turns: int, longest_seconds: float, makes: bool = False
) -> Callable[[Part], None]:
    """Return a play: try again and again to have the session, write a little, let go.

    ``makes``: the session is not there yet, and everybody begins by making it.
    """

    def play(part: Part) -> None:
        chance = random.Random(f"{seed} {part.name}")
        desk = Desk(part, holdfast.open_store(part.home), target)
        part.cue()
        if makes:
            desk.create()
        while desk.turn < turns or desk.session is not None:
            if desk.session is None and not desk.open():
                continue
            for _ in range(chance.randint(1, 6)):
                if not desk.append(chance.choice((1, 1, 3))):
                    break
            if chance.random() < 0.2:
                time.sleep(chance.random() * longest_seconds)
            desk.close()
        part.say("done")

    return play


class FakePausingFiles(Files):
    """Waits for a cue between opening a lock file and locking it, once."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self.pauses = False

    def open_lock(self, path: Path) -> int:
        descriptor = super().open_lock(path)
        if self.pauses:
            self.pauses = False
            self._part.say("pauses")
            self._part.cue()
        return descriptor


class Puppet:
    """Does what it is told; every cue is a method's name with arguments."""

    def __init__(self, part: Part, target: str) -> None:
        self._part = part
        self._target = target
        self._files = FakePausingFiles(part)
        self._store = holdfast.open_store(part.home, files=self._files)
        self._desk = Desk(part, self._store, target)
        self._heirs: dict[str, int] = {}
        self._others: list[Any] = []

    def obey(self) -> None:
        while True:
            method, *arguments = self._part.cue()
            getattr(self, method)(*arguments)

    def heirs(self, descriptors: dict[str, int]) -> None:
        self._heirs = descriptors

    def open(self) -> None:
        self._desk.open()

    def open_with_a_pause(self) -> None:
        self._files.pauses = True
        self._desk.open()

    def append(self, count: int = 1) -> None:
        self._desk.append(count)

    def append_until_killed(self) -> None:
        while self._desk.append():
            pass

    def close(self) -> None:
        self._desk.close()
        self._part.say("left")

    def exit(self) -> None:
        """End as a program ends: what was left open is closed by the interpreter."""
        self._part.say("leaves")
        atexit._run_exitfuncs()
        os._exit(0)

    def run_exit_functions(self) -> None:
        atexit._run_exitfuncs()
        self._part.say("ran")

    # What a holder's own process may do beside holding

    def look(self, how: str) -> None:
        """Open and close the lock file a second time, in one way or another."""
        session = self._desk.session
        assert session is not None
        if how == "descriptor":
            os.close(os.open(session.path / "lock", os.O_RDONLY))
        elif how == "read":
            self._store.open(session.id, mode="read").close()
        elif how == "list":
            self._store.list()
        elif how == "verify":
            self._store.verify(session.id)
        elif how == "follow":
            with session.follow(wait=False) as follower:
                list(follower)
        elif how == "open again":
            try:
                self._others.append(self._store.open(session.id))
            except holdfast.SessionLocked:
                pass
            else:
                self._part.say("opened it twice")
                return
        self._part.say("looked")

    def try_to_delete(self) -> None:
        try:
            self._store.delete(self._target)
        except holdfast.SessionLocked as error:
            self._part.say("not deleted", msgspec.to_builtins(error.holder))
        else:
            self._part.say("deleted")

    def read(self) -> None:
        """Read what others write, and say how many messages there are."""
        with self._store.open(self._target, mode="read") as session:
            self._part.say("read", len(session.messages))

    # Children

    def fork(self, how: str, heir: str) -> None:
        """Make a process that has what this one has; it goes on as another puppet."""
        cues = self._heirs[heir]
        if how == "subprocess":
            child = subprocess.Popen(["cat"], stdin=cues, close_fds=False)
            self._others.append(child)
            pid = child.pid
        elif how == "multiprocessing":
            process = _FORK.Process(target=self._inherit, args=(heir, cues))
            process.start()
            self._others.append(process)
            pid = process.pid or 0
        else:
            pid = os.fork()
            if pid == 0:
                self._inherit(heir, cues)
        self._part.say("forked", pid)

    def _inherit(self, heir: str, cues: int) -> None:
        part = self._part.renamed(heir, cues)
        self._part = self._files._part = self._desk._part = part
        perform(part, lambda _: self.obey())

    def open_anew(self) -> None:
        self._desk = Desk(self._part, holdfast.open_store(self._part.home), self._target)
        self._desk.open()


def puppet(target: str) -> Callable[[Part], None]:
    """Return a play that does as told."""
    return lambda part: Puppet(part, target).obey()
