"""Importing after any line of a source, and then the rest, comes to what one import does."""

from __future__ import annotations

import pytest

from tests.exchange.growth import check_growth
from tests.exchange.sources import GOLDEN, copied

_OTHERS = {
    "codex/compacted",
    "gemini-cli/lines",
    "gemini-cli/replaced",
    "kimi-cli/compacted",
    "kimi-cli/rotated",
    "pi/fork",
    "zot/fork",
}
"""Sources with a torn line, with files that do not grow, or whose copy is read first."""
FILES = sorted(
    name
    for name in (str(path.relative_to(GOLDEN)) for path in GOLDEN.glob("*/*/source/**/*.jsonl"))
    if name.partition("/source/")[0] not in _OTHERS
)


@pytest.mark.parametrize("name", FILES)
def test_any_prefix_and_then_the_rest(name, tmp_path):
    case, _, inside = name.partition("/source/")
    check_growth(case.partition("/")[0], copied(case, tmp_path) / inside, exact=False)
