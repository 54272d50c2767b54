"""Plays on a disk that says a sync failed, once, and has thrown the pages away."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import holdfast
from holdfast.files import Files
from tests.crash.lab.faults.player import Player
from tests.crash.lab.grounds import BLOCK_BYTES
from tests.crash.lab.scenario import piece_of, text_of
from tests.disk import contents

_SYNCING = ("sync", "append")
_SHUT_DOWN = 0x8004587D
_WITHOUT_FLUSHING_THE_LOG = struct.pack("I", 2)


class WatchedFiles(Files):
    """Notes each call that writes to a file; the failing is done by the disk."""

    in_one = True  # as in life: what fails is a call that writes and syncs

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, OSError | None]] = []

    def _watch(self, name: str, descriptor: int, call: Callable[[], Any]) -> Any:
        inode = os.fstat(descriptor).st_ino
        try:
            result = call()
        except OSError as error:
            self.calls.append((name, inode, error))
            raise
        self.calls.append((name, inode, None))
        return result

    def write(self, descriptor: int, data: bytes) -> int:
        written: int = self._watch("write", descriptor, lambda: Files.write(self, descriptor, data))
        return written

    def append(self, descriptor: int, data: bytes, end: int) -> int:
        def call() -> int:
            return Files.append(self, descriptor, data, end)

        written: int = self._watch("append", descriptor, call)
        return written

    def truncate(self, descriptor: int, size: int) -> None:
        self._watch("truncate", descriptor, lambda: Files.truncate(self, descriptor, size))

    def sync(self, descriptor: int) -> None:
        self._watch("sync", descriptor, lambda: Files.sync(self, descriptor))

    def unlink(self, path: Any) -> None:
        """Forget a file that goes: its number may be another's next."""
        try:
            inode = os.lstat(path).st_ino
        except FileNotFoundError:
            inode = 0
        super().unlink(path)
        self.calls.append(("unlink", inode, None))

    def failed_syncs(self) -> list[int]:
        """Return the files of which a sync failed, each as often as it did."""
        return [
            inode for name, inode, error in self.calls if name in _SYNCING and error is not None
        ]

    def used_after_failing(self) -> list[tuple[str, int, OSError | None]]:
        """Return what was done to a file after its sync had failed."""
        failed: set[int] = set()
        found = []
        for name, inode, error in self.calls:
            if name == "unlink":
                failed.discard(inode)
            elif inode in failed:
                found.append((name, inode, error))
            if name in _SYNCING and error is not None:
                failed.add(inode)
        return found


def _opened(player: Player, files: Files) -> holdfast.Session:
    """Return a session with some messages, whose journal ends where a block ends."""
    session = player.create(holdfast.open_store(player.ground.home, files=files))
    player.append(session, "blob")
    player.append(session, count=player.random.randrange(1, 9))
    player.append(session)
    _fill_block(session)
    return session


def _fill_block(session: holdfast.Session) -> None:
    """Append so that the journal ends where a block ends."""
    journal = session.path / "journal.jsonl"
    padding = 0
    while (before := journal.stat().st_size) % BLOCK_BYTES:
        session.event("padding", "x" * padding)
        after = journal.stat().st_size
        line = after - before - padding  # but for a digit more in the numbers
        padding = (-after - line) % BLOCK_BYTES


def _never_used_again(player: Player, files: WatchedFiles) -> None:
    used = files.used_after_failing()
    player.rule("a file whose sync failed is never written or synced again", not used, used)


def _really_fails(player: Player, files: WatchedFiles) -> bool:
    failed = files.failed_syncs()
    if failed:
        player.fact("syncs that failed")
    return player.rule("the sync really fails", failed, files.calls[-5:])


# Plays


def continues(player: Player) -> None:
    """The blocks behind the journal fail; the rest of the disk is well."""
    files = WatchedFiles()
    session = _opened(player, files)
    journal = session.path / "journal.jsonl"
    end = journal.stat().st_size
    player.ground.break_behind(journal)
    attempt = player.append(session, count=player.random.randrange(1, 5))
    if not _really_fails(player, files):
        return
    player.works("the append goes on elsewhere", attempt)
    player.rule("in journal.2.jsonl", attempt.result.segment == 2, attempt.result)
    player.rule("all is well", session.trouble is None, session.trouble)
    for _ in range(3):
        player.works("so do others", player.append(session))
    player.works("closing works", player.attempt("close", session.close))
    _never_used_again(player, files)
    player.dropped(journal, end)


