"""What is searched for: words and phrases, what they match, and how well.

Every word has to occur in a message, wherever; a phrase in double quotes has to occur as it is, but
for blanks and line ends. There are no operators: any other character means itself. A match is a
whole word, the beginning of one, or, where that is asked for, something inside of one.

Which messages of which sessions are searched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from msgspec import Struct
from msgspec.json import Decoder

from holdfast.errors import UsageError
from holdfast.store.search.documents import UNSPACED, fold_case, split_cjk
from holdfast.store.types import stamp

if TYPE_CHECKING:
    from holdfast.model.state import State
    from holdfast.store.search.documents import Document, Memory, Piece

WHOLE, BEGINNING, INSIDE = 0, 1, 2
_WORDS = re.compile(r'"([^"]*)"|(\S+)')
_JOINED = f"[^\\W_{UNSPACED}]"  # characters that make words with their neighbours
_IS_JOINED = re.compile(_JOINED)
_IN_INDEX = re.compile(r"[^\W_]")
_PROBE = re.compile("[a-z0-9]{2,}")
_MOST_IN_INDEX = 32
_AROUND_CHARACTERS = 60
_USUAL_LENGTH = 2000
_MOST_COUNTED = 1000
_WEIGHTS = {"title": 4.0, "user": 2.0, "assistant": 1.5, "tool": 1.0, "system": 0.5}


class Match(NamedTuple):
    """How a document fits. ``depth`` is whole, beginning or inside: that of its worst word."""

    depth: int
    piece: Piece
    snippet: str
    highlights: list[tuple[int, int]]
    rank: float


class _Term:
    """One word or phrase, folded."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._pattern = re.compile(r"\s+".join(re.escape(word) for word in text.split()))
        self._open_start = _IS_JOINED.match(text) is not None
        self.open_end = _IS_JOINED.match(text, len(text) - 1) is not None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where it is, for the first thousand times."""
        return [found.span() for found in islice(self._pattern.finditer(text), _MOST_COUNTED)]

    def depth(self, text: str, span: tuple[int, int]) -> int:
        """Tell whether what is found is a whole word, or what of one."""
        start, end = span
        if self._open_start and start and _IS_JOINED.match(text, start - 1):
            return INSIDE
        return BEGINNING if self.open_end and _IS_JOINED.match(text, end) else WHOLE

    def in_index(self, *, open_end: bool) -> str:
        """Return what is asked of the index, which takes quoted text apart as it does texts."""
        words = split_cjk(self.text).replace('"', " ").replace("\0", " ")
        words = words.encode("utf-8", "replace").decode()
        return f'"{words}"{" *" if open_end and self.open_end else ""}'


class _Found(NamedTuple):
    """The best of a needle: how deep, in which text, where; and how often it is there."""

    depth: int
    place: int
    span: tuple[int, int]
    often: int


class Query:
    """Words and phrases that all have to occur."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or not text.strip():
            raise UsageError("The search text must be a non-empty string.")
        found = [_one_blank(quoted or word) for quoted, word in _WORDS.findall(text)]
        words = [word for word in dict.fromkeys(found) if word] or [_one_blank(text)]
        self._needles = [_Term(word) for word in words if word]
        if not self._needles:
            raise UsageError(f"{text!r} contains no word to search for.")
        probes = [_PROBE.findall(needle.text) for needle in self._needles]
        self._probes = [max(each, key=len).encode() for each in probes if each]

    def in_index(self, *, open_end: bool) -> str | None:
        """Return an expression for the index; ``None`` if it knows none of the words.

        With ``open_end`` it has the beginnings of words as well; ``None`` if that adds nothing.
        """
        known = [each for each in self._needles if _IN_INDEX.search(each.text)][:_MOST_IN_INDEX]
        if not known or (open_end and not any(each.open_end for each in known)):
            return None
        return " AND ".join(each.in_index(open_end=open_end) for each in known)

    def may_be_in(self, line: bytes) -> bool:
        """Tell whether it is worth while to decode a line of a journal."""
        if not line.isascii() or b"\\u" in line or b'"blob":' in line:
            return True  # folding, or another file, could bring out anything
        lowered = line.lower()
        return all(probe in lowered for probe in self._probes)

    def match(self, document: Document, deepest: int) -> Match | None:
        """Look at a document."""
        texts = [fold_case(piece.text) for piece in document.pieces]
        found = []
        for needle in self._needles:
            best = _best(needle, texts)
            if best is None or best.depth > deepest:
                return None
            found.append(best)
        shown = min(found)
        piece = document.pieces[shown.place]
        snippet, highlights = self._around(piece.text, texts[shown.place], shown.span)
        damping = 1.2 * (0.25 + 0.75 * sum(map(len, texts)) / _USUAL_LENGTH)
        rank = sum(each.often / (each.often + damping) for each in found)
        weight = _WEIGHTS.get(document.role, 1.0)
        return Match(max(found).depth, piece, snippet, highlights, rank * weight)

    def _around(
        self, text: str, compared: str, span: tuple[int, int]
    ) -> tuple[str, list[tuple[int, int]]]:
        """Return the words around a place, and what in them is to be shown as found."""
        start, end = max(0, span[0] - _AROUND_CHARACTERS), span[1] + _AROUND_CHARACTERS
        shown = text if len(text) == len(compared) else compared  # ß has become two letters
        highlights: list[tuple[int, int]] = []
        part = compared[start:end]
        for each in sorted(each for needle in self._needles for each in needle.spans(part)):
            if not highlights or each[0] >= highlights[-1][1]:
                highlights.append(each)
        return shown[start:end], highlights


