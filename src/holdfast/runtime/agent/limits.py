"""Whether a turn may make another request: what it has used, against its limits."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import UsageError
from holdfast.model.entry import Usage
from holdfast.model.state import Totals
from holdfast.runtime.agent.prices import PriceTable
from holdfast.runtime.config.run_options import Limits

_MOST_COUNTABLE_USD = 1e9


def check_priced(limits: Limits, model: str, prices: PriceTable) -> None:
    """Check that a budget can be enforced.

    Raises:
        UsageError: the model has no known price.
    """
    if limits.max_budget_usd is not None and prices.price(model) is None:
        raise UsageError(
            f"There is no price for {model}, so --max-budget-usd cannot work: set one under "
            f'[prices."{model}"] in the configuration, or leave the budget out.'
        )


class Spending:
    """What a run has used up so far, against its limits; ``made`` are requests made before."""

    def __init__(self, limits: Limits, before: Totals, made: Sequence[Usage] = ()) -> None:
        self.limits = limits
        self.requests = len(made)
        self._before = msgspec.structs.replace(
            before,
            cost_usd=before.cost_usd - sum(each.cost_usd or 0.0 for each in made),
            unpriced=before.unpriced - sum(each.cost_usd is None for each in made),
        )

    def exceeded(self, now: Totals) -> str | None:
        """Return which limit keeps the next request from being made, as people read it."""
        most_turns, budget = self.limits.max_turns, self.limits.max_budget_usd
        if most_turns is not None and self.requests >= most_turns:
            return f"the limit of {most_turns} requests (--max-turns) is reached"
        if budget is not None:
            if now.unpriced > self._before.unpriced:
                return "the cost of a request is not known, so --max-budget-usd cannot be enforced"
            # A session from elsewhere may claim any cost, and cents vanish beside a huge one.
            if not abs(now.cost_usd) < _MOST_COUNTABLE_USD:
                return "the recorded cost of the session is too large to enforce --max-budget-usd"
            if now.cost_usd - self._before.cost_usd >= budget:
                return f"the budget of ${budget:g} (--max-budget-usd) is used up"
        return None
