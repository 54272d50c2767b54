"""``holdfast completion``: what a shell needs to complete commands, options and sessions."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from holdfast.model.codec import dumps

_SHELLS = ("bash", "zsh", "fish")


@click.command(
    help="""Print the completion script for a shell: commands, options and session ids.

    \b
    eval "$(holdfast completion bash)"           # in ~/.bashrc
    eval "$(holdfast completion zsh)"            # in ~/.zshrc
    holdfast completion fish | source            # in ~/.config/fish/config.fish
    """
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.option("--json", "as_json", is_flag=True, help="Print the script as one JSON object.")
def command(*, shell: str, as_json: bool) -> None:
    """Print a completion script."""
    from holdfast.cli.main import cli  # noqa: PLC0415  it loads this module by name

    made = get_completion_class(shell)
    assert made is not None
    script = made(cli, {}, "holdfast", "_HOLDFAST_COMPLETE").source()
    click.echo(dumps({"shell": shell, "script": script}) if as_json else script)
