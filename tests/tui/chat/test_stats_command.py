"""The options of ``/stats``."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast import UsageError
from holdfast.tui.chat.stats_command import StatsOptions, stats_options


def test_options_mean_the_same_as_on_the_command_line():
    assert stats_options("") == StatsOptions()
    found = stats_options("--by model --since 2026-11-01T00:00Z --until=2026-11-02T00:00Z --all")
    assert found == StatsOptions(
        "model",
        datetime(2026, 11, 1, tzinfo=UTC),
        datetime(2026, 11, 2, tzinfo=UTC),
        everything=True,
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("--json", "--json is not an option of /stats. Use: /stats "),
        ("14d", "14d is not an option of /stats"),
        ("--all=yes", "--all=yes is not an option"),
        ("--by month", "'month' is not a table of /stats"),
        ("--by", "'' is not a table"),
        ("--since", "'' is not a time"),
        ("--until nonsense", "'nonsense' is not a time"),
    ],
)
def test_a_mistake_gets_a_sentence(text, why):
    with pytest.raises(UsageError, match=why):
        stats_options(text)
