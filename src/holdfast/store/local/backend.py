"""Sessions as folders of files: the default medium.

How each thing is done is told in the module of its name. What the operating system refuses is
raised as an error of ours.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from holdfast.store.backend import Ref
from holdfast.store.catalog.list_query import ListQuery
from holdfast.store.doctor.verify import verify
from holdfast.store.local import erasure, trash
from holdfast.store.local.blobs import BLOBS_NAME, Blobs
from holdfast.store.local.compress import is_packed, pack_all, unpack_folder
from holdfast.store.local.layout import Home, os_errors
from holdfast.store.local.lock import Lock, holder_of
from holdfast.store.local.log_writer import FileLogWriter
from holdfast.store.local.open import open_to_read, open_to_write
from holdfast.store.local.orphan_blobs import leftovers, size_of
from holdfast.store.local.provenance import Origin, accept, provenance_of
from holdfast.store.local.reader import Journal
from holdfast.store.local.staging import FileStaging, Staging
from holdfast.store.local.trash import discard_abandoned, move_all_to_trash
from holdfast.store.local.watch import FileWatch
from holdfast.store.types import Deleted, Leftovers, Tombstone, stamp
from holdfast.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from holdfast.model.entry import Header
    from holdfast.model.lock_holder import Holder
    from holdfast.store.backend import Opened
    from holdfast.store.doctor.checkup import Checkup
    from holdfast.store.local.bulk_publish import Batch
    from holdfast.store.search.documents import Activity
    from holdfast.store.search.scan import SearchRequest
    from holdfast.store.session import Session
    from holdfast.store.types import Compression, Hit, Page, Provenance, Report, Summary
    from holdfast.store.write.rewrite import LogCopy

    Progress = Callable[[int, int], None]


def folder_of(ref: Ref) -> Path:
    """Return the folder of a session."""
    return Path(ref.location)


class FileCatalog:
    """What there is, from caches that are held against the files."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def _errors(self, what: str) -> AbstractContextManager[None]:
        return os_errors(f"{self._home.root} {what}", self._home.root)

    def summaries(self, query: ListQuery, progress: Progress | None) -> list[Summary]:
        """Return summaries, last updated first."""
        with self._errors("cannot be listed"):
            from holdfast.store.catalog.index import Index  # noqa: PLC0415  sqlite3 costs 5 ms

            return Index(self._home).summaries(**asdict(query), progress=progress)

    def page(self, query: ListQuery) -> Page:
        """Return the same, and how many sessions there are beside."""
        with self._errors("cannot be listed"):
            from holdfast.store.catalog.index import Index  # noqa: PLC0415  as above

            return Index(self._home).page(**asdict(query))

    def search(self, request: SearchRequest) -> list[Hit]:
        """Return what is found; the index is brought up to date first."""
        with self._errors("cannot be searched"):
            # SQLite costs 5 ms.
            from holdfast.store.search.engine import Search  # noqa: PLC0415  as above
            from holdfast.store.search.text_index import TextIndex  # noqa: PLC0415  as above

            return TextIndex(self._home).ask(Search(self._home, request).run, request.progress)

    def activity(self, progress: Progress | None) -> list[Activity]:
        """Return what happened in all sessions, oldest first."""
        with self._errors("cannot be read"):
            from holdfast.store.search.engine import activities  # noqa: PLC0415  SQLite costs 5 ms
            from holdfast.store.search.text_index import TextIndex  # noqa: PLC0415  as above

            return TextIndex(self._home).ask(partial(activities, self._home), progress)


