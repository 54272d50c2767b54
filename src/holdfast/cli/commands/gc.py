"""``holdfast gc``: trash or compress old sessions, empty the trash, remove unused blobs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

import holdfast
from holdfast.cli.ui.confirm import check_agreed
from holdfast.cli.ui.filter_options import SINCE
from holdfast.errors import UsageError
from holdfast.keeper.gc import GcPlan, GcRules, carry_out, plan_blobs, plan_sessions, plan_trash
from holdfast.keeper.text import counted, cut, local_time, printable, size
from holdfast.model.codec import dumps
from holdfast.tui.tty import Colours, page

_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kmgt]?)(i?)b?", re.ASCII | re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_TITLE_WIDTH = 40

if TYPE_CHECKING:
    _Type = click.ParamType[int]
else:
    _Type = click.ParamType  # older versions cannot be subscripted


class _Size(_Type):
    """``500M``, ``2GB``, ``1.5GiB``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _SIZE.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a size: use 500M, 2GB or 1.5GiB.", param, ctx)
        base = 1024 if found[3] else 1000
        return int(float(found[1]) * base ** _POWERS[found[2].lower()])


@click.command(
    help="""Free disk space: show what would be removed, ask, then remove it.

    Give at least one option.

    A session moves to the trash only if all given rules select it: it is older than --older-than,
    not one of the --keep-last newest, and all sessions together exceed --max-size. Damaged sessions
    stay. Sessions that are in use, or were continued after the question, are skipped and listed,
    and the exit code is 75. Other problems are reported with an exit code of their own.

    With --compress, the selected sessions are compressed instead. They can still be listed,
    searched and read, and are decompressed when they are continued. --trash permanently deletes
    sessions that were moved to the trash long ago. --blobs permanently deletes files below blobs/
    that a crash left and that no entry refers to.

    \b
    holdfast gc --older-than 90d --keep-last 50 --dry-run
    holdfast gc --max-size 5GB
    holdfast gc --older-than 30d --compress
    holdfast gc --trash 30d --blobs --yes
    """
)
@click.option(
    "--older-than", type=SINCE, help="Only sessions last updated before: 90d, 6mo, 2026-01-01."
)
@click.option(
    "--keep-last", type=click.IntRange(0), metavar="N", help="Keep the N most recent sessions."
)
@click.option("--max-size", type=_Size(), help="Remove the oldest until the rest fits: 500M, 5GB.")
@click.option("--compress", is_flag=True, help="Compress sessions; move none to the trash.")
@click.option(
    "--trash", type=SINCE, help="Permanently delete sessions moved to the trash before this time."
)
@click.option("--blobs", is_flag=True, help="Permanently delete unused files in blobs/.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line, totals last."
)
def command(
    *,
    older_than: datetime | None,
    keep_last: int | None,
    max_size: int | None,
    compress: bool,
    trash: datetime | None,
    blobs: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Free disk space."""
    rules = GcRules(older_than, keep_last, max_size)
    if compress and not rules.given:
        raise UsageError("Select what to compress with --older-than or --keep-last.")
    if not rules.given and trash is None and not blobs:
        raise UsageError(
            "Select what to remove with --older-than, --keep-last, --max-size, --trash or --blobs."
        )
    if compress and max_size is not None:
        raise UsageError(
            "--max-size cannot be used with --compress: the compressed size is not known before."
        )
    store, plan = holdfast.open_store(), GcPlan(compress)
    if rules.given:
        plan_sessions(store, rules, plan)
    if trash is not None:
        plan_trash(store, trash, plan)
    if blobs:
        plan_blobs(store, plan)
    if not as_json:
        page(_preview(plan), Colours())
        _tell_skipped(plan.skipped)
    told = len(plan.skipped)
    if not dry_run and not plan.empty:
        check_agreed(_question(plan), yes=yes)
        carry_out(store, plan)
    if as_json:
        for each in _objects(plan, done=not dry_run):
            click.echo(dumps(each))
    else:
        _tell_skipped(plan.skipped[told:])
        _tell(plan, done=not dry_run)
    sys.exit(plan.code)


def _preview(plan: GcPlan) -> Iterator[str]:
    for summary, taken in plan.sessions:
        title = cut(printable(summary.title or ""), _TITLE_WIDTH)
        what = "to compress " if plan.compress else "to the trash"
        yield f"{what}  {summary.id}  {local_time(summary.updated)}  {size(taken):>9}  {title}"
    for gone, taken in plan.trash:
        yield f"permanently   {gone.id}  {local_time(gone.at)}  {size(taken):>9}  (when deleted)"
    if plan.rest.count:
        what = f"{'(remains of interrupted deletions)':45}"
        yield f"permanently   {what}  {size(plan.rest.size_bytes):>9}"
    for session_id, count, taken in plan.blobs:
        what = f"{counted(count, 'file'):19}"
        yield f"permanently   {session_id}  {what}  {size(taken):>9}  (unused)"


def _question(plan: GcPlan) -> str:
    said = []
    if plan.sessions:
        what = f"{counted(len(plan.sessions), 'session')} ({size(plan.sessions_bytes)})"
        said.append(f"compress {what}" if plan.compress else f"move {what} to the trash")
    if plan.trash:
        said.append(f"remove {counted(len(plan.trash), 'deleted session')} permanently")
    if plan.rest.count:
        said.append("remove the rest of sessions whose deletion was interrupted")
    if plan.blobs:
        said.append(f"remove {counted(sum(each[1] for each in plan.blobs), 'file')} permanently")
    freed = f" ({size(plan.gone_bytes)} freed)" if plan.gone_bytes else ""
    text = " and ".join(said)
    return f"{text[0].upper()}{text[1:]}{freed}?"


def _tell_skipped(skipped: list[tuple[str, str]]) -> None:
    for session_id, reason in skipped:
        click.echo(f"skipped       {session_id}  {printable(reason)}", err=True)


def _tell(plan: GcPlan, *, done: bool) -> None:
    would = "" if done else "would be "
    count, freed = counted(len(plan.sessions), "session"), plan.gone_bytes
    if plan.compress:
        freed += plan.sessions_bytes if done else 0
        said = f"{count} {would}compressed"
    else:
        said = f"{count} ({size(plan.sessions_bytes)}) {would}moved to the trash"
    click.echo(f"{said}, {size(freed)} {would}freed", err=True)


def _objects(plan: GcPlan, *, done: bool) -> Iterator[dict[str, Any]]:
    for summary, taken in plan.sessions:
        kind = "compressed" if plan.compress else "session"
        yield {"type": kind, "session": summary.id, "size_bytes": taken, "done": done}
    for gone, taken in plan.trash:
        told = {"type": "trash", "session": gone.id, "path": gone.path}
        yield {**told, "size_bytes": taken, "done": done}
    for session_id, count, taken in plan.blobs:
        told = {"type": "blobs", "session": session_id}
        yield {**told, "count": count, "size_bytes": taken, "done": done}
    for session_id, reason in plan.skipped:
        yield {"type": "skipped", "session": session_id, "reason": reason, "done": False}
    gained = plan.sessions_bytes if plan.compress and done else 0
    yield {
        "type": "total",
        "sessions": len(plan.sessions),
        "size_bytes": plan.sessions_bytes,
        "trash": len(plan.trash),
        "rest": plan.rest.count,
        "blobs": sum(count for _, count, _ in plan.blobs),
        "freed_bytes": plan.gone_bytes + gained,
        "skipped": len(plan.skipped),
        "done": done,
    }
