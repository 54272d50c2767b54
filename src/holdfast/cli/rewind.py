"""``holdfast rewind``: take prompts back: the conversation, what tools did to files, or both."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

import click
import msgspec

import holdfast
from holdfast.cli.ls import printable
from holdfast.cli.naming import complete_session, place_of
from holdfast.errors import UsageError
from holdfast.model.codec import dumps
from holdfast.runtime import config, rewind
from holdfast.runtime.points import Point, before_prompts, points, target
from holdfast.runtime.rewind import Plan
from holdfast.runtime.tools.restore import Step
from holdfast.store.home import default_home
from holdfast.store.session import Session

_What = Literal["conversation", "files", "both"]
_LINE_WIDTH = 60
_SHOWN = {"restore": "restore", "remove": "remove", "skip": "skipped", "nothing": "as it was"}


class _Wish(msgspec.Struct, frozen=True):
    """What the command line asks for."""

    to: int | None
    turns: int | None
    what: _What
    folder: str | None
    overwrite: bool
    as_json: bool

    @property
    def files(self) -> bool:
        return self.what != "conversation"

    @property
    def conversation(self) -> bool:
        return self.what != "files"


@click.command(
    help="Take prompts back, with files that were changed since. Lists them if none is named."
)
@click.argument("session", shell_complete=complete_session)
@click.option("--to", type=int, metavar="SEQ", help="Before this prompt, or behind another entry.")
@click.option("--turns", type=click.IntRange(1), metavar="N", help="Before the last N prompts.")
@click.option("--conversation", "what", flag_value="conversation", help="Not the files.")
@click.option("--files", "what", flag_value="files", help="Not the conversation.")
@click.option("--both", "what", flag_value="both", default="both", help="Both (default).")
@click.option("--overwrite", is_flag=True, help="Also files that somebody else edited since.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("-C", "folder", metavar="DIR", help="The workspace, if it has moved.")
@click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")
def command(
    *,
    session: str,
    to: int | None,
    turns: int | None,
    what: _What,
    overwrite: bool,
    dry_run: bool,
    yes: bool,
    folder: str | None,
    as_json: bool,
) -> None:
    """Rewind a session."""
    if to is not None and turns is not None:
        raise click.UsageError("Give --to or --turns, not both.")
    wish = _Wish(to, turns, what, folder, overwrite, as_json)
    store = holdfast.open_store()
    place = place_of(store, session)
    listing = to is None and turns is None
    with store.open(place, "read" if listing or dry_run else "write") as opened:
        if listing:
            _list(opened, as_json=as_json)
            return
        planned, workspace, allowed = _planned(opened, wish)
        asks = sys.stdin.isatty() and not (yes or dry_run)
        if not as_json or asks:
            _show_plan(planned, wish, err=as_json)
        if asks and not click.confirm("Go back?", err=True):
            click.echo("Nothing was changed.", err=True)
            sys.exit(1)
        done, before = planned.steps, opened.state.head
        if not dry_run:
            done = rewind.carry_out(
                opened,
                planned,
                workspace,
                allowed=allowed,
                files=wish.files,
                conversation=wish.conversation,
            )
        if as_json:
            _report(opened, planned, done, wish, carried_out=not dry_run)
        elif not dry_run:
            _tell(opened, planned, done, before if wish.conversation else None)


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
        hint = "--turns N or --to NUMBER takes that prompt back, with all that followed."
        click.echo(hint if found else "There is no prompt to take back.", err=True)


def _row(turns: int, point: Point) -> str:
    when = point.at[:19].replace("T", " ")
    line = printable(point.line)[:_LINE_WIDTH]
    return f"{turns:5}  {point.seq:6}  {when}  {point.files:5}  {line}"


def _planned(session: Session, wish: _Wish) -> tuple[Plan, Path | None, tuple[Path, ...]]:
    """Return what to do, and where the files are."""
    if wish.turns is not None:
        to = before_prompts(session, wish.turns)
    else:
        assert wish.to is not None
        to = target(session, wish.to, anywhere=not wish.files)
    if not wish.files:
        return Plan(to, []), None, ()
    workspace = _workspace(session, wish.folder)
    allowed: tuple[Path, ...] = ()
    if workspace is not None:
        found = config.load(workspace, environment=os.environ, home=default_home())
        allowed = tuple(Path(each) for each in found.settings.folders)
    planned = rewind.plan(session, to, workspace, allowed=allowed, overwrite=wish.overwrite)
    return planned, workspace, allowed


def _workspace(session: Session, given: str | None) -> Path | None:
    recorded = session.meta.get("workspace")
    named = given if given is not None else recorded
    if not isinstance(named, str):
        return None
    if not Path(named).is_dir():
        raise UsageError(
            f"There is no folder {named}: say with -C DIR where the session's files are, or take "
            "back the conversation alone (--conversation)."
        )
    return Path(named)


def _show_plan(planned: Plan, wish: _Wish, *, err: bool) -> None:
    if wish.conversation:
        place = "its beginning" if planned.to is None else f"entry {planned.to}"
        click.echo(f"The conversation goes on from {place}.", err=err)
    for step in planned.steps:
        click.echo(_line(step), err=err)
    if wish.files and not planned.steps:
        click.echo("No tool has changed a file since.", err=err)
    if planned.commands:
        run = "1 command was" if planned.commands == 1 else f"{planned.commands} commands were"
        click.echo(f"{run} run since; what commands changed is not taken back.", err=True)
    left = _left(planned.steps)
    if left and not wish.overwrite:
        click.echo(f"{left} left as found; --overwrite puts back what can be.", err=True)
    for running in planned.running:
        click.echo(f"Careful: {printable(running)}.", err=True)


def _line(step: Step) -> str:
    line = f"{_SHOWN[step.action]:9}  {printable(step.path)}"
    return f"{line}  ({printable(step.reason)})" if step.reason else line


def _left(steps: list[Step]) -> str:
    left = sum(step.action == "skip" for step in steps)
    return f"{left} {'file is' if left == 1 else 'files are'}" if left else ""


def _tell(session: Session, planned: Plan, done: list[Step], before: int | None) -> None:
    """Say what came out otherwise than planned, and how to have the conversation back."""
    for wanted, became in zip(planned.steps, done, strict=True):
        if wanted != became:
            click.echo(_line(became))
    if before is not None:
        undo = f"holdfast rewind {session.id} --conversation --to {before}"
        click.echo(f"The conversation as it was: {undo}", err=True)


def _report(
    session: Session, planned: Plan, done: list[Step], wish: _Wish, *, carried_out: bool
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
