"""What is in a home besides sessions: which of it is ours, and whether that is as it should be.

What cannot be looked at is told, and the rest is looked at all the same.
"""

from __future__ import annotations

import re
import stat
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model.ids import SESSION_ID, folder_of
from holdfast.store.doctor.findings import Finding, finding
from holdfast.store.local.bulk_publish import BATCH_NAME, THEN_NAME
from holdfast.store.local.layout import KEY_NAME, NEW_PREFIX
from holdfast.store.local.lock import holder_of
from holdfast.store.local.trash import finish_removing, half_erased

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from holdfast.files import Files
    from holdfast.store.local.layout import Home

_ABANDONED_AFTER_NS = 3600 * 1_000_000_000
_DATABASE = re.compile(r"[a-z]+\.db(?P<beside>-journal|-wal|-shm)?")


class Fixer:
    """Does something about a finding, if that is wanted."""

    def __init__(self, files: Files, *, wanted: bool) -> None:
        self._files = files
        self.wanted = wanted

    def done(self, found: Finding, work: Callable[[], None]) -> Finding:
        """Do what can be done, and return the finding with what came of it."""
        if not self.wanted or found.fix is None:
            return found
        try:
            work()
        except (OSError, HoldfastError) as error:
            return msgspec.structs.replace(found, failed=str(error))
        return msgspec.structs.replace(found, fixed=True)

    def restrict(self, path: Path) -> None:
        """Take the rights of others away."""
        mode = stat.S_IMODE(self._files.status_of(path).st_mode)
        self._files.set_mode(path, mode & 0o700)


