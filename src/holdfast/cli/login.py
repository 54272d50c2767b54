"""``holdfast login``: keep a provider's key, so that no variable has to hold it."""

from __future__ import annotations

import os
import sys

import click

from holdfast.errors import UsageError
from holdfast.runtime import config, keys
from holdfast.runtime.providers.catalog import VENDORS

_MOST_READ = 10_000


@click.command(help="Keep the key of a provider (anthropic, openai) or of a host.")
@click.argument("name", required=False, metavar="[PROVIDER|HOST]")
@click.option("--list", "listing", is_flag=True, help="Show which keys are kept; names only.")
@click.option("--remove", is_flag=True, help="Forget a key.")
def command(*, name: str | None, listing: bool, remove: bool) -> None:
    """Keep a key."""
    kept = config.user_settings(os.environ).keys
    folder = config.folder(os.environ)
    if listing:
        for each in sorted(keys.load(folder, kept)):
            click.echo(each)
        return
    owner = keys.owner(name or _asked())
    where = "the keyring" if kept == "keyring" else str(folder / keys.KEYS_NAME)
    if remove:
        if not keys.remove(folder, owner, kept):
            raise UsageError(f"No key for {owner} is kept in {where}.")
        click.echo(f"The key for {owner} was removed from {where}.")
        return
    keys.load(folder, kept)  # what is wrong there is said before a key is asked for
    keys.save(folder, owner, keys.checked(_key(owner), owner), kept)
    click.echo(f"The key for {owner} is kept in {where}.")


def _asked() -> str:
    if not sys.stdin.isatty():
        raise UsageError(f"Say whose key it is: {', '.join(VENDORS)}, or a host.")
    answer: str = click.prompt(f"Whose key ({', '.join(VENDORS)}, or a host)")
    return answer


def _key(owner: str) -> str:
    if not sys.stdin.isatty():
        # As bytes: what is no text must become our sentence and not a traceback that quotes it.
        return sys.stdin.buffer.read(_MOST_READ).decode("utf-8", "replace")
    question = f"Key for {owner} (not shown)"
    key: str = click.prompt(question, hide_input=True, default="", show_default=False)
    return key