def _best(needle: _Term, texts: list[str]) -> _Found | None:
    best, often = None, 0
    for place, text in enumerate(texts):
        spans = needle.spans(text)
        often += len(spans)
        for span in spans:
            depth = needle.depth(text, span)
            if best is None or depth < best.depth:
                best = _Found(depth, place, span, 0)
            if depth == WHOLE:
                break
    return None if best is None else best._replace(often=often)


def _one_blank(text: str) -> str:
    return " ".join(fold_case(text).split())


OWN_AGENT = "holdfast"
"""The agent of sessions that were not imported."""

Names = str | Sequence[str]


class FilterArgs(TypedDict, total=False):
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


class SessionFacts(Struct, frozen=True):
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
Decoder(SessionFacts)


def agent_of(meta: dict[str, Any]) -> str:
    """Return the agent that a session's facts name."""
    imported = meta.get("imported")
    for agent in (imported.get("agent") if isinstance(imported, dict) else None, meta.get("agent")):
        if isinstance(agent, str) and agent:
            return agent
    return OWN_AGENT


def facts_of(session_id: str, state: State, memory: Memory | None = None) -> SessionFacts:
    """Return what a search knows of a session."""

    def text(name: str) -> str | None:
        value = state.meta.get(name)
        return value if isinstance(value, str) else None

    return SessionFacts(
        session_id,
        state.updated,
        state.title,
        text("workspace"),
        text("project"),
        agent_of(state.meta),
        "" if memory is None else memory.first,
        "" if memory is None else memory.last,
    )


class Filters(Struct, frozen=True):
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

    def let_session(self, facts: SessionFacts) -> bool:
        """Tell whether a session may have messages that fit."""
        return (
            (self.sessions is None or facts.id in self.sessions)
            and (self.workspace is None or facts.workspace == self.workspace)
            and (self.projects is None or facts.project in self.projects)
            and (self.agents is None or fold_case(facts.agent) in self.agents)
            and (self.since is None or not facts.last or facts.last >= self.since)
            and (self.until is None or not facts.first or facts.first < self.until)
        )

    def let(self, document: Document) -> bool:
        """Tell whether a document fits."""
        return (
            (self.since is None or document.at >= self.since)
            and (self.until is None or document.at < self.until)
            and (self.roles is None or fold_case(document.role) in self.roles)
            and (self.tools is None or not self.tools.isdisjoint(map(fold_case, document.tools)))
            and (self.models is None or self.let_model(document.model))
        )

    def let_model(self, name: str | None) -> bool:
        """Tell whether a model fits."""
        model = fold_case(name or "")
        return self.models is None or any(each in model for each in self.models)


def conditions(where: FilterArgs) -> Filters:
    """Check what is asked for.

    Raises:
        UsageError: there is no such condition, or it is of the wrong type.
    """
    unknown = sorted(where.keys() - FilterArgs.__annotations__.keys())
    if unknown:
        known = ", ".join(FilterArgs.__annotations__)
        raise UsageError(f"There is no search condition {unknown[0]!r}. Use one of: {known}.")
    workspace, project = where.get("workspace"), where.get("project")
    since, until = where.get("since"), where.get("until")
    return Filters(
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
        raise UsageError(f"{what} must be a name or a list of names, not {given!r}.")
    return frozenset(map(fold_case, names))


def _path(folder: str | os.PathLike[str]) -> str:
    from holdfast.store.git_project import workspace_path  # noqa: PLC0415  subprocess is slow

    return workspace_path(folder)


def _projects(project: str | os.PathLike[str]) -> frozenset[str]:
    from holdfast.store.git_project import project_names  # noqa: PLC0415  subprocess is slow

    if isinstance(project, str) and project.startswith("git:"):
        return frozenset([project])
    return frozenset(project_names(_path(project)))