def waits(player: Player, full: str = "below") -> None:
    """The blocks behind the journal fail, and there is no room for another file.

    ``full`` says why: ``below``, where the disk itself gets its room, or on the ``disk``.
    """
    files = WatchedFiles()
    session = _opened(player, files)
    journal = session.path / "journal.jsonl"
    end = journal.stat().st_size
    player.ground.break_behind(journal)
    if full == "below":
        player.ground.break_free_blocks()
    else:
        player.ground.fill()
    refused = player.append(session)
    if not _really_fails(player, files):
        return
    player.fails("without room it is refused as DiskFull", refused, holdfast.DiskFull)
    player.rule("session.trouble says so", session.trouble is not None)
    time.sleep(0.7)  # one retry
    player.ground.mend()
    player.ground.free()
    player.soon("it is written by itself", lambda: session.trouble is None, lambda: session.trouble)
    position = session.append([holdfast.user(text_of(refused.labels[0]))])
    player.promised(refused, position)
    player.rule("in journal.2.jsonl", position.segment == 2, position)
    player.works("appending goes on", player.append(session))
    player.works("closing works", player.attempt("close", session.close))
    _never_used_again(player, files)
    player.dropped(journal, end)


def blob(player: Player) -> None:
    """A large payload cannot be synced."""
    files = WatchedFiles()
    session = _opened(player, files)
    player.ground.break_free_blocks()
    refused = player.append(session, "blob")
    if not _really_fails(player, files):
        return
    player.fails("it is refused as DiskFull", refused, holdfast.DiskFull)
    player.ground.mend()
    player.soon("it is written by itself", lambda: session.trouble is None, lambda: session.trouble)
    player.promised(refused, session.append([holdfast.user(text_of(refused.labels[0]))]))
    player.works("closing works", player.attempt("close", session.close))
    _never_used_again(player, files)


def compacted(player: Player) -> None:
    """The copy that a compaction makes cannot be synced."""
    files = WatchedFiles()
    session = _opened(player, files)
    player.attempt("compact", session.compact)
    player.append(session)
    player.ground.break_free_blocks()
    before = contents(session.path)
    refused = player.attempt("compact", session.compact)
    if not _really_fails(player, files):
        return
    player.fails("the compaction is refused", refused)
    player.rule("everything is as it was", contents(session.path) == before)
    player.ground.mend()
    player.works("appending goes on", player.append(session))
    player.works("compacting works again", player.attempt("compact", session.compact))
    player.works("closing works", player.attempt("close", session.close))
    _never_used_again(player, files)


def streamed(player: Player) -> None:
    """Streamed text cannot be synced, then it can; then the power fails."""
    files = WatchedFiles()
    session = _opened(player, files)
    player.ground.break_free_blocks()
    label = player.label("stream")
    stream = player.attempt("stream", session.stream, label=label).result
    for number in range(2):
        write = partial(stream.write, piece_of(label, number))
        player.attempt("piece", write, label=label, number=number)
    if player.soon("the sync really fails", files.failed_syncs):
        player.fact("syncs that failed")
    time.sleep(player.random.random())
    player.ground.mend()
    calls = len(files.calls)

    def synced() -> bool:
        live = (session.path / "live.jsonl").stat().st_ino
        return ("sync", live, None) in files.calls[calls:]

    player.soon("the text is written to a file that can be synced", synced)
    _never_used_again(player, files)
    player.written(label, 2)
    os.kill(os.getpid(), signal.SIGKILL)


