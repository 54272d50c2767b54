"""Where a runner's socket is, and who may speak through it.

Sockets are in the home folder, so that no logout removes them, and the folder lists the runners
there are. A home whose path is too long for sockets has them in a folder of the user's own below
``/tmp``; both sides work it out alike, by whichever path they reach the home.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from hashlib import sha256
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.files import Files

RUN_NAME = "run"
_NAME_CHARACTERS = 24  # a whole id; of one made from a key enough to tell it from all others
_LONGEST_NAME_BYTES = _NAME_CHARACTERS + len("/.sock")
_LONGEST_PATH_BYTES = 100  # macOS takes 103, Linux 107
_LOCAL_PEERCRED = 1  # macOS
_files = Files()


def run_folder(home: Path) -> Path:
    """Return the folder of all runners of a home: their sockets, what they log, the start lock."""
    folder = Path(os.path.realpath(home)) / RUN_NAME
    if len(os.fsencode(folder)) + _LONGEST_NAME_BYTES <= _LONGEST_PATH_BYTES:
        return folder
    return _short_folder() / sha256(os.fsencode(folder)).hexdigest()[:24]


def is_short_lived(folder: Path) -> bool:
    """Tell whether a folder of runners is below ``/tmp``, where it stays only while it is used."""
    return folder.parent == _short_folder()


def _short_folder() -> Path:
    return Path(f"/tmp/holdfast-{os.getuid()}")  # noqa: S108  checked by prepare_folder


def socket_path(home: Path, session_id: str) -> Path:
    """Return where the runner of a session listens."""
    return run_folder(home) / f"{session_id[:_NAME_CHARACTERS]}.sock"


def log_path(home: Path, session_id: str) -> Path:
    """Return where the runner of a session says what nobody else can be told."""
    return run_folder(home) / f"{session_id[:_NAME_CHARACTERS]}.log"


def prepare_folder(home: Path) -> Path:
    """Make the folder of a home's runners, for this user alone, and return it.

    Raises:
        StorageError: somebody else made it, or it cannot be made.
    """
    folder = run_folder(home)
    for each in (folder.parent, folder) if is_short_lived(folder) else (folder,):
        try:
            _files.make_folders(each)
            status = each.lstat()
        except OSError as error:
            raise StorageError(f"{each} cannot be made: {error.strerror}.") from error
        alone = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if not alone or stat.S_IMODE(status.st_mode) & 0o077:
            raise StorageError(
                f"{each} is not a folder that only you can access (mode 0700). Move it."
            )
    return folder


def listens(path: Path) -> bool:
    """Tell whether a process listens at a socket, be it stopped or busy; a dead one does not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # many others want to speak to it
        except OSError:
            return False
    return True


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user at the other end, ``None`` if the system does not tell."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        return int(struct.unpack("3i", credentials)[1])
    if sys.platform == "darwin":
        credentials = connection.getsockopt(0, _LOCAL_PEERCRED, 76)
        return int(struct.unpack("II", credentials[:8])[1])
    return None


def is_foreign(connection: socket.socket) -> bool:
    """Tell whether somebody else is at the other end, or may be."""
    return why_foreign(connection) is not None


def why_foreign(connection: socket.socket) -> str | None:
    """Say why whoever is at the other end must not be spoken to; ``None`` if it is this user."""
    try:
        uid = peer_uid(connection)
    except OSError:  # it is gone already
        uid = None
    if uid is None:
        return "This system cannot tell which user is at the other end of a socket."
    return None if uid == os.getuid() else "This session belongs to another user."
