"""``holdfast -p``: one prompt, answered without anybody watching."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

import click

from holdfast.cli.naming import complete_session

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
            self.fail(f"{value!r} is no length of time: write 90, 90s, 10m or 1.5h.", param, ctx)
        return seconds


class _Amount(click.FloatRange):
    """More than nothing, and a number: a budget that is none would never be used up."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        amount = float(super().convert(value, param, ctx))
        if not math.isfinite(amount):
            self.fail(f"{value!r} is no amount.", param, ctx)
        return amount


@click.command(
    short_help="Answer one prompt.",
    help=(
        "Answer one prompt and leave; everything is saved as it happens. Standard input that is "
        "not a terminal is added to the prompt; with - it is the prompt. Nobody is asked for "
        "approval: what is not allowed is refused, told to the model and listed at the end."
    ),
)
@click.option(
    "-p",
    "--print",
    "prompt",
    metavar="PROMPT",
    is_flag=False,
    flag_value="",
    help="Answer this prompt and leave.",
)
@click.option("-c", "--continue", "latest", is_flag=True, help="Go on with this folder's newest.")
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
    help="Go on with a session: id, part of one, title or path.",
)
@click.option("--fork", "--fork-session", "fork", is_flag=True, help="… in a copy of it.")
@click.option("--continue-turn", is_flag=True, help="Go on with its interrupted turn first.")
@click.option("--kill-running", is_flag=True, help="End the commands it left running first.")
@click.option("--run-queue", is_flag=True, help="Then run the prompts that wait in its queue.")
@click.option("--compact", is_flag=True, help="Sum up its context first.")
@click.option("--session-id", metavar="ID", help="Give a new session this id.")
@click.option("-n", "--name", metavar="TITLE", help="Give the session a title.")
@click.option(
    "--ephemeral",
    "--no-session",
    "--no-session-persistence",
    "ephemeral",
    is_flag=True,
    help="Keep nothing: the session's folder is removed at the end.",
)
@click.option("--detach", is_flag=True, help="Have it done in the background, and leave.")
@click.option("--foreground", is_flag=True, help="Run turns in this process, and end with it.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    help="Text, one object, or every entry as it becomes durable.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --output-format json.")
@click.option(
    "--input-format",
    type=click.Choice(["text", "stream-json"]),
    default="text",
    help="How standard input is read; stream-json is one prompt a line.",
)
@click.option("--model", metavar="NAME", help="The model that answers.")
@click.option("--provider", metavar="NAME", help="anthropic, openai or rehearsal.")
@click.option("--base-url", metavar="URL", help="A server of your own that speaks its protocol.")
@click.option("--allow", metavar="RULE", multiple=True, help="Such as 'bash(make test)'.")
@click.option("--allow-all", is_flag=True, help="Let every tool do anything.")
@click.option("--max-turns", type=click.IntRange(1), metavar="N", help="At most N requests.")
@click.option(
    "--max-budget-usd",
    type=_Amount(0, min_open=True),
    metavar="USD",
    help="Stop when this much is spent.",
)
@click.option("--time-limit", type=_Duration(), metavar="TIME", help="Stop after 90s, 10m, 1.5h.")
@click.option("-C", "workspace", metavar="DIR", help="Work in this folder.")
@click.option("--script", type=click.Path(path_type=Path), metavar="FILE", help="For rehearsal.")
@click.option("--chaos", default="", metavar="PLAN", help="Break the provider's streams.")
@click.argument("words", nargs=-1, metavar="[PROMPT]")
def command(*, as_json: bool, words: tuple[str, ...], **options: Any) -> None:
    """Answer one prompt."""
    prompt = options.pop("prompt")
    if prompt is None and not words and any(options[name] for name in _WITHOUT_PROMPT):
        prompt = ""
    if prompt is None:
        if words:
            raise click.UsageError(f"There is no command {words[0]!r}; see holdfast --help.")
        from holdfast.cli.chat import chat  # noqa: PLC0415  others need not pay for it
        from holdfast.cli.options import Options  # noqa: PLC0415  as above

        sys.exit(chat(Options(prompt="", **options)))
    if words and (prompt or len(words) > 1):
        raise click.UsageError("The prompt is one word for the shell: put it in quotes.")
    if as_json:
        options["output_format"] = "json"
    from holdfast.cli.headless import run  # noqa: PLC0415  others need not pay for it
    from holdfast.cli.options import Options  # noqa: PLC0415  as above

    sys.exit(run(Options(prompt=prompt or "".join(words), **options)))
