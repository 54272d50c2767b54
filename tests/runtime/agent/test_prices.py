"""What requests cost."""

from __future__ import annotations

import re

import pytest

from holdfast.errors import UsageError
from holdfast.runtime.agent.prices import AS_OF, PRICES, PriceTable
from holdfast.runtime.providers.base import TokenCounts

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "counts", "cost_usd"),
    [
        ("claude-sonnet-4-5", TokenCounts(MILLION, 0), 3.0),
        ("claude-sonnet-4-5", TokenCounts(0, MILLION), 15.0),
        ("claude-sonnet-4-5", TokenCounts(0, 0, cache_read=MILLION), 0.3),
        ("claude-sonnet-4-5", TokenCounts(0, 0, cache_write=MILLION), 3.75),
        ("claude-haiku-4-5-20251001", TokenCounts(1000, 200, 5000, 400), 0.003),
        ("claude-haiku-5-5", TokenCounts(60_000, 1000, 40_000), 0.0069),
        ("claude-haiku-5-5", TokenCounts(60_001, 1000, 40_000), 0.0345005),
        ("gpt-6-sol", TokenCounts(272_000, 1000), 0.554),
        ("gpt-6-sol-2026-09-22", TokenCounts(272_000, 1000, 1), 1.1030004),
        ("rehearsal", TokenCounts(5, 5), 0.0),
    ],
)
def test_costs(model, counts, cost_usd):
    assert PriceTable().cost_usd(counts, model) == pytest.approx(cost_usd)


@pytest.mark.parametrize(
    "model", ["llama3", "", "claude-opus-5-9", "claude-opus", "gpt-6-sol-pro", "x/claude-opus-5"]
)
def test_an_unknown_model_has_no_cost(model):
    assert PriceTable().price(model) is None
    assert PriceTable().cost_usd(TokenCounts(1, 1), model) is None


def test_counts_that_are_not_known_have_no_cost():
    assert PriceTable().cost_usd(TokenCounts(0, 0, known=False), "claude-opus-5") is None


def test_own_prices_come_first_and_the_longest_beginning_wins():
    table = PriceTable(
        {
            "claude-opus-5": {"input": 1, "output": 2},
            "llama*": {"input": 3, "output": 3},
            "llama-big*": {"input": 4.5, "output": 4, "cache_read": 0},
            "*": {"input": 9, "output": 9},
        }
    )
    assert table.cost_usd(TokenCounts(MILLION, 0, cache_read=MILLION), "claude-opus-5") == 2.0
    assert table.cost_usd(TokenCounts(MILLION, 0), "claude-opus-5-20261231") == 1.0
    assert table.cost_usd(TokenCounts(MILLION, 0), "llama3") == 3.0
    assert table.cost_usd(TokenCounts(MILLION, 0, cache_read=MILLION), "llama-big-2") == 4.5
    assert table.cost_usd(TokenCounts(MILLION, 0), "anything") == 9.0


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"input": 1},
        {"input": 1, "output": "2"},
        {"input": 1, "output": -2},
        {"input": 1, "output": float("nan")},
        {"input": True, "output": 1},
        {"input": 1, "output": 1, "outptu": 1},
    ],
)
def test_a_price_that_makes_no_sense_is_refused(given):
    with pytest.raises(UsageError, match=r"price of 'm' must have input and output.*cache_read"):
        PriceTable({"m": given})


def test_every_price_is_plausible():
    for model, price in PRICES.items():
        if model != "rehearsal":
            assert price.cache_read is not None
            assert price.cache_write is not None
            assert 0 < price.cache_read < price.input < price.cache_write < price.output
    assert re.fullmatch(r"2026-\d\d-\d\d", AS_OF)
