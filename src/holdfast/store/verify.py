"""What is wrong with a session on disk. Reads everything, changes nothing."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from holdfast.journal.reader import Damage, Journal
from holdfast.journal.repair import examine
from holdfast.model.message import Message
from holdfast.store.blobs import Blobs, references
from holdfast.store.contract import Problem, Report
from holdfast.store.opening import interrupted_streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.journal.files import Files


def verify(
    files: Files, folder: Path, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Read a whole session and report every problem.

    Raises:
        DamagedJournal: not one entry can be read.
    """
    problems = list(_open_to_others(files, folder))
    entries = messages = done = 0
    with Journal(files, folder) as journal:
        journal.check_readable()
        total = journal.size_bytes
        tail = examine(journal)
        if journal.header is None:
            problems.append(Problem("header", journal.segments[0].path.name, "cannot be read"))
        if tail.torn_bytes:
            where = f"{journal.last.path.name}:{tail.end}"
            detail = f"{tail.torn_bytes} bytes of an unfinished write; opening sets them aside"
            problems.append(Problem("torn", where, detail))
        journal.last.end = tail.end
        blobs = Blobs(files, folder)
        checked: set[str] = set()
        for record in journal.records():
            where = f"{_name(journal, record.segment)}:{record.offset}"
            if isinstance(record, Damage):
                problems.append(Problem("damage", where, f"{record.length} bytes {record.kind}"))
                continue
            entries += 1
            messages += isinstance(record.body, Message)
            if record.status == "edited":
                problems.append(Problem("edited", where, f"entry {record.seq} was altered"))
            elif record.status == "unverified":
                problems.append(Problem("unverified", where, f"entry {record.seq}"))
            for ref in references(record.body):
                if ref.sha256 not in checked and blobs.read(ref) is None:
                    problems.append(Problem("blob", ref.sha256, f"missing, for entry {record.seq}"))
                checked.add(ref.sha256)
            done += len(record.line) + 1
            if progress is not None:
                progress(done, total)
        for message in interrupted_streams(journal):
            detail = f"{message.role} text that was being streamed; opening keeps it"
            problems.append(Problem("interrupted", "live.jsonl", detail))
        return Report(folder.name, entries, messages, total, len(journal.segments), problems)


def _name(journal: Journal, number: int) -> str:
    return next(each.path.name for each in journal.segments if each.number == number)


def _open_to_others(files: Files, folder: Path) -> Iterator[Problem]:
    for path in (folder, *sorted(folder.rglob("*"))):
        try:
            mode = stat.S_IMODE(files.status_of(path).st_mode)
        except FileNotFoundError:
            continue  # a writer's temporary file, gone by now
        if mode & 0o077:
            where = str(path.relative_to(folder.parent))
            yield Problem("permissions", where, f"mode {mode:04o} lets others in")
