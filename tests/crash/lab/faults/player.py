"""Plays a fault, tells the witness what was promised, and whether the rules held meanwhile.

Besides the words of the scenario some more are said:

    ["held", actor, rule]           a rule that was looked at, and holds
    ["broke", actor, sentence]      one that does not
    ["met", actor, fact]            something that really happened, to be counted
    ["dropped", actor, path, from]  what a file has from there on should be gone from the disk
"""

from __future__ import annotations

import importlib
import random
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

import holdfast
from tests.crash.lab.grounds import Ground
from tests.crash.lab.scenario import text_of
from tests.crash.lab.tally import Tally
from tests.crash.lab.witness import Witness

_LONGEST_WAIT_SECONDS = 8.0
_LONGEST_WORD = 3000


class Attempt(Struct):
    """A call and what came of it: a result, or an error of Holdfast's own."""

    number: int
    labels: list[str]
    result: Any = None
    error: Exception | None = None


class Player:
    """Who plays: the ground to play on, and the witness to tell."""

    def __init__(self, ground: Ground, witness: Witness, seed: str, name: str = "a") -> None:
        self.ground = ground
        self._name = name
        self._seed = seed
        self.random = random.Random(seed)
        self._witness = witness
        self._calls = 0
        self._labels = 0
        self.tolerated: tuple[type[Exception], ...] = ()
        """What may come of a call besides errors of Holdfast's own."""

    def another(self, name: str) -> Player:
        """Return a player of another session on the same ground; ``name`` is one letter."""
        other = Player(self.ground, self._witness, f"{self._seed} {name}", name)
        other.tolerated = self.tolerated
        return other

    # What the oracle hears

    def create(self, store: holdfast.Store) -> holdfast.Session:
        """Make the session that all this is about."""
        session = store.create(provider="rehearsal", model="none")
        self._witness.say("intends", self._name, 0, "create", {"session": session.id})
        return session

    def label(self, kind: str = "") -> str:
        """Return a label that was not used before; its text is ``text_of`` it."""
        self._labels += 1
        return f"{self._name}{self._labels}{kind}"

    def attempt(self, op: str, do: Callable[[], Any], **facts: Any) -> Attempt:
        """Announce a call, make it, say what came of it.

        Only errors of Holdfast's own (and what is ``tolerated``) may come of it.
        """
        self._calls += 1
        attempt = Attempt(self._calls, facts.get("labels", []))
        self._witness.say("intends", self._name, attempt.number, op, facts)
        try:
            attempt.result = do()
        except Exception as error:
            if not isinstance(error, (holdfast.HoldfastError, *self.tolerated)):
                raise
            attempt.error = error
            what = f"{type(error).__name__}: {error}"[:300]
            self._witness.say("refused", self._name, attempt.number, what)
        else:
            self.promised(attempt, attempt.result)
        return attempt

    def promised(self, attempt: Attempt, result: Any) -> None:
        """Say that a call was promised after all, or at once."""
        facts: dict[str, Any] = {}
        if isinstance(result, holdfast.Position):
            facts["seq"] = result.seq
        elif isinstance(result, holdfast.Session):
            facts["session"] = result.id
        self._witness.say("promised", self._name, attempt.number, facts)

    def append(self, session: holdfast.Session, kind: str = "", count: int = 1) -> Attempt:
        """Append a message, or a batch of them."""
        return self.append_labels(session, [self.label(kind) for _ in range(count)])

    def append_labels(self, session: holdfast.Session, labels: list[str]) -> Attempt:
        """Append the messages of labels, as one batch."""
        messages = [holdfast.user(text_of(label)) for label in labels]
        return self.attempt("append", lambda: session.append(messages), labels=labels)

    def written(self, label: str, pieces: int) -> None:
        """Say that so many pieces of a stream must survive."""
        self._witness.say("written", self._name, label, pieces)

    # Rules

    def rule(self, sentence: str, holds: object, found: object = "") -> bool:
        """State a rule, and whether it holds."""
        if holds:
            self._witness.say("held", self._name, sentence)
        else:
            self._witness.say(
                "broke", self._name, f"not true: {sentence} {found!s}"[:_LONGEST_WORD]
            )
        return bool(holds)

    def fact(self, what: str) -> None:
        """Count something that really happened."""
        self._witness.say("met", self._name, what)

    def dropped(self, path: Path, offset: int) -> None:
        """Say which bytes the disk refused: they must be gone, or the play proved nothing."""
        self._witness.say("dropped", self._name, str(path), offset)

    def soon(self, sentence: str, becomes_true: Callable[[], object], found: Any = "") -> bool:
        """State a rule that has some seconds to come true."""
        end = time.monotonic() + _LONGEST_WAIT_SECONDS
        while not becomes_true() and time.monotonic() < end:
            time.sleep(0.01)
        return self.rule(sentence, becomes_true(), found() if callable(found) else found)

    def fails(
        self, sentence: str, attempt: Attempt, kind: type[Exception] = holdfast.HoldfastError
    ) -> bool:
        """State the rule that a call is refused with an error of a kind."""
        found = attempt.result if attempt.error is None else attempt.error
        return self.rule(sentence, isinstance(attempt.error, kind), f"({found!r})")

    def no_strange_error(self, name: str, call: Callable[[], Any]) -> Any:
        """State that a call works or raises an error of Holdfast's own; return what it returned."""
        result, strange = None, None
        try:
            result = call()
        except holdfast.HoldfastError:
            pass
        except Exception as error:  # noqa: BLE001  the very thing that is looked for
            strange = error
        sentence = f"{name} raises no error that is not Holdfast's"
        self.rule(sentence, strange is None, f"({strange!r})")
        return result

    def works(self, sentence: str, attempt: Attempt) -> bool:
        """State the rule that a call succeeds."""
        return self.rule(sentence, attempt.error is None, f"({attempt.error!r})")


def perform(
    home: Path, witness: Witness, *, what: str, ground: dict[str, str], seed: str, **options: Any
) -> None:
    """Perform a play in this process. ``what`` is its module and function."""
    del home  # the ground knows
    module, _, function = what.partition(":")
    play = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    player = Player(Ground(**ground), witness, seed)
    try:
        play(player, **options)
    except BaseException:
        witness.say("fell", "a", traceback.format_exc()[-_LONGEST_WORD:])
        raise
    witness.say("done", "a")


def heard(said: list[list[Any]], tally: Tally) -> list[list[Any]]:
    """Count what a play said of rules and facts; return what is left for the oracle."""
    left = []
    for words in said:
        match words:
            case ["held", _, _]:
                tally.count("rules held")
            case ["broke", _, sentence]:
                tally.break_(sentence)
            case ["met", _, fact]:
                tally.count(fact)
            case ["dropped", _, path, offset]:
                _judge_dropped(Path(path), offset, tally)
            case _:
                left.append(words)
    return left


def _judge_dropped(path: Path, offset: int, tally: Tally) -> None:
    """See that the disk lost what it said it had lost."""
    with path.open("rb") as file:
        file.seek(offset)
        if file.read().strip(b"\0"):
            tally.break_(f"{path.name} has what the disk refused: this case proves nothing")
        else:
            tally.count("files whose pages were lost")
