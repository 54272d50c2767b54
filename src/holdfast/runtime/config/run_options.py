"""What one run asks for, before the settings apply: model, rules, limits.

Values only, so that clients and the protocol need not import the agent.
"""

from __future__ import annotations

from msgspec import Struct


class RunOptions(Struct, frozen=True, kw_only=True):
    """What one run asks for; the settings fill in the rest.

    ``attended`` says whether a user can be asked; ``script`` and ``chaos`` are the rehearsal
    model's part and a plan of faults.
    """

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    allow: tuple[str, ...] = ()
    allow_all: bool = False
    attended: bool = False
    script: str | None = None
    chaos: str = ""


class Limits(Struct, frozen=True):
    """How far one run may go: requests, money, time; ``None`` is no limit."""

    max_turns: int | None = None
    max_budget_usd: float | None = None
    time_limit_seconds: float | None = None
