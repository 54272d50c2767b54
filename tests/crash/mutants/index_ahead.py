"""The writer keeps the index and tells it before the journal: a crash between leaves a lie.

Rows count as long as their journal has the same inode, for the writer is trusted to keep them in
step: what it is about to append, it adds to the row first. Without a crash nothing shows.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from typing import Any

import msgspec

from holdfast.files import Files
from holdfast.journal.format import Cursor, parse
from holdfast.model.entry import Entry
from holdfast.store.catalog import index
from holdfast.store.catalog.index import Index, packed, unpacked
from holdfast.store.local.layout import Home
from holdfast.store.local.lock import AppendTarget
from holdfast.store.local.log_writer import Appender
from holdfast.store.types import Summary

CAUGHT_BY = ("A",)
_INODE_BYTES = 8


def apply() -> None:
    """Give this process the defect."""
    fingerprint: Any = index._fingerprint
    index._fingerprint = lambda status: fingerprint(status)[:_INODE_BYTES]
    index._SETTLED_AFTER_NS = -(10**18)  # a row is believed at once
    append: Any = Appender.append

    def tell_index_then_append(
        self: Appender, place: AppendTarget, cursor: Cursor, data: bytes
    ) -> tuple[AppendTarget, int]:
        with suppress(sqlite3.Error):
            _tell_index(self._files, place, data)
        result: tuple[AppendTarget, int] = append(self, place, cursor, data)
        return result

    Appender.append = tell_index_then_append  # type: ignore[method-assign]  # the defect itself


def _tell_index(files: Files, place: AppendTarget, data: bytes) -> None:
    home = Home(files, place.folder.parents[2], force=False)
    if not home.index.exists():
        return
    with closing(sqlite3.connect(home.index)) as connection:
        summary = _with_added(_known(connection, Index(home), place), data)
        change = "UPDATE sessions SET summary = ?, updated = ? WHERE id = ?"
        connection.execute(change, [packed(summary), summary.updated, summary.id])
        connection.commit()


def _known(connection: sqlite3.Connection, rows: Index, place: AppendTarget) -> Summary:
    """Return what the row of a journal says; read anew, as a listing would, if it is another's."""
    name = place.folder.name
    question = "SELECT fingerprint, summary FROM sessions WHERE id = ?"
    found = connection.execute(question, [name]).fetchone()
    if found is not None and found[0] == index._fingerprint(place.path.stat()):
        return unpacked(found[1])
    row = rows._read(name, place.folder, is_folder=True)
    rows._save(connection, [row])
    return row.summary


def _with_added(summary: Summary, data: bytes) -> Summary:
    entries = [parse(line, None, 0, 1) for line in data.split(b"\n") if line]
    added = [entry for entry in entries if isinstance(entry, Entry)]
    return msgspec.structs.replace(
        summary,
        messages=summary.messages + sum(entry.type == "message" for entry in added),
        updated=added[-1].at if added else summary.updated,
        size_bytes=summary.size_bytes + len(data),
    )
