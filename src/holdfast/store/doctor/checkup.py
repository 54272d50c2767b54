"""A look at everything in a home: what is wrong, what is safe all the same, what could be done.

Nothing is changed unless ``fix`` says so, and then nothing is lost: bytes that are taken out of a
journal are in ``damaged/`` or ``archive/`` afterwards. What somebody holds is left alone and named.
"""

from __future__ import annotations

import re
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import DamagedJournal, HoldfastError, UsageError
from holdfast.store.doctor.findings import Finding, finding
from holdfast.store.doctor.home_scan import Fixer, HomeScan
from holdfast.store.doctor.verify import verify
from holdfast.store.local.layout import JOURNAL_NAME
from holdfast.store.local.lock import LOCK_NAME, holder_of
from holdfast.store.types import Report

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from holdfast.store.local.layout import Home
    from holdfast.store.session import Session

_OPENING_MENDS = frozenset({"torn", "interrupted"})
_COPYING_MENDS = frozenset({"damage", "header", "unverified"})
_TEMPORARY = re.compile(r"\.[a-z0-9.-]+\.[a-z2-9]{8}|\.journal-.*\.gz")
_OF_A_SESSION = re.compile(r"(?:journal(?:\.\d+)?|live)\.jsonl")


class Checkup:
    """Goes through a home once. Yields what it finds; the counts are right at the end."""

    def __init__(
        self,
        home: Home,
        open_session: Callable[[Path], Session],
        *,
        fix: bool,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._home = home
        self._files = home.files
        self._open_session = open_session
        self._remedies = Fixer(home.files, wanted=fix)
        self._progress = progress
        self.sessions = self.entries = self.size_bytes = 0
        self.held: list[str] = []
        """Sessions that somebody is writing: their ends were not judged, and nothing was fixed."""
        self._total_bytes = 0

    def __iter__(self) -> Iterator[Finding]:
        """Yield everything that is wrong.

        Raises:
            UsageError: there is something else where the home should be.
        """
        trouble = self._trouble_with_home()
        if trouble is not None:
            yield trouble
            return
        around = self._around = HomeScan(self._home, self._remedies)
        yield from around.open_to_others()
        if self._progress is not None:
            self._total_bytes = sum(self._size(each) for each in (*around.live, *around.deleted))
        for entry in around.live:
            yield from self._session(entry, deleted=False)
        for entry in around.deleted:
            yield from self._session(entry, deleted=True)
        yield from around.strange
        yield from around.left_behind()
        yield from around.broken_caches()

    def _trouble_with_home(self) -> Finding | None:
        try:
            self._files.names(self._home.root)
        except NotADirectoryError:
            raise UsageError(
                f"{self._home.root} is not a folder. Set HOLDFAST_HOME to a folder, or unset it."
            ) from None
        except OSError as error:
            return finding("closed", self._home.root, f"cannot be read: {error.strerror}")
        return None

    def _size(self, entry: os.DirEntry[str]) -> int:
        with suppress(OSError):
            return self._files.status_of(f"{entry.path}/{JOURNAL_NAME}").st_size
        return 0

    # Sessions

    def _session(self, entry: os.DirEntry[str], *, deleted: bool) -> Iterator[Finding]:
        folder = Path(entry.path)
        if not entry.is_dir(follow_symlinks=False):
            yield finding("link", folder, "not a session folder, but in the place of one")
            return
        self.sessions += 1
        tell = partial(finding, session=folder.name, deleted=deleted)
        found = list(self._examined(folder, tell))
        held = folder.name in self.held
        if self._remedies.wanted and found and not deleted and not held:
            found = self._mended(folder, found)
        yield from found

    def _examined(self, folder: Path, tell: Callable[..., Finding]) -> Iterator[Finding]:
        held = False
        try:
            held = holder_of(self._files, folder) is not None
            is_lock = self._is_lock(folder)
        except OSError:
            is_lock = False
        if not is_lock:
            yield tell("lock", folder / LOCK_NAME, "not a regular file, so it cannot be locked")
        if held:
            self.held.append(folder.name)
        below = _Below()
        report = self._verified(folder, below, tell)
        if below.misplaced:
            for path in below.misplaced:
                yield tell("misplaced", path, "not a regular file, but in the place of one")
        elif isinstance(report, Finding):
            yield report
        if isinstance(report, Report):
            yield from self._problems(folder, report, tell, held=held)
        for entry in below.unnamed:
            if not held and self._around.is_old(entry):
                yield tell("leftover", entry.path, "a temporary file that a crash left")

    def _is_lock(self, folder: Path) -> bool:
        with suppress(FileNotFoundError):
            return stat.S_ISREG(self._files.status_of(folder / LOCK_NAME).st_mode)
        return True  # it is made when it is needed

    def _verified(
        self, folder: Path, below: _Below, tell: Callable[..., Finding]
    ) -> Report | Finding | None:
        """Read a session; return what was found, or why it could not be read."""
        try:
            return verify(self._files, folder, partial(self._tell, self.size_bytes), below.see)
        except DamagedJournal as error:
            return tell("unreadable", error.path, error.kind)
        except FileNotFoundError:
            if self._files.exists(folder):
                return tell("unreadable", folder, "it has no journal")
            return None  # it was deleted a moment ago
        except (OSError, HoldfastError) as error:
            return tell("closed", folder, f"cannot be read: {error}")

    def _problems(
        self, folder: Path, report: Report, tell: Callable[..., Finding], *, held: bool
    ) -> Iterator[Finding]:
        self._tell(self.size_bytes, report.size_bytes)
        self.size_bytes += report.size_bytes
        self.entries += report.entries
        for problem in report.problems:
            if not held or problem.kind not in _OPENING_MENDS:
                place = folder.parent if problem.kind == "permissions" else folder
                yield tell(problem.kind, place / problem.where, problem.detail)
        if report.more:
            yield tell("more", folder, f"{report.more} more problems")

    def _tell(self, before: int, done: int, _: int = 0) -> None:
        if self._progress is not None:
            self._progress(before + done, max(before + done, self._total_bytes))

    # Doing something about it

    def _mended(self, folder: Path, found: list[Finding]) -> list[Finding]:
        kinds = {each.kind for each in found}
        wanted, failed = kinds & (_OPENING_MENDS | _COPYING_MENDS), "the problem is still there"
        left: set[str] = set()
        if wanted:
            try:
                with self._open_session(folder) as session:
                    if kinds & _COPYING_MENDS:
                        session.mend()
                left = {each.kind for each in verify(self._files, folder).problems}
            except (OSError, HoldfastError) as error:
                left, failed = wanted, str(error)
        done = []
        for each in found:
            if each.kind in wanted:
                fixed = each.kind not in left
                why = None if fixed else failed
                done.append(msgspec.structs.replace(each, fixed=fixed, failed=why))
            else:
                done.append(self._remedies.done(each, partial(self._mend_file, each)))
        return done

    def _mend_file(self, finding: Finding) -> None:
        path = Path(finding.where)
        if finding.kind == "permissions":
            self._remedies.restrict(path)
        else:
            self._files.unlink(path)


class _Below:
    """What is in a session's folder, seen with an eye on what should not be there."""

    def __init__(self) -> None:
        self.unnamed: list[os.DirEntry[str]] = []
        self.misplaced: list[str] = []

    def see(self, entry: os.DirEntry[str]) -> None:
        """Take note of temporary files, and of what is no file in the place of a file."""
        if entry.name[0] == "." and _TEMPORARY.fullmatch(entry.name):
            self.unnamed.append(entry)
        elif _OF_A_SESSION.fullmatch(entry.name) and not entry.is_file(follow_symlinks=False):
            self.misplaced.append(entry.path)
