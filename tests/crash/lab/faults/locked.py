"""Plays with disks and files that may be read and not be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import holdfast
from tests.crash.lab import mounts
from tests.crash.lab.faults.player import Player
from tests.crash.lab.scenario import text_of
from tests.disk import snapshot


def _opened(player: Player) -> tuple[holdfast.Store, holdfast.Session]:
    store = holdfast.open_store(player.ground.home)
    session = player.create(store)
    player.append(session, "blob")
    player.append(session, count=player.random.randrange(1, 9))
    player.append(session)
    return store, session


def _stays_readable(player: Player, store: holdfast.Store, session_id: str, count: int) -> None:
    """State that everything that only reads works."""
    read = player.attempt("read", lambda: store.open(session_id, mode="read"))
    if player.works("opening to read works", read):
        with read.result as reader:
            player.rule("all messages are there", len(reader.messages) == count)
            player.no_strange_error("following", lambda: list(reader.follow(wait=False)))
    player.rule("it is listed", session_id in [each.id for each in store.list()])
    player.rule("it can be searched", store.search("a2: "))
    player.rule("it verifies", store.verify(session_id).messages == count)


@contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    mounts.command("mount", "--bind", folder, folder)
    try:
        mounts.remount(folder, "ro,bind")
        yield
    finally:
        mounts.unmount(folder)


def mounted_read_only(player: Player) -> None:
    """The home is mounted read-only before anything is opened."""
    store, session = _opened(player)
    count = len(session.messages)
    if player.random.random() < 0.5:
        with (session.path / "live.jsonl").open("wb") as live:
            live.write(b"torn")
    player.attempt("close", session.close)
    store.list()
    with _read_only(player.ground.home):
        before = snapshot(player.ground.home)
        refused = player.attempt("open", lambda: store.open(session.id))
        player.fails("opening to write is refused", refused)
        player.rule("in one sentence", _is_sentence(refused.error), refused.error)
        _stays_readable(player, store, session.id, count)
        other = player.another("b")
        made = other.create(store)
        first = other.append(made)
        other.fails("a new session is refused with its first entry", first)
        player.rule("in one sentence", _is_sentence(first.error), first.error)
        other.rule("an export still has it", '"b1: ' in made.export())
        other.attempt("close", made.close)
        for name, call in (
            ("deleting", lambda: store.delete(session.id)),
            ("cleaning up", lambda: store.cleanup(0.0)),
        ):
            player.fails(f"{name} is refused", player.attempt("delete", call))
        player.rule("nothing changed", snapshot(player.ground.home) == before)
    again = player.attempt("open", lambda: store.open(session.id))
    if player.works("writable again it opens", again):
        player.works("appending goes on", player.append(again.result))
        player.attempt("close", again.result.close)


def _is_sentence(error: Exception | None) -> bool:
    text = str(error)
    return isinstance(error, holdfast.HoldfastError) and "\n" not in text and text.endswith(".")


def turned_read_only(player: Player) -> None:
    """The file system finds itself damaged and turns read-only under a writer."""
    store, session = _opened(player)
    kept = session.messages
    device = os.stat(player.ground.disk).st_dev
    name = os.path.basename(os.readlink(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
    Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("the laboratory")
    last = session.state.seq
    refused = player.append(session, count=2)
    player.fails("appending raises WriteFailed", refused, holdfast.WriteFailed)
    if isinstance(refused.error, holdfast.WriteFailed):
        player.fact("disks that turned read-only")
        player.rule("it says what is safe", refused.error.last_durable == last)
    player.fails("so does the next", player.append(session), holdfast.WriteFailed)
    player.rule("messages are as they were", session.messages == kept)
    exported = session.export()
    player.rule("an export has all", all(f'"{x}: ' in exported for x in refused.labels))
    _stays_readable(player, store, session.id, len(kept))
    label = player.label("stream")
    stream = player.attempt("stream", session.stream, label=label)
    if stream.error is None:
        piece = f"{label}: "
        player.attempt("piece", lambda: stream.result.write(piece), label=label, number=0)
        finished = player.attempt("finish", stream.result.finish, label=label)
        player.fails("a stream fails when it is finished", finished)
    for op in ("compact", "fork"):
        player.fails(f"{op} is refused", player.attempt(op, getattr(session, op)))
    player.attempt("close", session.close)
    player.rule("closing lets go", session.read_only or _is_closed(session))


def _is_closed(session: holdfast.Session) -> bool:
    try:
        session.append(holdfast.user("more"))
    except holdfast.UsageError:
        return True
    except holdfast.HoldfastError:
        return False
    return False


def immutable(player: Player, when: str) -> None:
    """The journal may not be changed, from before the opening or from the middle of a session."""
    store, session = _opened(player)
    journal = session.path / "journal.jsonl"
    count = len(session.messages)
    if when == "before":
        player.attempt("close", session.close)
        with _attribute(journal, "i"):
            refused = player.attempt("open", lambda: store.open(session.id))
            player.fails("opening to write is refused", refused)
            player.rule("in one sentence", _is_sentence(refused.error), refused.error)
            _stays_readable(player, store, session.id, count)
    else:
        with _attribute(journal, "i"):
            attempt = player.append(session)
            player.works("the session goes on in another file", attempt)
            if attempt.error is None:
                player.rule("journal.2.jsonl", attempt.result.segment == 2, attempt.result)
            player.works("and on", player.append(session))
            refused = player.attempt("compact", session.compact)
            player.fails("compacting is refused", refused)
            player.works("which does no harm", player.append(session))
            player.works("closing works", player.attempt("close", session.close))
            _stays_readable(player, store, session.id, count + 3)
            again = player.attempt("open", lambda: store.open(session.id))
            if player.works("it opens again", again):
                player.works("and goes on", player.append(again.result))
                player.attempt("close", again.result.close)
    again = player.attempt("open", lambda: store.open(session.id))
    if player.works("free again it opens", again):
        player.works("appending goes on", player.append(again.result))
        player.works("compacting works", player.attempt("compact", again.result.compact))
        player.attempt("close", again.result.close)


def append_only(player: Player) -> None:
    """The journal may be appended to and nothing else: all that a session needs."""
    store, session = _opened(player)
    journal = session.path / "journal.jsonl"
    with _attribute(journal, "a"):
        for _ in range(3):
            attempt = player.append(session)
            if player.works("appending works", attempt):
                player.rule("in the same file", attempt.result.segment == 1, attempt.result)
        player.works("closing works", player.attempt("close", session.close))
        again = player.attempt("open", lambda: store.open(session.id))
        if player.works("opening works", again):
            attempt = player.append(again.result)
            player.works("and appending", attempt)
            player.rule("in the same file", attempt.result.segment == 1, attempt.result)
            # What is torn can be neither cut off nor overwritten: it is left, behind a new file.
            player.ground.fill()
            refused = player.append(again.result, "blob")
            player.fails("a full disk is still a full disk", refused, holdfast.DiskFull)
            player.ground.free()
            player.soon("and written by itself", lambda: again.result.trouble is None)
            player.promised(
                refused, again.result.append([holdfast.user(text_of(refused.labels[0]))])
            )
            player.works("closing works", player.attempt("close", again.result.close))


@contextmanager
def _attribute(path: Path, name: str) -> Iterator[None]:
    mounts.command("chattr", f"+{name}", path)
    try:
        yield
    finally:
        mounts.command("chattr", f"-{name}", path)
