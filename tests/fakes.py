"""A file system that does what a test tells it to: fail, tear, fill up, and remember."""

from __future__ import annotations

import errno
import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from holdfast.files import Files

_WATCHED = (
    "open_append",
    "open_read",
    "open_lock",
    "close",
    "read_at",
    "status",
    "status_of",
    "names",
    "write",
    "write_at",
    "truncate",
    "reserve",
    "sync",
    "sync_folder",
    "make_folder",
    "rename",
    "link",
    "unlink",
    "remove_folder",
    "touch",
)
_OPENING = ("open_append", "open_read", "open_lock")
_NEEDS_ROOM = ("open_append", "write", "make_folder", "link")


class Fault:
    """Makes chosen calls of one method fail; made by ``FakeFiles.fail`` and ``tear``."""

    def __init__(
        self, method: str, name: str, skip: int, times: int | None, act: Callable[..., Any]
    ) -> None:
        self.method = method
        self.name = name
        self.skip = skip
        self.times = times
        self.act = act
        self.hits = 0

    def takes(self, method: str, name: str) -> bool:
        """Tell whether this call is one of the chosen; counts it."""
        if method != self.method or self.name not in name:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        self.hits += 1
        return True


class FakeFiles(Files):
    """The real file system, with every call recorded and any of them made to fail.

    ``calls`` has (method, name of the file) in order. A file's name is the last part of the path
    that it was opened by, so a temporary file keeps its temporary name. ``unsynced`` has what a
    power cut could take: files written and folders changed since their last sync, by inode.
    """

    in_one = False  # writing and syncing can fail apart

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.full = False
        self.room_bytes = 0
        self.unsynced: dict[int, str] = {}
        self.renamed: list[tuple[str, list[str]]] = []
        """What was renamed, by its new name, with what of it or in it was not synced then."""
        self._names: dict[int, str] = {}
        self._mutex = threading.RLock()

    def fail(
        self,
        method: str,
        error: int = errno.EIO,
        *,
        name: str = "",
        nth: int = 1,
        times: int | None = 1,
    ) -> Fault:
        """Make the ``nth`` and following calls on files with ``name`` in their name fail."""

        def act(*_: Any, **__: Any) -> Any:
            raise OSError(error, os.strerror(error))

        return self._add(Fault(method, name, nth - 1, times, act))

    def tear(self, kept_bytes: int, *, name: str = "", nth: int = 1) -> Fault:
        """Make one write short: only ``kept_bytes`` of it arrive."""

        def act(descriptor: int, data: bytes) -> int:
            return os.write(descriptor, data[:kept_bytes])

        return self._add(Fault("write", name, nth - 1, 1, act))

    def on(self, method: str, action: Callable[[], None], *, name: str = "", nth: int = 1) -> Fault:
        """Call ``action`` in the place of one call."""
        return self._add(Fault(method, name, nth - 1, 1, lambda *_, **__: action()))

    def _add(self, fault: Fault) -> Fault:
        with self._mutex:
            self.faults.append(fault)
        return fault

    def fill(self, room_bytes: int = 0) -> None:
        """Let the disk be full from now on, but for ``room_bytes``."""
        self.full, self.room_bytes = True, room_bytes

    def free(self) -> None:
        """Let there be room again."""
        self.full = False

    @contextmanager
    def full_disk(self, room_bytes: int = 0) -> Iterator[None]:
        """Let the disk be full for a while."""
        self.fill(room_bytes)
        try:
            yield
        finally:
            self.free()

    def heal(self) -> None:
        """Take all faults back."""
        self.faults.clear()
        self.free()

    @property
    def left_open(self) -> list[str]:
        """Names of the files that are open."""
        with self._mutex:
            return sorted(self._names.values())

    def count(self, method: str, name: str = "") -> int:
        """Return how often a method was called on files with ``name`` in their name."""
        with self._mutex:
            return sum(1 for called, on in self.calls if called == method and name in on)

    def first(self, method: str, name: str = "") -> int:
        """Return the place in ``calls`` of the first such call."""
        with self._mutex:
            return next(
                place
                for place, (called, on) in enumerate(self.calls)
                if called == method and name in on
            )

    def last(self, method: str, name: str = "") -> int:
        """Return the place in ``calls`` of the last such call."""
        with self._mutex:
            return max(
                place
                for place, (called, on) in enumerate(self.calls)
                if called == method and name in on
            )

    def _observe(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        real = functools.partial(getattr(Files, method), self, *args, **kwargs)
        with self._mutex:
            target = args[0]
            name = self._names.get(target, "") if isinstance(target, int) else Path(target).name
            self.calls.append((method, name))
            fault = next((each for each in self.faults if each.takes(method, name)), None)
            if fault is None and self.full and method in _NEEDS_ROOM:
                if method == "write" and self.room_bytes > 0:
                    kept, self.room_bytes = self.room_bytes, max(0, self.room_bytes - len(args[1]))
                    return os.write(target, args[1][:kept])
                if method != "open_append" or kwargs.get("create"):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if fault is None and self.full and method == "reserve":
                return False
        if fault is not None:
            return fault.act(*args, **kwargs)
        noting = (*_OPENING, "close", "rename")
        with self._mutex if method in noting else nullcontext():
            if method == "rename":
                self.renamed.append((Path(args[1]).name, self._unsynced_in(Path(target))))
            before = os.fstat(target).st_size if method == "truncate" else None
            result = real()
            nothing_new = method == "make_folder" and not result
            # What is reserved behind the end of a file is no content, nor is giving it back.
            if not nothing_new and (before is None or before != args[1]):
                self._note_sync(method, args, kwargs)
            if method in _OPENING:
                self._names[result] = name
            elif method == "close":
                self._names.pop(target, None)
        return result

    def _note_sync(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep ``unsynced`` up to date."""
        if method in ("write", "truncate"):
            self.unsynced[os.fstat(args[0]).st_ino] = self._names.get(args[0], "")
        elif method == "sync":
            self.unsynced.pop(os.fstat(args[0]).st_ino, None)
        elif method == "sync_folder":
            self.unsynced.pop(args[0].stat().st_ino, None)
        elif method in ("make_folder", "unlink", "remove_folder") or (
            method == "open_append" and kwargs.get("create")
        ):
            self._changed(args[0].parent)
        elif method == "rename":
            self._changed(args[0].parent)
            self._changed(args[1].parent)
        elif method == "link":
            self._changed(args[1].parent)

    def _changed(self, folder: Path) -> None:
        self.unsynced[folder.stat().st_ino] = folder.name

    def _unsynced_in(self, path: Path) -> list[str]:
        """Return the names of what is not synced of a file, or of a folder and all below it."""
        found = [path, *path.rglob("*")] if path.is_dir() else [path]
        numbers = [each.stat().st_ino for each in found if each.exists()]
        return sorted(self.unsynced[number] for number in numbers if number in self.unsynced)


def _watched(method: str) -> Callable[..., Any]:
    @functools.wraps(getattr(Files, method))
    def call(self: FakeFiles, *args: Any, **kwargs: Any) -> Any:
        return self._observe(method, args, kwargs)

    return call


for _method in _WATCHED:
    setattr(FakeFiles, _method, _watched(_method))
