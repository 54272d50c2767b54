"""A session made whole from entries that were made elsewhere, unseen until it is published.

It is written in a stream: memory does not grow with it. Synced and renamed at the end, it is there
with all of its entries or not at all.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.errors import StorageError, UsageError
from holdfast.model.entry import Header
from holdfast.model.ids import SESSION_ID, is_keyed, key_session_id
from holdfast.store.local.blobs import Blobs
from holdfast.store.local.erasure import check_not_erased
from holdfast.store.local.layout import JOURNAL_NAME, os_errors
from holdfast.store.local.lock import Lock
from holdfast.store.local.provenance import Origin, write_new
from holdfast.store.local.reader import Journal
from holdfast.store.local.repair import inspect_tail
from holdfast.store.types import ARCHIVE, IMPORT, Receipt
from holdfast.store.write.staged import StagedLines
from holdfast.version import __version__

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from holdfast.store.local.layout import Home


class StagingFolder:
    """A session that is being made, locked. Used by one thread, as a context manager.

    ``kind`` and ``source`` say how it is received and from where.
    """

    def __init__(self, home: Home, session_id: str, kind: str, source: str) -> None:
        self.id = session_id
        self._how = (kind, source)
        self._home = home
        self._files = home.files
        with os_errors(f"{home.root} cannot be written", home.root):
            self._folder = home.make_folder()
            self._lock = Lock.acquire(self._files, self._folder, __version__)
        self._open = True

    def _record_origin(self, last_seq: int | None) -> None:
        """Record that its entries up to ``last_seq`` were received; the caller syncs the folder.

        ``None`` includes what its first opening makes of streams that were not finished.
        """
        receipt = Receipt.now(*self._how)
        origin = Origin(self.id, [(0, last_seq)], received=[receipt])
        write_new(self._files, self._folder, self._home.origin_key, origin)

    def _give_place(self) -> None:
        """Let everybody see it; from here on it is a session like any other."""
        self._home.publish(self._folder, self.id)
        self._let_go()
        self._files.sync_folder(self._home.sessions)

    def _let_go(self) -> None:
        self._open = False
        self._lock.release()

    def discard(self) -> None:
        """Leave nothing of it, if it was not published."""
        if self._open:
            with suppress(OSError):
                self._files.remove_tree(self._folder)
            self._let_go()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Discard what was not published."""
        self.discard()


if TYPE_CHECKING:
    from holdfast.store.local.layout import Home
    from holdfast.store.write.encode import ImportedEntry

_CHUNK_BYTES = 1024 * 1024


class Staging(StagingFolder):
    """A session that is being filled."""

    def __init__(self, home: Home, header: Header, started: str, source: str) -> None:
        super().__init__(home, header.session, IMPORT, source)
        self._lines = StagedLines(started)
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        with os_errors(f"{home.root} cannot be written", home.root):
            try:
                path = self._folder / JOURNAL_NAME
                self._descriptor = self._files.open_append(path, create=True)
            except BaseException:
                super()._let_go()
                raise
        self._blobs = Blobs(self._files, self._folder)
        self._append(self._lines.header(header))

    @property
    def next_seq(self) -> int:
        """The lowest number that the next entry may have."""
        return self._lines.next_seq

    def add(self, past: ImportedEntry) -> None:
        """Write one entry behind the others; a mark may follow it, and takes the next number.

        Raises:
            DiskFull: there is no room; nothing will be left of the session.
            UsageError: its number or its parent cannot be.
        """
        lines = self._lines.add(past)
        if past.payloads:
            with os_errors(f"{self._home.sessions} cannot be written", self._home.sessions):
                for payload in past.payloads:
                    self._blobs.write(payload)
        for line in lines:
            self._append(line)

    def _append(self, line: bytes) -> None:
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        if self._waiting_bytes >= _CHUNK_BYTES:
            self._flush()

    def _flush(self) -> None:
        with os_errors(f"{self._home.sessions} cannot be written", self._home.sessions):
            self._files.write_all(self._descriptor, b"\n".join(self._waiting) + b"\n")
        self._waiting, self._waiting_bytes = [], 0

    def publish(self) -> str:
        """Make it durable and give it its place; return its id.

        Raises:
            SessionExists: the place is taken; nothing is left of this one.
            DiskFull: there is no room, as above.
        """
        for line in self._lines.finish():
            self._append(line)
        if self._waiting:
            self._flush()
        with os_errors(f"{self._home.sessions} cannot be written", self._home.sessions):
            self._files.sync(self._descriptor)
            status = self._files.status(self._descriptor)
            self._record_origin(self._lines.next_seq - 1)
            self._lock.note_durable(status.st_ino, status.st_size)
            self._files.sync_folder(self._folder)
            self._give_place()
        return self.id

    def _let_go(self) -> None:
        self._files.close(self._descriptor)
        super()._let_go()


if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.store.local.layout import Home

_NAMES = re.compile(
    r"journal(?:\.[1-9][0-9]{0,8})?\.jsonl|live\.jsonl|blobs/[0-9a-f]{64}"
    r"|(?:archive|damaged)/[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
)


def is_session_file(name: str) -> bool:
    """Tell whether a file of that name, relative to its folder, belongs to a session for good."""
    return _NAMES.fullmatch(name) is not None


class FileStaging(StagingFolder):
    """A session that is being copied."""

    def __init__(self, home: Home, session_id: str, source: str) -> None:
        if not SESSION_ID.fullmatch(session_id):
            raise UsageError(
                f"{session_id!r} is not a session id: use one such as 20261115-194012-k3v9q2ab."
            )
        super().__init__(home, session_id, ARCHIVE, source)

    def add(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a file of the session, durably.

        Raises:
            UsageError: no session has a file of that name, or it is there already.
            DiskFull: there is no room; nothing will be left of the session.
        """
        path = self._folder / name
        if not is_session_file(name) or self._files.exists(path):
            raise UsageError(f"{name!r} is not a valid file name in a session.")
        with os_errors(f"{self._home.sessions} cannot be written", self._home.sessions):
            if self._files.make_real_folder(path.parent):
                self._files.sync_folder(self._folder)
            descriptor = self._files.open_append(path, create=True)
            try:
                for chunk in chunks:
                    self._files.write_all(descriptor, chunk)
                self._files.sync(descriptor)
            finally:
                self._files.close(descriptor)
            self._files.sync_folder(path.parent)

    def publish(self) -> str:
        """Look whether it is a session, and give it its place; return its id.

        Raises:
            DamagedJournal: nothing in it can be read.
            StorageError: it is another session than it says.
            SessionExists: the place is taken; nothing is left of this one.
        """
        with os_errors(f"{self._home.sessions} cannot be written", self._home.sessions):
            with Journal(self._files, self._folder) as journal:
                journal.check_readable()
                self._check(journal)
                check_not_erased(self._home, journal)
                tail = inspect_tail(journal)
                self._record_origin(None)
                self._files.sync_folder(self._folder)
                self._lock.note_durable(journal.last.inode, tail.end)
            self._give_place()
        return self.id

    def _check(self, journal: Journal) -> None:
        """Refuse a session under another's id: whoever opens that one must not get this."""
        header = journal.header.body if journal.header is not None else None
        if not isinstance(header, Header):
            if is_keyed(self.id):
                raise StorageError(f"The header of {self.id} cannot be read.")
            return
        named = header.session
        if named != self.id or (is_keyed(named) and key_session_id(header.key or " ") != named):
            raise StorageError(f"The header names session {named!r}, not {self.id}.")
