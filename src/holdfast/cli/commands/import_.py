"""``holdfast import``: import sessions of other agents, and archives."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

import holdfast
from holdfast.cli.ui.confirm import check_agreed
from holdfast.errors import DiskFull, HoldfastError, ImportRejected, SessionLocked
from holdfast.exchange.archive.read import AGENT, take_archive
from holdfast.exchange.importing.importer import (
    BRANCHED,
    CREATED,
    DELETED,
    EMPTY,
    ERASED,
    GROWN,
    SHORTER,
    UNCHANGED,
    Imported,
    ImportRun,
)
from holdfast.exchange.importing.source_files import ImportProblem
from holdfast.keeper.import_plan import ImportPlan, ImportRow, plan_import, plan_rows
from holdfast.keeper.text import counted, padded, printable, size
from holdfast.model.codec import dumps
from holdfast.store.store import Store
from holdfast.tui.tty import is_terminal

_MOST_SHOWN = 20
_WHERE_WIDTH = 44
_SAID = {
    CREATED: "imported",
    GROWN: "with new messages",
    BRANCHED: "with changes: the new part is a branch",
    SHORTER: "shorter than before: skipped",
    EMPTY: "empty: skipped",
    DELETED: "deleted here: skipped",
    ERASED: "with entries that were erased here: skipped",
    UNCHANGED: "unchanged",
}


@click.command(
    "import",
    help="""Import sessions of other agents, and .holdfast archives. The originals do not change.

    With auto it looks for every supported agent on this machine, shows a plan and asks. Run it
    again to import what is new since, or to continue after an interruption. Lines that cannot be
    read are reported with their numbers; the rest is imported. Exits with 65 if a whole file,
    folder or database cannot be read, or if an archive is damaged in any place.

    \b
    holdfast import auto
    holdfast import auto --dry-run
    holdfast import ~/old/.claude/projects
    holdfast import --from codex ~/rollout.jsonl
    holdfast import k3v9.holdfast
    """,
)
@click.argument("source", required=False, metavar="[auto | PATH]")
@click.option(
    "--from", "agent", metavar="AGENT", help="Agent that wrote the sessions: codex, claude-code, …"
)
@click.option("--dry-run", is_flag=True, help="Only show what would be imported.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per session, then a summary."
)
def command(
    *, source: str | None, agent: str | None, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Import sessions."""
    store = holdfast.open_store()
    with ImportRun(store) as importing:
        plan = plan_import(importing, source, agent, Path.home(), os.environ)
        wanted = [each for each in plan.sources if each.standing in (CREATED, GROWN)]
        if not as_json:
            _show_plan(plan_rows(plan))
        run = _Run(store, importing, plan.problems, as_json=as_json)
        if dry_run or not wanted:
            _tell_plan(plan, wanted, as_json=as_json, dry_run=dry_run)
            run.tell_problems()
            sys.exit(run.exit_code)
        if plan.asks:
            what = counted(len(wanted), "session")
            check_agreed(f"Import {what}?", yes=yes)
        run.take_all(wanted)
    sys.exit(run.finish(len(plan.sources) - len(wanted)))


def _show_plan(found: list[ImportRow]) -> None:
    if not found:
        return
    head = f"{'agent':12}  {'where':{_WHERE_WIDTH}}  {'new':>6}  {'changed':>7}  {'same':>6}"
    click.echo(f"{head}  {'trash':>6}  size", err=True)
    for row in found:
        where = padded(printable(row.where), _WHERE_WIDTH)
        counts = row.counts
        new, changed, same = counts[CREATED], counts[GROWN], counts[UNCHANGED]
        told = f"{padded(row.agent, 12)}  {where}  {new:6}  {changed:7}  {same:6}"
        click.echo(f"{told}  {counts[DELETED]:6}  {size(row.size_bytes)}", err=True)


