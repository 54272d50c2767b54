"""``holdfast`` without a command: the chat, or ``-p`` for one prompt."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

import click

from holdfast.cli.ui.complete import complete_session

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)?")
_WITHOUT_PROMPT = ("continue_turn", "kill_running", "run_queue", "compact")
_UNIT_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class _Duration(click.ParamType[float]):
    """``90``, ``90s``, ``10m``, ``1.5h``."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = _TIME.fullmatch(str(value).strip())
        seconds = float(found[1]) * _UNIT_SECONDS[found[2]] if found else 0.0
        if seconds <= 0:
            self.fail(f"{value!r} is not a duration: use 90, 90s, 10m or 1.5h.", param, ctx)
        return seconds


class _Amount(click.FloatRange):
    """A finite amount above 0: any other budget would never be used up."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        amount = float(super().convert(value, param, ctx))
        if not math.isfinite(amount):
            self.fail(f"{value!r} is not an amount in USD: use a number such as 0.50.", param, ctx)
        return amount


@click.command(
    short_help="Answer one prompt and exit.",
    help=(
        "Answer one prompt and exit. Every step is saved as it happens. Standard input that is "
        "not a terminal is added to the prompt; with -p - it is the prompt. You are not "
        "asked for approval: calls that are not allowed are denied, and are listed at the end."
    ),
)
@click.option(
    "-p",
    "--print",
    "prompt",
    metavar="PROMPT",
    is_flag=False,
    flag_value="",
    help="Answer this prompt and exit.",
)
@click.option(
    "-c", "--continue", "latest", is_flag=True, help="Continue the latest session in this folder."
)
@click.option(
    "-r",
    "--resume",
    "--session",
    "-S",
    "resume",
    metavar="SESSION",
    is_flag=False,
    flag_value="",
    shell_complete=complete_session,
    help="Continue this session: id, part of an id, title or path.",
)
@click.option(
    "--fork", "--fork-session", "fork", is_flag=True, help="Continue in a copy of the session."
)
@click.option("--continue-turn", is_flag=True, help="First continue the interrupted turn.")
@click.option("--kill-running", is_flag=True, help="First kill commands that are still running.")
@click.option("--run-queue", is_flag=True, help="Then run the prompts that wait in the queue.")
@click.option("--compact", is_flag=True, help="First replace old messages by a summary.")
@click.option("--session-id", metavar="ID", help="Create the session with this id.")
@click.option("-n", "--name", metavar="TITLE", help="Set the session's title.")
@click.option(
    "--ephemeral",
    "--no-session",
    "--no-session-persistence",
    "ephemeral",
    is_flag=True,
    help="Do not save: the session is only in memory.",
)
@click.option("--detach", is_flag=True, help="Run in the background and exit.")
@click.option(
    "--foreground", is_flag=True, help="Run turns in this process; they stop when it exits."
)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    help="Print the answer, one JSON object, or each entry after it is saved.",
)
@click.option("--json", "as_json", is_flag=True, help="Same as --output-format json.")
@click.option(
    "--input-format",
    type=click.Choice(["text", "stream-json"]),
    default="text",
    help="Read standard input as text, or as one JSON prompt per line.",
)
@click.option("--model", metavar="NAME", help="Use this model.")
@click.option("--provider", metavar="NAME", help="Use anthropic, openai or rehearsal (offline).")
@click.option(
    "--base-url", metavar="URL", help="Use this server; it must offer the provider's API."
)
@click.option(
    "--allow", metavar="RULE", multiple=True, help="Allow tool calls like 'bash(make test)'."
)
@click.option("--allow-all", is_flag=True, help="Allow every tool call.")
@click.option(
    "--max-turns", type=click.IntRange(1), metavar="N", help="Stop after N requests to the model."
)
@click.option(
    "--max-budget-usd",
    type=_Amount(0, min_open=True),
    metavar="USD",
    help="Stop after spending this much.",
)
@click.option("--time-limit", type=_Duration(), metavar="TIME", help="Stop after 90s, 10m, 1.5h.")
@click.option("-C", "workspace", metavar="DIR", help="Work in this folder.")
@click.option("--trust", is_flag=True, help="First accept a session that came from elsewhere.")
@click.option(
    "--script",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Script for the rehearsal model to play.",
)
@click.option("--chaos", default="", metavar="PLAN", help="Inject stream faults (for tests).")
@click.argument("words", nargs=-1, metavar="[PROMPT]")
def command(*, as_json: bool, words: tuple[str, ...], **options: Any) -> None:
    """Answer one prompt."""
    prompt = options.pop("prompt")
    if prompt is None and not words and any(options[name] for name in _WITHOUT_PROMPT):
        prompt = ""
    if prompt is None:
        if words:
            raise click.UsageError(f"There is no command {words[0]!r}; see holdfast --help.")
        from holdfast.cli.run.chat import chat  # noqa: PLC0415  others need not pay for it
        from holdfast.cli.run.options import Options  # noqa: PLC0415  as above

        sys.exit(chat(Options(prompt="", **options)))
    if words and (prompt or len(words) > 1):
        raise click.UsageError("Put the prompt in quotes, so that it is one argument.")
    if as_json:
        options["output_format"] = "json"
    from holdfast.cli.run.headless import run  # noqa: PLC0415  others need not pay for it
    from holdfast.cli.run.options import Options  # noqa: PLC0415  as above

    sys.exit(run(Options(prompt=prompt or "".join(words), **options)))
