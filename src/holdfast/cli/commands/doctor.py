"""``holdfast doctor``: check everything in the home folder, and repair it."""

from __future__ import annotations

import sys

import click
import msgspec

import holdfast
from holdfast.keeper.doctor import check_sockets
from holdfast.keeper.text import counted
from holdfast.model.codec import dumps
from holdfast.model.sanitize import for_terminal
from holdfast.store.doctor.checkup import Checkup
from holdfast.store.doctor.findings import Finding
from holdfast.tui.tty import Bar, Colours

_DAMAGED = 65


@click.command(
    help="""Check everything in the home folder: journals, blobs, locks, permissions, the index, the
    trash, and files that crashes left behind.

    Without --fix nothing is changed. For each problem it says what is wrong, what is still safe,
    and what --fix would do. --fix loses nothing either: what it removes from a journal is stored in
    damaged/ or archive/. Sessions that are being written are skipped.

    Exits with 65 if there is damage that was not repaired, else with 0.

    \b
        holdfast doctor
        holdfast doctor --fix
        holdfast doctor --json | jq .kind
    """
)
@click.option("--fix", is_flag=True, help="Repair what can be repaired.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per finding, then a summary."
)
def command(*, fix: bool, as_json: bool) -> None:
    """Check everything."""
    store = holdfast.open_store()
    show = _Shown(as_json=as_json, fix=fix)
    with Bar("checking every journal", quiet=as_json) as bar:
        checkup = store.checkup(fix=fix, progress=bar)
        for finding in checkup:
            bar.clear()
            show.one(finding)
        for finding in check_sockets(store.local_folder, fix=fix):
            show.one(finding)
    show.end(checkup)
    if show.damaged:
        sys.exit(_DAMAGED)


class _Shown:
    """Prints findings, and counts them for the summary."""

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
        """Print the summary."""
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
            click.echo(f"{name} is being written, so its end was not checked", err=True)
        sessions = counted(checkup.sessions, "session")
        entries = counted(checkup.entries, "entry", "entries")
        words = [f"{sessions}, {entries}, {checkup.size_bytes / 1e6:,.1f} MB"]
        if not self._problems:
            words.append("no problems")
        else:
            words.append(counted(self._problems, "problem"))
            words.append(f"{self.damaged} with damage")
            if self._fix:
                words.append(f"{self._fixed} repaired")
            elif self._fixable:
                words.append(f"{self._fixable} can be repaired (--fix)")
        click.echo(" · ".join(words), err=True)