def _tell_plan(plan: ImportPlan, wanted: list[Any], *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        for each in plan.sources:
            told = {"type": "plan", "agent": each.source.agent, "id": each.source.id}
            where = {"path": each.source.path, "size_bytes": each.source.size_bytes}
            click.echo(dumps({**told, **where, "standing": each.standing}))
        return
    if not plan.sources:
        click.echo("no sessions were found", err=True)
    elif not wanted:
        click.echo(f"{counted(len(plan.sources), 'session')} found, nothing is new", err=True)
    elif dry_run:
        click.echo(f"{counted(len(wanted), 'session')} would be imported", err=True)


class _Run:
    """One import, and what it prints."""

    def __init__(
        self,
        store: Store,
        importing: ImportRun,
        problems: list[ImportProblem],
        *,
        as_json: bool,
    ) -> None:
        self._store = store
        self._importing = importing
        self._as_json = as_json
        self._actions: dict[str, int] = {}
        self._messages = 0
        self._open = 0
        self._empty: list[str] = []
        self._problems, self._problem_count = list(problems), len(problems)
        self._is_damaged = bool(problems)
        if as_json:
            for problem in problems:
                click.echo(dumps({"type": "problem", **msgspec.to_builtins(problem)}))
        self._rejected: list[HoldfastError] = []
        self._held: list[SessionLocked] = []

    def take_all(self, sources: list[Any]) -> None:
        """Import every session; errors are recorded, and the others are still imported."""
        self._importing.hold()
        total = sum(each.source.size_bytes for each in sources)
        seen = is_terminal(sys.stderr) and not self._as_json
        with click.progressbar(
            length=max(total, 1), label="importing", file=sys.stderr, hidden=not seen
        ) as bar:
            for each in sources:
                self._take(each, bar)

    def _take(self, each: Any, bar: Any) -> None:
        told = 0

        def progress(done: int, _: int) -> None:
            nonlocal told
            step = min(done, each.source.size_bytes) - told
            if step > 0:
                told += step
                bar.update(step)

        try:
            if each.importer is None:
                done = take_archive(self._store, Path(each.source.path), progress)
            else:
                done = self._importing.take(each.importer, each.source, progress)
        except SessionLocked as error:
            self._held.append(error)
            self._object(each, {"action": "held", "reason": str(error)})
        except DiskFull:
            raise
        except HoldfastError as error:
            self._rejected.append(error)
            self._object(each, {"action": "rejected", "reason": str(error)})
        else:
            self._count(done)
            fields = msgspec.to_builtins(done)
            del fields["source"]
            self._object(each, fields)
        bar.update(max(each.source.size_bytes - told, 0))

    def _count(self, done: Imported) -> None:
        self._actions[done.action] = self._actions.get(done.action, 0) + 1
        self._messages += done.counts.messages
        self._open += done.is_open
        if done.action == EMPTY and len(self._empty) < _MOST_SHOWN:
            self._empty.append(done.source.path)
        self._problem_count += done.problem_count
        self._problems += done.problems[: max(0, _MOST_SHOWN + 1 - len(self._problems))]
        # A line is one of many; what has no line is a file or a database. An archive is sealed.
        whole = done.source.agent == AGENT
        self._is_damaged |= any(whole or problem.line is None for problem in done.problems)

    def _object(self, each: Any, fields: dict[str, Any]) -> None:
        if self._as_json:
            told = {"type": "session", "agent": each.source.agent, "id": each.source.id}
            click.echo(dumps({**told, "path": each.source.path, **fields}))

    def finish(self, left: int) -> int:
        """Print the result and return the exit code."""
        if self._as_json:
            totals = {"actions": self._actions, "messages": self._messages, "left": left}
            rest = {"problems": self._problem_count, "rejected": len(self._rejected)}
            click.echo(dumps({"type": "result", **totals, **rest, "held": len(self._held)}))
        else:
            self._tell()
        return self.exit_code

    @property
    def exit_code(self) -> int:
        """The exit code; sessions in use come first, because a retry may succeed."""
        if self._held:
            return SessionLocked.exit_code
        if self._rejected:
            return self._rejected[0].exit_code
        return ImportRejected.exit_code if self._is_damaged else 0

    def _tell(self) -> None:
        for action, number in self._actions.items():
            click.echo(f"{counted(number, 'session')} {_SAID[action]}", err=True)
        if self._messages:
            click.echo(f"{counted(self._messages, 'message')} in all", err=True)
        for path in self._empty:
            click.echo(f"{printable(path)}: no message was found in it", err=True)
        if self._open:
            sessions = counted(self._open, "session")
            click.echo(f"{sessions} still being written: import again for the last reply", err=True)
        self.tell_problems()
        for error in (*self._rejected, *self._held):
            click.echo(f"holdfast: {printable(str(error))}", err=True)

    def tell_problems(self) -> None:
        """Print what could not be imported."""
        if self._as_json:
            return
        for problem in self._problems[:_MOST_SHOWN]:
            where = problem.path if problem.line is None else f"{problem.path}:{problem.line}"
            click.echo(f"{printable(where)}: {printable(problem.reason)}", err=True)
        if self._problem_count > _MOST_SHOWN:
            click.echo(f"… {self._problem_count - _MOST_SHOWN} more (--json)", err=True)
        if self._problem_count:
            count = counted(self._problem_count, "place")
            click.echo(f"{count} could not be imported exactly as recorded", err=True)
