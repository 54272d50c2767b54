"""What a drill found: values, for people and for programs."""

from __future__ import annotations

from typing import Literal, Self

from msgspec import Struct, field

State = Literal["survived", "failed", "left_out"]


class Moments(Struct, frozen=True):
    """When things happened, in seconds since the first character was on the screen.

    ``back`` is when the next program had read the session again and said what it found, or showed
    again what had been shown; ``done`` when the turn had come to its end.
    """

    blow: float
    back: float
    done: float

    @classmethod
    def rounded(cls, blow: float, back: float, done: float) -> Self:
        """Return moments to the millisecond."""
        return cls(round(blow, 3), round(back, 3), round(done, 3))


class DrillResult(Struct, frozen=True):
    """What one scenario came to.

    ``shown_characters`` were on the screen before the blow, ``survived_characters`` of them are
    there afterwards, counted to the first that is not. ``commands`` were run by the agent,
    ``run_twice`` of them more than once. ``recovery_seconds`` is the time from the start of the
    next program until ``Moments.back``. ``note`` says what else is worth knowing: why a part was
    left out, or how the blow was struck.
    """

    name: str
    title: str
    state: State
    session: str | None = None
    shown_characters: int = 0
    survived_characters: int = 0
    commands: int = 0
    run_twice: int = 0
    recovery_seconds: float | None = None
    moments: Moments | None = None
    problems: list[str] = field(default_factory=list)
    note: str | None = None


class Drilled(Struct, frozen=True):
    """What a whole drill came to. ``scratch`` is where its files are, if they were kept."""

    version: str
    seconds: float
    findings: list[DrillResult]
    scratch: str | None = None

    @property
    def ok(self) -> bool:
        """Whether everything survived that was tried, and something was."""
        states = {finding.state for finding in self.findings}
        return "survived" in states and "failed" not in states
