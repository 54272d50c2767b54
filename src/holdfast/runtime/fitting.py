"""What the agent of a runner is fitted with: who answers, rebuilt when a model or a key changes.

Clients hand over a few variables of their environment. They go into this process's own, where
commands and providers find them, and nowhere else.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from holdfast.runtime.agent import Agent
from holdfast.runtime.assembly import Assembled
from holdfast.runtime.control.protocol import REFRESHED
from holdfast.runtime.equipment import Equipment
from holdfast.runtime.limits import Limits
from holdfast.runtime.providers.catalog import SECRET_VARIABLES
from holdfast.runtime.settings import Settings
from holdfast.runtime.wishes import Wishes


class Fitting:
    """Fits one agent. ``rebuild`` puts an agent's equipment together for wishes; it blocks."""

    def __init__(
        self, assembled: Assembled, rebuild: Callable[[Wishes], Assembled], wishes: Wishes
    ) -> None:
        self._assembled = assembled
        self._rebuild = rebuild
        self._stale = False  # whether keys have changed since the provider was made
        # What is configured later does not count here: commands would see it.
        named = assembled.configuration.settings.key_variable
        self._key_variables = SECRET_VARIABLES | ({named} if named else set())
        self.wishes = wishes
        self.agent = Agent(assembled.equipment)

    @property
    def equipment(self) -> Equipment:
        """What the agent works with."""
        return self._assembled.equipment

    @property
    def model(self) -> str:
        """The model that answers."""
        return self._assembled.choice.model

    @property
    def settings(self) -> Settings:
        """What is configured."""
        return self._assembled.configuration.settings

    def check(self, limits: Limits) -> None:
        """See that limits can be kept with this model.

        Raises:
            UsageError: they cannot.
        """
        limits.check_priced(self.model, self._assembled.equipment.prices)

    async def check_wishes(self, wishes: Wishes) -> None:
        """See that somebody can answer as wished.

        Raises:
            HoldfastError: nobody can.
        """
        provider = (await asyncio.to_thread(self._rebuild, wishes)).equipment.provider
        await provider.close()

    async def switch(self, wishes: Wishes, id: str | None = None) -> None:
        """Let another model go on, or the same with another key.

        It is recorded if it is a change, as an entry with that id if one is given.
        """
        new = await asyncio.to_thread(self._rebuild, wishes)
        self.wishes = wishes
        provider, model = new.equipment.provider, new.equipment.model
        try:
            await self.agent.switch(provider, model, login=new.login, id=id)
        finally:  # also if it could not be recorded yet: it is the other one that answers now
            equipment = self._assembled.equipment  # nothing else has changed
            self._assembled = Assembled(
                equipment, new.choice, new.configuration, new.login, new.scripted
            )

    async def renew(self) -> None:
        """Make the provider anew if keys have changed; record who answers."""
        if self._stale:
            await self.switch(self.wishes)
            self._stale = False
        await self.agent.record_who_answers(self._assembled.login)

    def refresh(self, environment: dict[str, str]) -> None:
        """Take over what a client's environment has that this one needs: never recorded."""
        for name, value in environment.items():
            wanted = name in REFRESHED | self._key_variables and "\0" not in value
            if wanted and os.environ.get(name) != value:
                os.environ[name] = value
                self._stale = self._stale or name in self._key_variables
