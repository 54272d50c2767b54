"""``holdfast migrate``: take a legacy store over for good."""

from __future__ import annotations

import sys

import click
import msgspec

import holdfast
from holdfast.cli.asking import check_agreed
from holdfast.cli.progress import Bar
from holdfast.model.codec import dumps
from holdfast.model.terminal import for_terminal
from holdfast.store.contract import Migrated, Migration

_DAMAGED = 65
_MOST_PROBLEMS = 5


@click.command(
    help="""Take over the sessions of a legacy store for good.

    PATH is a folder of sessions that another agent keeps as files, or one such file. All sessions
    are written, synced and published here before the first file there is renamed to
    <name>.migrated; no file is removed or changed. What cannot be read is left and named. If this
    store cannot be written, everything stays as it was. After a crash: the same command again.

    To copy sessions and leave the originals in use, import them instead.

    \b
        holdfast migrate ~/old-agent/sessions --dry-run
        holdfast migrate ~/old-agent/sessions --yes
    """
)
@click.argument("path")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="What became of it as one JSON object.")
def command(*, path: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Take a legacy store over."""
    store = holdfast.open_store()
    plan = store.migrate(path, dry_run=True)
    count = len(plan.migrated)
    if dry_run or (not count and not store.has_unfinished_batch()):
        _show(plan, as_json=as_json)
    else:
        if not as_json and not yes:
            _show(plan, as_json=False)
        check_agreed(
            f"Take over {count} session{'s' * (count != 1)} of {for_terminal(plan.path)} and "
            "rename the files?",
            yes=yes,
        )
        with Bar("migrating", quiet=as_json) as bar:
            done = store.migrate(path, progress=bar)
        _show(done, as_json=as_json)
        plan = done
    if any(each.damaged for each in plan.sources):
        sys.exit(_DAMAGED)


def _show(done: Migration, *, as_json: bool) -> None:
    if as_json:
        fields = {"path": done.path, "dry_run": done.dry_run}
        click.echo(dumps({**fields, "sources": msgspec.to_builtins(done.sources)}))
        return
    for each in done.sources:
        click.echo(_line(each, done))
        for problem in each.problems[:_MOST_PROBLEMS]:
            click.echo(f"          {for_terminal(problem)}")
        more = len(each.problems) - _MOST_PROBLEMS
        if more > 0:
            click.echo(f"          and {more} more (--json)")
    verb = "to migrate" if done.dry_run else "migrated"
    click.echo(f"{len(done.migrated)} {verb} · {len(done.left)} left", err=True)


def _line(each: Migrated, done: Migration) -> str:
    path = each.path.removeprefix(f"{done.path}/")
    words = [f"{each.action:8}", for_terminal(path)]
    if each.session is not None:
        words.append(f"→ {each.session}")
    if each.reason is not None:
        words.append(f"({for_terminal(each.reason)})")
    return "  ".join(words)
