"""A source that was imported before and has changed: read again, and compared.

- It says the same and more: what is new is appended, in batches that each note how far they
  brought the import, so that an interrupted one goes on from there.
- Its last few items have changed (a message that was still growing): the new ones are appended as
  a branch from where the two part.
- Anything before that has changed: the whole source is appended as a branch from the beginning.
- It says what it said some time ago, or what a copy of it said: that branch is there.
- It has become shorter: the session stays as it is, and the result says so.

A branch that was begun here after the import keeps the head. Nothing that was imported is removed,
and no request is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from msgspec import to_builtins

from holdfast.exchange.importing.items import Item, Source, UsageItem
from holdfast.exchange.importing.ledger import (
    MOST_VARIANTS,
    ImportRecord,
    Variant,
    real_path,
    trace_in,
)
from holdfast.exchange.importing.sequence import STRIDE, ItemCounts, ItemSequencer
from holdfast.exchange.importing.usage_dedup import Recount
from holdfast.model.entry import Head, Meta, Usage
from holdfast.store.session import Session
from holdfast.store.write.encode import ImportedEntry, encode_all

_BATCH_ITEMS = 500
_BATCH_BYTES = 1024 * 1024
_IN_TREE = ("message", "checkpoint")
_ROOM = 1024  # numbers left free for what opening a session may have to write first


class ImportContext(Protocol):
    """What growing needs of the import that it is part of."""

    def facts(
        self,
        source: Source,
        track: ItemSequencer,
        runs: list[tuple[int, int]],
        before: ImportRecord,
    ) -> dict[str, Any]:
        """Return the facts about a session after an import."""

    def counted(
        self,
        source: Source,
        track: ItemSequencer,
        session: str | None = None,
        opening: Sequence[int] = (),
    ) -> set[str]:
        """Return the keys of requests that other copies of the conversation have counted."""

    def usages(self, session_id: str) -> Iterator[Usage]:
        """Yield everything that a session has counted."""


class IncrementalImport:
    """Brings one session up to its source. ``follow`` until it is ``through``."""

    def __init__(self, importing: ImportContext, session: Session, source: Source) -> None:
        self._importing = importing
        self._session = session
        self._source = source
        self._before = trace_in(session.meta)
        self._variants = self._before.variants
        self._base = self._variants[-1]  # what the source goes on from, as far as it is the same
        self._same = self._base.entries
        # There is more than one that the source may go on from: first it is read and compared.
        self._is_compared = not self._before.earlier and self._before.knows(source)
        self._own_head = session.state.head != self._before.head
        self._head = session.state.head
        self._counted: set[str] | None = None
        self._batch: list[ImportedEntry] = []
        self._batch_bytes = 0
        self.through = False
        self.parted = self._before.recount
        """Whether the source does not say any more what it said."""
        # What an abandoned branch has counted is not in what the source says now.
        again = self.parted or bool(self._before.earlier)
        self._recount = self._new_recount() if again else Recount()
        self.is_shorter = False
        self.is_open = False
        """Whether the source has an end that its agent is still writing."""
        self.added = 0
        self.branched: bool | None = None
        """Whether what was added does not follow what was there."""
        self.counts = ItemCounts()

    def _new_recount(self) -> Recount:
        return Recount(self._importing.usages(self._session.id))

    @property
    def runs(self) -> list[tuple[int, int]]:
        """How numbers are computed, for what is there and for what will be."""
        first_free = self._session.seq + _ROOM + len(self._session.recovery.damage)
        earlier = [run for run in self._base.runs if run[0] < self._same]
        return [*earlier, (self._same, first_free - self._same * STRIDE)]

    def follow(self, items: Iterator[Item], track: ItemSequencer) -> None:
        """Pass over what is there already, then append the rest."""
        if not self._is_compared:
            self._compare(items, track)
            return
        runs = self.runs
        for item in items:
            if track.taken < self._same:
                past = track.take(item)
                if past is not None and isinstance(item, UsageItem):
                    self._recount.corrected(past)
                if track.taken == self._same and not self._is_same(track):
                    return
                continue
            if track.counts is not self.counts:
                track.counts = self.counts
            past = track.take(item)
            if past is not None and isinstance(item, UsageItem):
                past = self._uncounted(item, past, track)
            if past is not None:
                self._add(past, track, runs)
        self.through = True
        self.is_open = track.is_open
        if track.taken >= self._same:
            self._write(track, runs, last=True)
        else:
            self.is_shorter = not self.is_open

    def _compare(self, items: Iterator[Item], track: ItemSequencer) -> None:
        """Find which of all that is there the source goes on from, and how far it is the same."""
        points = {point: variant for variant in self._variants for point in variant.tail}
        found: tuple[int, int, int] | None = None
        for item in items:
            track.take(item)
            if track.tail and track.tail[-1] in points:
                found = track.tail[-1]
        self._is_compared = True
        if found is None and track.taken < max(each.entries for each in self._variants):
            self.through, self.is_open = True, track.is_open
            self.is_shorter = not self.is_open  # as far as anybody can tell
            return
        latest = self._variants[-1]
        self._base = latest if found is None else points[found]
        self._same = 0 if found is None else found[0]
        if self._base is not latest or self._same < latest.entries:
            self._part()

    def _is_same(self, track: ItemSequencer) -> bool:
        """Compare what has passed with the last import; if it differs, say from where."""
        if self.parted or track.tail[-1] == self._base.tail[-1]:
            return True
        shared = set(self._base.tail).intersection(track.tail)
        self._same = max((each[0] for each in shared), default=0)
        self._part()
        return False

    def _part(self) -> None:
        self.parted = True
        self._recount = self._new_recount()

    def _uncounted(
        self, item: UsageItem, past: ImportedEntry, track: ItemSequencer
    ) -> ImportedEntry | None:
        """Return what of a request was not counted before, here or in a copy of this session."""
        if self._counted is None:
            self._counted = self._importing.counted(
                self._source, track, self._session.id, self._before.opening
            )
        rest = None if item.usage.request in self._counted else self._recount.corrected(past)
        if rest is None:
            self.counts.requests -= 1
        return rest

    def _add(self, past: ImportedEntry, track: ItemSequencer, runs: list[tuple[int, int]]) -> None:
        if self.branched is None and past.draft[0] in _IN_TREE:
            self.branched = self.parted and past.parent != self._base.head
        self._batch.append(past)
        self._batch_bytes += len(past.draft[2])
        if len(self._batch) >= _BATCH_ITEMS or self._batch_bytes >= _BATCH_BYTES:
            self._write(track, runs, last=False)

    def _write(self, track: ItemSequencer, runs: list[tuple[int, int]], *, last: bool) -> None:
        """Append a batch: entries, how far they bring the import, and the head if it moves."""
        batch, session = self._batch, self._session
        if not batch and track.is_open:
            return
        self.added += len(batch)
        facts = self._importing.facts(self._source, track, runs, self._before)
        facts["imported"]["earlier"] = to_builtins(self._earlier())
        if not last:  # the source has more: it must not look as if this were all
            facts["imported"] |= {"size_bytes": -1, "recount": self.parted}
        seq = batch[-1].seq + 1 if batch else session.seq + _ROOM
        tops = [past.seq for past in batch if past.draft[0] in _IN_TREE]
        top = tops[-1] if tops else session.state.head
        wanted = self._head if self._own_head else track.head
        batch.append(ImportedEntry(seq, track.at, encode_all([Meta(facts)])[0][0]))
        if top != wanted:
            batch.append(ImportedEntry(seq + 1, track.at, encode_all([Head(wanted)])[0][0]))
        session.adopt(batch, self._source.shown)
        self._before = trace_in(session.meta)
        self._variants = self._before.variants
        self._base, self._same = self._variants[-1], self._variants[-1].entries
        self._batch, self._batch_bytes = [], 0

    def _earlier(self) -> list[Variant]:
        """Return what is to be remembered beside what the source says now."""
        base, path = self._base, real_path(self._source)
        outgrown = base.path == path and self._same == base.entries
        kept = [each for each in self._variants if each is not base or not outgrown]
        return kept[-MOST_VARIANTS:]
