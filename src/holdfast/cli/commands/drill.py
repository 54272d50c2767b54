"""``holdfast drill``: crash the agent on purpose and check that nothing is lost."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click
import msgspec

from holdfast.cli.run.signals import Signals
from holdfast.drill.scenarios import SCENARIOS, drill
from holdfast.drill.svg_report import Look, report
from holdfast.model.codec import dumps
from holdfast.tui.tty import is_terminal

_DEFAULT_WIDTH = 80


@click.command(
    help=(
        "Crash the agent on purpose and check that nothing is lost: kill it while it streams and "
        "while a tool runs, close its terminal, fill its disk, then compare what was on the screen "
        "with what was saved. Needs no API key and no network. It uses a temporary home and does "
        "not touch your sessions. Takes about 15 seconds."
    )
)
@click.option(
    "--scenario",
    "names",
    multiple=True,
    type=click.Choice([scenario.name for scenario in SCENARIOS]),
    help="Run only this scenario; can be repeated.",
)
@click.option("--keep", is_flag=True, help="Keep the temporary home for inspection.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object.")
def command(*, names: tuple[str, ...], keep: bool, as_json: bool) -> None:
    """Run the scenarios."""
    chosen = [scenario for scenario in SCENARIOS if not names or scenario.name in names]
    with Signals(), _progress() as progress:
        drilled = drill(chosen, progress.tell, keep=keep)
    if as_json:
        click.echo(dumps({"ok": drilled.ok, **msgspec.to_builtins(drilled)}))
    else:
        click.echo(report(drilled, _look()))
    sys.exit(0 if drilled.ok else 1)


class _Progress:
    """A progress line on standard error; nothing if that is not a terminal."""

    def __init__(self) -> None:
        self._is_watched = is_terminal(sys.stderr)
        self._is_dumb = os.environ.get("TERM", "dumb") == "dumb"

    def tell(self, text: str) -> None:
        """Show a line."""
        self._write(f"{text}\n" if self._is_dumb else f"\r\033[K{text} ")

    def clear(self) -> None:
        """Remove the line from the screen."""
        if not self._is_dumb:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        if self._is_watched:
            with suppress(OSError, ValueError):  # a drill needs nobody who watches
                sys.stderr.write(text)
                sys.stderr.flush()


@contextmanager
def _progress() -> Iterator[_Progress]:
    progress = _Progress()
    try:
        yield progress
    finally:
        progress.clear()


def _look() -> Look:
    """Return what standard output can show."""
    on_screen = is_terminal(sys.stdout)
    dumb = os.environ.get("TERM", "dumb" if on_screen else "") == "dumb"
    return Look(
        width=_width(),
        is_unicode=_is_unicode() and not dumb,
        has_colour=on_screen and not dumb and not os.environ.get("NO_COLOR"),
    )


def _is_unicode() -> bool:
    """Return whether locale and output are UTF-8; Python itself treats the C locale as UTF-8."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    return encoding == "utf8" and os.environ.get("LC_ALL") not in ("C", "POSIX")


def _width() -> int:
    with suppress(ValueError):
        if columns := int(os.environ.get("COLUMNS", "")):
            return columns
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stdout.fileno()).columns
    return _DEFAULT_WIDTH
