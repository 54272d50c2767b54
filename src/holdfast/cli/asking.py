"""Questions before something is done that was not asked for in so many words."""

from __future__ import annotations

import sys

import click

from holdfast.errors import UsageError


def check_agreed(question: str, *, yes: bool) -> None:
    """Return if it may be done; whoever says no leaves with exit code 1.

    Raises:
        UsageError: nobody is there to be asked.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("Nobody is there to be asked: say --yes. Nothing was changed.")
    if not click.confirm(question, err=True):
        click.echo("Nothing was changed.", err=True)
        sys.exit(1)
