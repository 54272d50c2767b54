"""The journal of an open session written anew, in its place: compacted, or mended.

The session stands still meanwhile. The old journal is kept, compressed; if anything fails before
the new one has its name, everything is as it was. Which lines stay, how they are copied and how the
files change hands is in ``rewrite``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import DiskFull, StorageError, UsageError
from holdfast.journal.files import NO_ROOM
from holdfast.journal.numbering import Cursor
from holdfast.store.contract import Compaction
from holdfast.store.rewrite import Copy, branch_numbers, kept_by_compaction, replace_journal

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.journal.files import Files
    from holdfast.journal.reader import Journal
    from holdfast.model.entry import Entry
    from holdfast.store.reading import Reading
    from holdfast.store.recorder import Recorder

    Rule = Callable[[Journal], Callable[[Entry], bool]]


def compact(files: Files, recorder: Recorder, reading: Reading) -> Compaction:
    """Drop what is off the branch or covered by the checkpoint."""

    def kept(journal: Journal) -> Callable[[Entry], bool]:
        checkpoint = reading.branch(whole=False).checkpoint
        keep_from = checkpoint.keep_from if checkpoint is not None else 0
        return kept_by_compaction(branch_numbers(journal, recorder.state.head, []), keep_from)

    return _rewritten(files, recorder, kept)


def mend(files: Files, recorder: Recorder) -> Compaction:
    """Drop what cannot be read, and nothing else."""
    return _rewritten(files, recorder, lambda _: lambda __: True)


def _rewritten(files: Files, recorder: Recorder, rule: Rule) -> Compaction:
    try:
        recorder.drop_finished_streams()
        return _rewrite(files, recorder, rule)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise DiskFull(recorder.path, ()) from error
        raise StorageError(f"{recorder.path} could not be compacted: {error}.") from error


def _rewrite(files: Files, recorder: Recorder, rule: Rule) -> Compaction:
    with recorder.at_rest():
        trouble = recorder.trouble()
        if trouble is not None:
            raise trouble
        journal, place = recorder.journal(), recorder.place
        if journal is None or place is None:
            raise UsageError("There is nothing to compact: this session has no entries yet.")
        state = msgspec.structs.replace(recorder.state, gaps=[])
        copy = Copy(
            journal,
            msgspec.structs.replace(recorder.header, holds=place.segment),
            rule(journal),
            lambda _: state,
            recorder.next_seq,
        )
        before = journal.size_bytes
        new_place, archived = replace_journal(files, place, journal, copy)
        assert copy.last is not None
        last = copy.last
        cursor = Cursor(last.seq, last.seq + 1, last.sum, copy.state.head)
        recorder.move(new_place, cursor, copy.state)
    return Compaction(before, copy.size_bytes, copy.left_out, str(archived))
