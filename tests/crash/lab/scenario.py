"""The life of a session, which every layer of the laboratory interrupts at some point.

create → prompt → stream → tool intent, output and result → usage → submitted together → batch →
checkpoint → blob → branch → rename → fork → list → compact → close → reopen → append, twice with
the same id. ``VARIANTS`` has it for one session, and for eight at once in one process; and other
lives, which do what this one does not: see ``moving``, ``following``, ``acting`` and
``erasing``.

Each call is announced to a witness before it begins and confirmed after it has returned. What
Holdfast refuses (``HoldfastError``) is noted, and the life goes on as far as it can: a user would
try, too. Any other exception is a defect.
"""

from __future__ import annotations

import functools
import importlib
import threading
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import holdfast
from tests.crash.lab.witness import Witness

VARIANTS = {"one": 1, "eight": 8, "moved": 1, "followed": 1, "acted": 1}
"""Every variant, with how many sessions live in it at once."""

_LIVES = {
    "moved": ("tests.crash.lab.moving", "Mover"),
    "followed": ("tests.crash.lab.following", "Follow"),
    "acted": ("tests.crash.lab.acting", "Act"),
    "erased": ("tests.crash.lab.erasing", "Eraser"),
    "wrapped": ("tests.crash.lab.acting", "Wrap"),  # no session; only its calls are recorded
}
PIECES = 3
BLOB_BYTES = 300_000
_FILLER = 'naïve 日本 \u2028 "quoted" \\ back\nline '
_LONGEST_WAIT_SECONDS = 0.5


