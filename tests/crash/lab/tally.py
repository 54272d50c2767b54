"""What cases came to: counts that add up, and failures with the case that shows them again."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace


class Failure(Struct, frozen=True):
    """One broken promise, or one error of the laboratory: the case it showed in, and a sentence."""

    case: str
    what: str
    error: bool = False


class Tally(Struct):
    """Counts over some cases. All but ``cases``, ``acknowledged`` and ``facts`` should be zero.

    ``lost`` counts acknowledged entries that are missing or altered, ``duplicates`` entries that
    are there more than once, ``refused`` sessions that could not be opened, ``broken`` everything
    else that the four rules forbid. ``errors`` counts cases that came to no verdict, because the
    laboratory failed and not, for all that is known, the program. ``facts`` are counts of what was
    really exercised (faults that struck, states by kind …), so that a layer that did nothing cannot
    look like one that passed.
    """

    cases: int = 0
    acknowledged: int = 0
    lost: int = 0
    duplicates: int = 0
    refused: int = 0
    broken: int = 0
    errors: int = 0
    facts: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether any promise was broken or any case came to no verdict."""
        return self.blames_program or bool(self.errors)

    @property
    def blames_program(self) -> bool:
        """Whether the program broke a promise; an error of the laboratory does not show that."""
        return bool(self.lost or self.duplicates or self.refused or self.broken)

    def count(self, fact: str, number: int = 1) -> None:
        """Count something that was exercised."""
        self.facts[fact] = self.facts.get(fact, 0) + number

    def lose(self, what: str) -> None:
        """Note an acknowledged entry that is missing or altered."""
        self.lost += 1
        self._fail(what)

    def repeat(self, what: str) -> None:
        """Note an entry that is there twice."""
        self.duplicates += 1
        self._fail(what)

    def refuse(self, what: str) -> None:
        """Note a session that cannot be opened."""
        self.refused += 1
        self._fail(what)

    def break_(self, what: str) -> None:
        """Note any other broken rule."""
        self.broken += 1
        self._fail(what)

    def err(self, what: str) -> None:
        """Note that a case came to no verdict: the laboratory itself is at fault."""
        self.errors += 1
        self._fail(what, error=True)

    def _fail(self, what: str, *, error: bool = False) -> None:
        if len(self.failures) < _FAILURES_KEPT:
            self.failures.append(Failure("", what, error))

    def named(self, case: str) -> Tally:
        """Give failures that do not have one yet the name of their case; returns itself."""
        self.failures = [
            failure if failure.case else replace(failure, case=case) for failure in self.failures
        ]
        return self

    def add(self, other: Tally) -> None:
        """Add another tally to this one."""
        self.cases += other.cases
        self.acknowledged += other.acknowledged
        self.lost += other.lost
        self.duplicates += other.duplicates
        self.refused += other.refused
        self.broken += other.broken
        self.errors += other.errors
        for fact, number in other.facts.items():
            self.count(fact, number)
        self.failures = [*self.failures, *other.failures][:_FAILURES_KEPT]


_FAILURES_KEPT = 20


def total(tallies: Iterable[Tally]) -> Tally:
    """Return the sum of tallies."""
    whole = Tally()
    for tally in tallies:
        whole.add(tally)
    return whole
