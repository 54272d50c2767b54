"""Confirmation before something is changed."""

from __future__ import annotations

import sys

import click

from holdfast.errors import UsageError
from holdfast.tui.tty import is_terminal


def check_agreed(question: str, *, yes: bool) -> None:
    """Ask the user to confirm; exit with code 1 if the answer is no.

    Raises:
        UsageError: there is no terminal to ask on.
    """
    if yes:
        return
    if not is_terminal(sys.stdin):
        raise UsageError("Not a terminal, so I can't ask. Use --yes. Nothing was changed.")
    if not click.confirm(question, err=True):
        click.echo("Nothing was changed.", err=True)
        sys.exit(1)
