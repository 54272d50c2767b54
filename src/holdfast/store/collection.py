"""Every session of a home, without opening any: found, listed, searched, deleted, looked after.

What is asked is answered from the files, or from a cache that is held against them. Nothing is done
to a session that somebody is writing to. What the operating system refuses is raised as an error of
ours.

Making and opening sessions is left to ``local``; how each thing is done, to the module of its name.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from holdfast.errors import UsageError
from holdfast.store.cleanup import Moment, discard_abandoned, move_all_to_trash, point_in_time
from holdfast.store.contract import Compression, Deleted, Leftovers, Page, Report, Summary, stamp
from holdfast.store.leftovers import leftovers, size_of
from holdfast.store.listing import folder_named, page_of, projects_named
from holdfast.store.packing import is_packed, pack_all, unpack_folder
from holdfast.store.refusals import os_errors
from holdfast.store.search import Hit
from holdfast.store.trash import (
    deleted,
    deleted_ids,
    erase,
    finish_erasing,
    half_erased,
    move_to_trash,
    restore,
)
from holdfast.store.verify import verify

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from datetime import datetime

    from holdfast.store.conditions import Where
    from holdfast.store.documents import Activity
    from holdfast.store.home import Home

    Activities = list[Activity]

Hits = list[Hit]
Trash = list[Deleted]  # ``list`` is a method of the collection


class Collection:
    """All sessions below one home folder. Any number of processes may use it at once."""

    def __init__(self, home: Home) -> None:
        self._home = home

    @property
    def path(self) -> Path:
        """The home folder."""
        return self._home.root

    def find(self, id: str | os.PathLike[str]) -> Path:
        """Return the folder of a session by id, a unique part of one, or path; opens nothing.

        Raises:
            SessionNotFound: there is none.
        """
        return self._resolved(id)

    def _resolved(self, id: str | os.PathLike[str]) -> Path:
        with os_errors(f"{self.path} cannot be searched for it", self.path):
            return self._home.resolve(id)

    # What there is

    def ids(self) -> set[str]:
        """Return the ids of all sessions that are there, without opening any."""
        with os_errors(f"{self.path} cannot be listed", self.path):
            return {entry.name for entry in self._home.session_folders()}

    def list(
        self,
        *,
        workspace: str | os.PathLike[str] | None = None,
        project: str | os.PathLike[str] | None = None,
        limit: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Summary]:
        """Return summaries, last updated first. Every session on disk is in it, damaged or not.

        Args:
            workspace: only sessions of this folder.
            project: only sessions of this git project, wherever its folder was: an identity as
                recorded, or a folder of the project.
            limit: at most so many.
            since: updated at this time or later.
            until: updated before this time.
            progress: called with sessions read and sessions to read, while the index is rebuilt.
        """
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise UsageError(f"limit is a number of sessions, not {limit!r}.")
        with os_errors(f"{self.path} cannot be listed", self.path):
            from holdfast.store.index import Index  # noqa: PLC0415  sqlite3 costs 5 ms

            return Index(self._home).summaries(
                workspace=folder_named(workspace),
                projects=projects_named(project),
                limit=limit,
                since=None if since is None else stamp(since),
                until=None if until is None else stamp(until),
                progress=progress,
            )

    def page(
        self,
        *,
        workspace: str | os.PathLike[str] | None = None,
        project: str | os.PathLike[str] | None = None,
        limit: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Page:
        """Return summaries as ``list`` does, with how many there are that it leaves out."""
        return page_of(
            self._home,
            workspace=workspace,
            project=project,
            limit=limit,
            since=since,
            until=until,
        )

    def search(
        self,
        text: str,
        *,
        limit: int = 50,
        order: Literal["newest", "rank"] = "newest",
        substring: bool | None = None,
        once: bool = False,
        progress: Callable[[int, int], None] | None = None,
        **where: Unpack[Where],
    ) -> Hits:
        """Return messages and titles that have all words of ``text``, regardless of case.

        A phrase in double quotes has to occur as it is. Whole words come before the beginnings of
        words. The index is brought up to date first; what it cannot take is read from the files.

        Args:
            text: words, and phrases in double quotes. There are no operators.
            limit: at most so many.
            order: sessions that were updated last first, or what is most about the words first.
            substring: also what is inside of words, which means reading all files; if not given,
                only when nothing is found otherwise.
            once: of each session only the first message.
            progress: called with what is done and what there is to do: bytes while the index grows,
                then sessions while files are read.
            where: conditions; see ``Where`` in ``holdfast.store.conditions``.
        """
        if not isinstance(limit, int) or limit < 0:
            raise UsageError("limit is a number of results, 0 or more.")
        if order not in ("newest", "rank"):
            raise UsageError(f"order is 'newest' or 'rank', not {order!r}.")
        with os_errors(f"{self.path} cannot be searched", self.path):
            # SQLite costs 5 ms.
            from holdfast.store.conditions import conditions  # noqa: PLC0415  as above
            from holdfast.store.finding import Asked, Search  # noqa: PLC0415  as above
            from holdfast.store.textindex import TextIndex  # noqa: PLC0415  as above
            from holdfast.store.wanted import Wanted  # noqa: PLC0415  as above

            asked = Asked(
                Wanted(text),
                conditions(where),
                limit,
                order == "newest",
                substring,
                once,
                progress,
            )
            return TextIndex(self._home).ask(Search(self._home, asked).run, progress)

    def activity(self, *, progress: Callable[[int, int], None] | None = None) -> Activities:
        """Return what happened in all sessions, by quarters of an hour, oldest first.

        ``progress`` is called with bytes read and bytes to read, while the index grows.
        """
        with os_errors(f"{self.path} cannot be read", self.path):
            from holdfast.store.activity import activities  # noqa: PLC0415  SQLite costs 5 ms
            from holdfast.store.textindex import TextIndex  # noqa: PLC0415  as above

            return TextIndex(self._home).ask(partial(activities, self._home), progress)

    # What is deleted

    def delete(self, id: str | os.PathLike[str]) -> str:
        """Move a session to the trash and return its id; ``restore`` brings it back.

        Raises:
            SessionLocked: somebody is writing to it.
        """
        folder = self._resolved(id)
        with os_errors(f"{folder} cannot be deleted", folder):
            if not self._home.owns(folder):
                raise UsageError(f"{folder} is not a session of {self.path}; delete it by hand.")
            move_to_trash(self._home, folder)
        return folder.name

    def restore(self, id: str) -> str:
        """Bring a deleted session back and return its id."""
        with os_errors(f"{id} cannot be restored", self.path):
            return restore(self._home, id)

    def deleted(self) -> Trash:
        """Return what is in the trash, last deleted first."""
        with os_errors(f"{self.path} cannot be listed", self.path):
            return deleted(self._home)

    def deleted_ids(self) -> set[str]:
        """Return the ids of all sessions in the trash."""
        with os_errors(f"{self.path} cannot be listed", self.path):
            return deleted_ids(self._home)

    def erase(self, gone: Deleted) -> None:
        """Remove a deleted session for good; nothing brings it back.

        Raises:
            UsageError: it is not in the trash.
        """
        with os_errors(f"{gone.path} cannot be removed", self.path):
            erase(self._home, gone)

    def half_erased(self, *, remove: bool = False) -> Leftovers:
        """Count what crashes left of sessions that were being erased; with ``remove`` remove it."""
        with os_errors(f"{self._home.trash} cannot be emptied", self._home.trash):
            found = half_erased(self._home)
            size_bytes = sum(size_of(self._home.files, folder) for folder in found)
            if remove:
                finish_erasing(self._home)
            return Leftovers(len(found), size_bytes)

    def cleanup(self, older_than: Moment) -> int:
        """Move sessions that were last updated before a time to the trash; return how many.

        ``older_than`` is an age (``timedelta``, or seconds) or a point in time. Sessions that are
        being written, or that are damaged, stay.
        """
        limit = point_in_time(older_than)
        with os_errors(f"{self.path} cannot be cleaned up", self.path):
            moved = move_all_to_trash(self._home, self.list(until=limit))
            discard_abandoned(self._home)
        return moved

    # What one session takes, and whether it is sound

    def size_bytes(self, session: str | Deleted) -> int:
        """Return how much room a session takes, with everything in its folder."""
        folder = Path(session.path) if isinstance(session, Deleted) else self._resolved(session)
        with os_errors(f"{folder} cannot be read", folder):
            return size_of(self._home.files, folder)

    def leftovers(self, id: str, *, remove: bool = False) -> Leftovers:
        """Count the blobs of a session that nothing names, and with ``remove`` remove them.

        Blobs that are younger than an hour stay, and all blobs of a session that is damaged.

        Raises:
            SessionLocked: somebody is writing to it.
        """
        folder = self._resolved(id)
        with os_errors(f"{folder} cannot be searched", folder):
            return leftovers(self._home.files, folder, remove=remove)

    def compress(self, id: str | os.PathLike[str]) -> Compression:
        """Compress the journal of a session that is not in use; it stays listed and searchable.

        It can be read as before, and is unpacked when it is opened for writing.

        Raises:
            SessionLocked: somebody is writing to it.
            StorageError: there is no package for zstd, or it cannot be written; it is as it was.
        """
        folder = self._resolved(id)
        with os_errors(f"{folder} cannot be compressed", folder):
            return pack_all(self._home.files, folder)

    def is_compressed(self, id: str | os.PathLike[str]) -> bool:
        """Tell whether the whole journal of a session is compressed."""
        folder = self._resolved(id)
        with os_errors(f"{folder} cannot be read", folder):
            return is_packed(self._home.files, folder)

    def decompress(self, id: str | os.PathLike[str]) -> Compression:
        """Unpack the journal of a session, as opening it for writing does."""
        folder = self._resolved(id)
        with os_errors(f"{folder} cannot be unpacked", folder):
            return unpack_folder(self._home.files, folder)

    def verify(
        self,
        id: str | os.PathLike[str],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> Report:
        """Read a whole session and report every problem; changes nothing."""
        folder = self._resolved(id)
        with os_errors(f"{folder} cannot be read", folder):
            return verify(self._home.files, folder, progress)