class FileTrash:
    """Deleted sessions, in the folder ``trash``."""

    def __init__(self, home: Home, catalog: FileCatalog) -> None:
        self._home = home
        self._catalog = catalog

    def _errors(self, what: str) -> AbstractContextManager[None]:
        return os_errors(what, self._home.root)

    def move(self, ref: Ref) -> None:
        """Move a session to the trash."""
        folder = folder_of(ref)
        with os_errors(f"{folder} cannot be deleted", folder):
            trash.move_to_trash(self._home, folder)

    def restore(self, wanted: str) -> str:
        """Bring the last deleted session of that id, or unique part of one, back."""
        with self._errors(f"{wanted} cannot be restored"):
            return trash.restore(self._home, wanted)

    def erase(self, ref: Ref) -> None:
        """Remove a session for good, and what the trash has under its id; leave a tombstone."""
        with self._errors(f"{ref.id} cannot be erased"):
            erasure.erase_session(self._home, ref.id)

    def tombstones(self) -> list[Tombstone]:
        """Return what was erased."""
        with self._errors(f"{self._home.root} cannot be read"):
            return erasure.tombstones(self._home)

    def log(self, gone: Deleted) -> Journal:
        """Return a deleted session to read."""
        return Journal(self._home.files, Path(gone.path))

    def deleted(self) -> list[Deleted]:
        """Return what is in the trash, last deleted first."""
        with self._errors(f"{self._home.root} cannot be listed"):
            return trash.deleted(self._home)

    def purge(self, gone: Deleted) -> None:
        """Remove a deleted session for good."""
        with self._errors(f"{gone.path} cannot be removed"):
            trash.erase(self._home, gone)

    def partial_purges(self, *, remove: bool) -> Leftovers:
        """Count what crashes left of sessions that were being removed for good."""
        home = self._home
        with os_errors(f"{home.trash} cannot be emptied", home.trash):
            found = trash.half_erased(home)
            size_bytes = sum(size_of(home.files, folder) for folder in found)
            if remove:
                trash.finish_erasing(home)
            return Leftovers(len(found), size_bytes)

    def cleanup(self, until: datetime) -> int:
        """Move old sessions to the trash, and remove what never became a session."""
        with self._errors(f"{self._home.root} cannot be cleaned up"):
            old = self._catalog.summaries(ListQuery(until=stamp(until)), None)
            moved = move_all_to_trash(self._home, old)
            discard_abandoned(self._home)
        return moved


class FileMaintenance:
    """What a session's folder takes, who writes to it, and whether it is sound."""

    def __init__(self, home: Home) -> None:
        self._files = home.files

    def size_bytes(self, session: Ref | Deleted) -> int:
        """Return how much room a session takes, with everything in its folder."""
        folder = Path(session.path) if isinstance(session, Deleted) else folder_of(session)
        with os_errors(f"{folder} cannot be read", folder):
            return size_of(self._files, folder)

    def holder(self, ref: Ref) -> Holder | None:
        """Return who is writing to a session, ``None`` if no one is."""
        folder = folder_of(ref)
        with os_errors(f"{folder} cannot be checked", folder):
            return holder_of(self._files, folder)

    def verify(self, ref: Ref, progress: Progress | None) -> Report:
        """Read a whole session and report every problem; changes nothing."""
        folder = folder_of(ref)
        with os_errors(f"{folder} cannot be read", folder):
            return verify(self._files, folder, progress)


