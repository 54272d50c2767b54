"""How full the context is: as the provider counted it, and until it has, as it is estimated.

Measuring reads the context from the disk, so it is done in a thread, and only when nobody has
counted: at the start, and where the context has become another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from holdfast.errors import HoldfastError
from holdfast.runtime.context import estimate_tokens
from holdfast.runtime.equipment import Equipment

_LOG = logging.getLogger("holdfast")


class Gauge:
    """Measures the context of one session. ``changed`` is called when it has."""

    def __init__(self, equipment: Equipment, changed: Callable[[], None]) -> None:
        self._with = equipment
        self._changed = changed
        self._estimated: int | None = None
        self._stale = False
        self._measuring: asyncio.Task[None] | None = None

    @property
    def tokens(self) -> int | None:
        """How many tokens the context has; ``None`` while nobody knows."""
        counted = self._with.known_tokens
        return self._estimated if counted is None else counted

    @property
    def window_tokens(self) -> int:
        """How many it may have."""
        return self._with.window_tokens

    def measure(self) -> None:
        """Forget what was counted, because the context is another one, and estimate it."""
        self._with.known_tokens = self._estimated = None
        self._stale = True
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.ensure_future(self._measure())

    def close(self) -> None:
        """Measure no more."""
        if self._measuring is not None:
            self._measuring.cancel()

    async def _measure(self) -> None:
        while self._stale:
            self._stale = False
            try:
                self._estimated = await asyncio.to_thread(self._estimate)
            except (HoldfastError, OSError) as error:
                _LOG.debug("The context cannot be measured: %s", error)
        self._changed()

    def _estimate(self) -> int:
        return estimate_tokens(self._with.session.context())
