"""The laboratory's own C code: compiled once, preloaded into a stage, and steered from there.

A library is built from ``tests/crash/native/<name>.c`` into a folder for temporary files, under a
name that holds a digest of its source: what is there is up to date.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from msgspec import Struct

from tests.crash.lab.packages import provided

_SOURCES = Path(__file__).resolve().parents[1] / "native"
# Not below the project: the loader takes a space in LD_PRELOAD for the end of a name.
_BUILT = Path(gettempdir()) / f"holdfast-crash-native-{os.geteuid()}"
_OPTIONS = ("-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Wno-nonnull-compare")

KILLS = ("before", "after", "torn")
"""Faults that the process does not outlive."""

ONCE = (*KILLS, "short", "eio", "enospc")
STAYS = ("eio-stays", "enospc-stays")
ONE_FILE = ("eio-file", "enospc-file")
LOST_SYNC = "lostsync"
ALL = (*ONCE, *STAYS, *ONE_FILE, LOST_SYNC)
"""Every fault; ``native/faults.c`` says what each of them does."""

# What a call must be capable of, by the letters of the log, for a fault to happen to it.
_NEEDS = {
    "torn": "b",
    "short": "b",
    "enospc": "r",
    "enospc-stays": "m",
    "enospc-file": "m",
    LOST_SYNC: "d",
}


def why_not() -> str | None:
    """Say why nothing can be compiled here, after an attempt to install a compiler; else None."""
    if _compiler() is None and not provided("gcc", "gcc", "libc6-dev"):
        return "there is no C compiler here: install gcc (Debian: apt-get install gcc libc6-dev)"
    return None


def library(name: str) -> Path:
    """Return a library, compiled if that was not done before."""
    source = _SOURCES / f"{name}.c"
    content = source.read_bytes() + repr(_OPTIONS).encode()
    target = _BUILT / f"{name}-{hashlib.sha256(content).hexdigest()[:16]}.so"
    if target.exists():
        return target
    compiler = _compiler()
    assert compiler is not None, why_not()
    _BUILT.mkdir(mode=0o700, exist_ok=True)
    if _BUILT.stat().st_uid != os.geteuid():
        raise RuntimeError(f"{_BUILT} belongs to somebody else; remove it.")
    # In a folder of its own, then renamed: workers may do this at the same time.
    folder = Path(mkdtemp(dir=_BUILT))
    try:
        made = folder / target.name
        command = [compiler, *_OPTIONS, "-o", str(made), str(source), "-ldl", "-lpthread"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        made.rename(target)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{source} does not compile:\n{error.stderr}") from error
    finally:
        shutil.rmtree(folder)
    return target


def _compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc")


class Operation(Struct, frozen=True):
    """A call that was counted: its number, name, what may go wrong with it, and on which path."""

    number: int
    name: str
    can: str
    path: str

    def may_meet(self, fault: str) -> bool:
        """Tell whether a fault can happen to it."""
        return _NEEDS.get(fault, "") in self.can


class Log(Struct, frozen=True):
    """What the injector noted: all calls, and the one that met the fault, if any did."""

    operations: list[Operation]
    struck: Operation | None


def read_log(path: Path) -> Log:
    """Read what the injector noted."""
    operations: list[Operation] = []
    struck = None
    for line in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        verb, number, name, can, where = line.split("\t", 4)
        operation = Operation(int(number), name, can, where)
        if verb == "struck":
            struck = operation
        else:
            operations.append(operation)
    return Log(operations, struck)


def preloaded() -> dict[str, str]:
    """Return the environment of a stage whose players can meet faults."""
    return {"LD_PRELOAD": str(library("faults"))}


def arming(root: Path, log: Path, fault: str, number: int, part: int = 500) -> list[str | int]:
    """Return what prepares a player: the fault it meets, and at which call below ``root``.

    ``part`` is how much of a write that is cut gets written, in thousandths.
    """
    return [f"{__name__}:arm", str(root), str(log), fault, number, part]


def arm(root: str, log: str, fault: str, number: int, part: int) -> None:
    """Arm the injector that is preloaded into this process."""
    root = os.path.realpath(root)  # as the kernel names the paths of descriptors
    assert not os.path.realpath(log).startswith(f"{root}/"), "the log would count itself"
    injector = ctypes.CDLL(None)
    done = injector.faults_arm(
        os.fsencode(root), os.fsencode(log), fault.encode(), ctypes.c_long(number), part
    )
    if done != 0:
        raise OSError(f"the injector cannot be armed with {fault}")


def disarm() -> None:
    """Let everything through from now on."""
    ctypes.CDLL(None).faults_disarm()
