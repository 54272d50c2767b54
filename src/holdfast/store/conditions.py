"""Which messages of which sessions are searched."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import Struct
from msgspec.json import Decoder

from holdfast.errors import UsageError
from holdfast.store.contract import stamp
from holdfast.store.texts import folded

if TYPE_CHECKING:
    from holdfast.store.documents import Document

OWN_AGENT = "holdfast"
"""The agent of sessions that were not imported."""

Names = str | Sequence[str]


class Where(TypedDict, total=False):
    """Conditions of a search. Of several names, one has to fit; of several conditions, all.

    ``role`` is user, assistant, tool, system or title. ``tool`` is the name of a tool that is
    called, or answers. ``model`` may be a part of a model's name. ``agent`` is where a session was
    imported from; holdfast, if it was not. ``session`` is an id. ``since`` and ``until`` are times
    of messages.
    """

    role: Names
    tool: Names
    model: Names
    agent: Names
    session: Names
    workspace: str | os.PathLike[str]
    project: str | os.PathLike[str]
    since: datetime
    until: datetime


class Facts(Struct, frozen=True):
    """What a search knows of a session. ``first`` and ``last`` are the times of its messages."""

    id: str
    updated: str = ""
    title: str | None = None
    workspace: str | None = None
    project: str | None = None
    agent: str = OWN_AGENT
    first: str = ""
    last: str = ""


# Looked up now: two threads that do so at the same time, when it is first used, crash the process
# (msgspec 0.22).
Decoder(Facts)


def agent_of(meta: dict[str, Any]) -> str:
    """Return the agent that a session's facts name."""
    imported = meta.get("imported")
    for agent in (imported.get("agent") if isinstance(imported, dict) else None, meta.get("agent")):
        if isinstance(agent, str) and agent:
            return agent
    return OWN_AGENT


class Conditions(Struct, frozen=True):
    """The same, checked and folded; ``None`` is no condition."""

    roles: frozenset[str] | None = None
    tools: frozenset[str] | None = None
    models: frozenset[str] | None = None
    agents: frozenset[str] | None = None
    sessions: frozenset[str] | None = None
    workspace: str | None = None
    projects: frozenset[str] | None = None
    since: str | None = None
    until: str | None = None

    def let_session(self, facts: Facts) -> bool:
        """Tell whether a session may have messages that fit."""
        return (
            (self.sessions is None or facts.id in self.sessions)
            and (self.workspace is None or facts.workspace == self.workspace)
            and (self.projects is None or facts.project in self.projects)
            and (self.agents is None or folded(facts.agent) in self.agents)
            and (self.since is None or not facts.last or facts.last >= self.since)
            and (self.until is None or not facts.first or facts.first < self.until)
        )

    def let(self, document: Document) -> bool:
        """Tell whether a document fits."""
        return (
            (self.since is None or document.at >= self.since)
            and (self.until is None or document.at < self.until)
            and (self.roles is None or folded(document.role) in self.roles)
            and (self.tools is None or not self.tools.isdisjoint(map(folded, document.tools)))
            and (self.models is None or self.let_model(document.model))
        )

    def let_model(self, name: str | None) -> bool:
        """Tell whether a model fits."""
        model = folded(name or "")
        return self.models is None or any(each in model for each in self.models)


def conditions(where: Where) -> Conditions:
    """Check what is asked for.

    Raises:
        UsageError: there is no such condition, or it is of the wrong type.
    """
    unknown = sorted(where.keys() - Where.__annotations__.keys())
    if unknown:
        known = ", ".join(Where.__annotations__)
        raise UsageError(f"There is no condition {unknown[0]!r}; there are: {known}.")
    workspace, project = where.get("workspace"), where.get("project")
    since, until = where.get("since"), where.get("until")
    return Conditions(
        roles=_names(where.get("role"), "role"),
        tools=_names(where.get("tool"), "tool"),
        models=_names(where.get("model"), "model"),
        agents=_names(where.get("agent"), "agent"),
        sessions=_names(where.get("session"), "session"),
        workspace=None if workspace is None else _path(workspace),
        projects=None if project is None else _projects(project),
        since=None if since is None else stamp(since),
        until=None if until is None else stamp(until),
    )


def _names(given: Names | None, what: str) -> frozenset[str] | None:
    if given is None:
        return None
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple | set | frozenset) or not all(
        isinstance(name, str) for name in names
    ):
        raise UsageError(f"{what} is a name or a list of names, not {given!r}.")
    return frozenset(map(folded, names))


def _path(folder: str | os.PathLike[str]) -> str:
    from holdfast.store.project import workspace_path  # noqa: PLC0415  subprocess is slow

    return workspace_path(folder)


def _projects(project: str | os.PathLike[str]) -> frozenset[str]:
    from holdfast.store.project import project_names  # noqa: PLC0415  subprocess is slow

    if isinstance(project, str) and project.startswith("git:"):
        return frozenset([project])
    return frozenset(project_names(_path(project)))