class HomeScan:
    """One look at a home. ``live`` and ``deleted`` stand where sessions stand, by name."""

    def __init__(self, home: Home, remedies: Fixer) -> None:
        self._home = home
        self._files = home.files
        self._remedies = remedies
        self._abandoned_before_ns = time.time_ns() - _ABANDONED_AFTER_NS
        self._groups: list[Path] = []
        self._unfinished: list[os.DirEntry[str]] = []
        self.live: list[os.DirEntry[str]] = []
        self.deleted: list[os.DirEntry[str]] = []
        self.strange: list[Finding] = []
        """What is not ours, and what could not be looked at."""
        for entry in self._entries(home.sessions):
            self._sort(entry)
        self.live.sort(key=_name_of)
        deleted = self._entries(home.trash)
        self._erased = half_erased(home) if deleted else []
        for entry in deleted:
            if SESSION_ID.fullmatch(entry.name.partition(".")[0]):
                self.deleted.append(entry)
            elif Path(entry.path) not in self._erased:
                self.strange.append(
                    finding("unknown", entry.path, "not a session, but in the trash")
                )

    def _sort(self, entry: os.DirEntry[str]) -> None:
        """Take note of what stands in the folder of sessions."""
        if entry.name.startswith("."):
            self._unfinished.append(entry)
        elif not entry.is_dir(follow_symlinks=False):
            detail = "not a folder of sessions, but in the place of one"
            self.strange.append(finding("unknown", entry.path, detail))
        else:
            self._groups.append(Path(entry.path))
            for each in self._entries(Path(entry.path)):
                self._sort_session(each, entry.name)

    def _sort_session(self, entry: os.DirEntry[str], group: str) -> None:
        if not SESSION_ID.fullmatch(entry.name):
            if not entry.name.startswith("."):  # what file managers leave
                detail = "not a session, but among sessions"
                self.strange.append(finding("unknown", entry.path, detail))
            return
        self.live.append(entry)
        place = folder_of(entry.name)
        if place != group and entry.is_dir(follow_symlinks=False):
            detail = f"in the wrong folder; it belongs in {self._home.sessions / place}"
            self.strange.append(finding("astray", entry.path, detail, entry.name))

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            return sorted(self._files.folders(folder), key=_name_of)
        except NotADirectoryError:
            self.strange.append(finding("misplaced", folder, "not a folder"))
        except OSError as error:
            self.strange.append(_closed(folder, error))
        return []

    def is_old(self, entry: os.DirEntry[str]) -> bool:
        """Tell whether nobody can be at work with it any more."""
        with suppress(FileNotFoundError):
            return entry.stat(follow_symlinks=False).st_mtime_ns < self._abandoned_before_ns
        return False

    # What is wrong

    def open_to_others(self) -> Iterator[Finding]:
        """Yield folders and files that others than the user may look into."""
        home = self._home
        root = home.root.resolve()
        databases = [root / name for name in self._databases()]
        private = (root / KEY_NAME, *databases)
        for path in (root, home.sessions, *self._groups, home.trash, *private):
            with suppress(OSError):  # it is not there; or it is told that it is closed
                status = self._files.status_of(path)
                mode = stat.S_IMODE(status.st_mode)
                if mode & 0o077 and not stat.S_ISLNK(status.st_mode):
                    found = finding(
                        "permissions", path, f"mode {mode:04o} gives access to other users"
                    )
                    yield self._remedies.done(found, partial(self._remedies.restrict, path))

    def left_behind(self) -> Iterator[Finding]:
        """Yield what was left by processes that died."""
        for entry in self._unfinished:
            path = Path(entry.path)
            try:
                if entry.name == BATCH_NAME:
                    yield from self._batch(path)
                elif self._is_abandoned(entry):
                    found = finding("leftover", path, "a session whose creation was interrupted")
                    yield self._remedies.done(found, partial(self._files.remove_tree, path))
            except OSError as error:
                yield _closed(path, error)
        for path in self._erased:
            found = finding("leftover", path, "the rest of a session that was permanently deleted")
            yield self._remedies.done(found, partial(finish_removing, self._home, path))

    def _is_abandoned(self, entry: os.DirEntry[str]) -> bool:
        is_new = entry.name.startswith(NEW_PREFIX) and entry.is_dir(follow_symlinks=False)
        return is_new and self.is_old(entry) and holder_of(self._files, Path(entry.path)) is None

    def _batch(self, folder: Path) -> Iterator[Finding]:
        if holder_of(self._files, folder) is not None:
            return
        if self._files.exists(folder / THEN_NAME):
            yield finding(
                "unfinished",
                folder,
                "an unfinished migration: the sessions are imported, the originals not yet renamed",
            )
        for entry in self._files.folders(folder):
            if entry.is_dir(follow_symlinks=False):
                path = Path(entry.path)
                found = finding(
                    "leftover", path, "a temporary folder of a migration that was interrupted"
                )
                yield self._remedies.done(found, partial(self._files.remove_tree, path))

    def broken_caches(self) -> Iterator[Finding]:
        """Yield databases that cannot be read, or lack what they should have."""
        from holdfast.store.doctor.cache_check import problem_of  # noqa: PLC0415  sqlite3 costs 5 ms

        for name in self._databases(beside=False):
            path = self._home.root / name
            problem = problem_of(self._files, path)
            if problem is not None:
                found = finding("index", path, problem)
                yield self._remedies.done(found, partial(self._remove_database, path))

    def _databases(self, *, beside: bool = True) -> list[str]:
        names = sorted(self._files.names(self._home.root))
        found = [match for name in names if (match := _DATABASE.fullmatch(name))]
        return [match[0] for match in found if beside or match["beside"] is None]

    def _remove_database(self, path: Path) -> None:
        from holdfast.store.doctor.cache_check import BESIDE  # noqa: PLC0415  it is loaded already

        for suffix in ("", *BESIDE):
            self._files.unlink(Path(f"{path}{suffix}"))


def _closed(path: Path, error: OSError) -> Finding:
    return finding("closed", path, f"cannot be read: {error.strerror}")


def _name_of(entry: os.DirEntry[str]) -> str:
    return entry.name