@cache  # layers with many cases ask for the same long ones again and again
def text_of(label: str) -> str:
    """Return the text that belongs to a label: never twice the same, and known to the oracle."""
    size = BLOB_BYTES if label.endswith("blob") else 40 + sum(label.encode()) % 300
    return f"{label}: " + (_FILLER * (size // len(_FILLER) + 1))[:size]


def piece_of(label: str, number: int) -> str:
    """Return one piece of a streamed text."""
    return f"{label}: " if number == 0 else f"[{label}.{number}]"


def streamed_text(label: str, pieces: int = PIECES) -> str:
    """Return what a stream comes to after so many pieces."""
    return "".join(piece_of(label, number) for number in range(pieces))


class Actor:
    """One session's life, and the witness who is told of it."""

    def __init__(self, name: str, store: holdfast.Store, witness: Witness) -> None:
        self.name = name
        self._store = store
        self._witness = witness
        self._calls = 0
        self._labels = 0

    def go_on_from(self, number: int) -> None:
        """Use no number below this one: for a life that goes on in another process."""
        self._calls = max(self._calls, number)
        self._labels = max(self._labels, number)

    def label(self, kind: str = "") -> str:
        self._labels += 1
        return f"{self.name}{self._labels}{kind}"

    def call(self, op: str, do: Callable[[], Any], **facts: Any) -> Any:
        """Announce a call, make it, and say what came of it; returns its result, if any."""
        self._calls += 1
        number = self._calls
        self._witness.say("intends", self.name, number, op, facts)
        try:
            result = do()
        except holdfast.HoldfastError as error:
            self._witness.say(
                "refused", self.name, number, f"{type(error).__name__}: {error}"[:300]
            )
            return None
        promised: dict[str, Any] = {}
        if isinstance(result, holdfast.Position):
            promised["seq"] = result.seq
        elif isinstance(result, holdfast.Session):
            promised["session"] = result.id
        elif isinstance(result, dict):
            promised |= result
        self._witness.say("promised", self.name, number, promised)
        return result

    def run(self) -> None:
        """Live the whole life."""
        try:
            self._live()
        except BaseException:
            self._witness.say("fell", self.name, traceback.format_exc()[-3000:])
            raise
        self._witness.say("done", self.name)

    def _live(self) -> None:
        session = self._store.create(provider="rehearsal", model="none")
        # Nothing is on disk yet; the name is told now, so that the oracle knows where to look.
        self._witness.say("intends", self.name, 0, "create", {"session": session.id})
        try:
            self._converse(session)
            self._reshape(session)
        finally:
            self.call("close", session.close)
        again = self.call("open", lambda: self._store.open(session.id))
        if again is not None:
            self._return_to(again)
            self.call("close", again.close)

    def _converse(self, session: holdfast.Session) -> None:
        self._append(session)
        self._stream(session)
        call = self.label("call")
        wish = holdfast.ToolCall(id=call, name="bash", arguments={"command": "make"})
        parts: list[holdfast.Text | holdfast.ToolCall] = [holdfast.Text(text=text_of(call)), wish]
        self._append_as(session, holdfast.assistant(parts), call)
        intent = holdfast.Tool(call, "bash", "started", "unknown")
        self.call("tool", lambda: session.append(intent), call_id=call)
        self._stream(session, call_id=call)
        self.call("usage", lambda: session.usage(input=10, output=3, cost_usd=0.25), input=10)
        self._submit_together(session)
        self._append_batch(session)

    def _reshape(self, session: holdfast.Session) -> None:
        summary = self.label("summary")
        self.call(
            "checkpoint",
            lambda: session.checkpoint([holdfast.user(text_of(summary))], keep_last=2, tokens=9),
            summary=summary,
            keep_last=2,
        )
        blob = self.label("blob")
        place = self._append_as(session, holdfast.user(text_of(blob)), blob)
        self._append(session)
        if place is not None:
            self.call("rewind", lambda: session.rewind(place), to=blob)
        self._append(session)
        title = f"the title of {self.name}"
        self.call("rename", lambda: session.update(title=title), title=title)
        self._fork(session)
        self.call("list", self._store.list)
        self.call("compact", session.compact)

    def _return_to(self, session: holdfast.Session) -> None:
        self._append(session)
        label = self.label("once")
        message = holdfast.user(text_of(label))
        for _ in range(2):
            self.call("append", lambda: session.append(message, id=label), labels=[label])

    def _fork(self, session: holdfast.Session) -> None:
        fork = self.call("fork", session.fork)
        if fork is not None:
            label = self.label("fork")
            message = holdfast.user(text_of(label))
            self.call("fork-append", lambda: fork.append(message), labels=[label], session=fork.id)
            self.call("close", fork.close)

    def _append(self, session: holdfast.Session) -> None:
        label = self.label()
        self._append_as(session, holdfast.user(text_of(label)), label)

    def _append_as(self, session: holdfast.Session, message: holdfast.Message, label: str) -> Any:
        return self.call("append", lambda: session.append(message), labels=[label])

    def _append_batch(self, session: holdfast.Session) -> None:
        labels = [self.label() for _ in range(3)]
        messages = [holdfast.user(text_of(label)) for label in labels]
        self.call("append", lambda: session.append(messages), labels=labels)

    def _submit_together(self, session: holdfast.Session) -> None:
        """Submit three entries before waiting for any: they share a sync."""
        labels = [self.label() for _ in range(3)]
        tickets = [self._submit(session, label) for label in labels]
        for label, ticket in zip(labels, tickets, strict=True):
            if ticket is not None:
                self.call("wait", ticket.wait, label=label)

    def _submit(self, session: holdfast.Session, label: str) -> Any:
        message = holdfast.user(text_of(label))
        return self.call("submit", lambda: session.submit(message), labels=[label])

    def _stream(self, session: holdfast.Session, call_id: str | None = None) -> None:
        label = self.label("output" if call_id else "stream")
        stream = self.call("stream", lambda: session.stream(call_id=call_id), label=label)
        if stream is None:
            return
        for number in range(PIECES):
            piece = piece_of(label, number)
            write = functools.partial(stream.write, piece)
            self.call("piece", write, label=label, number=number)
            if number == 1 and self._is_in_live_file(session, piece):
                self._witness.say("written", self.name, label, number + 1)
        self.call("finish", stream.finish, label=label)

    def _is_in_live_file(self, session: holdfast.Session, piece: str) -> bool:
        """Wait until a piece is where other programs can see it; tell whether it got there."""
        give_up = time.monotonic() + _LONGEST_WAIT_SECONDS
        while session.trouble is None and time.monotonic() < give_up:
            try:
                if piece.encode() in (session.path / "live.jsonl").read_bytes():
                    return True
            except OSError:  # not made yet; or the disk is gone, which the session notices itself
                pass
            time.sleep(0.002)
        return False


def life_of(variant: str) -> type[Actor]:
    """Return what lives in a variant."""
    if variant not in _LIVES:
        return Actor
    module, name = _LIVES[variant]
    found: type[Actor] = getattr(importlib.import_module(module), name)
    return found


def preload() -> None:
    """Import all that any variant needs, for a process that will be forked many times."""
    for variant in _LIVES:
        life_of(variant)
    importlib.import_module("tests.crash.lab.moving").sent()


def run(home: Path, witness: Witness, variant: str) -> None:
    """Run a variant of the scenario in this process, to its end or to the fault's."""
    store = holdfast.open_store(home)
    kind = life_of(variant)
    actors = [kind(chr(ord("a") + n), store, witness) for n in range(VARIANTS.get(variant, 1))]
    if len(actors) == 1:
        actors[0].run()
        return
    threads = [threading.Thread(target=actor.run) for actor in actors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
