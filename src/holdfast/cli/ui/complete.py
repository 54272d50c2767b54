"""Shell completion of session names and tags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.keeper.text import cut, printable

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from holdfast.store.types import Summary

_MOST_OFFERED = 50
_TITLE_WIDTH = 40
_PLAIN_TAG = re.compile(r"[\w.,:@%+/=-]+")


def complete_session(
    ctx: click.Context,  # noqa: ARG001  click's signature
    param: click.Parameter,  # noqa: ARG001  click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Return session ids that contain the typed text, or whose title starts with it; newest first.

    The title is only shown as help: a title with spaces is several words for a shell.
    """
    from click.shell_completion import CompletionItem  # noqa: PLC0415  only for the shell

    wanted = incomplete.casefold()
    offered = []
    for each in _summaries():
        title = printable(each.title or "")
        if incomplete in each.id or title.casefold().startswith(wanted):
            offered.append(CompletionItem(each.id, help=cut(title, _TITLE_WIDTH)))
    return offered[:_MOST_OFFERED]


def complete_tag(
    ctx: click.Context,  # noqa: ARG001  click's signature
    param: click.Parameter,  # noqa: ARG001  click's signature
    incomplete: str,
) -> list[CompletionItem]:
    """Return the tags that start with the typed text and are one word for a shell."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415  only for the shell

    tags = {tag for each in _summaries() for tag in each.tags if _PLAIN_TAG.fullmatch(tag)}
    fitting = sorted(tag for tag in tags if tag.startswith(incomplete))
    return [CompletionItem(tag) for tag in fitting[:_MOST_OFFERED]]


def _summaries() -> list[Summary]:
    import holdfast  # noqa: PLC0415  only for the shell

    try:
        return holdfast.open_store().list()
    except HoldfastError:
        return []  # the command itself reports the error
