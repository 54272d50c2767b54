"""Plays in a process that runs out of something: descriptors, memory, room for its files."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import holdfast
from tests.crash.lab import scenario
from tests.crash.lab.faults.player import Attempt, Player
from tests.crash.lab.grounds import Ground
from tests.crash.lab.scenario import piece_of, text_of
from tests.crash.lab.witness import Witness

_DESCRIPTORS = 200
_MOST_FREE = 7  # no call of the store needs more at once
_MEBIBYTE = 1 << 20
_OUTLIVED_SECONDS = 10.0
_HELD: list[object] = []


# Descriptors


@contextmanager
def _starved(free: int) -> Iterator[None]:
    """Leave this process so many descriptors and no more."""
    _, hard = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, hard))
    taken: list[int] = []
    with suppress(OSError):
        while True:
            taken.append(os.dup(0))
    try:
        for _ in range(free):
            os.close(taken.pop())
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def descriptors(player: Player, call: str) -> None:
    """Make one call with no descriptor free, with one, with two … and again when there are enough.

    It works, or is refused with an error of Holdfast's own; and then works when there are enough.
    """
    store = holdfast.open_store(player.ground.home)
    before = _count_open()
    for free in range(_MOST_FREE):
        other = player.another(chr(ord("a") + free))
        session = _prepared(other, store)
        act = _CALLS[call]
        with _starved(free):
            first = _tried(other, act, store, session)
        if first.error is not None:
            player.fact(f"refused for want of descriptors: {call}")
        elif isinstance(first.result, holdfast.Session):
            first.result.close()
        again = _tried(other, act, store, session)
        if other.works(f"{call} works when descriptors are free again, not {free}", again):
            _look(other, again)
        other.works(f"so does appending after {call} with {free}", other.append(session))
        other.works("closing works", other.attempt("close", session.close))
    store.close()
    left = _count_open() - before
    player.rule(f"no descriptor is left open by {call}", left <= 0, f"({left})")


def _prepared(player: Player, store: holdfast.Store) -> holdfast.Session:
    session = player.create(store)
    player.append(session, "blob")
    player.append(session, count=3)
    if player.random.random() < 0.5:
        assert session.messages  # then they are in memory, and need not be read again
    return session


def _count_open() -> int:
    return sum(1 for number in range(_DESCRIPTORS) if _is_open(number))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _tried(
    player: Player,
    act: Callable[[Player, holdfast.Store, holdfast.Session], Attempt],
    store: holdfast.Store,
    session: holdfast.Session,
    *allowed: type[Exception],
) -> Attempt:
    """Make a call; an error that is not Holdfast's own breaks a rule and counts as a refusal."""
    player.tolerated = (Exception,)
    try:
        attempt = act(player, store, session)
    except allowed as error:  # the laboratory itself ran out of it
        attempt = Attempt(0, [], error=error)
    finally:
        player.tolerated = ()
    strange = attempt.error
    fine = strange is None or isinstance(strange, (holdfast.HoldfastError, *allowed))
    player.rule("no error escapes that is not Holdfast's", fine, f"({strange!r})")
    return attempt


def _look(player: Player, attempt: Attempt) -> None:
    """Make sure that what a call returned is of use; close it."""
    if isinstance(attempt.result, holdfast.Session):
        player.rule("what was opened has messages", attempt.result.messages)
        attempt.result.close()


def _open_to_read(player: Player, store: holdfast.Store, session: holdfast.Session) -> Attempt:
    return player.attempt("read", lambda: store.open(session.id, mode="read"))


def _read_closed(player: Player, store: holdfast.Store, session: holdfast.Session) -> Attempt:
    return player.attempt("read", lambda: _texts_of(store, session))


def _texts_of(store: holdfast.Store, session: holdfast.Session) -> list[str]:
    # The messages are those of another object than the writer's: it has them in memory.
    with store.open(session.id, mode="read") as reader:
        messages = reader.messages
    # A blob that could not be opened is not a blob that is missing.
    assert all(message.content[0].blob is None for message in messages), "only a preview"
    return [message.text for message in messages]


def _export(player: Player, store: holdfast.Store, session: holdfast.Session) -> Attempt:
    del store
    attempt = player.attempt("export", session.export)
    if attempt.error is None:
        player.rule("an export has the whole blob", '"blob":' not in attempt.result)
    return attempt


def _append(player: Player, store: holdfast.Store, session: holdfast.Session) -> Attempt:
    del store
    return player.append(session)


def _append_with_id(player: Player, store: holdfast.Store, session: holdfast.Session) -> Attempt:
    del store
    label = player.label()
    message = holdfast.user(text_of(label))
    return player.attempt("append", lambda: session.append(message, id=label), labels=[label])


def _append_blob(player: Player, store: holdfast.Store, session: holdfast.Session) -> Attempt:
    del store
    return player.append(session, "blob")


def _create(player: Player, store: holdfast.Store, session: holdfast.Session) -> Attempt:
    del session
    made = store.create()
    _HELD.append(made)  # its entry may wait, and be written later: until then it is open
    return player.attempt("create another", lambda: made.append(holdfast.user("hello")))


def _stream(player: Player, store: holdfast.Store, session: holdfast.Session) -> Attempt:
    del store
    label = player.label("stream")
    stream = player.attempt("stream", session.stream, label=label).result
    for number in range(2):
        write = partial(stream.write, piece_of(label, number))
        player.attempt("piece", write, label=label, number=number)
        time.sleep(0.06)
    return player.attempt("finish", stream.finish, label=label)


