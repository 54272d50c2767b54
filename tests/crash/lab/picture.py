"""The picture of a run: what every layer tried, what was lost, and which layer caught what."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.crash.lab.report import Finding, Line

_WIDTH = 860
_ROW = 30
_TOP = 92
_BAR_FROM = 320
_BAR_WIDTH = 300
_COLUMNS = ("lost", "twice", "refused", "other")
_COLUMN_FROM = 676
_COLUMN_WIDTH = 50
_STYLE = """
    .ground { fill: #ffffff; stroke: #d0d7de; }
    .name { fill: #1f2328; font-size: 14px; }
    .head { fill: #1f2328; font-size: 17px; font-weight: 600; }
    .note { fill: #57606a; font-size: 12px; }
    .bar { fill: #54aeff; }
    .good { fill: #dafbe1; stroke: #1a7f37; }
    .bad { fill: #ffebe9; stroke: #cf222e; }
    .none { fill: #f6f8fa; stroke: #d0d7de; }
    .count { fill: #1f2328; font-size: 13px; text-anchor: middle; }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117; stroke: #30363d; }
      .name, .head, .count { fill: #e6edf3; }
      .note { fill: #9198a1; }
      .bar { fill: #1f6feb; }
      .good { fill: #0f2e1a; stroke: #3fb950; }
      .bad { fill: #3d1214; stroke: #f85149; }
      .none { fill: #161b22; stroke: #30363d; }
    }
"""


def matrix(found: Finding) -> str:
    """Return the picture as SVG."""
    caught: dict[str | None, int] = {}
    for mutant in found.mutants.values():
        caught[mutant.layer] = caught.get(mutant.layer, 0) + 1
    height = _TOP + _ROW * len(found.layers) + 54
    cases = sum(line.tally.cases for line in found.layers)
    lost = sum(line.tally.lost for line in found.layers)
    acknowledged = sum(line.tally.acknowledged for line in found.layers)
    title = f"{cases:,} faults, {acknowledged:,} acknowledged entries, {lost:,} lost"
    survivors = caught.get(None, 0)
    mutants = f"{len(found.mutants) - survivors} of {len(found.mutants)} deliberate defects caught"
    body = "\n".join(
        _row(line, _TOP + _ROW * number, caught.get(line.letter, 0))
        for number, line in enumerate(found.layers)
    )
    heads = "\n".join(
        _text("note", _COLUMN_FROM + _COLUMN_WIDTH * n, _TOP - 14, name, "middle")
        for n, name in enumerate(_COLUMNS)
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" \
width="{_WIDTH}" height="{height}" role="img" aria-labelledby="title" \
font-family="system-ui, -apple-system, 'Segoe UI', sans-serif">
  <title id="title">{title}; {mutants}</title>
  <style>{_STYLE}  </style>
  <rect class="ground" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="10"/>
{_text("head", 20, 34, title)}
{_text("note", 20, 56, f"level {found.level}, seed {found.seed}; {mutants}")}
{_text("note", _BAR_FROM, _TOP - 14, "cases (each step is ten times more)")}
{heads}
{body}
{_text("note", 20, height - 18, "◆ a deliberate defect that this layer caught")}
</svg>
"""


def _row(line: Line, top: int, caught: int) -> str:
    middle = top + 15
    parts = [_text("name", 20, middle + 5, f"{line.letter}  {line.title}")]
    if line.not_run is not None:
        return "\n".join([*parts, _text("note", _BAR_FROM, middle + 5, "not run here")])
    tally = line.tally
    length = round(_BAR_WIDTH * math.log10(max(tally.cases, 1) + 1) / 7)
    parts.append(
        f'  <rect class="bar" x="{_BAR_FROM}" y="{middle - 8}" '
        f'width="{length}" height="16" rx="3"/>'
    )
    label = f"{tally.cases:,} {'◆' * caught}"
    parts.append(_text("note", _BAR_FROM + length + 8, middle + 4, label))
    counts = (tally.lost, tally.duplicates, tally.refused, tally.broken + tally.errors)
    for number, count in enumerate(counts):
        center = _COLUMN_FROM + _COLUMN_WIDTH * number
        kind = "bad" if count else "good"
        parts.append(
            f'  <rect class="{kind}" x="{center - 20}" y="{middle - 11}" '
            'width="40" height="22" rx="4"/>'
        )
        parts.append(_text("count", center, middle + 5, f"{count:,}"))
    return "\n".join(parts)


def _text(kind: str, x: int, y: int, words: str, anchor: str = "") -> str:
    place = f' text-anchor="{anchor}"' if anchor else ""
    return f'  <text class="{kind}" x="{x}" y="{y}"{place}>{escape(words)}</text>'
