"""The end of a journal after a crash: what is whole, what is torn, and how it is set aside.

A crash can leave the last record cut short, the last batch incomplete, or a run of NULs where
blocks were promised but never written. None of that was ever acknowledged. Whoever holds the lock
saves those bytes in ``damaged/``, syncs, and only then cuts them off. Nothing else in a journal is
ever altered: damage further up stays where it is.

Without the lock the same look means: not yet written; read up to there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.journal.damage import Damage, Record
from holdfast.journal.format import chain_after
from holdfast.model.entry import Entry
from holdfast.store.local.layout import DAMAGED_NAME
from holdfast.store.local.lock import durable_size
from holdfast.store.local.reader import Journal
from holdfast.store.local.segment import Segment
from holdfast.store.local.sparse_copy import save_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.files import Files

_MOST_LOOKED_AT_BYTES = 16 * 1024 * 1024
_SAVED = re.compile(r"tail-\d+-\d+-(\d+)-[0-9a-f]{8}\.bin")
_LINE_SEQ = re.compile(rb'(?:^|\n)\0*+\{"seq":(\d{1,15}),')


class Tail(Struct, frozen=True):
    """The end of a journal.

    ``end`` is the offset behind the last whole record; whatever follows is torn. ``chain`` is the
    sum for the next line, ``next_seq`` a number that nothing cut off has used.
    """

    segment: int
    end: int
    size: int
    last_seq: int
    next_seq: int
    chain: bytes
    newline_missing: bool
    cut_batch: bool

    @property
    def torn_bytes(self) -> int:
        """How many bytes have to go."""
        return self.size - self.end


class SetAside(Struct, frozen=True):
    """Bytes that repair cut off the end of a journal, and where it kept them."""

    path: str
    offset: int
    size_bytes: int
    reason: str


def inspect_tail(journal: Journal) -> Tail:
    """Look at the end of the last file, change nothing."""
    segment = journal.last
    last, previous = _last_entries(segment)
    cut_batch = False
    if (
        last is not None
        and last.batch is not None
        and not _whole_batch([*previous, last])
        and not _was_acknowledged(journal, last)
    ):
        cut_batch = True
        batch_start = last.seq - last.batch[0]
        unused = batch_start + last.batch[1]
        last = next((entry for entry in reversed(previous) if entry.seq < batch_start), None)
    else:
        unused = 0
    header = segment.header() if last is None else None
    anchor = last or header
    if anchor is None:  # not even a header: keep every byte
        end, last_seq, chain = segment.size, _last_seq(journal), b""
        newline_missing = end > 0 and segment.read(end - 1, end) != b"\n"
    else:
        behind = anchor.offset + len(anchor.line)
        newline_missing = segment.read(behind, behind + 1) != b"\n"
        end = behind if newline_missing else behind + 1
        last_seq, chain = anchor.seq, chain_after(anchor) or b""
    torn = b""
    if end < segment.size:
        torn = segment.read(end, min(segment.size, end + _MOST_LOOKED_AT_BYTES))
    if torn:
        numbers = [int(found[1]) + 1 for found in _LINE_SEQ.finditer(torn)]
        unused = max(unused, last_seq + 1 + torn.count(b"\n") + (torn[-1:] != b"\n"), *numbers)
    return Tail(
        segment=segment.number,
        end=end,
        size=segment.size,
        last_seq=last_seq,
        next_seq=max(last_seq + 1, unused),
        chain=chain,
        newline_missing=newline_missing,
        cut_batch=cut_batch,
    )


def _last_seq(journal: Journal) -> int:
    """Return the number of the last entry that can be read in any file."""
    for block in journal.blocks_backward():
        for record in reversed(block.records):
            if isinstance(record, Entry):
                return record.seq
    return -1


def _was_acknowledged(journal: Journal, last: Entry) -> bool:
    """Tell whether a batch that is not whole was: it ends as it should, and was synced.

    Then it was damaged later, and what can be read of it stays.
    """
    assert last.batch is not None
    ends = last.batch[0] + 1 == last.batch[1]
    inode = journal.last.inode
    end = last.offset + len(last.line)
    return ends and end < durable_size(journal.files, journal.folder, inode)


def _last_entries(segment: Segment) -> tuple[Entry | None, list[Entry]]:
    """Return the last readable entry, and all entries before it that its batch may need."""
    found: list[Entry] = []
    end = segment.end
    while end > 0:
        block = segment.block_before(end)
        found = [record for record in block.records if isinstance(record, Entry)] + found
        end = block.start
        if found and (found[-1].batch is None or len(found) > found[-1].batch[0] + 1):
            break
    return (found[-1], found[:-1]) if found else (None, [])


def _whole_batch(entries: list[Entry]) -> bool:
    """Tell whether the batch that the last entry belongs to is there from first to last."""
    assert entries[-1].batch is not None
    _, count = entries[-1].batch
    if len(entries) < count:
        return False
    return [entry.batch for entry in entries[-count:]] == [(i, count) for i in range(count)]


def without_torn_end(records: list[Record]) -> list[Record]:
    """Leave out what is torn at the end: for readers without the lock it is not yet written.

    ``records`` begin where a batch may begin.
    """
    kept = list(records)
    while kept and isinstance(kept[-1], Damage):
        kept.pop()
    last = kept[-1] if kept else None
    if isinstance(last, Entry) and last.batch is not None:
        entries = [record for record in kept if isinstance(record, Entry)]
        if not _whole_batch(entries):
            start = last.seq - last.batch[0]
            offset = next(entry.offset for entry in entries if entry.seq >= start)
            kept = [record for record in kept if record.offset < offset]
    return kept


def quarantine_tail(files: Files, folder: Path, segment: Segment, tail: Tail) -> SetAside:
    """Save what is torn, then cut it off. The caller holds the lock."""
    # The name has the numbers that must not be used again.
    name = f"tail-{tail.segment}-{tail.end}-{tail.next_seq}"
    span = (tail.end, tail.size)
    saved = save_bytes(files, segment.descriptor, span, folder / DAMAGED_NAME, name)
    descriptor = files.open_append(segment.path)
    try:
        files.truncate(descriptor, tail.end)
        files.sync(descriptor)
    finally:
        files.close(descriptor)
    segment.size = segment.end = tail.end
    return SetAside(
        path=str(saved),
        offset=tail.end,
        size_bytes=tail.torn_bytes,
        reason="incomplete batch" if tail.cut_batch else "torn record",
    )


def next_free_seq(files: Files, folder: Path) -> int:
    """Return a number that nothing set aside earlier has used."""
    found = (_SAVED.fullmatch(name) for name in files.names(folder / DAMAGED_NAME))
    return max((int(match[1]) for match in found if match), default=0)
