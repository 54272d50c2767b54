"""``holdfast login``: store a provider's API key."""

from __future__ import annotations

import os
import sys

import click

from holdfast.errors import UsageError
from holdfast.runtime.config import credentials
from holdfast.runtime.config import load as config
from holdfast.runtime.providers.catalog import VENDORS
from holdfast.tui.tty import is_terminal

_MOST_READ = 10_000


@click.command(help="Store the API key of a provider (anthropic, openai) or of a host.")
@click.argument("name", required=False, metavar="[PROVIDER|HOST]")
@click.option("--list", "listing", is_flag=True, help="List the stored keys (names only).")
@click.option("--remove", is_flag=True, help="Delete a stored key.")
def command(*, name: str | None, listing: bool, remove: bool) -> None:
    """Store a key."""
    kept = config.user_settings(os.environ).keys
    folder = config.folder(os.environ)
    if listing:
        for each in sorted(credentials.load(folder, kept)):
            click.echo(each)
        return
    owner = credentials.owner(name or _asked())
    where = "the keyring" if kept == "keyring" else str(folder / credentials.KEYS_NAME)
    if remove:
        if not credentials.remove(folder, owner, kept):
            raise UsageError(f"No key for {owner} is stored in {where}.")
        click.echo(f"The key for {owner} was removed from {where}.")
        return
    credentials.load(folder, kept)  # what is wrong there is said before a key is asked for
    credentials.save(folder, owner, credentials.checked(_key(owner), owner), kept)
    click.echo(f"The key for {owner} is stored in {where}.")


def _asked() -> str:
    if not is_terminal(sys.stdin):
        raise UsageError(
            f"Name the provider ({', '.join(VENDORS)}) or the host that the key is for."
        )
    answer: str = click.prompt(f"Whose key ({', '.join(VENDORS)}, or a host)")
    return answer


def _key(owner: str) -> str:
    if not is_terminal(sys.stdin):
        # As bytes: what is no text must become our sentence and not a traceback that quotes it.
        return sys.stdin.buffer.read(_MOST_READ).decode("utf-8", "replace")
    question = f"Key for {owner} (not shown)"
    key: str = click.prompt(question, hide_input=True, default="", show_default=False)
    return key
