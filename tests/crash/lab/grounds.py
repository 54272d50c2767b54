"""Small disks that can be filled, and one whose blocks can be made to fail.

A ``Ground`` is only names of places, so that the process that plays on it and the one that judges
afterwards can both have one. ``prepared`` mounts it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from tests.crash.lab import mounts

_IMAGE_BYTES = {"ext4": 48 << 20, "brittle": 12 << 20}  # eight sessions fit into the larger one
_TMPFS_BYTES = 6 << 20
_ROOM_BESIDE_IMAGE = 1 << 20
BLOCK_BYTES = 4096
_FIEMAP = 0xC020660B
_MOST_EXTENTS = 256
_KEEP_SIZE, _PUNCH_HOLE = 1, 2


class Ground(Struct, frozen=True):
    """Where a play takes place: a disk of the given kind with the home of a store.

    ``folder`` is an ordinary folder, ``tmpfs`` a disk in memory, ``ext4`` one on a loop device.
    ``brittle`` is on a loop device, too, but its image is on a file system that can be filled:
    writes to blocks that have no room there fail when they are synced, and their pages are lost.
    """

    kind: str
    base: str

    @property
    def disk(self) -> Path:
        """The disk's root."""
        return Path(self.base) / "the disk"

    @property
    def home(self) -> Path:
        """The home of the store that is tried."""
        return self.disk / "home"

    @property
    def image(self) -> Path:
        """The file that holds the disk, if it is on a loop device."""
        return Path(self.base) / "under" / "image"

    @property
    def is_image(self) -> bool:
        """Whether the disk is a file system in a file."""
        return self.kind in _IMAGE_BYTES

    def fill(self, but_for: int = 0) -> None:
        """Take all the room there is, but for about so many bytes."""
        ballast = self.disk / "ballast"
        size = _take_all_room(ballast)
        with ballast.open("r+b") as file:
            file.truncate(max(0, size - but_for))

    def free(self) -> None:
        """Give the room back."""
        (self.disk / "ballast").unlink(missing_ok=True)

    def break_behind(self, path: Path) -> int:
        """Let writes fail that go to blocks reserved behind the end of a file; return their bytes.

        The end must be the end of a block: of a write that goes to a good block and a bad one the
        loop device reports the good half, and the kernel takes that for all.
        """
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            assert size % BLOCK_BYTES == 0, size
            return self._break(list(_extents(file.fileno(), size)))

    def break_free_blocks(self) -> int:
        """Let writes fail that go to blocks which are free now; return their bytes."""
        self._sync()  # blocks that were given back are free only then
        self.fill()
        with (self.disk / "ballast").open("rb") as file:
            pieces = list(_extents(file.fileno(), 0))
        self.free()
        self._sync()
        return self._break(pieces)

    def _sync(self) -> None:
        root = os.open(self.disk, os.O_RDONLY)
        try:
            ctypes.CDLL(None).syncfs(root)
        finally:
            os.close(root)

    def _break(self, pieces: list[tuple[int, int]]) -> int:
        assert self.kind == "brittle"
        with self.image.open("r+b") as image:
            for place, length in pieces:
                _fallocate(image.fileno(), _PUNCH_HOLE | _KEEP_SIZE, place, length)
        _take_all_room(self.image.parent / "ballast")
        return sum(length for _, length in pieces)

    def mend(self) -> None:
        """Let writes succeed again."""
        (self.image.parent / "ballast").unlink(missing_ok=True)

    def remount(self) -> None:
        """Forget what is only in memory, and mount what the disk has; nothing where it is all."""
        if self.is_image:
            mounts.unmount(self.disk)
            self.mount()

    def mount(self) -> None:
        """Mount the image."""
        options = "loop,errors=remount-ro"
        mounts.mount("ext4", self.disk, options, source=self.image)


@contextmanager
def prepared(kind: str, base: Path) -> Iterator[Ground]:
    """Make a disk for the time of a ``with`` block."""
    ground = Ground(kind, str(base))
    ground.disk.mkdir(parents=True)
    if kind == "folder":
        yield ground
    elif kind == "tmpfs":
        with mounts.mounted("tmpfs", ground.disk, f"size={_TMPFS_BYTES}"):
            yield ground
    else:
        size = _IMAGE_BYTES[kind]
        room = f"size={size + _ROOM_BESIDE_IMAGE}"
        with mounts.mounted("tmpfs", ground.image.parent, room):
            mounts.make_image(ground.image, size, "ext4")
            if kind == "brittle":
                _back_wholly(ground.image)
            ground.mount()
            try:
                yield ground
            finally:
                if os.path.ismount(ground.disk):
                    mounts.unmount(ground.disk)


def _back_wholly(image: Path) -> None:
    """Give every block of an image room of its own, so that only chosen ones can fail."""
    with image.open("r+b") as file:
        _fallocate(file.fileno(), 0, 0, os.fstat(file.fileno()).st_size)


def _take_all_room(ballast: Path) -> int:
    """Make a file that takes all room, in ever smaller pieces; return its bytes."""
    with ballast.open("wb") as file:
        size, piece = 0, 1 << 20
        while piece >= BLOCK_BYTES:
            try:
                _fallocate(file.fileno(), 0, size, piece)
                size += piece
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                piece //= 2
        return size


def _fallocate(descriptor: int, mode: int, offset: int, length: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate64(descriptor, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _extents(descriptor: int, start: int) -> Iterator[tuple[int, int]]:
    """Yield where a file's bytes from ``start`` on are on its disk, and how many."""
    flush_first = 1
    head = struct.pack("=QQLLLL", start, 2**63 - 1, flush_first, 0, _MOST_EXTENTS, 0)
    answer = bytearray(head + bytes(56 * _MOST_EXTENTS))
    fcntl.ioctl(descriptor, _FIEMAP, answer)
    (count,) = struct.unpack_from("=L", answer, 20)
    assert count < _MOST_EXTENTS
    for number in range(count):
        logical, physical, length = struct.unpack_from("=QQQ", answer, 32 + 56 * number)
        skipped = max(0, start - logical)
        if skipped < length:
            yield physical + skipped, length - skipped
