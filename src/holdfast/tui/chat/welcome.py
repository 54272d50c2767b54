"""What is said at the top of a chat: what else is going on here, and on a first run how to go on.

The first part is read from the index and asked of runners, and takes milliseconds; what has to be
looked for, such as servers on this machine, is looked for behind the first paint.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.model.sanitize import quoted_line
from holdfast.runtime.protocol.client import state_of
from holdfast.runtime.protocol.socket_path import listens, socket_path
from holdfast.runtime.runner.launch_options import Launch
from holdfast.store.store import Store
from holdfast.store.types import Summary
from holdfast.version import __version__

_MOST_LOOKED_AT = 50
_MOST_NAMED = 5
_SILENT = "has a runner"
_ANSWER_SECONDS = 0.2  # nobody waits longer for a prompt because another session is busy


def greeting(store: Store, launch: Launch) -> list[str]:
    """Return the lines at the top: where this is, and which sessions of the folder want a look."""
    lines = [f"holdfast {__version__} · {launch.workspace} · /help"]
    others = [
        each
        for each in store.list(workspace=launch.workspace, limit=_MOST_LOOKED_AT)
        if each.id != launch.session
    ]
    standings = _standings(store, others)
    wanting = [(each, word) for each in others if (word := _word(each, standings))]
    for each, word in wanting[:_MOST_NAMED]:
        title = quoted_line(each.title or each.first_text or "no title", 50)
        mark = ", foreign" if each.foreign else ""
        lines.append(f"{word}{mark}: {title}  holdfast -r {each.id}")
    if len(wanting) > _MOST_NAMED:
        lines.append(f"… {len(wanting) - _MOST_NAMED} more: /resume")
    newest = next((each for each in others if not each.foreign), None)
    if launch.is_new and newest is not None and not wanting:
        title = quoted_line(newest.title or newest.first_text or "no title", 50)
        lines.append(f"latest session here: {title}  holdfast -c")
    return lines


def _word(summary: Summary, standings: dict[str, str]) -> str | None:
    """Return why a session wants a look, if it does: an idle runner is no reason."""
    standing = standings.get(summary.id)
    if standing is not None and standing != "idle":
        return standing
    return summary.state if summary.state in ("running", "interrupted", "damaged") else None


def _standings(store: Store, summaries: list[Summary]) -> dict[str, str]:
    """Return how those sessions stand that have a runner."""
    paths = {each.id: socket_path(store.local_folder, each.id) for each in summaries}
    paths = {name: path for name, path in paths.items() if listens(path)}
    if not paths:
        return {}

    async def ask_all() -> list[str]:
        return await asyncio.gather(*map(_standing, paths.values()))

    return dict(zip(paths, asyncio.run(ask_all()), strict=True))


async def _standing(path: Path) -> str:
    try:
        return await state_of(path, _ANSWER_SECONDS)
    except (TimeoutError, HoldfastError):
        return _SILENT


def is_first(store: Store) -> bool:
    """Tell whether nobody has used this home yet."""
    return not store.list(limit=1)


def found(environment: Mapping[str, str] | None = None) -> list[str]:
    """Return what a first run finds: keys and servers, and how to go on without any; blocks."""
    from holdfast.runtime.config import credentials  # noqa: PLC0415  not before the first paint
    from holdfast.runtime.config import load as config  # noqa: PLC0415  as above
    from holdfast.runtime.providers.catalog import VENDORS  # noqa: PLC0415  as above
    from holdfast.runtime.providers.local_servers import offered  # noqa: PLC0415  as above

    environment = os.environ if environment is None else environment
    lines: list[str] = []
    named = [v.key_variable for v in VENDORS.values() if environment.get(v.key_variable)]
    try:
        kept = config.user_settings(environment).keys
        named += [f"{name} (kept)" for name in credentials.load(config.folder(environment), kept)]
    except HoldfastError as error:
        lines.append(str(error))
    if named:
        lines.append(f"keys found: {', '.join(named)}")
    else:
        lines.append("no API key found; store one with /login anthropic or /login openai")
        lines.append("without a key, try: run: ls    say: hello    write: notes.txt")
    if server := offered():
        lines.append(server.strip())
    return lines + _other_agents(environment)


def _other_agents(environment: Mapping[str, str]) -> list[str]:
    """Return how to have the sessions of other agents here, if there are any."""
    from holdfast.exchange.importers import installed  # noqa: PLC0415  as above

    names = dict.fromkeys(each.name for each, _ in installed(Path.home(), environment))
    if not names:
        return []
    return [f"found sessions of {', '.join(names)}; import them with: holdfast import auto"]
