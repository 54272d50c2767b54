"""A writer without end: appends, batches, submits and streams until it is killed.

Beside it an onlooker follows the session, as a terminal or a web page would, so that what a client
was shown is known, too. All that is said has the time by the clock that all processes share:

    ["sent", time, labels]             an append begins
    ["acked", time, labels, seq]       the append has returned; the last of them has this number
    ["text", time, stream, count]      so many pieces have been streamed
    ["tick", time]                     the writer has just been running
    ["shown", time, text]              the onlooker was handed streamed text
    ["delivered", time, label, seq]    the onlooker was handed an entry
"""

from __future__ import annotations

import random
import re
import threading
import time
import traceback
from pathlib import Path

import holdfast
from tests.crash.lab.witness import Witness

PLAY = "tests.crash.lab.babbler:run"
MOST_PIECES = 40
_LOOK_EVERY_SECONDS = 0.004
_LABEL = re.compile(r"\[?(s\d+-\d+)[ .]")


def label_text(label: str) -> str:
    """Return the text of an appended message."""
    return f"{label} " + "x" * (sum(label.encode()) % 400)


def piece_text(stream: str, number: int) -> str:
    """Return one piece of a streamed message."""
    return f"[{stream}.{number}]"


def label_in(text: str) -> str | None:
    """Return the label of a message or of a piece of one."""
    found = _LABEL.match(text)
    return found[1] if found else None


class Babbler:
    """Writes to one session. Labels carry the writer's number, and so do all that it makes."""

    def __init__(
        self, session: holdfast.Session, rng: random.Random, name: str, witness: Witness
    ) -> None:
        self._session = session
        self._rng = rng
        self._name = name
        self._witness = witness
        self._labels = 0

    def run(self) -> None:
        """Write until somebody ends the process."""
        while True:
            self._rng.choice((self._one, self._batch, self._together, self._stream, self._stream))()

    def _label(self) -> str:
        self._labels += 1
        return f"{self._name}-{self._labels}"

    def _say(self, kind: str, *words: object) -> None:
        self._witness.say(kind, time.monotonic(), *words)

    def _one(self) -> None:
        label = self._label()
        self._say("sent", [label])
        place = self._session.append(holdfast.user(label_text(label)))
        self._say("acked", [label], place.seq)

    def _batch(self) -> None:
        labels = [self._label() for _ in range(3)]
        self._say("sent", labels)
        place = self._session.append([holdfast.user(label_text(label)) for label in labels])
        self._say("acked", labels, place.seq)

    def _together(self) -> None:
        labels = [self._label() for _ in range(5)]
        tickets = []
        for label in labels:
            self._say("sent", [label])
            tickets.append(self._session.submit(holdfast.user(label_text(label))))
        for label, ticket in zip(labels, tickets, strict=True):
            self._say("acked", [label], ticket.wait().seq)

    def _stream(self) -> None:
        label = self._label()
        self._say("text", label, 0)
        with self._session.stream() as stream:
            for number in range(self._rng.randrange(1, MOST_PIECES)):
                stream.write(piece_text(label, number))
                self._say("text", label, number + 1)
                for _ in range(self._rng.randrange(4)):
                    time.sleep(self._rng.random() / 300)
                    self._say("tick")
            self._say("sent", [label])
            place = stream.finish()
        self._say("acked", [label], place.seq)


def _look_on(session: holdfast.Session, witness: Witness) -> None:
    try:
        _follow(session, witness)
    except Exception:  # noqa: BLE001  one who sees no more must not look like one who saw nothing
        witness.say("fell", time.monotonic(), traceback.format_exc()[-2000:])


def _follow(session: holdfast.Session, witness: Witness) -> None:
    with session.follow(live=True) as follower:
        while True:
            for item in follower.poll():
                now = time.monotonic()
                if isinstance(item, holdfast.Event):
                    witness.say("shown", now, item.text)
                elif isinstance(item.body, holdfast.Message):
                    witness.say("delivered", now, label_in(item.body.text), item.seq)
            time.sleep(_LOOK_EVERY_SECONDS)


def run(home: Path, witness: Witness, session: str, number: int) -> None:
    """Open or make the session and babble; ``number`` is the writer's, and its seed."""
    store = holdfast.open_store(home)
    try:
        opened = store.open(session)
    except holdfast.SessionNotFound:
        opened = store.create(session_id=session)
    threading.Thread(target=_look_on, args=(opened, witness), daemon=True).start()
    Babbler(opened, random.Random(number), f"s{number}", witness).run()
