"""What can be said on the command line of a run without a screen, and what contradicts itself."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.runtime.limits import Limits
from holdfast.runtime.wishes import Wishes

Format = Literal["text", "json", "stream-json"]


class Options(Struct, frozen=True, kw_only=True):
    """The options of ``holdfast -p``; ``ask`` has what they mean."""

    prompt: str = ""
    latest: bool = False
    resume: str | None = None
    fork: bool = False
    continue_turn: bool = False
    kill_running: bool = False
    run_queue: bool = False
    compact: bool = False
    session_id: str | None = None
    name: str | None = None
    ephemeral: bool = False
    detach: bool = False
    foreground: bool = False
    output_format: Format = "text"
    input_format: Literal["text", "stream-json"] = "text"
    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    allow: tuple[str, ...] = ()
    allow_all: bool = False
    max_turns: int | None = None
    max_budget_usd: float | None = None
    time_limit: float | None = None
    workspace: str | None = None
    script: Path | None = None
    chaos: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether it is about a session that is there already."""
        return self.latest or self.resume is not None

    @property
    def needs_prompt(self) -> bool:
        """Whether there is nothing to do without one."""
        return not (self.continue_turn or self.kill_running or self.run_queue or self.compact)

    @property
    def streams_in(self) -> bool:
        """Whether standard input is lines of JSON."""
        return self.input_format == "stream-json"

    @property
    def wishes(self) -> Wishes:
        """What they ask of the agent."""
        return Wishes(
            provider=self.provider,
            model=self.model,
            base_url=self.base_url,
            allow=self.allow,
            allow_all=self.allow_all,
            script=None if self.script is None else str(self.script.absolute()),
            chaos=self.chaos,
        )

    @property
    def limits(self) -> Limits:
        """How far the run may go."""
        return Limits(self.max_turns, self.max_budget_usd, self.time_limit)

    def check(self) -> None:
        """Refuse what contradicts itself.

        Raises:
            UsageError: something does; says what.
        """
        if self.resume == "":
            raise UsageError("Say which session: -r with an id, part of one, a title or a path.")
        if self.latest and self.resume is not None:
            raise UsageError("-c and -r name two sessions: use one of them.")
        if self.fork and self.session_id:
            raise UsageError("A fork gets an id of its own: leave --session-id out.")
        if self.goes_on and (self.ephemeral or self.session_id):
            raise UsageError(
                "--ephemeral and --session-id are for new sessions, not with -c or -r."
            )
        if self.fork and not self.goes_on:
            raise UsageError("--fork makes a copy of a session: name it with -c or -r.")
        if not self.goes_on and not self.needs_prompt:
            raise UsageError(
                "--continue-turn, --kill-running, --run-queue and --compact need a session: -c "
                "or -r."
            )
        if self.detach and self.foreground:
            raise UsageError("--detach and --foreground are opposites: use one of them.")
        if self.detach and (self.ephemeral or self.streams_in or self.fork or self.kill_running):
            raise UsageError(
                "--detach does not go with --ephemeral, --fork, --kill-running and --input-format "
                "stream-json."
            )
        if self.streams_in and self.prompt == "-":
            raise UsageError(
                "With --input-format stream-json the prompts are in the input already."
            )
