"""What was imported before: found by name, told apart by what the sessions say themselves.

The last eight characters of an imported session's id are a hash of the agent and its own id of the
session, and of the folder where that id means nothing elsewhere. Sessions of one name at several
places are told apart by how they begin. So nothing has to be kept beside the sessions, and nothing
can disagree with them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from holdfast.errors import HoldfastError
from holdfast.exchange.importing.items import Source
from holdfast.model.codec import convert
from holdfast.model.entry import Entry, Usage
from holdfast.model.ids import key_session_id
from holdfast.store.store import Store

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_SUFFIX_CHARACTERS = 8
MOST_VARIANTS = 16
"""So many earlier words of a source, and of copies of it, are remembered."""


class Variant(Struct, omit_defaults=True):
    """What a source said when it was imported: where it was, and how far that brought us.

    ``entries`` is the number of items that became entries, ``tail`` how the last of them were
    reached, ``runs`` how their numbers are computed (see ``track``), ``head`` what was said last.
    """

    path: str = ""
    size_bytes: int = -1
    modified_ns: int = 0
    entries: int = 0
    tail: list[tuple[int, int, int]] = field(default_factory=list)
    runs: list[tuple[int, int]] = field(default_factory=list)
    head: int | None = None


class ImportRecord(Variant, omit_defaults=True):
    """What an import leaves in a session's facts, as ``imported``, for the next one to go on from.

    ``facts`` is what the source says about itself: only what it says anew is taken over.
    ``opening`` is how its first few items were reached: a copy begins alike. ``earlier`` is what it
    said before it changed, and what copies of it say. ``recount`` is true while a source that has
    changed is being read again.
    """

    agent: str = ""
    id: str = ""
    at: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    family: str | None = None
    parent: str | None = None
    recount: bool = False
    opening: list[int] = field(default_factory=list)
    earlier: list[Variant] = field(default_factory=list)

    @property
    def variants(self) -> list[Variant]:
        """All that the source and its copies have said, the latest last."""
        names = Variant.__struct_fields__
        return [*self.earlier, Variant(**{name: getattr(self, name) for name in names})]

    def knows(self, source: Source) -> bool:
        """Tell whether this very file was imported."""
        return real_path(source) in {each.path for each in (self, *self.earlier)}

    def fits(self, source: Source) -> bool:
        """Tell whether a source is, by place, size and time, what it was."""
        there = (real_path(source), source.size_bytes, source.modified_ns)
        known = (self, *self.earlier)
        return there in {(each.path, each.size_bytes, each.modified_ns) for each in known}

    def is_of(self, source: Source) -> bool:
        """Tell whether this is the name of a source."""
        same = (self.agent, self.id) == (source.agent, source.id)
        return same and (not source.local or Path(self.path).parent == _folder(source))

    def begins_alike(self, opening: list[int]) -> bool:
        """Tell whether a source that is elsewhere can be a copy, and can be remembered as one."""
        shared = min(len(opening), len(self.opening))
        alike = shared > 0 and opening[:shared] == self.opening[:shared]
        return alike and len(self.earlier) < MOST_VARIANTS


def real_path(source: Source) -> str:
    """Return where a source is, whatever links lead there."""
    return os.path.realpath(source.path)


def _folder(source: Source) -> Path:
    return Path(real_path(source)).parent


def trace_in(meta: dict[str, Any]) -> ImportRecord:
    """Return what the last import left; an empty trace if there was none, or it was altered."""
    try:
        return convert(meta.get("imported", {}), ImportRecord)
    except msgspec.ValidationError:
        return ImportRecord()


class LedgerMatch(Struct, frozen=True):
    """Where a foreign session is, or where it shall be.

    ``session`` is its id here, ``None`` if it was never imported; ``suffix`` ends the id that it
    then gets. ``trace`` is what the last import left. ``deleted``: it is in the trash. With a
    ``key`` it shall be the session of that key. ``namesakes`` are sessions of the same name that
    were imported from elsewhere: copies of it, or others.
    """

    session: str | None
    suffix: str
    trace: ImportRecord
    deleted: bool = False
    key: str | None = None
    namesakes: tuple[LedgerMatch, ...] = ()


class _Member(Struct, frozen=True):
    names: tuple[str, ...]
    session: str


class ImportLedger:
    """The imported sessions of a store, as they were when this was made and as told since."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_suffix: dict[str, list[str]] = {}
        for session_id in store.ids():
            self._by_suffix.setdefault(session_id[-_SUFFIX_CHARACTERS:], []).append(session_id)
        tombstones = store.tombstones()
        gone = store.deleted_ids() | {each.session for each in tombstones if each.seq is None}
        self._deleted = {each[-_SUFFIX_CHARACTERS:] for each in gone}
        self.redacted = {each.session for each in tombstones if each.seq is not None}
        """Sessions that had entries erased: a source would bring them back."""
        self._families: dict[tuple[str, str], list[_Member]] | None = None

    def find(self, source: Source) -> LedgerMatch:
        """Look for a foreign session."""
        name = f"{source.id}\0{_folder(source)}" if source.local else source.id
        namesakes: list[LedgerMatch] = []
        deleted, attempt = False, 0
        while True:
            suffix = suffix_of(source.agent, name, attempt)
            candidates = self._by_suffix.get(suffix, [])
            for session_id in candidates:
                trace = self._trace(session_id)
                if trace.is_of(source):
                    found = LedgerMatch(session_id, suffix, trace)
                    if trace.knows(source):
                        return found
                    namesakes.append(found)
            gone = suffix in self._deleted
            if not candidates and not gone:
                return LedgerMatch(
                    None, suffix, ImportRecord(), deleted, namesakes=tuple(namesakes)
                )
            deleted = deleted or gone
            attempt += 1  # further on are other sessions of that name, perhaps

    def keyed(self, key: str, source: Source) -> LedgerMatch | None:
        """Look for a foreign session under a key; ``None`` if the key is another session's."""
        session_id = key_session_id(key)
        suffix = session_id[-_SUFFIX_CHARACTERS:]
        if session_id not in self._by_suffix.get(suffix, []):
            return LedgerMatch(None, suffix, ImportRecord(), suffix in self._deleted, key)
        trace = self._trace(session_id)
        return LedgerMatch(session_id, suffix, trace) if trace.is_of(source) else None

    def add(
        self, session_id: str, source: Source, family: str | None, opening: Sequence[int]
    ) -> None:
        """Note a session that was just imported."""
        self._by_suffix.setdefault(session_id[-_SUFFIX_CHARACTERS:], []).append(session_id)
        if self._families is not None:
            self._relate(source.agent, source.id, family, opening, session_id)

    def counted(self, source: Source, families: Sequence[str], but: str | None) -> set[str]:
        """Return the keys of all requests that copies of a conversation have counted already.

        A copy of a copy names the copy: all that are linked by names are one family.
        """
        names = {source.id, *families}
        waiting, sessions = list(names), set[str]()
        while waiting:
            for member in self._relatives().get((source.agent, waiting.pop()), ()):
                sessions.add(member.session)
                new = {*member.names} - names
                names |= new
                waiting += new
        return {
            usage.request
            for session_id in sessions - {but}
            for usage in self.usages(session_id)
            if usage.request
        }

    def usages(self, session_id: str) -> Iterator[Usage]:
        """Yield everything that a session has counted."""
        with suppress(HoldfastError), self._store.open(session_id, mode="read") as session:
            for entry in session.follow(wait=False):
                if isinstance(entry, Entry) and isinstance(entry.body, Usage):
                    yield entry.body

    def _relatives(self) -> dict[tuple[str, str], list[_Member]]:
        if self._families is None:
            self._families = {}
            for session_id in [each for ids in self._by_suffix.values() for each in ids]:
                trace = self._trace(session_id)
                self._relate(trace.agent, trace.id, trace.family, trace.opening, session_id)
        return self._families

    def _relate(
        self, agent: str, id: str, family: str | None, opening: Sequence[int], session_id: str
    ) -> None:
        families = self._families
        if families is not None and (family is not None or opening):
            names = tuple(dict.fromkeys([id] if family is None else [id, family]))
            began = (opening_name(opening),) if opening else ()
            for name in (*names, *began):
                families.setdefault((agent, name), []).append(_Member(names, session_id))

    def _trace(self, session_id: str) -> ImportRecord:
        try:
            with self._store.open(session_id, mode="read") as session:
                return trace_in(session.meta)
        except HoldfastError:
            return ImportRecord()  # damaged, or deleted a moment ago


def opening_name(opening: Sequence[int]) -> str:
    """Return a name for how a conversation begins: that of its first item."""
    return f"\0opening {opening[0]}"


def suffix_of(agent: str, id: str, attempt: int = 0) -> str:
    """Return the last eight characters of an imported session's id."""
    name = f"{agent}\0{id}\0{attempt}".encode("utf-8", "surrogatepass")
    number = int.from_bytes(sha256(name).digest()[:8])
    characters = []
    for _ in range(_SUFFIX_CHARACTERS):
        number, digit = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[digit])
    return "".join(characters)
