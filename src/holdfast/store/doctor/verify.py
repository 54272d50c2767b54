"""What is wrong with a session on disk. Reads everything, changes nothing."""

from __future__ import annotations

import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.journal.damage import Damage
from holdfast.model.entry import Entry, Gap, Header, is_undecoded
from holdfast.store.local.blobs import BLOBS_NAME, Blobs
from holdfast.store.local.fast_verify import verify_fast
from holdfast.store.local.layout import LIVE_NAME
from holdfast.store.local.lock import holder_of
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import inspect_tail
from holdfast.store.local.segment import Block
from holdfast.store.read.resume import interrupted_streams
from holdfast.store.types import Problem, Report
from holdfast.store.write.blob_refs import references

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from holdfast.files import Files

MOST_PROBLEMS = 1000
"""So many are reported one by one; the rest is counted."""


def verify(
    files: Files,
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
    seen: Callable[[os.DirEntry[str]], None] | None = None,
) -> Report:
    """Read a whole session and report every problem.

    ``seen`` is called with everything there is in the folder and below.

    Raises:
        DamagedJournal: not one entry can be read.
    """
    found = _Found()
    _check_rights(files.status_of(folder), folder.name, found)
    _look_below(files, folder, folder.name, found, seen)
    reading = _Reading(files, found, partial(Blobs, files, folder))
    whole = verify_fast(files, folder, reading.look_for_blobs, progress)
    if whole is not None and not files.exists(f"{folder}/{LIVE_NAME}"):
        counts = whole.entries, whole.messages, whole.size_bytes, 1
        return Report(folder.name, *counts, found.problems, found.more)
    return _with_care(files, folder, reading, progress)


def _with_care(
    files: Files,
    folder: Path,
    reading: _Reading,
    progress: Callable[[int, int], None] | None,
) -> Report:
    found = reading.found
    with Journal(files, folder) as journal:
        journal.check_readable()
        total = journal.size_bytes
        tail = inspect_tail(journal)
        if journal.header is None:
            found.add("header", journal.segments[0].name, "the first line cannot be read")
        # What a writer is about to write, or streams, is no problem.
        held = _is_held(files, folder)
        if tail.torn_bytes and not held:
            detail = (
                f"{tail.torn_bytes} bytes of an unfinished write; opening moves them to damaged/"
            )
            found.add("torn", f"{journal.last.name}:{tail.end}", detail)
        journal.last.end = tail.end
        done = 0
        for segment in journal.segments:
            for block in segment.forward(0):
                reading.take(block, segment.name)
                if progress is not None:
                    progress(done + block.end, total)
            done += segment.end
        for message in [] if held else interrupted_streams(journal):
            detail = f"{message.role} text of an interrupted stream; opening the session saves it"
            found.add("interrupted", LIVE_NAME, detail)
        return Report(
            folder.name,
            reading.entries,
            reading.messages,
            total,
            len(journal.segments),
            found.problems,
            found.more,
        )


def _is_held(files: Files, folder: Path) -> bool:
    try:
        return holder_of(files, folder) is not None
    except OSError:  # something else stands in the place of the lock
        return False


class _Found:
    """Problems, as many as anybody reads."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.more = 0

    def add(self, kind: str, where: str, detail: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(kind, where, detail))
        else:
            self.more += 1


class _Reading:
    """One pass over all entries of a journal that may not be sound."""

    def __init__(self, files: Files, found: _Found, blobs: Callable[[], Blobs]) -> None:
        self.entries = self.messages = 0
        self.found = found
        self._files = files
        self._blobs = blobs
        self._checked: set[str] = set()
        self._last: Entry | None = None

    def take(self, block: Block, name: str) -> None:
        """Look at every record of a block."""
        last = self._last
        after = -1 if last is None else last.seq
        entries = messages = 0
        for record in block.records:
            if isinstance(record, Damage):
                where = f"{name}:{record.offset}"
                size = f"{record.length} bytes"
                what = size if record.kind == "unreadable" else f"a line of {size} is"
                self.found.add("damage", where, f"{what} {record.kind}")
                continue
            if record.seq <= after:
                continue  # a continuation has it again
            after = record.seq
            entries += 1
            messages += record.type == "message"
            if record.status != "ok":
                self._doubt(record, last, name)
            if is_undecoded(record):
                detail = f"entry {record.seq} is nested too deeply or has too many values"
                self.found.add("undecoded", f"{name}:{record.offset}", detail)
            if b'"blob"' in record.line:
                self.look_for_blobs(record)
            last = record
        self._last = last
        self.entries += entries
        self.messages += messages

    def _doubt(self, entry: Entry, last: Entry | None, name: str) -> None:
        where = f"{name}:{entry.offset}"
        if entry.status == "edited":
            self.found.add("edited", where, f"entry {entry.seq} was changed after it was written")
        elif not (last is not None and _ends_the_chain(last)):
            self.found.add("unverified", where, f"entry {entry.seq} cannot be checked")

    def look_for_blobs(self, entry: Entry) -> None:
        """Look whether the blobs of an entry are what they should be, each once."""
        for ref in references(entry.body):
            if ref.sha256 not in self._checked:
                self._checked.add(ref.sha256)
                blobs = self._blobs()
                if not blobs.is_intact(ref.sha256):
                    what = "altered" if _is_there(self._files, blobs, ref.sha256) else "missing"
                    where = f"{BLOBS_NAME}/{ref.sha256}"
                    self.found.add("blob", where, f"{what}, for entry {entry.seq}")


def _is_there(files: Files, blobs: Blobs, name: str) -> bool:
    try:
        return files.exists(blobs.folder / name)
    except (OSError, ValueError):  # a name that no file can have
        return False


def _ends_the_chain(entry: Entry) -> bool:
    """Tell whether a line says itself that nobody knows what the next one was chained to."""
    return isinstance(entry.body, Gap | Header) and entry.body.chain == ""


def _look_below(
    files: Files,
    folder: Path,
    name: str,
    found: _Found,
    seen: Callable[[os.DirEntry[str]], None] | None,
) -> None:
    left = [(name, entry) for entry in _last_first(files, folder)]
    while left:  # no call within a call: there may be more folders in folders than that allows
        above, entry = left.pop()
        where = f"{above}/{entry.name}"
        with suppress(FileNotFoundError):  # a writer's temporary file, gone by now
            _check_rights(files.status_of(entry.path), where, found)
            if seen is not None:
                seen(entry)
            if entry.is_dir(follow_symlinks=False):
                left += [(where, each) for each in _last_first(files, Path(entry.path))]


def _last_first(files: Files, folder: Path) -> list[os.DirEntry[str]]:
    return sorted(files.folders(folder), key=_name_of, reverse=True)


def _name_of(entry: os.DirEntry[str]) -> str:
    return entry.name


def _check_rights(status: os.stat_result, where: str, found: _Found) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077 and not stat.S_ISLNK(status.st_mode):  # a link has no rights of its own
        found.add("permissions", where, f"mode {mode:04o} gives access to other users")
