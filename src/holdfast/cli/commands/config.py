"""``holdfast config``: the effective settings, their sources, and which model will be used."""

from __future__ import annotations

import json
import os
from typing import Any

import click
import msgspec

from holdfast.errors import HoldfastError
from holdfast.files import default_home
from holdfast.keeper.workspaces import working_folder
from holdfast.runtime.config import credentials as keys
from holdfast.runtime.config import load as config
from holdfast.runtime.config.toml_file import shown
from holdfast.runtime.providers.catalog import Sources, choose
from holdfast.runtime.providers.sdk_errors import address


@click.command(
    help="Show the effective settings, where they come from, and which model will be used."
)
@click.option(
    "-C", "folder", default=".", metavar="DIR", help="Folder to look at (default: this folder)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, folder: str, as_json: bool) -> None:
    """Show the configuration."""
    found = config.load(working_folder(folder), environment=os.environ, home=default_home())
    values = shown_values(msgspec.to_builtins(found.settings))
    answers = _answers(found)
    if as_json:
        report = {
            "settings": values,
            "origins": found.origins,
            "notes": found.notes,
            "user_file": str(found.user),
            "project_file": None if found.project is None else str(found.project.path),
            "standing": found.standing,
            "answers": answers,
        }
        click.echo(json.dumps(report))
        return
    click.echo(f"user file     {shown(found.user)}")
    if found.project is not None:
        click.echo(
            f"project file  {found.project.shown} ({_STANDING[found.standing or 'unknown']})"
        )
    click.echo(f"will use      {_sentence(answers)}\n")
    texts = {key: spelled(value) for key, value in values.items()}
    width = min(max(map(len, texts.values())), 40)
    for key, text in texts.items():
        click.echo(f"{key:14}  {text:{width}}  {shown(found.origins[key])}")
    for note in found.notes:
        click.echo(note, err=True)


_STANDING = {
    "trusted": "trusted",
    "changed": "changed since it was trusted",
    "unknown": "not trusted",
}


def shown_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return settings without passwords, which an address may contain."""
    if values.get("base_url"):
        return values | {"base_url": address(values["base_url"])}
    return values


def spelled(value: Any) -> str:
    """Return a value nearly as in TOML; characters outside ASCII are escaped."""
    return "–" if value is None else json.dumps(value)


def _answers(found: config.Configuration) -> dict[str, Any]:
    try:
        kept = keys.load(config.folder(os.environ), found.settings.keys)
        choice = choose(Sources(config=found.wish, environment=os.environ, keys=kept))
    except HoldfastError as error:
        return {"problem": str(error)}
    return {
        "provider": choice.provider,
        "model": choice.model,
        "endpoint": choice.endpoint and address(choice.endpoint),
        "reason": choice.reason,
    }


def _sentence(answers: dict[str, Any]) -> str:
    if "problem" in answers:
        return f"none: {answers['problem']}"
    where = f" at {answers['endpoint']}" if answers["endpoint"] else ""
    return f"{answers['provider']}{where} with {answers['model']}: {answers['reason']}"
