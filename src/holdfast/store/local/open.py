"""A session's folder is opened: to read what is there, or as its one writer.

To read, nothing in the folder is changed. To write, the lock is taken first; then what a crash tore
is set aside and what it left behind is removed, and whatever the last writer had not synced is
durable before anything is appended to it.

Which folder it is, and what becomes of interrupted streams, is left to the caller.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.errors import DamagedJournal
from holdfast.files import NO_ROOM
from holdfast.journal.format import Cursor
from holdfast.model.entry import FORMAT, Entry, Header, Unknown
from holdfast.store.backend import Opened
from holdfast.store.local.compress import unpack_all
from holdfast.store.local.erasure import unfinished
from holdfast.store.local.layout import segment_number
from holdfast.store.local.lock import AppendTarget, Lock, holder_of
from holdfast.store.local.log_writer import FileLogWriter
from holdfast.store.local.provenance import highest_seq, is_closed
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import inspect_tail, next_free_seq, quarantine_tail
from holdfast.store.read.resume import interrupted_streams, resume_state
from holdfast.store.types import Recovery
from holdfast.store.write.erase import without
from holdfast.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.files import Files
    from holdfast.model.state import State
    from holdfast.store.local.layout import Home
    from holdfast.store.local.repair import Tail

_LOG = logging.getLogger("holdfast")
_TEMPORARY = re.compile(r"\.(?:(?:journal(?:\.\d+)?|live)\.jsonl|ids\.json)\.[a-z2-9]{8}")


def open_to_read(home: Home, folder: Path, key: str | None) -> Opened:
    """Return the session as it is at this moment; ``key`` is the one it must have been made with.

    Raises:
        DamagedJournal: nothing in it can be read, or it is the session of another key.
    """
    journal = Journal(home.files, folder)
    journal.key = home.origin_key
    try:
        return _view(home, journal, key)
    except BaseException:
        journal.close()
        raise


def _view(home: Home, journal: Journal, key: str | None) -> Opened:
    folder = journal.folder
    journal.check_readable()
    header = _header(journal, key)
    journal.last.end = inspect_tail(journal).end
    for segment in journal.segments:
        with suppress(OSError):  # what we show, no power cut takes back; but show it
            home.files.sync(segment.descriptor)
    resumed = resume_state(journal)
    if header.format > FORMAT:  # also if a mark hides the header from the fold
        resumed.state.unsupported = f"format {header.format}"
    held = holder_of(home.files, folder) is not None
    recovery = Recovery(
        damage=resumed.damage,
        interrupted=[] if held else interrupted_streams(journal),
        edited=resumed.edited,
        unverified=resumed.unverified,
        files=len(journal.segments),
    )
    return Opened(header, resumed.state, recovery, log=journal)


def open_to_write(home: Home, folder: Path, key: str | None) -> Opened:
    """Return the session locked and repaired; one of a newer format as ``open_to_read`` does.

    Raises:
        SessionLocked: somebody else is writing to it; says who.
        DamagedJournal: as above.
    """
    files = home.files
    home.check_local(folder)
    with Journal(files, folder) as journal:  # before a lock file is made for nothing
        journal.check_readable()
    lock = Lock.acquire(files, folder, __version__)
    try:
        return _open_locked(home, folder, lock, key)
    except BaseException:
        lock.release()
        raise


def _open_locked(home: Home, folder: Path, lock: Lock, key: str | None) -> Opened:
    files = home.files
    with Journal(files, folder) as journal:
        journal.check_readable()
        header = _header(journal, key)
        tail = inspect_tail(journal)
        journal.last.end = tail.end
        resumed = resume_state(journal)
        if header.format > FORMAT or resumed.state.unsupported is not None:
            lock.release()
            return open_to_read(home, folder, key)
        if unpack_all(journal):  # only what we may write to
            return _open_locked(home, folder, lock, key)
        aside = [quarantine_tail(files, folder, journal.last, tail)] if tail.torn_bytes else []
        next_seq = max(tail.next_seq, next_free_seq(files, folder))
        highest = -1
        if not is_closed(files, folder, home.origin_key):
            highest = highest_seq(journal)
            next_seq = max(next_seq, highest + 1)  # no line of the sender has a number of ours
        recovery = Recovery(
            set_aside=aside,
            damage=resumed.damage,
            interrupted=interrupted_streams(journal),
            edited=resumed.edited,
            unverified=resumed.unverified,
            newline_added=tail.newline_missing,
            files=len(journal.segments),
        )
        place = _place(files, journal, lock, tail)
    cursor = Cursor(
        tail.last_seq, next_seq, tail.chain, resumed.state.head, resumed.since_mark_bytes
    )
    writer = FileLogWriter(home, header, place, cursor, received_upto=highest)
    state = _erased(files, folder, writer, resumed.state)
    return Opened(header, state, recovery, writer=writer)


def _erased(files: Files, folder: Path, writer: FileLogWriter, state: State) -> State:
    """Finish erasing an entry where a crash broke it off; return the state without it.

    A full disk keeps nobody from opening the session: the next opening tries again.
    """
    begun = unfinished(files, folder)
    if begun is None:
        return state
    log = writer.log()
    assert log is not None
    try:
        state = writer.erase(begun, without(log, state, begun.seq))
        writer.finish_erasing(begun.seq)
    except OSError as error:
        if error.errno not in NO_ROOM:
            writer.release()
            raise
        _LOG.warning("Entry %s of %s is not erased yet: %s", begun.seq, folder, error)
    return state


def _place(files: Files, journal: Journal, lock: Lock, tail: Tail) -> AppendTarget:
    """Open the journal's last file for appending, and remove what crashes left beside it."""
    folder, last = journal.folder, journal.last
    names = list(files.names(folder))
    for name in names:
        if _TEMPORARY.fullmatch(name):  # never got its name
            files.unlink(folder / name)
    # By a compaction. How many it says there were is not believed: only those that are there go.
    held = journal.segments[0].number
    merged = [name for name in names if 2 <= segment_number(name) <= held]
    if merged:
        files.sync_folder(folder)  # else a power cut could bring the old file back without them
    for name in merged:
        files.unlink(folder / name)
    descriptor = files.open_append(last.path)
    try:
        # What the last writer had written, made or renamed and not synced is relied on from now.
        files.sync(descriptor)
        files.sync_folder(folder)
        for above in (folder.parent, folder.parent.parent):
            with suppress(PermissionError):  # not ours to open, hence not made by us
                files.sync_folder(above)
    except OSError:
        files.close(descriptor)
        raise
    lock.note_durable(last.inode, tail.end)
    return AppendTarget(
        folder,
        lock,
        last.path,
        descriptor,
        last.inode,
        last.number,
        tail.end,
        tail.newline_missing,
    )


def _header(journal: Journal, key: str | None) -> Header:
    """Return the journal's header, or what it must have said if it cannot be read."""
    header = journal.header.body if journal.header is not None else None
    if not isinstance(header, Header):
        return Header(_declared_format(journal), journal.folder.name, "", key)
    if key is not None and header.key != key:
        raise DamagedJournal(journal.segments[0].path, 0, f"the session of key {header.key!r}")
    return header


def _declared_format(journal: Journal) -> int:
    """Return the format that a header of an unknown shape declares."""
    first = next(journal.records(), None)
    body = first.body if isinstance(first, Entry) else None
    fields = body.fields if isinstance(body, Unknown) else None
    declared = fields.get("format") if fields else None
    return declared if isinstance(declared, int) and declared > FORMAT else FORMAT