class HomeWork:
    """What only a store in a folder can do."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._files = home.files

    def leftovers(self, ref: Ref, *, remove: bool) -> Leftovers:
        """Count the blobs that nothing names, and with ``remove`` remove them."""
        folder = folder_of(ref)
        with os_errors(f"{folder} cannot be searched", folder):
            return leftovers(self._files, folder, remove=remove)

    def compress(self, ref: Ref) -> Compression:
        """Compress the journal of a session that is not in use."""
        folder = folder_of(ref)
        with os_errors(f"{folder} cannot be compressed", folder):
            return pack_all(self._files, folder)

    def is_compressed(self, ref: Ref) -> bool:
        """Tell whether the whole journal of a session is compressed."""
        folder = folder_of(ref)
        with os_errors(f"{folder} cannot be read", folder):
            return is_packed(self._files, folder)

    def decompress(self, ref: Ref) -> Compression:
        """Unpack the journal of a session, as opening it for writing does."""
        folder = folder_of(ref)
        with os_errors(f"{folder} cannot be unpacked", folder):
            return unpack_folder(self._files, folder)

    def receive(self, session_id: str, source: str) -> FileStaging:
        """Return a session to be copied from elsewhere, file by file."""
        return FileStaging(self._home, session_id, source)

    def batch(self) -> Batch:
        """Return the store as it will be: what is staged there is published all at once."""
        from holdfast.store.local.bulk_publish import Batch  # noqa: PLC0415  it is made of ``Store``

        return Batch(self._home)

    def has_unfinished_batch(self) -> bool:
        """Tell whether a batch was published whose process died before it was done."""
        from holdfast.store.local.bulk_publish import is_unfinished  # noqa: PLC0415  as above

        with os_errors(f"{self._home.root} cannot be read", self._home.root):
            return is_unfinished(self._home)

    def lock(self, name: str) -> Lock:
        """Take the lock of that name, a folder of the home."""
        home = self._home
        with os_errors(f"{home.root} cannot be written", home.root):
            home.files.make_folders(home.root / name)
            return Lock.acquire(home.files, home.root / name, __version__)

    def scratch(self) -> Path:
        """Make a folder for what has to be on disk for a while and is no session."""
        with os_errors(f"{self._home.root} cannot be written", self._home.root):
            return self._home.make_folder()

    def checkup(
        self, open_session: Callable[[Path], Session], progress: Progress | None, *, fix: bool
    ) -> Checkup:
        """Return what goes through everything there is and yields what is wrong."""
        from holdfast.store.doctor.checkup import Checkup  # noqa: PLC0415  few need it

        return Checkup(self._home, open_session, fix=fix, progress=progress)


class FileBackend:
    """All sessions below one home folder. Any number of processes may use it at once."""

    is_shared = True

    def __init__(self, home: Home) -> None:
        self.home = home
        self.location = home.root
        self.catalog = FileCatalog(home)
        self.trash = FileTrash(home, self.catalog)
        self.maintenance = FileMaintenance(home)
        self.folder_work = HomeWork(home)

    def errors(self, what: str, ref: Ref | None = None) -> AbstractContextManager[None]:
        """Turn errors of the operating system into errors of ours."""
        where = self.location if ref is None else folder_of(ref)
        return os_errors(f"{where} {what}", where)

    # Which sessions there are

    def ids(self) -> set[str]:
        """Return the ids of all sessions."""
        return {entry.name for entry in self.home.session_folders()}

    def has(self, session_id: str) -> bool:
        """Tell whether there is a session of that id."""
        return self.home.has(session_id)

    def ref(self, session_id: str) -> Ref:
        """Return the session of a valid id, be it there or not."""
        return Ref(session_id, self.home.folder(session_id))

    def resolve(self, wanted: str | os.PathLike[str]) -> Ref:
        """Find a session by id, a unique part of one, or path."""
        folder = self.home.resolve(wanted)
        return Ref(folder.name, folder)

    def owns(self, ref: Ref) -> bool:
        """Tell whether a session stands where this home keeps the session of its name."""
        return self.home.owns(folder_of(ref))

    # Reading and writing one

    def create(self, header: Header) -> FileLogWriter:
        """Return the writer of a session that its first append will make."""
        return FileLogWriter(self.home, header)

    def open(self, ref: Ref, key: str | None, *, write: bool) -> Opened:
        """Open a session; with ``write`` it is locked and repaired."""
        open_folder = open_to_write if write else open_to_read
        return open_folder(self.home, folder_of(ref), key)

    def read(self, ref: Ref) -> Journal:
        """Return all of a session, without looking for a torn end."""
        return Journal(self.home.files, folder_of(ref))

    def blobs(self, ref: Ref) -> Blobs:
        """Return the blobs of a session, be it there or not."""
        return Blobs(self.home.files, folder_of(ref))

    def watch(self, ref: Ref, after: int) -> FileWatch:
        """Return what is new in a session behind entry ``after``."""
        return FileWatch(self.home.files, folder_of(ref), after)

    def copy(
        self, source: Ref, header: Header, copy: LogCopy, blobs: Sequence[str], origin: Provenance
    ) -> None:
        """Make a session from a copy of another's lines; its blobs become links."""
        home, folder = self.home, folder_of(source) / BLOBS_NAME
        links = [folder / name for name in blobs]
        record = Origin(header.session, origin.foreign, received=origin.received)
        with os_errors(f"{source.id} cannot be forked", home.root):
            place = home.make_session(header.session, copy.chunks(), [], links, record)
        home.files.close(place.descriptor)
        place.lock.release()

    def stage(self, header: Header, started: str, source: str) -> Staging:
        """Return a session to be filled with a conversation that took place elsewhere."""
        return Staging(self.home, header, started, source)

    # Where entries came from

    def provenance(self, ref: Ref) -> Provenance:
        """Return which entries of a session were received from elsewhere, and how."""
        return provenance_of(self.home.files, folder_of(ref), self.home.origin_key)

    def accept(self, ref: Ref, last_seq: int) -> Provenance:
        """Accept for good what was received up to ``last_seq``; return what it was."""
        files, folder = self.home.files, folder_of(ref)
        with os_errors(f"{folder} cannot be written", folder):
            self.home.origin_key.make()
            before = accept(files, folder, self.home.origin_key, last_seq)
            with Journal(files, folder) as journal:
                files.touch(journal.segments[0].path)  # so that lists read it again
        return before

    def sign(self, data: bytes) -> str | None:
        """Return a signature with this home's key, ``None`` if it has none."""
        return self.home.origin_key.sign(data)

    @property
    def local_folder(self) -> Path:
        """The home folder."""
        return self.location

    def local_state(self, ref: Ref) -> Path:
        """Return the session's folder: what is put there goes with it."""
        return folder_of(ref)

    def close(self) -> None:
        """Do nothing: no file stays open."""
