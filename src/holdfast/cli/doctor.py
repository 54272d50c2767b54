"""``holdfast doctor``: is everything as it should be, and what can be done where it is not?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import msgspec

import holdfast
from holdfast.cli.colours import Colours
from holdfast.cli.columns import counted
from holdfast.cli.progress import Bar
from holdfast.journal.files import Files
from holdfast.model.codec import dumps
from holdfast.model.terminal import for_terminal
from holdfast.runtime.control.address import listens, run_folder
from holdfast.store.advice import Finding, finding
from holdfast.store.checkup import Checkup
from holdfast.store.surroundings import Remedies

_DAMAGED = 65


@click.command(
    help="""Look at everything in the home: journals, blobs, locks, rights, the index, the trash,
    and what crashes left behind.

    Nothing is changed without --fix. For each problem it says what it is, what is safe all the
    same, and what --fix would do. With --fix nothing is lost either: what is taken out of a journal
    is in damaged/ or archive/ afterwards. Sessions that somebody is writing are left alone.

    Exits with 65 if something was damaged and is not mended, else with 0.

    \b
        holdfast doctor
        holdfast doctor --fix
        holdfast doctor --json | jq .kind
    """
)
@click.option("--fix", is_flag=True, help="Do something about it, where something can be done.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a finding; the last sums up."
)
def command(*, fix: bool, as_json: bool) -> None:
    """Look at everything."""
    store = holdfast.open_store()
    show = _Shown(as_json=as_json, fix=fix)
    with Bar("looking at every journal", quiet=as_json) as bar:
        checkup = store.checkup(fix=fix, progress=bar)
        for finding in checkup:
            bar.clear()
            show.one(finding)
        for finding in _sockets(store.path, fix=fix):
            show.one(finding)
    show.end(checkup)
    if show.damaged:
        sys.exit(_DAMAGED)


def _sockets(home: Path, *, fix: bool) -> Iterator[Finding]:
    """Yield the sockets of runners that are gone."""
    files, folder = Files(), run_folder(home)
    remedies = Remedies(files, wanted=fix)
    try:
        entries = sorted(files.folders(folder), key=lambda each: each.name)
    except OSError as error:
        yield finding("closed", folder, f"cannot be read: {error.strerror}")
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.name.endswith(".sock") and not listens(path):
            found = finding("socket", path, "the socket of a runner that is gone")
            yield remedies.done(found, partial(files.unlink, path))


class _Shown:
    """What is printed, and what it comes to."""

    def __init__(self, *, as_json: bool, fix: bool) -> None:
        self._as_json = as_json
        self._fix = fix
        self._colours = Colours()
        self._problems = self._fixed = self._fixable = 0
        self.damaged = 0

    def one(self, finding: Finding) -> None:
        """Print a finding."""
        self._problems += 1
        self._fixed += finding.fixed
        self._fixable += finding.fix is not None
        self.damaged += finding.damage and not finding.fixed
        if self._as_json:
            click.echo(dumps(msgspec.to_builtins(finding)))
            return
        colour = "red" if finding.damage else "yellow"
        kind = self._colours(f"{finding.kind:12}", colour)
        click.echo(f"{kind} {for_terminal(finding.where)}: {for_terminal(finding.detail)}")
        click.echo(f"{'':12} safe: {finding.safe}")
        if finding.fixed:
            click.echo(f"{'':12} done: {finding.fix}")
        elif finding.failed is not None:
            click.echo(f"{'':12} could not {finding.fix}: {for_terminal(finding.failed)}")
        elif finding.fix is not None:
            click.echo(f"{'':12} --fix would {finding.fix}")

    def end(self, checkup: Checkup) -> None:
        """Print what it comes to."""
        if self._as_json:
            summary = {
                "sessions": checkup.sessions,
                "entries": checkup.entries,
                "size_bytes": checkup.size_bytes,
                "held": checkup.held,
                "problems": self._problems,
                "damaged": self.damaged,
                "fixed": self._fixed,
            }
            click.echo(dumps(summary))
            return
        for name in checkup.held:
            click.echo(f"{name} is being written: its end was not looked at", err=True)
        sessions = counted(checkup.sessions, "session")
        entries = counted(checkup.entries, "entry", "entries")
        words = [f"{sessions}, {entries}, {checkup.size_bytes / 1e6:,.1f} MB"]
        if not self._problems:
            words.append("all is well")
        else:
            words.append(counted(self._problems, "problem"))
            words.append(f"{self.damaged} with damage")
            if self._fix:
                words.append(f"{self._fixed} mended")
            elif self._fixable:
                words.append(f"{self._fixable} can be mended (--fix)")
        click.echo(" · ".join(words), err=True)
