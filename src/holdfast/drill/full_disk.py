"""A disk that fills up in the middle of a turn, and has room again later.

The small disk is a tmpfs in a mount namespace of its own, which needs no privileges where users may
have namespaces, and is gone with its last process. Where there is none, a limit on the size of
files stands in for it, and the finding says so; where that cannot be set from outside either, the
scenario is left out.
"""

from __future__ import annotations

import json
import resource
import subprocess
import time
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from holdfast.drill.checks import ShownText, in_order, judge, ran
from holdfast.drill.pty import PATIENCE_SECONDS, PtyScreen, StuckError
from holdfast.drill.results import DrillResult, Moments
from holdfast.drill.sandbox import Sandbox
from holdfast.files import Files
from holdfast.store.programs import current_folder, find_program

_PROMPT = "the drill"
# More than the writer keeps in reserve, and in few pieces: what counts is the size.
_TEXT = "".join(f"{number:04d}{'.' * 4091} " for number in range(400))
_HOLD = "hold"
_COMMAND = (
    f"echo only began >> ../marks; while [ -e ../{_HOLD} ]; do sleep 0.02; done; "
    "echo only ended >> ../marks"
)
_NO_ROOM = "Disk full"
_IN_NAMESPACE = ("--user", "--map-root-user", "--mount", "/bin/sh", "-c")
_TRY = 'mount -t tmpfs -o size=1m holdfast "$0"'
# Mounts the small disk on the home, fills it and makes room again when it is told to, runs the
# program, and keeps a copy of what is on the disk, which is gone with this process.
_ON_SMALL_DISK = """
home=$1 folder=$2; shift 2
mount -t tmpfs -o size=16m,mode=0700 holdfast "$home" || exit 1
( while ! [ -e "$folder/fill" ]; do sleep 0.02; done
  cat /dev/zero > "$home/ballast" 2> /dev/null
  : > "$folder/filled"
  while ! [ -e "$folder/free" ]; do sleep 0.02; done
  rm "$home/ballast" ) > /dev/null 2>&1 &
"$@"
code=$?
cp -R "$home" "$folder/kept"
exit $code
"""
_NOT_ENTRIES = ("session", "recovery", "result")
_files = Files()


class _Disk(Protocol):
    """What can be filled: ``before`` runs the program on it, ``kept`` is the home afterwards."""

    before: tuple[str, ...]
    kept: Path
    note: str | None

    def fill(self, screen: PtyScreen) -> None:
        """Leave no room."""

    def free(self, screen: PtyScreen) -> None:
        """Make room."""


class _SmallDisk:
    """A home on a disk of its own."""

    note: str | None = None

    def __init__(self, ground: Sandbox) -> None:
        self._ground = ground
        self.kept = ground.folder / "kept"
        folders = (str(ground.home), str(ground.folder))
        self.before: tuple[str, ...] = (*_namespace(), _ON_SMALL_DISK, "sh", *folders)

    def fill(self, screen: PtyScreen) -> None:
        self._ground.put("fill")
        screen.until(lambda: self._ground.has("filled"), "a full disk")

    def free(self, screen: PtyScreen) -> None:  # noqa: ARG002  a limit needs it
        self._ground.put("free")


class _Limit:
    """A limit on the size of the program's files, in the place of a small disk."""

    before: tuple[str, ...] = ()

    def __init__(self, ground: Sandbox, why: str) -> None:
        self.kept = ground.home
        self.note: str | None = (
            f"no small disk could be created here ({why}); a file size limit was used instead"
        )

    def fill(self, screen: PtyScreen) -> None:
        journals = self.kept.glob("sessions/*/*/journal.jsonl")
        self._limit(screen, max(path.stat().st_size for path in journals))

    def free(self, screen: PtyScreen) -> None:
        self._limit(screen, None)

    def _limit(self, screen: PtyScreen, size: int | None) -> None:
        pid, kind = screen.process.pid, resource.RLIMIT_FSIZE
        hard = resource.prlimit(pid, kind)[1]
        resource.prlimit(pid, kind, (hard if size is None else size, hard))


class _Seen(Struct, frozen=True):
    """What was seen of the turn: what it had shown when it told that there is no room, and when."""

    shown: str
    exit_code: int
    recovery_seconds: float
    moments: Moments