def dead(player: Player) -> None:
    """Every write and sync fails with EIO from some moment on, and most reads, too."""
    store = holdfast.open_store(player.ground.home)
    session = player.create(store)
    player.append(session, count=player.random.randrange(1, 9))
    last = player.append(session).result
    other = player.another("b")
    closed = other.create(store)
    other.append(closed)
    other.attempt("close", closed.close)
    loaded = player.random.random() < 0.5 and session.messages != []
    player.fact("disks that died")
    root = os.open(player.ground.disk, os.O_RDONLY)
    fcntl.ioctl(root, _SHUT_DOWN, _WITHOUT_FLUSHING_THE_LOG)
    os.close(root)

    refused = player.append(session, count=3)
    player.fails("appending raises WriteFailed", refused, holdfast.WriteFailed)
    if isinstance(refused.error, holdfast.WriteFailed):
        found = refused.error.last_durable
        player.rule("it says what is safe", found == last.seq, f"({found}, not {last.seq})")
    trouble = session.trouble
    player.rule("session.trouble says so", isinstance(trouble, holdfast.WriteFailed), trouble)
    again = player.append(session)
    player.fails("so does the next append", again, holdfast.WriteFailed)
    exported = player.no_strange_error("an export", session.export) or ""
    wanted = [*refused.labels, *(["a1"] if loaded else [])]  # else only the disk has that
    missing = [label for label in wanted if f'"{label}: ' not in exported]
    player.rule("everything in memory can be exported", not missing, missing)
    for name, call in (
        ("opening", lambda: store.open(closed.id)),
        ("opening to read", lambda: store.open(closed.id, mode="read")),
        ("listing", store.list),
        ("searching", lambda: store.search("a1")),
        ("verifying", lambda: store.verify(closed.id)),
        ("deleting", lambda: store.delete(closed.id)),
        ("following", lambda: list(session.follow(wait=False))),
        ("forking", session.fork),
        ("compacting", session.compact),
        ("streaming", lambda: session.stream().write("text")),
        ("a checkpoint", lambda: session.checkpoint("so far")),
        ("a rewind", lambda: session.rewind(None)),
        ("a new session", lambda: store.create().append(holdfast.user("first"))),
    ):
        player.no_strange_error(name, call)
    player.attempt("close", session.close)


def dead_reopened(player: Player) -> None:
    """The disk dies under a session whose messages were not read yet."""
    store = holdfast.open_store(player.ground.home)
    session = player.create(store)
    player.append(session, count=player.random.randrange(1, 9))
    player.attempt("close", session.close)
    session = player.attempt("open", lambda: store.open(session.id)).result
    root = os.open(player.ground.disk, os.O_RDONLY)
    fcntl.ioctl(root, _SHUT_DOWN, _WITHOUT_FLUSHING_THE_LOG)
    os.close(root)
    refused = player.append(session, count=3)
    player.fails("appending raises WriteFailed", refused, holdfast.WriteFailed)
    for name, call in (
        ("looking at messages", lambda: session.messages),
        ("the context", session.context),
        ("an export", session.export),
        ("a summary", lambda: session.summary),
        ("appending with an id", lambda: session.append(holdfast.user("x"), id="x")),
    ):
        player.no_strange_error(name, call)
    player.attempt("close", session.close)


def followed(player: Player) -> None:
    """A writer dies before its sync, and the follower's own sync fails."""
    store = holdfast.open_store(player.ground.home)
    session = _opened(player, Files())
    journal = session.path / "journal.jsonl"
    end = journal.stat().st_size
    player.attempt("close", session.close)
    reader = store.open(session.id, mode="read")
    label = player.label()
    player.attempt("submit", lambda: None, labels=[label])
    pid = os.fork()
    if pid == 0:
        writer = holdfast.open_store(player.ground.home, files=_Dying()).open(session.id)
        player.ground.break_free_blocks()
        _Dying.armed = True
        writer.append(holdfast.user(text_of(label)))
    os.waitpid(pid, 0)
    player.rule("an entry was written", journal.stat().st_size > end)
    follower = reader.follow(wait=False)
    for _ in range(3):  # the kernel says it once; whoever asks again must not believe it
        seen = player.no_strange_error("following", follower.poll) or []
        shown = any(isinstance(entry, holdfast.Entry) and _is(entry, label) for entry in seen)
        player.rule("what cannot be synced is not shown", not shown, seen)
    follower.close()
    reader.close()
    player.fact("syncs that failed")
    player.dropped(journal, end)


def _is(entry: holdfast.Entry, label: str) -> bool:
    return isinstance(entry.body, holdfast.Message) and entry.body.text == text_of(label)


class _Dying(Files):
    """Ends the process at the sync that follows a write."""

    armed = False

    def sync(self, descriptor: int) -> None:
        if _Dying.armed:
            os.kill(os.getpid(), signal.SIGKILL)
        super().sync(descriptor)
