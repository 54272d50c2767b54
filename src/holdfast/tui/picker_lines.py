"""The lines around a picker's list: scopes above it; details, counts and keys below."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from holdfast.store.search import Hit
from holdfast.tui.picker_catalogue import Catalogue
from holdfast.tui.picker_columns import cut_left, plain, said_tags, short_path
from holdfast.tui.picker_model import Row, one_line, what_is_shown

_KEYS = (
    "Enter resume",
    "Space preview",
    "Tab scope",
    "^S sort",
    "^R rename",
    "^D delete",
    "? keys",
    "^T tag",
    "^F fork",
    "^O read only",
    "^A all",
    "Esc leave",
)


def scopes_line(catalogue: Catalogue, width: int) -> Text:
    """Return the scopes with how much each has, and at the right where we are."""
    text = Text(" ", no_wrap=True, overflow="ellipsis")
    for scope in catalogue.place.scopes:
        is_chosen = scope is catalogue.wanted.scope
        counted = f" {catalogue.view.within(scope):,}" if catalogue.loaded else ""
        label = f"[{scope.value}{counted}]"
        text.append(
            label if is_chosen else f" {label[1:-1]} ", Style(bold=is_chosen, dim=not is_chosen)
        )
        text.append(" ")
    room = width - cell_len(text.plain) - 2
    where = cut_left(short_path(catalogue.place.folder), room) if room > 8 else ""
    text.append(" " * max(width - cell_len(text.plain) - cell_len(where) - 1, 0))
    text.append(where, Style(dim=True))
    return text


def detail_line(row: Row | None, hit: Hit | None, *, beside_preview: bool) -> str:
    """Return what else there is to say about the chosen row."""
    if row is None or beside_preview:
        return ""
    summary = row.summary
    if hit is not None:
        return f" found: …{plain(one_line(hit.snippet))}…"
    said = [
        one_line(summary.problem or ""),
        short_path(summary.workspace),
        plain(one_line(summary.model or "")),
        plain(said_tags(row)),
    ]
    return " " + " · ".join(each for each in said if each)


def said_line(catalogue: Catalogue, deleted: int, progress: str) -> str:
    """Return how much is shown and what is not, and what is still being done."""
    said = what_is_shown(
        catalogue.view,
        catalogue.wanted,
        catalogue.place,
        deleted=deleted,
        searching=catalogue.searching,
    )
    return f"{said} · {progress}" if progress else said


def empty_line(catalogue: Catalogue) -> str:
    """Return what stands in the place of a list without rows."""
    if not catalogue.loaded or catalogue.searching:
        return ""
    if not catalogue.rows:
        return "There are no sessions yet."
    return "Nothing here matches." if catalogue.wanted.query else "Nothing here."


def keys_line(width: int) -> str:
    """Return the keys that there is room for, the most wanted first."""
    line = ""
    for key in _KEYS:
        longer = f"{line}  {key}" if line else f" {key}"
        if cell_len(longer) > width:
            break
        line = longer
    return line
