"""``holdfast migrate``: import a legacy store and retire its files."""

from __future__ import annotations

import sys

import click
import msgspec

import holdfast
from holdfast.cli.ui.confirm import check_agreed
from holdfast.model.codec import dumps
from holdfast.model.sanitize import for_terminal
from holdfast.store.types import Migrated, Migration
from holdfast.tui.tty import Bar

_DAMAGED = 65
_MOST_PROBLEMS = 5


@click.command(
    help="""Import the sessions of a legacy store and retire its files.

    PATH is a folder with session files of another agent, or one such file. All sessions are written
    and synced here before the first original is renamed to <name>.migrated. No original is deleted
    or changed. Files that cannot be read stay as they are and are listed. If this store cannot be
    written, nothing changes. After a crash, run the same command again.

    To copy sessions and continue to use the originals, use import instead.

    \b
        holdfast migrate ~/old-agent/sessions --dry-run
        holdfast migrate ~/old-agent/sessions --yes
    """
)
@click.argument("path")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def command(*, path: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Migrate a legacy store."""
    store = holdfast.open_store()
    plan = store.migrate(path, dry_run=True)
    count = len(plan.migrated)
    if dry_run or (not count and not store.has_unfinished_batch()):
        _show(plan, as_json=as_json)
    else:
        if not as_json and not yes:
            _show(plan, as_json=False)
        check_agreed(
            f"Import {count} session{'s' * (count != 1)} of {for_terminal(plan.path)} and "
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
