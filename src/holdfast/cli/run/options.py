"""The options of the chat and of ``-p``, and which of them contradict each other."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.runtime.config.run_options import Limits, RunOptions
from holdfast.store.validation import valid_title

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
    trust: bool = False
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
    def title(self) -> str | None:
        """The title to set.

        Raises:
            UsageError: it is not valid.
        """
        return None if self.name is None else valid_title(self.name)

    @property
    def wishes(self) -> RunOptions:
        """The settings for the agent."""
        return RunOptions(
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
        """The limits of the run."""
        return Limits(self.max_turns, self.max_budget_usd, self.time_limit)

    def check(self) -> None:
        """Reject options that contradict each other.

        Raises:
            UsageError: some do.
        """
        _ = self.title
        if self.resume == "":
            raise UsageError("-r needs a session: an id, part of an id, a title or a path.")
        if self.latest and self.resume is not None:
            raise UsageError("-c and -r name two sessions. Use one of them.")
        if self.fork and self.session_id:
            raise UsageError("A fork gets its own id. Leave out --session-id.")
        if self.goes_on and (self.ephemeral or self.session_id):
            raise UsageError(
                "--ephemeral and --session-id are for new sessions. Leave out -c and -r."
            )
        if self.fork and not self.goes_on:
            raise UsageError("--fork copies a session. Name it with -c or -r.")
        if not self.goes_on and not self.needs_prompt:
            raise UsageError(
                "--continue-turn, --kill-running, --run-queue and --compact need a "
                "session. Name it with -c or -r."
            )
        if self.trust and not self.goes_on:
            raise UsageError("--trust accepts a session from elsewhere. Name it with -r.")
        if self.detach and self.foreground:
            raise UsageError("--detach and --foreground exclude each other. Use one of them.")
        if self.detach and (self.ephemeral or self.streams_in or self.fork or self.kill_running):
            raise UsageError(
                "--detach cannot be used with --ephemeral, --fork, --kill-running or "
                "--input-format stream-json."
            )
        if self.streams_in and self.prompt == "-":
            raise UsageError(
                "With --input-format stream-json the prompts come from standard input. Use -p "
                "without -."
            )
