"""An agent put together: who answers, with which tools, under which rules, from what is configured.

The composition is the same wherever a session is gone on with; only the wishes differ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from holdfast.runtime import config, keys
from holdfast.runtime.config import Configuration
from holdfast.runtime.equipment import Equipment
from holdfast.runtime.instructions import instructions
from holdfast.runtime.policy import Mode, Policy
from holdfast.runtime.prices import PriceTable
from holdfast.runtime.providers import catalog
from holdfast.runtime.providers.catalog import Choice, Sources, Wish
from holdfast.runtime.providers.rehearsal_script import Step, read_script
from holdfast.runtime.tools.bash import PROVIDER_KEYS
from holdfast.runtime.tools.registry import standard_tools
from holdfast.runtime.wishes import Wishes
from holdfast.store.session import Session


class Assembled(Struct, frozen=True):
    """An agent's equipment, and how it came about. ``login`` says where the key is from."""

    equipment: Equipment
    choice: Choice
    configuration: Configuration
    login: str | None
    scripted: bool


def assemble(
    session: Session,
    workspace: Path,
    wishes: Wishes,
    *,
    environment: Mapping[str, str],
    home: Path,
) -> Assembled:
    """Put together what a session needs to be gone on with; blocks.

    Raises:
        UsageError: something is configured or asked for that cannot be.
        ProviderUnavailable: whoever should answer cannot be asked from here.
    """
    configuration = config.load(workspace, environment=environment, home=home)
    settings = configuration.settings
    folder = config.folder(environment)
    meta = session.meta
    sources = Sources(
        flags=Wish(wishes.provider, wishes.base_url, wishes.model),
        session=Wish(meta.get("provider"), meta.get("endpoint"), meta.get("model")),
        config=configuration.wish,
        environment=environment,
        keys=keys.load(folder, settings.keys),
    )
    script = _script(wishes)
    if script is not None and wishes.provider is None:
        sources = _rehearsing(sources)
    choice = catalog.choose(sources)
    hidden = {*PROVIDER_KEYS, *catalog.SECRET_VARIABLES}
    if settings.key_variable:
        hidden.add(settings.key_variable)
    urls = (vendor.url_variable for vendor in catalog.VENDORS.values())
    hidden.update(name for name in urls if "@" in environment.get(name, ""))  # with a password
    equipment = Equipment(
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
        ),
        prices=PriceTable(settings.prices),
        allowed=tuple(Path(each) for each in settings.folders),
        max_tokens=settings.max_tokens,
        thinking=settings.thinking,
        window_tokens=settings.context_tokens,
        compact_at=settings.compact_at,
    )
    login = catalog.login_of(choice, sources)
    return Assembled(equipment, choice, configuration, login, script is not None)


def _own_files(config_folder: Path, home: Path) -> list[str]:
    """Return rules that keep file tools from what says who may do what, whatever is allowed.

    Keys are not even read: what a tool reads is recorded, and sent to the provider.
    """
    real_config, real_home = os.path.realpath(config_folder), os.path.realpath(home)
    denied = [f"write({real_config}/**)", f"write({real_home}/**)"]
    return [*denied, f"read({real_config}/{keys.KEYS_NAME})"]


def _script(wishes: Wishes) -> list[Step] | None:
    return None if wishes.script is None else read_script(Path(wishes.script))


def _rehearsing(sources: Sources) -> Sources:
    """Return sources in which a script is taken for the wish to have it played."""
    flags = Wish(catalog.REHEARSAL, None, sources.flags.model)
    return Sources(flags, sources.session, sources.config, sources.environment, sources.keys)


def _mode(configured: Mode, wishes: Wishes) -> Mode:
    """Return the mode: what would be asked is refused where nobody can be asked."""
    if wishes.allow_all:
        return "allow-all"
    return "deny" if configured == "ask" and not wishes.attended else configured


def _began(session: Session) -> str:
    """Return the day a session began; the id of a new one has it."""
    return session.state.started or f"{session.id[:4]}-{session.id[4:6]}-{session.id[6:8]}"
