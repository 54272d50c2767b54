"""Print long output on a terminal through ``$PAGER``, and anything else directly."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain

import click

from holdfast.cli.ui.colours import Colours, on_a_terminal
from holdfast.cli.ui.columns import screen
from holdfast.keeper.text import width_of
from holdfast.runtime.config.secret_variables import secrets_in
from holdfast.store.programs import current_folder, path_outside

_ROOM_ROWS = 2  # for the prompt that comes after
_LESS = "-RX"  # colours, and what was read stays on the screen


def page(lines: Iterable[str], colours: Colours) -> None:
    """Print lines, through the pager if they are more than the terminal shows."""
    coming = iter(lines)
    if not on_a_terminal():
        for line in coming:
            click.echo(line, color=colours.on)
        return
    height, width = screen()
    waiting: list[str] = []
    rows = 0
    for line in coming:
        waiting.append(line)
        rows += sum(1 + width_of(each) // width for each in line.split("\n"))
        if rows > height - _ROOM_ROWS:
            os.environ.setdefault("LESS", _LESS)
            _prepare_environment()
            click.echo_via_pager(_ended(chain(waiting, coming)), color=colours.on)
            return
    for line in waiting:
        click.echo(line, color=colours.on)


def _prepare_environment() -> None:
    """Let the pager be found outside the current folder, and have no keys in its environment."""
    os.environ["PATH"] = path_outside(current_folder())
    for name in secrets_in(os.environ):
        del os.environ[name]


def _ended(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{line}\n"
