"""Plan an import: which sessions there are, of which agent, and which of them are new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from holdfast.errors import ImportRejected, UsageError
from holdfast.exchange.archive.read import AGENT, is_archive, is_imported, manifest_of
from holdfast.exchange.importers import everybody, importer, installed, recognised
from holdfast.exchange.importers.base import Importer
from holdfast.exchange.importing.importer import CREATED, UNCHANGED, ImportRun
from holdfast.exchange.importing.items import Source
from holdfast.exchange.importing.source_files import ImportProblem, SourceReader

AUTO = "auto"
_ENDINGS = (".jsonl", ".jsonl.zst", ".json", ".db", ".frames", ".zotsession", ".md")


class FoundSource(Struct, frozen=True):
    """A session that was found, and whether it is new, changed or known.

    ``importer`` is ``None`` for an archive.
    """

    source: Source
    standing: str
    importer: Importer | None
    where: str


class ImportPlan(Struct):
    """All sessions that were found. ``asks``: the user did not name them, so has to confirm.

    ``problems`` are places that could not be read, or not completely.
    """

    sources: list[FoundSource] = field(default_factory=list)
    asks: bool = False
    problems: list[ImportProblem] = field(default_factory=list)


class ImportRow(Struct):
    """The sessions of one agent in one place."""

    agent: str
    where: str
    counts: Counter[str] = field(default_factory=Counter)
    size_bytes: int = 0


def plan_import(
    importing: ImportRun,
    source: str | None,
    agent: str | None,
    home: Path,
    environment: Mapping[str, str],
) -> ImportPlan:
    """Find the sessions to import.

    Raises:
        UsageError: nothing was named, the file does not exist, or no importer recognises it.
    """
    plan = ImportPlan(asks=source is None or source == AUTO)
    reading = importing.reading()
    is_named = agent is not None or plan.asks
    for made, place in _places(importing, source, agent, home, environment):
        for owner, each in (
            _by_owner(importing, made, place, reading)
            if made is not None and not is_named
            else ((made, each) for each in _sources(made, place, reading))
        ):
            standing = _standing_of(importing, owner, each)
            plan.sources.append(FoundSource(each, standing, owner, str(place)))
    plan.problems = list(dict.fromkeys(reading.problems))
    return plan


def _places(
    importing: ImportRun,
    source: str | None,
    agent: str | None,
    home: Path,
    environment: Mapping[str, str],
) -> Iterator[tuple[Importer | None, Path]]:
    made = None if agent is None or agent == AGENT else importer(agent)
    if source is None and agent is None:
        raise UsageError("Name what to import: auto, a file or folder, or --from AGENT.")
    if source is None or source == AUTO:
        found = installed(home, environment)
        yield from ((one, at) for one, at in found if agent is None or one.name == agent)
        return
    path = Path(source).expanduser()
    if not path.exists():
        raise UsageError(f"There is no file or folder {source}.")
    path = path.absolute()
    if made is not None:
        yield made, path
    elif path.is_file() and (agent == AGENT or is_archive(path)):
        yield None, path
    else:
        reading = importing.reading()
        known = recognised(path, reading)
        if known is None:
            seen = "".join(f" {each.path}: {each.reason}." for each in reading.problems[:1])
            raise UsageError(
                f"{source} is not recognised as sessions of any agent. Name the agent with --from "
                f"AGENT.{seen}"
            )
        yield known, path


def _standing_of(importing: ImportRun, owner: Importer | None, source: Source) -> str:
    if owner is not None:
        return importing.standing(source)
    return UNCHANGED if is_imported(importing.store, Path(source.path)) else CREATED


def _by_owner(
    importing: ImportRun, first: Importer, place: Path, reading: SourceReader
) -> Iterator[tuple[Importer | None, Source]]:
    """Yield the sessions of a file or folder, each with the importer that recognises its file."""
    looking, seen = importing.reading(), set[str]()
    others = [each for each in everybody() if each.name != first.name]
    for source in first.sessions(place, reading):
        file = Path(source.path)
        is_new = source.path not in seen and importing.standing(source) == CREATED
        seen.update((source.path, *source.others))
        owner = None
        if is_new and not first.sniff(file, looking):
            owner = recognised(file, looking, others)
        if owner is None:
            yield first, source
        else:
            yield from ((owner, each) for each in owner.sessions(file, reading))
    if place.is_dir():
        for file in looking.files_below(place, *_ENDINGS):
            owner = None if str(file) in seen else recognised(file, looking, others)
            if owner is not None:
                yield from ((owner, each) for each in owner.sessions(file, reading))


def _sources(made: Importer | None, place: Path, reading: SourceReader) -> Iterator[Source]:
    if made is not None:
        yield from made.sessions(place, reading)
        return
    try:
        session = manifest_of(place).session
    except ImportRejected:
        session = ""  # said when it is taken
    yield Source(AGENT, session, str(place), place.stat().st_size, place.stat().st_mtime_ns)


def plan_rows(plan: ImportPlan) -> list[ImportRow]:
    """Return the plan as one row per agent and place."""
    found: dict[tuple[str, str], ImportRow] = {}
    for each in plan.sources:
        row = found.setdefault(
            (each.source.agent, each.where), ImportRow(each.source.agent, each.where)
        )
        row.counts[each.standing] += 1
        row.size_bytes += each.source.size_bytes
    return list(found.values())
