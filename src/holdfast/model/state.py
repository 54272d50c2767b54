"""What a session has come to: the values that the fold produces. Pure data."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field
from msgspec.json import Decoder
from msgspec.structs import replace

from holdfast.model.entry import DamagePlace


class ModelTotals(Struct, frozen=True, omit_defaults=True):
    """Token counts and cost of all requests to one model.

    ``cost_usd`` adds up the requests whose price was known; ``unpriced`` counts the others.
    """

    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0


class Totals(ModelTotals, frozen=True, omit_defaults=True):
    """Token counts and cost of a whole session, and the same for each model."""

    models: dict[str, ModelTotals] = field(default_factory=dict)

    def copy(self) -> Totals:
        """Return totals that share no container with these."""
        return replace(self, models={**self.models})


class OpenTurn(Struct, frozen=True, omit_defaults=True):
    """The last turn and how it stands."""

    seq: int
    state: str
    cause: str | None = None


class State(Struct, omit_defaults=True):
    """The session-wide state after entry ``seq``.

    Treated as immutable once the fold has returned it: the fold replaces containers, never changes
    them in place, so a snapshot can be read by any thread. ``queue`` names the entries of waiting
    prompts, ``snapshots`` the entry of each snapshot by its name, ``gaps`` the places of
    damage that is already noted (a detail of the medium: see ``DamagePlace``), ``must`` the types
    that a writer of this session has to know.
    """

    seq: int = -1
    head: int | None = None
    started: str = ""
    updated: str = ""
    meta: dict[str, Any] = field(default_factory=dict)
    first_text: str | None = None
    messages: int = 0
    totals: Totals = field(default_factory=Totals)
    turn: OpenTurn | None = None
    queue: list[int] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    snapshots: dict[str, int] = field(default_factory=dict)
    gaps: list[DamagePlace] = field(default_factory=list)
    must: list[str] = field(default_factory=list)
    unsupported: str | None = None

    def copy(self) -> State:
        """Return a state for somebody who may change it: it shares no container with this one."""
        return replace(
            self,
            meta=copied(self.meta),
            totals=self.totals.copy(),
            queue=[*self.queue],
            labels={**self.labels},
            snapshots={**self.snapshots},
            gaps=[*self.gaps],
            must=[*self.must],
        )

    @property
    def title(self) -> str | None:
        """The title that was given, else the first user text."""
        given = self.meta.get("title")
        return given if isinstance(given, str) and given else self.first_text

    @property
    def turn_is_open(self) -> bool:
        """Whether a turn started (or waits for an approval) and has not ended."""
        return self.turn is not None and self.turn.state in ("started", "waiting")


def copied(facts: dict[str, Any]) -> dict[str, Any]:
    """Return JSON data that shares no container with the original, however deep it is nested."""
    result = facts.copy()
    unfinished: list[Any] = [result]
    while unfinished:
        container = unfinished.pop()
        for place, value in (
            container.items() if isinstance(container, dict) else enumerate(container)
        ):
            if isinstance(value, dict | list):
                container[place] = own = value.copy()
                unfinished.append(own)
    return result


# msgspec looks a type up when it is first used, and two threads that do so at the same time crash
# the process (0.22). So it is looked up now, while modules are imported one by one.
Decoder(State)
