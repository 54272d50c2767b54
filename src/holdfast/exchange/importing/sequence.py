"""From an importer's items to entries: numbers, times, parents, and what was met on the way.

The n-th item of a source gets a number that can be computed from n. So a source that is read again
finds its earlier entries without looking at the journal, whatever became of that since: ``runs``
says from which item on which offset counts. There is room between two numbers for what the import
itself has to write there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Any
from zlib import adler32

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.exchange.importing.items import (
    FOLLOWS,
    HeadItem,
    Item,
    MessageItem,
    MetaItem,
    OpenItem,
    RawItem,
    SummaryItem,
    UsageItem,
)
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.journal.ticket import Draft
from holdfast.model.codec import encode_body
from holdfast.model.entry import NO_PARENT_FIELD, TYPES, Checkpoint, Custom, Usage
from holdfast.model.message import Message
from holdfast.store.write.blob_refs import LARGEST_INLINE_BYTES
from holdfast.store.write.encode import ROLES, ImportedEntry, encode_all

_BLOCK = 1 << 16
_MASK = (1 << 64) - 1


class Places:
    """Remembers a number for each id; a later one wins."""

    def __init__(self) -> None:
        self._recent: dict[str, int] = {}
        self._blocks: list[tuple[array[int], array[int]]] = []

    def put(self, id: str, number: int) -> None:
        """Remember a number, -1 or more."""
        self._recent[id] = number
        if len(self._recent) >= _BLOCK:
            self._settle()

    def put_all(self, ids: Sequence[str], number: int) -> None:
        """Remember the same number for several ids."""
        self._recent.update(dict.fromkeys(ids, number))
        if len(self._recent) >= _BLOCK:
            self._settle()

    def get(self, id: str) -> int | None:
        """Return the number, ``None`` if the id was never seen."""
        found = self._recent.get(id)
        if found is None and self._blocks:
            wanted = hash(id) & _MASK
            for keys, numbers in reversed(self._blocks):
                index = bisect_left(keys, wanted)
                if index < len(keys) and keys[index] == wanted:
                    return numbers[index]
        return found

    def _settle(self) -> None:
        pairs = sorted((hash(id) & _MASK, number) for id, number in self._recent.items())
        keys = array("Q", [key for key, _ in pairs])
        self._blocks.append((keys, array("q", [number for _, number in pairs])))
        self._recent = {}


STRIDE = 4
TAIL = 16
_ROOT = -1


class ItemCounts(Struct):
    """What was taken over."""

    messages: int = 0
    requests: int = 0
    events: int = 0
    checkpoints: int = 0


class ItemSequencer:
    """Follows one source from its first item on."""

    def __init__(self, reading: SourceReader, runs: Sequence[tuple[int, int]], at: str) -> None:
        self._reading = reading
        self._runs = sorted(runs)
        self._offset = 0
        self._next_run = 0
        self._places = Places()
        self._own = Places()
        self.at = at
        self.facts: dict[str, Any] = {}
        self.counts = ItemCounts()
        self.taken = 0
        """Items so far that became, or were, entries."""
        self.size_bytes = 0
        self.sum = 1
        self.tail: deque[tuple[int, int, int]] = deque(maxlen=TAIL)
        """How far the last few items had brought us: items, bytes, checksum of them all."""
        self.head: int | None = None
        """Where the next item hangs that follows what was said last."""
        self.top: int | None = None
        """The number of the last message or checkpoint."""
        self.is_open = False
        """Whether the end of the source was left out because its agent is still writing it."""

    def take(self, item: Item) -> ImportedEntry | None:
        """Return the entry that an item becomes; ``None`` if it is none, or cannot be stored."""
        if isinstance(item, MetaItem):
            self._learn(item.fields)
            return None
        if isinstance(item, HeadItem):
            self.head = self._resolved(item.to)
            return None
        if isinstance(item, OpenItem):
            return None
        if item.at is not None:
            self.at = item.at
        if self.taken == self._next_run:
            self._begin_run()
        seq = self.taken * STRIDE + self._offset
        if isinstance(item, UsageItem):
            return self._counted(item, seq)
        return self._in_tree(item, seq)

    def _counted(self, item: UsageItem, seq: int) -> ImportedEntry | None:
        draft, _ = self._encoded(item.usage)
        if draft is None:
            return None
        self.counts.requests += 1
        return ImportedEntry(seq, self.at, draft)

    def _in_tree(self, item: MessageItem | SummaryItem | RawItem, seq: int) -> ImportedEntry | None:
        parent = self._resolved(item.parent)
        draft, payloads = self._encoded(self._body(item, seq))
        if draft is None:
            self._remember(item, parent)  # who hangs on it hangs on its parent
            return None
        if isinstance(item, RawItem):
            self._remember(item, parent)
            self.counts.events += 1
            return ImportedEntry(seq, self.at, draft, NO_PARENT_FIELD, payloads)
        if isinstance(item, MessageItem):
            self.counts.messages += 1
        else:
            self.counts.checkpoints += 1
        self.head = self.top = seq
        self._remember(item, seq)
        return ImportedEntry(seq, self.at, draft, parent, payloads)

    def _encoded(
        self, body: Message | Usage | Custom | Checkpoint
    ) -> tuple[Draft | None, Sequence[bytes]]:
        """Encode what an item says, and note how far that brings us."""
        payloads: Sequence[bytes] = ()
        try:
            data, again = encode_body(body)
            draft = (TYPES[type(again)], again, data)
            if len(data) > LARGEST_INLINE_BYTES or getattr(body, "role", "user") not in ROLES:
                (draft,), payloads = encode_all((body,))
                data = draft[2]
        except UsageError as error:
            self._reading.report(f"cannot be stored: {error}")
            return None, ()
        self.taken = taken = self.taken + 1
        self.size_bytes = size = self.size_bytes + len(data)
        self.sum = sum_ = adler32(data, self.sum)
        self.tail.append((taken, size, sum_))
        return draft, payloads

    def _learn(self, fields: dict[str, Any]) -> None:
        self.facts.update({k: v for k, v in fields.items() if v not in (None, "", [], {})})

    def _begin_run(self) -> None:
        while self._runs and self._runs[0][0] <= self.taken:
            self._offset = self._runs.pop(0)[1]
        self._next_run = self._runs[0][0] if self._runs else -1

    def _resolved(self, id: str | None) -> int | None:
        if id == FOLLOWS:
            return self.head
        if id is None:
            return None
        place = self._places.get(id)
        if place is None:
            return self.head  # nobody has seen it: damaged, or of another file
        return None if place == _ROOT else place

    def _remember(self, item: MessageItem | SummaryItem | RawItem, place: int | None) -> None:
        number = _ROOT if place is None else place
        if item.id is not None:
            self._places.put(item.id, number)
        if not isinstance(item, RawItem) and item.also:
            self._places.put_all(item.also, number)
        if isinstance(item, MessageItem) and item.own:
            self._own.put_all(item.own, number)

    def _body(
        self, item: MessageItem | SummaryItem | RawItem, seq: int
    ) -> Message | Custom | Checkpoint:
        if isinstance(item, MessageItem):
            if item.message.model:
                self.facts["model"] = item.message.model
            return item.message
        if isinstance(item, RawItem):
            return Custom(item.name, item.data, item.complete)
        kept = None
        if item.keep_from is not None:
            kept = self._own.get(item.keep_from)
            kept = self._places.get(item.keep_from) if kept is None else kept
        return Checkpoint(item.summary, seq if kept is None else max(kept, 0), item.tokens)
