"""Opens every session that is found in a home, appends to it, and closes it; sweeps up a batch.

Played after the scenario, on what a fault has left of its home: the life of each actor goes on.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import holdfast
from holdfast.store.local.bulk_publish import BATCH_NAME
from tests.crash.lab import ledger
from tests.crash.lab.scenario import Actor, text_of
from tests.crash.lab.witness import Witness

OPENING = f"{__name__}:run"
_NUMBERS_APART = 1000
"""Call numbers and labels of one opening are so far from those before that none is used twice."""


def options_after(said: list[list[Any]], times: int) -> dict[str, Any]:
    """Return the options of the opening that comes after all that was said.

    ``times`` is which opening it is, counted from one.
    """
    lives = ledger.read(said)
    return {
        "times": times,
        "sessions": {life.session: name for name, life in lives.items() if life.session},
        "forks": {fork: name for name, life in lives.items() for fork in life.forks},
    }


def run(
    home: Path, witness: Witness, times: int, sessions: dict[str, str], forks: dict[str, str]
) -> None:
    """Open, append and close, session by session; of some nobody was told that they are there."""
    store = holdfast.open_store(home)
    actors: dict[str, Actor] = {}
    for path in sorted(home.glob("sessions/[!.]*/[!.]*")):
        name = sessions.get(path.name) or forks.get(path.name) or "x"
        actor = actors.setdefault(name, Actor(name, store, witness))
        actor.go_on_from(times * _NUMBERS_APART)
        try:
            _visit(actor, store, path.name, sessions, forks)
        except BaseException:
            witness.say("fell", name, traceback.format_exc()[-3000:])
            raise
    if (home / "sessions" / BATCH_NAME).exists():
        sweeper = actors.setdefault("y", Actor("y", store, witness))
        sweeper.go_on_from(times * _NUMBERS_APART)
        sweeper.call("sweep", lambda: store.batch().close())
    for name in actors:
        witness.say("done", name)


def _visit(
    actor: Actor,
    store: holdfast.Store,
    session_id: str,
    sessions: dict[str, str],
    forks: dict[str, str],
) -> None:
    session = actor.call(
        "open" if session_id in sessions else "open-other", lambda: store.open(session_id)
    )
    if session is None:
        return
    label = actor.label()
    message = holdfast.user(text_of(label))
    if session_id in sessions:
        actor.call("append", lambda: session.append(message), labels=[label])
    elif session_id in forks:
        append = "fork-append"
        actor.call(append, lambda: session.append(message), labels=[label], session=session_id)
    else:
        actor.call("append-other", lambda: session.append(message))
    actor.call("close", session.close)
