"""What a request costs: a price table for each model, and the sum.

Prices are USD per million tokens at the vendor's own address, standard tier, as of 2026-11-16. A
model that is not in the table has no price, and its requests no cost: a wrong number is worse than
none. A name is matched exactly, then without a snapshot's date; ``claude-opus-9-5`` is not taken
for a kind of ``claude-opus-9``. Users override and add by a mapping, in which a name that ends with
``*`` stands for every name that begins so; the longest wins.

The cost is fixed when the request was made and goes into the journal: a later change of prices does
not rewrite the past.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.runtime.providers.base import TokenCounts

AS_OF = "2026-11-16"
_MILLION = 1_000_000
_SNAPSHOT = re.compile(r"(?:[-@]\d{8}|-\d{4}-\d{2}-\d{2}|-latest)$")


class Price(Struct, frozen=True):
    """USD per million tokens. Reading from and writing to a cache cost ``input`` if not given.

    A prompt of more than ``long_over`` tokens, cached ones included, is charged at other rates for
    the whole request: ``long_input`` times the three input rates, ``long_output`` times the output.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    long_over: int | None = None
    long_input: float = 1.0
    long_output: float = 1.0

    def cost_usd(self, counts: TokenCounts) -> float:
        """Return what a request with these counts costs."""
        prompt = counts.input + counts.cache_read + counts.cache_write
        long = self.long_over is not None and prompt > self.long_over
        taken = (
            counts.input * self.input
            + counts.cache_read * (self.input if self.cache_read is None else self.cache_read)
            + counts.cache_write * (self.input if self.cache_write is None else self.cache_write)
        )
        given = counts.output * self.output
        if long:
            taken, given = taken * self.long_input, given * self.long_output
        return (taken + given) / _MILLION


def _gpt(input_usd: float, output: float, cache_read: float) -> Price:
    """Return a price with the rules that OpenAI's models from GPT-6 on share."""
    return Price(
        input_usd,
        output,
        cache_read,
        cache_write=input_usd * 1.25,
        long_over=272_000,
        long_input=2.0,
        long_output=1.5,
    )


_OPUS = Price(5.0, 25.0, 0.5, 6.25)
_SONNET = Price(3.0, 15.0, 0.3, 3.75)
_FABLE_5 = Price(10.0, 50.0, 1.0, 12.5)
_FABLE_5_1 = Price(10.0, 50.0, 0.25, 12.5)

# Cache writes of Claude's models are those that last five minutes, the only kind that is asked for.
PRICES: dict[str, Price] = {
    "rehearsal": Price(0.0, 0.0),
    "claude-fable-5-1": _FABLE_5_1,
    "claude-mythos-5-1": _FABLE_5_1,
    "claude-fable-5": _FABLE_5,
    "claude-mythos-5": _FABLE_5,
    "claude-opus-5-5": Price(4.0, 20.0, 0.2, 5.0),
    "claude-opus-5": _OPUS,
    "claude-opus-4-8": _OPUS,
    "claude-opus-4-7": _OPUS,
    "claude-opus-4-6": _OPUS,
    "claude-opus-4-5": _OPUS,
    "claude-sonnet-5-5": Price(2.0, 10.0, 0.1, 2.5),
    "claude-sonnet-5": Price(2.0, 10.0, 0.2, 2.5),
    "claude-sonnet-4-6": _SONNET,
    "claude-sonnet-4-5": _SONNET,
    "claude-haiku-5-5": Price(0.1, 0.5, 0.01, 0.125, 100_000, 5.0, 5.0),
    "claude-haiku-4-5": Price(1.0, 5.0, 0.1, 1.25),
    "gpt-6-astra": _gpt(10.0, 50.0, 1.0),
    "gpt-6.1-sol": _gpt(2.0, 10.0, 0.1),
    "gpt-6.1-terra": _gpt(1.0, 5.0, 0.05),
    "gpt-6-sol": _gpt(2.0, 10.0, 0.2),
    "gpt-6-luna": _gpt(0.1, 0.5, 0.01),
}


class PriceTable:
    """Prices by model: the table above, with a user's own before it."""

    def __init__(self, own: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._own = {name: _price(name, given) for name, given in (own or {}).items()}

    def price(self, model: str) -> Price | None:
        """Return a model's price, ``None`` if it is not known."""
        plain = _SNAPSHOT.sub("", model)
        for name in (model, plain):
            if name in self._own:
                return self._own[name]
        starts = [name for name in self._own if name[-1:] == "*" and model.startswith(name[:-1])]
        if starts:
            return self._own[max(starts, key=len)]
        return PRICES.get(model) or PRICES.get(plain)

    def cost_usd(self, counts: TokenCounts, model: str) -> float | None:
        """Return what a request costs, ``None`` if its price or its counts are not known."""
        price = self.price(model)
        return None if price is None or not counts.known else price.cost_usd(counts)


def _price(name: str, given: Mapping[str, Any]) -> Price:
    """Return a price from a user's mapping.

    Raises:
        UsageError: a rate is missing, unknown, or no number of dollars.
    """
    unknown = set(given) - set(Price.__struct_fields__)
    numbers = [value for value in given.values() if _is_rate(value)]
    if unknown or not {"input", "output"} <= set(given) or len(numbers) < len(given):
        raise UsageError(
            f"The price of {name!r} must have input and output, in USD per million tokens. It may "
            f"also have {', '.join(Price.__struct_fields__[2:])}. Each is a number, 0 or more."
        )
    return Price(**given)


def _is_rate(value: Any) -> bool:
    return type(value) in {int, float} and math.isfinite(value) and value >= 0
