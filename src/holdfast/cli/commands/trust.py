"""``holdfast trust``: accept what a project's configuration asks for, or a session from elsewhere.

Either is shown first, then the user is asked.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import click
import msgspec

from holdfast import open_store
from holdfast.cli.commands.config import shown_values, spelled
from holdfast.cli.ui.complete import complete_session
from holdfast.errors import SessionNotFound, StorageError, UsageError
from holdfast.files import Files, default_home
from holdfast.keeper.lookup import resolve_session
from holdfast.keeper.workspaces import working_folder
from holdfast.runtime.agent.foreign import ForeignContent, facts_of
from holdfast.runtime.agent.origin import short
from holdfast.runtime.config import load as config
from holdfast.runtime.config.settings import KEYS
from holdfast.runtime.config.toml_file import (
    FILE_NAME,
    PROJECT_FOLDER,
    ConfigFile,
    content_of,
    project_paths,
    shown,
)
from holdfast.runtime.config.trust import Trust, digest
from holdfast.store.store import Store
from holdfast.store.types import COPY, Summary


@click.command(
    help="""Accept a session that came from elsewhere, or trust a project's configuration file.

    \b
    holdfast trust k3v9        # a session: shows what is recorded in it, then asks
    holdfast trust --earlier   # all sessions that an earlier version wrote, after an upgrade
    holdfast trust             # the configuration of this folder, until it changes
    """
)
@click.argument("named", required=False, metavar="[SESSION|DIR]", shell_complete=complete_session)
@click.option(
    "-C", "base", default=".", metavar="DIR", help="Folder of the project (default: this folder)."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--earlier",
    is_flag=True,
    help="Accept all sessions that earlier versions of Holdfast wrote here.",
)
@click.option("--list", "listing", is_flag=True, help="List trusted configurations.")
@click.option("--remove", is_flag=True, help="Stop trusting a configuration.")
def command(
    *, named: str | None, base: str, yes: bool, earlier: bool, listing: bool, remove: bool
) -> None:
    """Accept a session, or trust a project's file."""
    if earlier:
        if named or listing or remove:
            raise click.UsageError(
                "--earlier accepts all earlier sessions. Use it without a name, --list or --remove."
            )
        _accept_earlier(yes=yes)
        return
    trust = Trust(default_home())
    workspace = working_folder(base) / (named or "")
    if listing:
        _list(trust)
    elif remove:
        _remove(trust, workspace)
    elif named and (place := _session_named(named, workspace)) is not None:
        _accept(place, yes=yes)
    else:
        _add(trust, workspace, yes=yes)


# Sessions


def _session_named(named: str, folder: Path) -> str | Path | None:
    """Return the session that is meant, ``None`` if it is a folder.

    Raises:
        UsageError, SessionNotFound: it can be both, or is neither.
    """
    with open_store() as store:
        try:
            place = resolve_session(store, named)
        except (SessionNotFound, UsageError):
            if folder.is_dir():
                return None
            raise
    is_path = os.sep in named
    if folder.is_dir() and not is_path:
        name = place.name if isinstance(place, Path) else place
        raise UsageError(
            f"{named!r} is a folder here and also names session {name}: use ./{named} for the "
            "folder, or another part of the session's id."
        )
    return place


def _accept(place: str | Path, *, yes: bool) -> None:
    with open_store() as store:
        with store.open(place, mode="read") as session:
            facts, name = facts_of(session), session.id
        if facts is None:
            click.echo(f"Session {name} did not come from elsewhere. There is nothing to accept.")
            return
        for line in facts.lines():
            click.echo(line)
        _ask(yes, "Accept this session?", "accept this session")
        # What was received while the question stood open was not shown.
        store.accept(place, upto=facts.last_seq)
    click.echo(f"Session {name} is accepted. Its content is now treated as your own.")


