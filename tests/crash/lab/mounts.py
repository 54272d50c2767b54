"""Mounts and loop devices that cannot outlive the laboratory.

A worker that calls ``separate`` has a mount table of its own, which the kernel clears when the last
process in it is gone: a mount that a killed worker had made is nobody's burden, and the loop device
under it is freed with it. What is mounted in a ``with`` block is also unmounted at its end.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.crash.lab.packages import provided

_CLONE_NEWNS = 0x00020000
_PATIENCE_SECONDS = 5.0


class MountFailed(Exception):
    """A command did not do what was asked; says what it said."""


def command(*words: str | Path) -> None:
    """Run a command that must succeed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise MountFailed(f"{' '.join(map(str, words))}: {said or f'status {done.returncode}'}")


def separate() -> None:
    """Give this process, and those it starts, a mount table of their own."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS) != 0:
        number = ctypes.get_errno()
        raise MountFailed(f"unshare: {os.strerror(number)}")
    command("mount", "--make-rprivate", "/")


@cache
def why_not(*kinds: str) -> str | None:
    """Say why file systems of these kinds (``tmpfs``, ``ext4``, ``xfs``) cannot be mounted here.

    Tries it, in a process of its own; ``None`` if it works.
    """
    if os.geteuid() != 0:
        return "mounting needs root"
    for kind in kinds:
        tool = {"ext4": "mkfs.ext4", "xfs": "mkfs.xfs"}.get(kind)
        package = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}.get(kind, "")
        if tool is not None and not provided(tool, package):
            return f"{tool} is missing"
    pid = os.fork()
    if pid == 0:
        os._exit(_try(kinds))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return None if status == 0 else f"{' and '.join(kinds)} cannot be mounted here"


def _try(kinds: tuple[str, ...]) -> int:
    try:
        separate()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with mounted("tmpfs", folder, "size=1g"):
                for kind in kinds:
                    if kind != "tmpfs":
                        image = make_image(folder / "image", _SMALLEST[kind], kind)
                        with mounted(kind, folder / kind, "loop", source=image):
                            pass
    except (MountFailed, OSError):
        return 1
    return 0


_SMALLEST = {"ext4": 8 << 20, "xfs": 300 << 20}


def make_image(path: Path, size_bytes: int, kind: str) -> Path:
    """Make a file that holds an empty file system; it takes room only as it is used."""
    with path.open("wb") as image:
        image.truncate(size_bytes)
    if kind == "ext4":
        # All of it now: tables that the kernel writes later would be noise under a fault.
        lazy = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
        command("mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-E", lazy, path)
    else:
        command(f"mkfs.{kind}", "-q", "-f", path)
    return path


@contextmanager
def mounted(
    kind: str, target: Path, options: str = "", *, source: Path | None = None
) -> Iterator[Path]:
    """Mount for the time of a ``with`` block; with option ``loop`` the source is an image."""
    mount(kind, target, options, source=source)
    try:
        yield target
    finally:
        if os.path.ismount(target):
            unmount(target)


def mount(kind: str, target: Path, options: str = "", *, source: Path | None = None) -> None:
    """Mount at a folder, which is made if it is not there."""
    target.mkdir(parents=True, exist_ok=True)
    more = ["-o", options] if options else []
    command("mount", "-t", kind, *more, source or kind, target)


def unmount(target: Path) -> None:
    """Unmount; a process that has just been killed may hold it for a moment longer."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            command("umount", target)
        except MountFailed:
            if time.monotonic() > end:
                command("umount", "--lazy", target)
                raise
            time.sleep(0.02)
        else:
            return


def remount(target: Path, options: str) -> None:
    """Change the options of a mount."""
    command("mount", "-o", f"remount,{options}", target)
