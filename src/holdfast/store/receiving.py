"""A session copied from elsewhere, file by file and byte by byte, unseen until it is published.

Nothing in it is trusted: only files of the names that a session has are taken, each is written anew
as a private regular file, and before it is published it is opened the way any session is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.errors import StorageError, UsageError
from holdfast.journal.reader import Journal
from holdfast.journal.repair import examine
from holdfast.model.entry import Header
from holdfast.model.ids import SESSION_ID, is_keyed, key_session_id
from holdfast.store.refusals import os_errors
from holdfast.store.unseen import Unseen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.store.home import Home

_NAMES = re.compile(
    r"journal(?:\.[1-9][0-9]{0,8})?\.jsonl|live\.jsonl|blobs/[0-9a-f]{64}"
    r"|(?:archive|damaged)/[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
)


def is_session_file(name: str) -> bool:
    """Tell whether a file of that name, relative to its folder, belongs to a session for good."""
    return _NAMES.fullmatch(name) is not None


class Receiving(Unseen):
    """A session that is being copied."""

    def __init__(self, home: Home, session_id: str) -> None:
        if not SESSION_ID.fullmatch(session_id):
            raise UsageError(f"{session_id!r} is not of the shape 20261115-194012-k3v9q2ab.")
        super().__init__(home, session_id)

    def add(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a file of the session, durably.

        Raises:
            UsageError: no session has a file of that name, or it is there already.
            DiskFull: there is no room; nothing will be left of the session.
        """
        path = self._folder / name
        if not is_session_file(name) or self._files.exists(path):
            raise UsageError(f"{name!r} cannot be a file of this session.")
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
                self._lock.note_durable(journal.last.inode, examine(journal).end)
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
            raise StorageError(f"It is session {named!r}, not {self.id}.")