def disk_filled(ground: Sandbox, name: str, title: str) -> DrillResult:
    """Fill the disk under a turn, see that it is told and waited for, and make room again."""
    disk = _disk(ground)
    if isinstance(disk, str):
        return DrillResult(name, title, "left_out", note=disk)
    try:
        seen = _seen(ground, disk)
    except PermissionError as error:  # by a limit that may not be set, here and only here
        return DrillResult(name, title, "left_out", note=f"{disk.note}, but: {error.strerror}")
    lines = _entries(seen.shown)
    session = _session(seen.shown)
    kept, problems = in_order(lines, _journal(disk.kept))
    commands = ran(ground.marks(), ["only"])
    if _NO_ROOM not in ground.errors:
        problems.append("the program did not report that the disk is full")
    problems += commands.problems + judge(
        disk.kept, session, ShownText(["", _TEXT], ["[no output]"])
    )
    if seen.exit_code:
        problems.append(f"it exited with {seen.exit_code}: {ground.last_error}")
    return DrillResult(
        name=name,
        title=title,
        state="failed" if problems else "survived",
        session=session,
        shown_characters=sum(len(line) + 1 for line in lines),
        survived_characters=kept,
        commands=commands.commands,
        run_twice=commands.twice,
        recovery_seconds=seen.recovery_seconds,
        moments=seen.moments,
        problems=problems,
        note=disk.note,
    )


def _seen(ground: Sandbox, disk: _Disk) -> _Seen:
    """Run the turn from its beginning to its end."""
    ground.put(_HOLD)
    ground.write_script({"call": "bash", "arguments": {"command": _COMMAND}}, {"say": _TEXT})
    screen = ground.on_pipe(
        *("-p", _PROMPT, "--script", str(ground.script), "--output-format", "stream-json"),
        before=disk.before,
    )
    screen.until(ground.marks, "the command")
    began = screen.first or time.monotonic()
    disk.fill(screen)
    blow = time.monotonic() - began
    ground.take(_HOLD)
    screen.until(lambda: _NO_ROOM in ground.errors or not screen.is_open, "a word on the disk")
    shown = screen.text
    freed = time.monotonic() - began
    disk.free(screen)
    screen.until(lambda: len(screen.text) > len(shown) or not screen.is_open, "the next entry")
    back = time.monotonic() - began
    screen.whole()
    moments = Moments.rounded(blow, back, time.monotonic() - began)
    return _Seen(shown, screen.process.returncode, round(back - freed, 3), moments)


def _disk(ground: Sandbox) -> _Disk | str:
    """Return the best disk that can be filled here; else why there is none, as a clause."""
    why = _why_no_small_disk(ground)
    if why is None:
        return _SmallDisk(ground)
    if hasattr(resource, "prlimit"):
        return _Limit(ground, why)
    return f"no small disk could be created here ({why}), nor a file size limit"


def _namespace() -> tuple[str, ...]:
    return (find_program("unshare", current_folder()) or "unshare", *_IN_NAMESPACE)


def _why_no_small_disk(ground: Sandbox) -> str | None:
    try:
        tried = subprocess.run(  # noqa: S603  words of our own
            [*_namespace(), _TRY, str(ground.home)],
            env=ground.environment,
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unshare: {error.strerror}" if isinstance(error, OSError) else "it takes too long"
    said = tried.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2].rstrip(".")
    return None if not tried.returncode else said or f"unshare exited with {tried.returncode}"


def _session(shown: str) -> str:
    first, whole, _ = shown.partition("\n")
    if not whole:
        raise StuckError("the program did not print its session id")
    return str(json.loads(first)["session_id"])


def _entries(shown: str) -> list[str]:
    """Return the whole lines that were shown and are entries of the journal."""
    lines = shown.split("\n")[:-1]
    return [line for line in lines if json.loads(line)["type"] not in _NOT_ENTRIES]


def _journal(home: Path) -> list[str]:
    """Return all lines of the journal, as they are on the disk."""
    paths = sorted(home.glob("sessions/*/*/journal*.jsonl"))
    if not paths:
        raise StuckError("no journal was found on the full disk")
    return b"".join(map(_files.read_whole, paths)).decode("utf-8", "replace").split("\n")
