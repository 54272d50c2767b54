"""``holdfast export``: a conversation as text, to read or for other programs."""

from __future__ import annotations

import os
from pathlib import Path

import click

import holdfast
from holdfast.cli.sessions import named
from holdfast.errors import StorageError, UsageError
from holdfast.journal.files import Files


@click.command(help="Write a session's conversation: Markdown to read, or JSON for programs.")
@click.argument("session")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["markdown", "json", "jsonl"]),
    default="markdown",
    help="A page to read, one object, or a message a line.",
)
@click.option("-o", "--output", metavar="FILE", help="Write there; standard output if not given.")
@click.option("--force", is_flag=True, help="Also over a file that is there already.")
def command(*, session: str, kind: str, output: str | None, force: bool) -> None:
    """Export a session."""
    store = holdfast.open_store()
    found = named(store, session)
    with store.open(Path(found) if os.sep in found else found, mode="read") as opened:
        text = opened.export(kind)
    data = text.encode("utf-8", "backslashreplace")  # half a character, as JSON may have it
    if output is None:
        click.echo(data, nl=not text.endswith("\n"))
        return
    path = Path(output)
    if path.exists() and not force:
        raise UsageError(f"{path} is there already: name another file, or add --force.")
    try:
        Files().publish(path.absolute(), data)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from error
    click.echo(f"holdfast: written: {path}", err=True)