def _checkpoint(player: Player, store: holdfast.Store, session: holdfast.Session) -> Attempt:
    del store
    label = player.label("summary")
    return player.attempt(
        "checkpoint",
        lambda: session.checkpoint([holdfast.user(text_of(label))], keep_last=2),
        summary=label,
        keep_last=2,
    )


def _simple(
    op: str, call: Callable[[holdfast.Store, holdfast.Session], Any]
) -> Callable[[Player, holdfast.Store, holdfast.Session], Attempt]:
    return lambda player, store, session: player.attempt(op, lambda: call(store, session))


_CALLS: dict[str, Callable[[Player, holdfast.Store, holdfast.Session], Attempt]] = {
    "append": _append,
    "append with id": _append_with_id,
    "blob": _append_blob,
    "checkpoint": _checkpoint,
    "create": _create,
    "stream": _stream,
    "open to read": _open_to_read,
    "messages": _read_closed,
    "export": _export,
    "follow": _simple("follow", lambda _, session: list(session.follow(wait=False, live=True))),
    "fork": _simple("fork", lambda _, session: session.fork()),
    "compact": _simple("compact", lambda _, session: session.compact()),
    "list": _simple("list", lambda store, _: store.list()),
    "search": _simple("search", lambda store, _: store.search("a1")),
    "verify": _simple("verify", lambda store, session: store.verify(session.id)),
    "event": _simple("event", lambda _, session: session.event("name", "value")),
}
CALLS = [*_CALLS]


_CALLS_ON_CLOSED = {
    "open": _simple("open", lambda store, session: store.open(session.id)),
    "open by a part": _simple("open", lambda store, session: store.open(session.id[:-1])),
    "delete": _simple("delete", lambda store, session: store.delete(session.id)),
    "restore": _simple("restore", lambda store, session: store.restore(session.id)),
}


def descriptors_at_open(player: Player) -> None:
    """Open a session with no descriptor free, with one, with two …; then delete and restore it."""
    store = holdfast.open_store(player.ground.home)
    for free in range(_MOST_FREE):
        other = player.another(chr(ord("a") + free))
        session = _prepared(other, store)
        other.attempt("close", session.close)
        for name, act in _CALLS_ON_CLOSED.items():
            with _starved(free):
                first = _tried(other, act, store, session)
            if isinstance(first.result, holdfast.Session):
                first.result.close()
            if first.error is not None:
                player.fact(f"refused for want of descriptors: {name}")
                again = _tried(other, act, store, session)
                if other.works(f"{name} works when there are more than {free}", again):
                    _look(other, again)


# Memory


@contextmanager
def _short_of_memory(more: int) -> Iterator[None]:
    """Let this process have so many bytes more than it has, and no more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        everything = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.setrlimit(resource.RLIMIT_AS, everything)


def memory(player: Player) -> None:
    """Calls meet MemoryError somewhere inside. It may escape, for it is Python's; nothing is lost.

    Afterwards the same session goes on, or says that it does not; a new opening does.
    """
    store = holdfast.open_store(player.ground.home)
    store.list()  # what is imported late is imported now
    for number in range(8):
        other = player.another(chr(ord("a") + number))
        session = _prepared(other, store)
        more = int(2 ** other.random.uniform(12, 21))
        for name in ("append", "blob", "stream", "checkpoint", "compact", "export"):
            with _short_of_memory(more):
                attempt = _tried(other, _CALLS[name], store, session, MemoryError)
            if isinstance(attempt.error, MemoryError):
                player.fact("calls that ran out of memory")
        other.works("appending goes on", other.append(session))
        other.works("closing works", other.attempt("close", session.close))


def threads(player: Player, group: str) -> None:
    """No thread can be started: what threads do in the background is done all the same."""
    store = holdfast.open_store(player.ground.home)
    session = _prepared(player, store)
    join(group)
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        player.fact("threads that could not be started")
    label = player.label()
    submitted = player.attempt(
        "submit", lambda: session.submit(holdfast.user(text_of(label))), labels=[label]
    )
    if player.works("submitting works without threads", submitted):
        player.works("so does waiting", player.attempt("wait", submitted.result.wait, label=label))
    player.works("so does a stream", _stream(player, store, session))
    player.works("so does a checkpoint", _checkpoint(player, store, session))
    player.works("appending goes on", player.append(session))
    player.works("closing works", player.attempt("close", session.close))


def join(group: str) -> None:
    """Join a control group."""
    with open(f"{group}/cgroup.procs", "w") as members:
        members.write(str(os.getpid()))


def use_up_memory(group: str, after_seconds: float) -> None:
    """Join a control group with a limit, and after some time take more than it allows."""
    join(group)

    def take() -> None:
        time.sleep(after_seconds)
        taken = []
        while True:
            taken.append(b"x" * _MEBIBYTE)

    threading.Thread(target=take, daemon=True).start()


def life_and_death(home: Path, witness: Witness, variant: str) -> None:
    """Play the scenario, then wait for the end that is on its way."""
    scenario.run(home, witness, variant)
    time.sleep(_OUTLIVED_SECONDS)


# The scenario under limits


def limit_file_size(size_bytes: int) -> None:
    """Let no file of this process become longer."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))


def limit_descriptors(free: int) -> None:
    """Let this process have so many more descriptors than it has."""
    for name in holdfast.__all__:
        getattr(holdfast, name)  # modules are files, too, and are not what is tried here
    forever = _starved(free)
    forever.__enter__()
    _HELD.append(forever)  # or its end would come at once


def make_room(kind: str, base: str, after_seconds: float) -> None:
    """Free the disk after some time."""

    def free() -> None:
        time.sleep(after_seconds)
        Ground(kind, base).free()

    threading.Thread(target=free, daemon=True).start()
