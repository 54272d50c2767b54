"""Long output on a terminal goes through ``$PAGER``; everything else is just written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain

import click

from holdfast.cli.colours import Colours, on_a_terminal
from holdfast.cli.columns import screen, width_of

_ROOM_ROWS = 2  # for the prompt that comes after
_LESS = "-RX"  # colours, and what was read stays on the screen


def page(lines: Iterable[str], colours: Colours) -> None:
    """Write lines; as soon as they are more than the terminal shows, through the pager."""
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
            click.echo_via_pager(_ended(chain(waiting, coming)), color=colours.on)
            return
    for line in waiting:
        click.echo(line, color=colours.on)


def _ended(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{line}\n"
