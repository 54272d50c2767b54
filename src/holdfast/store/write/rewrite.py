"""Copies of a log with lines left out; the log of an open session replaced by one: compaction.

Kept lines are copied byte for byte, checksums included. Where lines are left out a gap line takes
their place and carries the checksum that the next kept line was computed from, so that the copy
verifies from end to end. A mark at the end holds the state that the lines left out had led to.

The session stands still while its log is replaced. If anything fails, everything is as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import UsageError, WriteFailed
from holdfast.journal.damage import Damage, Record
from holdfast.journal.format import chain_after, is_time, parse, seal, timestamp
from holdfast.model.codec import encode_body, type_of
from holdfast.model.entry import (
    ERASED,
    LARGEST_SEQ,
    NO_PARENT_FIELD,
    Body,
    Custom,
    Entry,
    Gap,
    Header,
    Meta,
    Snapshot,
    Tool,
    in_tree,
    is_erased,
)
from holdfast.store.read.branch import walk
from holdfast.store.read.fold import fold, mark_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from holdfast.model.state import State
    from holdfast.store.backend import Log
    from holdfast.store.read.session_reader import SessionReader
    from holdfast.store.types import Compaction
    from holdfast.store.write.recorder import Recorder

    Rule = Callable[[Log], Callable[[Entry], bool]]


def compact(
    recorder: Recorder, reading: SessionReader, latest_events: Collection[str] = ()
) -> Compaction:
    """Drop what is off the branch or covered by the checkpoint, and what was replaced later.

    Of the events named in ``latest_events`` the last one stays.
    """

    def kept(log: Log) -> Callable[[Entry], bool]:
        checkpoint = reading.branch(whole=False).checkpoint
        keep_from = checkpoint.keep_from if checkpoint is not None else 0
        branch = branch_numbers(log, recorder.state.head, [])
        return kept_by_compaction(branch, keep_from, replaced(log, latest_events))

    return _rewritten(recorder, kept)


def mend(recorder: Recorder) -> Compaction:
    """Drop what cannot be read, and nothing else."""
    return _rewritten(recorder, lambda _: lambda __: True)


def _rewritten(recorder: Recorder, rule: Rule) -> Compaction:
    with recorder.log_writer.errors("could not be compacted"):
        recorder.drop_finished_streams()
        with recorder.at_rest():
            trouble = recorder.trouble()
            if trouble is not None:
                raise trouble
            log = recorder.journal()
            if log is None:
                raise UsageError("There is nothing to compact: this session has no entries yet.")
            state = msgspec.structs.replace(recorder.state, gaps=[])
            done, state = recorder.log_writer.rewrite(rule(log), state)
            recorder.rewritten(state)
    return done


def branch_numbers(log: Log, head: int | None, noticed: list[Damage]) -> set[int]:
    """Return the numbers of all entries on a branch."""
    return {entry.seq for entry in walk(log, head, noticed)}


class LogCopy:
    """The lines of a log for which ``keep`` says yes, as chunks of bytes.

    In the place of each entry in ``erased`` stands a gap with its number and parent.
    After the last chunk ``left_out`` counts lines, ``last`` is the final mark and ``state`` what
    the new log folds to.
    """

    def __init__(
        self,
        log: Log,
        header: Header,
        keep: Callable[[Entry], bool],
        final_state: Callable[[State], State],
        next_seq: int = 0,
        erased: Collection[int] = (),
    ) -> None:
        self._log = log
        self._header = header
        self._keep = keep
        self._final_state = final_state
        self._next_seq = next_seq
        self._erased = erased
        self._chain = b""
        self._top = 0
        self.left_out = 0
        self.size_bytes = 0
        self.last: Entry | None = None
        self.state: State = fold([])
        self._owned: set[str] = set()

    def chunks(self) -> Iterator[bytes]:
        """Yield the new log, line by line."""
        old_header = self._log.header
        at = timestamp()
        if old_header and not self._header.forked_from and is_time(old_header.at):
            at = old_header.at
        chain = chain_after(old_header) if old_header else None
        header = msgspec.structs.replace(self._header, chain=(chain or b"").decode())
        yield self._sealed(0, at, header, b"")
        self._chain = chain or b""
        hole: list[Record] = []
        for record in self._log.records(0):
            if isinstance(record, Damage) or not self._keep(record):
                hole.append(record)
                if isinstance(record, Entry) and record.seq in self._erased:
                    yield self._gap(hole, None, record)
                    hole = []
                continue
            if hole:
                yield self._gap(hole, record.seq)
                hole = []
            self.state = fold([record], self.state, self._owned)
            self._chain = chain_after(record) or b""
            self._top = record.seq
            yield self._counted(record.line)
        if hole:
            yield self._gap(hole, None)
        self.state, self._owned = self._final_state(self.state), set()
        if not is_time(self.state.started):
            self.state = msgspec.structs.replace(self.state, started=at)
        seq = max(self._top + 1, self._next_seq)
        yield self._sealed(seq, timestamp(), mark_of(self.state), self._chain)

    def _gap(self, hole: list[Record], after: int | None, erased: Entry | None = None) -> bytes:
        """Return the line that stands for lines left out, with the number of the last of them."""
        self.left_out += len(hole)
        before, first, last = self._top, hole[0], hole[-1]
        numbers = [record.seq for record in hole if isinstance(record, Entry)]
        seq = max(numbers, default=before + 1 if after is None else after - 1)
        if seq <= before:
            return b""  # damage between two neighbours: no line is missing
        chain = chain_after(last) if isinstance(last, Entry) else None
        gap = Gap(
            reason="omission" if erased is None else ERASED,
            segment=first.segment,
            offset=first.offset,
            length=sum(_length(record) + 1 for record in hole),
            before=before,
            after=after,
            chain=(chain or b"").decode(),
        )
        parent = NO_PARENT_FIELD if erased is None else erased.parent
        line = self._sealed(seq, timestamp(), gap, self._chain, parent)
        self._chain = chain or b""
        return line

    def _sealed(
        self, seq: int, at: str, body: Body, chain: bytes, parent: int | None = NO_PARENT_FIELD
    ) -> bytes:
        if seq > LARGEST_SEQ:  # such as after a line that was altered
            raise WriteFailed(f"{self._log.location} has used all entry numbers", None)
        data, _ = encode_body(body)
        line = seal(seq, at, type_of(body), data, chain, parent)
        entry = parse(line, chain, self.size_bytes, 1)
        assert entry is not None
        self.last = entry
        self._top = seq
        self.state = fold([entry], self.state, self._owned)
        return self._counted(line)

    def _counted(self, line: bytes) -> bytes:
        self.size_bytes += len(line) + 1
        return line + b"\n"


def _length(record: Record) -> int:
    return record.length if isinstance(record, Damage) else len(record.line)


def replaced(log: Log, latest_events: Collection[str]) -> set[int]:
    """Return the entries of which nothing counts any more: later ones say all that they say.

    Facts, snapshots, events of the names in ``latest_events``, and the steps of runs that have
    ended; that they have ended stays.
    """
    last: dict[tuple[str, str], int] = {}
    found: set[int] = set()
    steps: dict[str, list[int]] = {}
    for entry in log.records():
        if not isinstance(entry, Entry):
            continue
        body = entry.body
        if isinstance(body, Meta):
            names = [("meta", name) for name in body.fields]
        elif isinstance(body, Snapshot):
            names = [("snapshot", body.name)]
        elif isinstance(body, Custom) and body.name in latest_events:
            names = [("event", body.name)]
        elif isinstance(body, Tool) and body.run is not None:
            steps.setdefault(body.run, []).append(entry.seq)
            if body.state == "ended":
                found.update(steps.pop(body.run)[:-1])
            continue
        else:
            continue
        found.add(entry.seq)
        if isinstance(body, Snapshot) and body.encoding == "none":
            last.pop(names[0], None)
            continue
        for name in names:
            last[name] = entry.seq
    return found.difference(last.values())


def kept_by_compaction(
    branch: set[int], keep_from: int, replaced: Collection[int] = ()
) -> Callable[[Entry], bool]:
    """Return the rule of a compaction.

    Of the tree it keeps the branch from ``keep_from`` on. Session-wide lines stay, except those
    that only say what the final mark says better.
    """

    def keep(entry: Entry) -> bool:
        if in_tree(entry.type, entry.body):
            return entry.seq in branch and entry.seq >= keep_from
        if is_erased(entry):
            return True
        return entry.type not in ("mark", "gap", "head") and entry.seq not in replaced

    return keep
