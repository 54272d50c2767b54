"""An agent put together: who answers, with which tools, under which rules, from what is configured.

The composition is the same wherever a session is gone on with; only the wishes differ.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from holdfast.runtime.agent.prices import PriceTable
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.agent.system_prompt import instructions
from holdfast.runtime.config import credentials as keys
from holdfast.runtime.config import load as config
from holdfast.runtime.config.load import Configuration
from holdfast.runtime.config.run_options import RunOptions
from holdfast.runtime.config.secret_variables import conceal, secret_names
from holdfast.runtime.policy.policy import Mode, Policy
from holdfast.runtime.providers import catalog
from holdfast.runtime.providers.catalog import Choice, Sources, Wish
from holdfast.runtime.providers.rehearsal_script import ScriptStep, read_script
from holdfast.runtime.tools.registry import standard_tools
from holdfast.store.session import Session

_SPECIAL = re.compile(r"[\[\]{}*?!\\]")


class BuiltAgent(Struct, frozen=True):
    """An agent's equipment, and how it came about. ``login`` says where the key is from."""

    equipment: TurnServices
    choice: Choice
    configuration: Configuration
    login: str | None
    scripted: bool


def build_agent(
    session: Session,
    workspace: Path,
    wishes: RunOptions,
    *,
    environment: Mapping[str, str],
    home: Path,
) -> BuiltAgent:
    """Put together what a session needs to be gone on with; blocks.

    Raises:
        UsageError: something is configured or asked for that cannot be.
        ProviderUnavailable: whoever should answer cannot be asked from here.
    """
    configuration = config.load(workspace, environment=environment, home=home)
    settings = configuration.settings
    folder = config.folder(environment)
    sources = Sources(
        flags=Wish(wishes.provider, wishes.base_url, wishes.model),
        session=_recorded(session),
        config=configuration.wish,
        environment=environment,
        keys=keys.load(folder, settings.keys),
    )
    script = _script(wishes)
    if script is not None and wishes.provider is None:
        sources = _rehearsing(sources)
    choice = catalog.choose(sources)
    named = [settings.key_variable] if settings.key_variable else []
    conceal(named)
    hidden = {*secret_names(environment), *named}
    equipment = TurnServices(
        session=session,
        provider=catalog.build(choice, sources, script=script, chaos=wishes.chaos),
        model=choice.model,
        workspace=workspace,
        system=instructions(workspace, _began(session), folder),
        tools=standard_tools(hidden=hidden),
        policy=Policy(
            _mode(settings.mode, wishes),
            allow=(*settings.allow, *wishes.allow),
            deny=(*settings.deny, *_own_files(folder, home)),
            attended=wishes.attended,
        ),
        prices=PriceTable(settings.prices),
        allowed=tuple(Path(each) for each in settings.folders),
        max_tokens=settings.max_tokens,
        thinking=settings.thinking,
        window_tokens=settings.context_tokens,
        compact_at=settings.compact_at,
    )
    login = catalog.login_of(choice, sources)
    return BuiltAgent(equipment, choice, configuration, login, script is not None)


def _recorded(session: Session) -> Wish:
    """Return which model a session says it is asked; what came from elsewhere does not choose.

    An endpoint of the sender's choice would get the conversation and the key.
    """
    if session.provenance().any_foreign:
        return Wish()
    meta = session.meta
    return Wish(meta.get("provider"), meta.get("endpoint"), meta.get("model"))


def _own_files(config_folder: Path, home: Path) -> list[str]:
    """Return rules that keep file tools from what says who may do what, whatever is allowed.

    Keys are not even read: what a tool reads is recorded, and sent to the provider. The one of the
    home signs the records of which sessions came from elsewhere.
    """
    real_config, real_home = map(_as_pattern, (config_folder, home))
    denied = [f"write({real_config}/**)", f"write({real_home}/**)"]
    return [*denied, f"read({real_config}/{keys.KEYS_NAME})", f"read({real_home}/*.key)"]


def _as_pattern(folder: Path) -> str:
    """Return a real path as a pattern; a character with a meaning there fits any other."""
    return _SPECIAL.sub("?", os.path.realpath(folder))


def _script(wishes: RunOptions) -> list[ScriptStep] | None:
    return None if wishes.script is None else read_script(Path(wishes.script))


def _rehearsing(sources: Sources) -> Sources:
    """Return sources in which a script is taken for the wish to have it played."""
    flags = Wish(catalog.REHEARSAL, None, sources.flags.model)
    return Sources(flags, sources.session, sources.config, sources.environment, sources.keys)


def _mode(configured: Mode, wishes: RunOptions) -> Mode:
    """Return the mode: what would be asked is refused where nobody can be asked."""
    if wishes.allow_all:
        return "allow-all"
    return "deny" if configured == "ask" and not wishes.attended else configured


def _began(session: Session) -> str:
    """Return the day a session began; the id has it, and counts where the journal's is not ours.

    It is part of the system prompt, where text of others has no place.
    """
    started = None if session.provenance().any_foreign else session.state.started
    return started or f"{session.id[:4]}-{session.id[4:6]}-{session.id[6:8]}"
