"""Writes the reference part of ``docs/cli.md`` from the commands themselves.

python scripts/cli_reference.py           write it
python scripts/cli_reference.py --check   say whether it is current; exit 1 if not
"""  # noqa: INP001  a script, never installed

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ["COLUMNS"] = "100"  # before click looks: the page must not depend on a terminal

import click

from holdfast.cli.main import cli

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
BEGIN = "<!-- from here on written by scripts/cli_reference.py -->\n"
END = "<!-- to here -->\n"


def reference() -> str:
    """Return the reference of all commands."""
    context = click.Context(cli, info_name="holdfast")
    lines: list[str] = []
    for name in sorted(cli.list_commands(context)):
        command = cli.get_command(context, name)
        assert command is not None
        lines += _section(command, click.Context(command, info_name=name, parent=context))
    return "\n".join(lines) + "\n"


def _section(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from ("", f"### {context.command_path}", "")
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ("```", f"{context.command_path} {usage}", "```", "")
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.lstrip().startswith("\b"):
            yield from ("```sh", paragraph.lstrip().removeprefix("\b").strip("\n"), "```", "")
        else:
            yield from (" ".join(paragraph.split()), "")
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    records = [each.get_help_record(context) for each in options if each.name != "help"]
    if any(records):
        yield from ("| option | |", "|---|---|")
    for record in filter(None, records):
        names, told = (_cell(each) for each in record)
        yield f"| `{names}` | {told} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def page(text: str) -> str:
    """Return the page with the reference that is current."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE} has no place for it: two comments mark it.")
    return f"{before}{BEGIN}{reference()}\n{END}{after}"


def main() -> None:
    """Write the page, or check it."""
    text = PAGE.read_text(encoding="utf-8")
    current = page(text)
    if "--check" in sys.argv[1:]:
        if text != current:
            sys.exit("docs/cli.md is not current: run python scripts/cli_reference.py")
    elif text != current:
        PAGE.write_text(current, encoding="utf-8")


if __name__ == "__main__":
    main()