def _accept_earlier(*, yes: bool) -> None:
    """Accept all sessions that an earlier version wrote on this machine, after one question.

    They have no record of origin. Those that say that they were imported, or written on another
    machine, are left alone: the user accepts them one by one.
    """
    with open_store() as store:
        facts = [each for summary in store.list() if (each := _earlier(store, summary)) is not None]
        own = [each for each in facts if not each.elsewhere]
        for each in own:
            if each.calls or each.prompts:
                for line in each.lines():
                    click.echo(line)
        for endpoint, count in Counter(each.endpoint for each in own if each.endpoint).items():
            click.echo(f"{_sessions(count)} will send requests with your key to {short(endpoint)}.")
        left = len(facts) - len(own)
        if left:
            click.echo(
                f"Not included: {_sessions(left)} imported, or written on another machine. Accept "
                "each of them with: holdfast trust SESSION"
            )
        if not own:
            click.echo("There are no sessions of an earlier version to accept.")
            return
        click.echo(
            f"{_sessions(len(own))} in {shown(store.path)} without a record of origin: written by "
            "an earlier version of Holdfast, or copied here by hand. If you did not copy sessions "
            "of other people here, they are yours."
        )
        _ask(yes, "Accept all of them?", "accept all of them")
        for each in own:
            store.accept(each.session, upto=each.last_seq)
    click.echo(f"{_sessions(len(own))} accepted. Their content is now treated as your own.")


def _earlier(store: Store, summary: Summary) -> ForeignContent | None:
    """Return what a session would do, ``None`` if it is not foreign or was received otherwise."""
    received = store.provenance(summary.id).received
    if not summary.foreign or any(each.kind != COPY for each in received):
        return None
    try:
        with store.open(summary.id, mode="read") as session:
            return facts_of(session)
    except StorageError:  # nothing in it can be read, or it was deleted meanwhile
        return None


def _sessions(count: int) -> str:
    return "1 session" if count == 1 else f"{count} sessions"


def _ask(yes: bool, question: str, what: str) -> None:  # noqa: FBT001  the option itself
    """Ask the user; exit if the answer is no.

    Raises:
        UsageError: there is no terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"Not a terminal, so I can't ask. Use --yes to {what}. Nothing was changed."
        )
    if not click.confirm(question):
        click.echo("Nothing was changed.")
        sys.exit(1)


# Configurations of projects


def _add(trust: Trust, workspace: Path, *, yes: bool) -> None:
    found = config.load(workspace, environment=os.environ, home=default_home())
    project = found.project
    if project is None:
        raise UsageError(
            f"There is no .holdfast/config.toml in {shown(workspace.absolute())} or above it in "
            "its repository: there is nothing to trust."
        )
    if found.standing == "trusted":
        click.echo(f"{project.shown} is already trusted.")
        return
    asked = config.asked_for(project, os.environ)
    if not asked:
        click.echo(f"{project.shown} asks for nothing that needs trust.")
        return
    _show(project, asked)
    _ask(yes, "Trust this file as it is now?", "trust this file")
    # What was shown is what is trusted, even if the file was changed meanwhile.
    trust.add(project.path, project.content)
    click.echo(f"{project.shown} is trusted until it changes.")


def _show(project: ConfigFile, asked: list[str]) -> None:
    click.echo(f"{project.shown} asks for:")
    values = shown_values(msgspec.to_builtins(project.values))
    for key in asked:
        click.echo(f"  {key} = {spelled(values[key])}")
    others = [key for key in values if key not in asked and KEYS[key].who != "user"]
    if others:
        click.echo(f"These settings already apply without trust: {', '.join(others)}.")


def _list(trust: Trust) -> None:
    for path, known in trust.known().items():
        try:
            content = content_of(path, shown(path), Files())
        except UsageError:
            content = b""
        now = "gone" if content is None else "unchanged" if digest(content) == known else "changed"
        click.echo(f"{now:9}  {shown(path)}")


def _remove(trust: Trust, workspace: Path) -> None:
    # The folder may be gone, and what is named may be a line of --list.
    named = Path(os.path.realpath(workspace))
    paths = [named, named / PROJECT_FOLDER / FILE_NAME]
    if named.is_dir():
        paths += project_paths(named, Files())
    known = trust.known()
    path = next((path for path in paths if path in known), None)
    if path is None:
        raise UsageError(f"No configuration of {shown(workspace.absolute())} is trusted.")
    trust.remove(path)
    click.echo(f"{shown(path)} is no longer trusted.")
