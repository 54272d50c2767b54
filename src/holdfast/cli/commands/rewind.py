"""``holdfast rewind``: undo prompts: the conversation, file changes, or both."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

import holdfast
from holdfast.cli.run.select_session import accepted, confirm_acceptance
from holdfast.cli.ui.complete import complete_session
from holdfast.errors import ForeignSession, UsageError
from holdfast.files import default_home
from holdfast.keeper.lookup import resolve_session
from holdfast.keeper.text import printable
from holdfast.keeper.workspaces import working_folder
from holdfast.model.codec import dumps
from holdfast.runtime.agent import rewind
from holdfast.runtime.agent.foreign import facts_of
from holdfast.runtime.agent.origin import recorded_workspace
from holdfast.runtime.agent.rewind import RewindPlan
from holdfast.runtime.agent.rewind_points import Point, before_prompts, points, target
from holdfast.runtime.config import load as config
from holdfast.runtime.tools.undo import UndoStep
from holdfast.store.session import Session
from holdfast.store.store import Store
from holdfast.tui.tty import is_terminal

_What = Literal["conversation", "files", "both"]
_LINE_WIDTH = 60
_SHOWN = {"restore": "restore", "remove": "remove", "skip": "skipped", "nothing": "unchanged"}


class _Wish(msgspec.Struct, frozen=True):
    """The options of the command."""

    to: int | None
    turns: int | None
    what: _What
    folder: str | None
    overwrite: bool
    autorun: bool
    as_json: bool

    @property
    def files(self) -> bool:
        return self.what != "conversation"

    @property
    def conversation(self) -> bool:
        return self.what != "files"


@click.command(
    help="Undo prompts and the file changes made since. Without --to or --turns, list the prompts."
)
@click.argument("session", shell_complete=complete_session)
@click.option(
    "--to",
    type=int,
    metavar="SEQ",
    help="Undo this prompt and everything after it; for another entry, everything after it.",
)
@click.option("--turns", type=click.IntRange(1), metavar="N", help="Undo the last N prompts.")
@click.option(
    "--conversation", "what", flag_value="conversation", help="Undo only the conversation."
)
@click.option("--files", "what", flag_value="files", help="Undo only the file changes.")
@click.option("--both", "what", flag_value="both", default="both", help="Undo both (default).")
@click.option(
    "--overwrite",
    is_flag=True,
    help="Also overwrite files that were changed later by other programs.",
)
@click.option(
    "--autorun",
    is_flag=True,
    help="Also restore files that other programs run automatically, such as git hooks.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("-C", "folder", metavar="DIR", help="The session's folder, if it has moved.")
@click.option("--trust", is_flag=True, help="First accept a session that came from elsewhere.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, session: str, dry_run: bool, yes: bool, trust: bool, **wished: Any) -> None:
    """Rewind a session."""
    wish = _Wish(**wished)
    if wish.to is not None and wish.turns is not None:
        raise click.UsageError("Give --to or --turns, not both.")
    store = holdfast.open_store()
    place = resolve_session(store, session)
    if trust and (told := accepted(store, place)) is not None:
        click.echo(told, err=True)
    listing = wish.to is None and wish.turns is None
    if wish.files and not (listing or yes or dry_run) and is_terminal(sys.stdin):
        _ask_first(store, place, wish)
    with store.open(place, "read" if listing or dry_run else "write") as opened:
        if listing:
            _list(opened, as_json=wish.as_json)
            return
        planned, workspace, allowed = _planned(opened, wish)
        asks = is_terminal(sys.stdin) and not (yes or dry_run)
        if not wish.as_json or asks:
            _show_plan(planned, wish, err=wish.as_json)
        if asks and not click.confirm("Undo this?", err=True):
            click.echo("Nothing was changed.", err=True)
            sys.exit(1)
        if asks and planned.autorun and click.confirm(_autorun_question(planned), err=True):
            wish = msgspec.structs.replace(wish, autorun=True)
            planned, workspace, allowed = _planned(opened, wish)
        done, before = planned.steps, opened.state.head
        if not dry_run:
            done = rewind.carry_out(
                opened,
                planned,
                workspace,
                allowed=allowed,
                files=wish.files,
                conversation=wish.conversation,
                autorun=wish.autorun,
            )
        if wish.as_json:
            _report(opened, planned, done, wish, carried_out=not dry_run)
        elif not dry_run:
            _tell(opened, planned, done, before if wish.conversation else None)


def _ask_first(store: Store, place: str | Path, wish: _Wish) -> None:
    """Ask whether to accept a session from elsewhere, if its file changes would be undone."""
    with store.open(place, "read") as session:
        try:
            _planned(session, wish)
        except ForeignSession:
            facts = facts_of(session)
        else:
            return
    if facts is not None and not confirm_acceptance(store, place, facts):
        click.echo("Nothing was changed.", err=True)
        sys.exit(1)


def _list(session: Session, *, as_json: bool) -> None:
    found = points(session)
    if not as_json and found:
        click.echo("turns  number  time (UTC)           files  prompt")
    for turns, point in zip(range(len(found), 0, -1), found, strict=True):
        if as_json:
            click.echo(dumps({"turns": turns, **msgspec.to_builtins(point)}))
        else:
            click.echo(_row(turns, point))
    if not as_json:
        hint = "--turns N or --to NUMBER undoes that prompt and everything after it."
        click.echo(hint if found else "There is no prompt to undo.", err=True)


def _row(turns: int, point: Point) -> str:
    when = printable(point.at[:19].replace("T", " "))
    line = printable(point.line)[:_LINE_WIDTH]
    return f"{turns:5}  {point.seq:6}  {when}  {point.files:5}  {line}"


def _planned(session: Session, wish: _Wish) -> tuple[RewindPlan, Path | None, tuple[Path, ...]]:
    """Return the plan, and the folder of the files."""
    if wish.turns is not None:
        to = before_prompts(session, wish.turns)
    else:
        assert wish.to is not None
        to = target(session, wish.to, anywhere=not wish.files)
    if not wish.files:
        return RewindPlan(to, []), None, ()
    workspace = _workspace(session, wish.folder)
    allowed: tuple[Path, ...] = ()
    if workspace is not None:
        found = config.load(workspace, environment=os.environ, home=default_home())
        allowed = tuple(Path(each) for each in found.settings.folders)
    planned = rewind.plan(
        session,
        to,
        workspace,
        allowed=allowed,
        overwrite=wish.overwrite,
        autorun=wish.autorun,
    )
    return planned, workspace, allowed


def _workspace(session: Session, given: str | None) -> Path | None:
    named = given if given is not None else recorded_workspace(session)
    if named is None and session.provenance().any_foreign:
        return working_folder(None)  # the session does not choose where files are written
    if named is None:
        return None
    if not Path(named).is_dir():
        raise UsageError(
            f"There is no folder {named}. Name the session's folder with -C DIR, or undo only the "
            "conversation with --conversation."
        )
    return Path(named)


def _show_plan(planned: RewindPlan, wish: _Wish, *, err: bool) -> None:
    if wish.conversation:
        place = "its beginning" if planned.to is None else f"entry {planned.to}"
        click.echo(f"The conversation continues from {place}.", err=err)
    for step in planned.steps:
        click.echo(_line(step), err=err)
    if wish.files and not planned.steps:
        click.echo("No tool changed a file since.", err=err)
    if planned.commands:
        run = "1 command was" if planned.commands == 1 else f"{planned.commands} commands were"
        click.echo(f"{run} run since. Changes made by commands are not undone.", err=True)
    if planned.autorun:
        click.echo(f"{_counted(len(planned.autorun))} only restored with --autorun.", err=True)
    left = _left([step for step in planned.steps if step.path not in planned.autorun])
    if left and not wish.overwrite:
        click.echo(f"{left} left unchanged; --overwrite restores what can be restored.", err=True)
    for running in planned.running:
        click.echo(f"Careful: {printable(running)}.", err=True)


def _line(step: UndoStep) -> str:
    line = f"{_SHOWN[step.action]:9}  {printable(step.path)}"
    return f"{line}  ({printable(step.reason)})" if step.reason else line


def _left(steps: list[UndoStep]) -> str:
    left = sum(step.action == "skip" for step in steps)
    return _counted(left) if left else ""


def _counted(files: int) -> str:
    return f"{files} {'file is' if files == 1 else 'files are'}"


def _autorun_question(planned: RewindPlan) -> str:
    named = "".join(f"\n  {printable(path)}" for path in planned.autorun)
    return f"Other programs run these files automatically:{named}\nRestore them, too?"


def _tell(session: Session, planned: RewindPlan, done: list[UndoStep], before: int | None) -> None:
    """Print what differs from the plan, and how to undo the rewind."""
    for wanted, became in zip(planned.steps, done, strict=True):
        if wanted != became:
            click.echo(_line(became))
    if before is not None:
        undo = f"holdfast rewind {session.id} --conversation --to {before}"
        click.echo(f"To undo this: {undo}", err=True)


def _report(
    session: Session, planned: RewindPlan, done: list[UndoStep], wish: _Wish, *, carried_out: bool
) -> None:
    report = {
        "session": session.id,
        "to": planned.to,
        "what": wish.what,
        "done": carried_out,
        "steps": msgspec.to_builtins(done),
        "commands": planned.commands,
        "running": planned.running,
    }
    click.echo(dumps(report))
