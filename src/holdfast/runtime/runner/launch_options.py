"""What a runner is started with.

Values alone: a client that has a runner started loads nothing of what only the runner needs.
"""

from __future__ import annotations

from msgspec import Struct, field

from holdfast.runtime.config.run_options import RunOptions


class IdleTimeouts(Struct, frozen=True):
    """How long a runner stays: idle with nobody connected; with a question and nobody to ask."""

    idle_seconds: float = 60.0
    question_seconds: float = 600.0


class Launch(Struct, frozen=True, kw_only=True):
    """What a runner is started with; ``meta`` makes a new session.

    Where patience and the greatest number of runners are not given, they are as configured.
    """

    home: str
    session: str
    workspace: str
    is_new: bool = False
    meta: dict[str, str] = field(default_factory=dict)
    wishes: RunOptions = RunOptions(attended=True)
    patience: IdleTimeouts | None = None
    most_runners: int | None = None


class StartResult(Struct, frozen=True):
    """What came of a start: ready, taken (somebody listens already), or an error."""

    state: str
    error: str = ""
    exit_code: int = 1
