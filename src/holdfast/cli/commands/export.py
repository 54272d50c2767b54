"""``holdfast export``: write a session in another format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

import holdfast
from holdfast.cli.run.output import put
from holdfast.cli.ui.complete import complete_session
from holdfast.errors import UsageError
from holdfast.exchange.exporters import name_for, names
from holdfast.exchange.exporting.depth import DEPTHS, EVERYTHING
from holdfast.exchange.exporting.export import export, export_to
from holdfast.exchange.exporting.transcript import ExportOptions
from holdfast.exchange.redaction.redactor import Redactor, SecretFinding
from holdfast.keeper.lookup import resolve_session
from holdfast.keeper.text import counted, printable, size
from holdfast.model.codec import dumps
from holdfast.model.sanitize import for_terminal
from holdfast.store.session import Session
from holdfast.tui.tty import on_a_terminal

_NOT_TEXT = "archive"
_MOST_SHOWN = 50


@click.command(
    help="""Write a session in another format, to standard output or to a file (-o).

    Without --format, the extension of the file decides; without a file it is Markdown. An existing
    file is overwritten only with --force. If -o names a folder, the file gets its usual name there.
    --redact removes API keys, tokens and private keys and lists on standard error what it found. It
    cannot know every kind of secret: read the result before you share it.

    \b
    holdfast export k3v9 -o talk.html --redact
    holdfast export k3v9 -o k3v9.holdfast          # for another machine
    holdfast export k3v9 -t claude-code -o ~/.claude/projects
    holdfast export k3v9 -t openai | jq .role
    """
)
@click.argument("session", shell_complete=complete_session)
@click.option(
    "-t", "--format", "format_name", metavar="NAME", help=f"Format: {', '.join(names())}."
)
@click.option("-o", "--output", metavar="FILE", help="Write to this file or folder.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--redact", is_flag=True, help="Remove secrets.")
@click.option(
    "--strip-workspace", is_flag=True, help="Leave out the paths of folders on this machine."
)
@click.option(
    "--depth",
    type=click.Choice(DEPTHS),
    default=EVERYTHING,
    help="How much to export (default: everything).",
)
@click.option("--json", "as_json", is_flag=True, help="With -o: print a report as JSON.")
def command(
    *,
    session: str,
    format_name: str | None,
    output: str | None,
    force: bool,
    redact: bool,
    strip_workspace: bool,
    depth: str,
    as_json: bool,
) -> None:
    """Export a session."""
    name = format_name or name_for(output)
    redactor = Redactor() if redact else None
    options = ExportOptions(depth, redactor, strip_workspace)
    store = holdfast.open_store()
    with store.open(resolve_session(store, session), mode="read") as opened:
        if output is None or output == "-":
            if as_json:
                raise click.UsageError("--json reports what -o FILE wrote. Add -o FILE.")
            _to_standard_output(opened, name, options)
        else:
            _to_file(opened, name, Path(output), options, force=force, as_json=as_json)
    if redactor is not None:
        _tell_findings(redactor.findings)


def _to_standard_output(session: Session, name: str, options: ExportOptions) -> None:
    on_screen = on_a_terminal()
    if on_screen and name == _NOT_TEXT:
        raise UsageError("An archive is not text. Write it to a file with -o FILE.")
    for chunk in _harmless(export(session, name, options), on_screen=on_screen):
        put(chunk)


def _harmless(chunks: Iterator[bytes], *, on_screen: bool) -> Iterator[bytes]:
    """Yield chunks without control sequences for a terminal; unchanged for a file or pipe."""
    for chunk in chunks:
        if on_screen:
            yield for_terminal(chunk.decode("utf-8", "replace")).encode("utf-8", "replace")
        else:
            yield chunk


def _to_file(
    session: Session, name: str, path: Path, options: ExportOptions, *, force: bool, as_json: bool
) -> None:
    if not force and path.exists() and not path.is_dir():
        raise UsageError(f"{path} already exists. Use --force to overwrite it.")
    done = export_to(session, name, path, options, replace=force)
    if as_json:
        found = [{"kind": each.kind, "where": each.where} for each in done.findings]
        told = {"session": session.id, "format": name, "path": str(done.path)}
        click.echo(dumps({**told, "size_bytes": done.size_bytes, "redacted": found}))
    else:
        click.echo(f"{printable(str(done.path))} ({name}, {size(done.size_bytes)})", err=True)


def _tell_findings(findings: list[SecretFinding]) -> None:
    if not findings:
        click.echo("no secrets were found", err=True)
        return
    places = Counter((each.kind, each.where) for each in findings)
    for (kind, where), number in list(places.items())[:_MOST_SHOWN]:
        times = f" ({number} times)" if number > 1 else ""
        click.echo(f"redacted: {kind} in {printable(where)}{times}", err=True)
    if len(places) > _MOST_SHOWN:
        click.echo(f"… and in {len(places) - _MOST_SHOWN} more places", err=True)
    click.echo(f"{counted(len(findings), 'secret')} replaced", err=True)
