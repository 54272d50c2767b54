"""``holdfast trust``: accept what a project's configuration asks for, after looking at it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import msgspec

from holdfast.cli.config import shown_values, spelled
from holdfast.cli.sessions import folder_given
from holdfast.errors import UsageError
from holdfast.journal.files import Files
from holdfast.runtime import config
from holdfast.runtime.config_file import (
    FILE_NAME,
    PROJECT_FOLDER,
    ConfigFile,
    content_of,
    project_paths,
    shown,
)
from holdfast.runtime.settings import KEYS
from holdfast.runtime.trust import Trust, digest
from holdfast.store.home import default_home


@click.command(help="Accept what a project's configuration asks for, as the file is now.")
@click.argument("folder", required=False, metavar="[DIR]")
@click.option("-C", "base", default=".", metavar="DIR", help="The workspace (this folder).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--list", "listing", is_flag=True, help="Show what is trusted.")
@click.option("--remove", is_flag=True, help="Take trust back.")
def command(*, folder: str | None, base: str, yes: bool, listing: bool, remove: bool) -> None:
    """Trust a project's file."""
    trust = Trust(default_home())
    workspace = folder_given(base) / (folder or "")
    if listing:
        _list(trust)
    elif remove:
        _remove(trust, workspace)
    else:
        _add(trust, workspace, yes=yes)


def _add(trust: Trust, workspace: Path, *, yes: bool) -> None:
    found = config.load(workspace, environment=os.environ, home=default_home())
    project = found.project
    if project is None:
        raise UsageError(
            f"There is no .holdfast/config.toml in {shown(workspace.absolute())} or above it in "
            "its repository: there is nothing to trust."
        )
    if found.standing == "trusted":
        click.echo(f"{project.shown} is trusted already.")
        return
    asked = config.asked_for(project, os.environ)
    if not asked:
        click.echo(f"{project.shown} asks for nothing that needs trust.")
        return
    _show(project, asked)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "Nobody is there to be asked: say --yes to trust this file. Nothing was changed."
            )
        if not click.confirm("Trust this file as it is now?"):
            click.echo("Nothing was changed.")
            sys.exit(1)
    # What was shown is what is trusted, even if the file was changed meanwhile.
    trust.add(project.path, project.content)
    click.echo(f"{project.shown} is trusted until it is changed.")


def _show(project: ConfigFile, asked: list[str]) -> None:
    click.echo(f"{project.shown} asks for:")
    values = shown_values(msgspec.to_builtins(project.values))
    for key in asked:
        click.echo(f"  {key} = {spelled(values[key])}")
    others = [key for key in values if key not in asked and KEYS[key].who != "user"]
    if others:
        click.echo(f"Without trust it sets already: {', '.join(others)}.")


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
    click.echo(f"{shown(path)} is not trusted any more.")
