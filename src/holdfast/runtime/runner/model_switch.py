"""The model that answers in a runner: switched on request, and renewed when a key changes.

Clients send a few variables of their environment. They are put into the environment of this
process, where commands and providers find them, and nowhere else.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.build import BuiltAgent
from holdfast.runtime.agent.limits import check_priced
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.config.run_options import Limits, RunOptions
from holdfast.runtime.config.secret_variables import conceal
from holdfast.runtime.config.settings import Settings
from holdfast.runtime.protocol.messages import REFRESHED
from holdfast.runtime.providers.catalog import SECRET_VARIABLES


class ActiveModel:
    """The agent of one runner, and its model. ``rebuild`` makes the agent's services; it blocks."""

    def __init__(
        self, assembled: BuiltAgent, rebuild: Callable[[RunOptions], BuiltAgent], wishes: RunOptions
    ) -> None:
        self._assembled = assembled
        self._rebuild = rebuild
        self._stale = False  # whether keys have changed since the provider was made
        # Settings changed later do not apply here: commands would see that key.
        named = assembled.configuration.settings.key_variable
        self._key_variables = SECRET_VARIABLES | ({named} if named else set())
        self.wishes = wishes
        self.agent = Agent(assembled.equipment)

    @property
    def equipment(self) -> TurnServices:
        """The services that the agent uses."""
        return self._assembled.equipment

    @property
    def model(self) -> str:
        """The model that answers."""
        return self._assembled.choice.model

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self._assembled.configuration.settings

    def check(self, limits: Limits) -> None:
        """Check that limits can be kept with this model.

        Raises:
            UsageError: they cannot.
        """
        check_priced(limits, self.model, self._assembled.equipment.prices)

    async def check_wishes(self, wishes: RunOptions) -> None:
        """Check that the wanted model can be used.

        Raises:
            HoldfastError: it cannot.
        """
        provider = (await asyncio.to_thread(self._rebuild, wishes)).equipment.provider
        await provider.close()

    async def switch(self, wishes: RunOptions, id: str | None = None) -> None:
        """Switch to another model, or to the same with another key.

        A change is recorded, as an entry with the given id.
        """
        new = await asyncio.to_thread(self._rebuild, wishes)
        self.wishes = wishes
        provider, model = new.equipment.provider, new.equipment.model
        try:
            await self.agent.switch(provider, model, login=new.login, id=id)
        finally:  # also if it could not be recorded yet: the new model answers now
            equipment = self._assembled.equipment  # nothing else has changed
            self._assembled = BuiltAgent(
                equipment, new.choice, new.configuration, new.login, new.scripted
            )

    async def renew(self) -> None:
        """Make a new provider if keys have changed; record which model answers."""
        if self._stale:
            await self.switch(self.wishes)
            self._stale = False
        await self.agent.record_who_answers(self._assembled.login)

    def refresh(self, environment: dict[str, str]) -> None:
        """Take over the needed variables of a client's environment; they are never recorded."""
        for name, value in environment.items():
            wanted = name in REFRESHED | self._key_variables and "\0" not in value
            if wanted and os.environ.get(name) != value:
                os.environ[name] = value
                self._stale = self._stale or name in self._key_variables
        conceal()
