"""Plays on a disk that is full: nothing is lost, nothing is promised early, all is said.

``Fullness`` is whatever takes the room: a file beside the home, or a limit on the size of files.
When it ends, what waits must be written without anybody asking.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from functools import partial
from pathlib import Path

import holdfast
from tests.crash.lab.faults.player import Attempt, Player
from tests.crash.lab.scenario import piece_of, streamed_text, text_of
from tests.disk import contents

_BATCH = 40
_MOST_BATCHES = 600
_MANY = 300  # messages that do not fit into the room that is left
_LEAST_CARRIED_BYTES = 700_000  # of the reserve of 1 MiB a quarter may have been used already
_TWO_RETRIES_SECONDS = 1.2


# What takes the room


class Ballast:
    """Another file takes all the room there is."""

    def __init__(self, player: Player) -> None:
        self._ground = player.ground

    def begin(self, session: holdfast.Session | None) -> None:
        del session
        self._ground.fill()

    def end(self) -> None:
        self._ground.free()


class SizeLimit:
    """The process may not make a file longer than the journal is now (EFBIG)."""

    def __init__(self, player: Player) -> None:
        self._room = player.random.randrange(20_000)

    def begin(self, session: holdfast.Session | None) -> None:
        journal = None if session is None else session.path / "journal.jsonl"
        size = journal.stat().st_size if journal is not None and journal.exists() else 0
        # A lock has to be made before anything else; it is smaller than any journal.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + self._room, resource.RLIM_INFINITY))

    def end(self) -> None:
        everything = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.setrlimit(resource.RLIMIT_FSIZE, everything)


Fullness = Ballast | SizeLimit
_KINDS: dict[str, type[Fullness]] = {"ballast": Ballast, "limit": SizeLimit}


# What every play begins with


def _opened(player: Player) -> tuple[holdfast.Store, holdfast.Session]:
    """Return a store and a session that has some messages."""
    store = holdfast.open_store(player.ground.home)
    session = player.create(store)
    player.append(session)
    player.append(session, count=player.random.randrange(1, 30))
    return store, session


def _append_until_full(player: Player, session: holdfast.Session) -> tuple[Attempt, int]:
    """Append batches until one is refused; return it, and how many bytes were still taken."""
    before = _journal_bytes(session)
    refused = player.append(session, count=_BATCH)
    for _ in range(_MOST_BATCHES):
        if refused.error is not None:
            break
        refused = player.append(session, count=_BATCH)
    return refused, _journal_bytes(session) - before


def _journal_bytes(session: holdfast.Session) -> int:
    return sum(path.stat().st_size for path in session.path.glob("journal*.jsonl"))


def _pending(error: Exception | None) -> list[int]:
    return list(error.pending) if isinstance(error, holdfast.DiskFull) else []


def _texts(messages: list[holdfast.Message]) -> list[str]:
    return [message.text for message in messages]


def _wait_until_written(player: Player, session: holdfast.Session) -> None:
    recorder = session._recorder
    assert recorder is not None
    player.soon(
        "all that waited is written by itself once there is room",
        lambda: session.trouble is None and not recorder._writer.unpublished,
        lambda: session.trouble,
    )


# Plays


def appends(player: Player, fullness: str = "ballast") -> None:
    """The disk fills up under a writer and has room again later."""
    _, session = _opened(player)
    taken = _KINDS[fullness](player)
    taken.begin(session)
    refused, carried = _append_until_full(player, session)
    if player.ground.kind == "ext4" and fullness == "ballast":
        sentence = "the reserve carries appends on when the disk is full"
        player.rule(sentence, carried > _LEAST_CARRIED_BYTES, f"({carried} bytes)")
    if not player.fails(
        "an append without room is refused as DiskFull", refused, holdfast.DiskFull
    ):
        return
    player.fact("disks filled up")
    kept = len(session.messages)
    first = _pending(refused.error)
    player.rule("DiskFull names each entry that waits", len(first) == _BATCH, first)

    other = player.append(session)
    player.fails("the next append waits, too", other, holdfast.DiskFull)
    numbers = _pending(other.error)
    player.rule("entries that wait keep their numbers", numbers[:_BATCH] == first, numbers)
    player.rule("each has a number of its own", len({*numbers}) == _BATCH + 1, numbers)
    again = player.append_labels(session, refused.labels)
    player.fails("the same call again is refused again", again, holdfast.DiskFull)
    player.rule("and waits for the same entries", _pending(again.error) == numbers, again.error)
    label = player.label()
    submitted = player.attempt(
        "submit", lambda: session.submit(holdfast.user(text_of(label))), labels=[label]
    )
    ticket = submitted.result
    waited = player.attempt("wait", ticket.wait, label=label)
    player.fails("so does waiting for a ticket", waited, holdfast.DiskFull)
    _nothing_early(player, session, kept, [*refused.labels, *other.labels, label])

    taken.end()
    _wait_until_written(player, session)
    player.rule("its tickets are done", ticket.done and ticket.error is None)
    numbers = [*numbers, ticket.position.seq]
    for attempt, seq in ((refused, numbers[_BATCH - 1]), (other, numbers[_BATCH])):
        position = session.append([holdfast.user(text_of(label)) for label in attempt.labels])
        player.rule("the same call later returns the number it had", position.seq == seq, position)
        player.promised(attempt, position)
    player.promised(waited, ticket.position)
    count = len(session.messages)
    player.rule("nothing is there twice", count == kept + _BATCH + 2, f"({count}, {kept} before)")
    player.works("appending goes on", player.append(session))
    player.works("closing works", player.attempt("close", session.close))


def _nothing_early(player: Player, session: holdfast.Session, kept: int, labels: list[str]) -> None:
    """State what must be true while entries wait."""
    time.sleep(_TWO_RETRIES_SECONDS)
    trouble = session.trouble
    player.rule("session.trouble says so", isinstance(trouble, holdfast.DiskFull), trouble)
    player.rule("what waits is not among the messages", len(session.messages) == kept)
    exported = session.export("jsonl")
    missing = [label for label in labels if f'"{label}: ' not in exported]
    player.rule("an export has what waits", not missing, missing)
    with holdfast.open_store(player.ground.home).open(session.id, mode="read") as reader:
        player.rule("another reader does not see it", len(reader.messages) == kept)


def killed(player: Player, fullness: str = "ballast") -> None:
    """The process is killed while entries wait: they were never acknowledged."""
    _, session = _opened(player)
    _KINDS[fullness](player).begin(session)
    refused, _ = _append_until_full(player, session)
    player.fails("an append without room is refused as DiskFull", refused, holdfast.DiskFull)
    player.append(session)
    time.sleep(player.random.random() * _TWO_RETRIES_SECONDS)
    player.fact("killed while entries wait")
    os.kill(os.getpid(), signal.SIGKILL)


def closed(player: Player, fullness: str = "ballast") -> None:
    """Closing while entries wait says so, and keeps the session open."""
    _, session = _opened(player)
    taken = _KINDS[fullness](player)
    taken.begin(session)
    refused, _ = _append_until_full(player, session)
    closing = player.attempt("close", session.close)
    player.fails("closing while entries wait raises DiskFull", closing, holdfast.DiskFull)
    player.rule(
        "and says what waits", _pending(closing.error) == _pending(refused.error), closing.error
    )
    player.rule("the session still says so", session.trouble is not None)
    taken.end()
    player.works("with room again closing works", player.attempt("close", session.close))
    with holdfast.open_store(player.ground.home).open(session.id, mode="read") as reader:
        texts = _texts(reader.messages)
    there = [text for text in map(text_of, refused.labels) if text in texts]
    player.rule("and has written what waited", len(there) == len(refused.labels))


def _left_lying(folder: Path, pattern: str) -> list[str]:
    """Return what stays there; a retry in the background may have something for a moment."""
    left: list[str] = []
    for _ in range(100):
        left = [path.name for path in folder.glob(pattern)]
        if not left:
            break
        time.sleep(0.02)
    return left


def created(player: Player, fullness: str = "ballast") -> None:
    """There is no room for a session's first entry."""
    store = holdfast.open_store(player.ground.home)
    taken = _KINDS[fullness](player)
    taken.begin(None)
    session = player.create(store)
    labels = [player.label() for _ in range(_MANY)]
    refused = player.append_labels(session, labels)
    player.fails("a first append without room is refused as DiskFull", refused, holdfast.DiskFull)
    player.rule("it says what waits", len(_pending(refused.error)) >= len(labels))
    player.rule("nothing is there yet", not session.path.exists())
    player.rule("nothing is listed", store.list() == [])
    left = _left_lying(player.ground.home, "sessions/.new-*")
    player.rule("nothing is left lying about", not left, left)
    player.rule("session.trouble says so", isinstance(session.trouble, holdfast.DiskFull))
    taken.end()
    _wait_until_written(player, session)
    player.promised(refused, session.append([holdfast.user(text_of(label)) for label in labels]))
    player.rule("everything is there once", len(session.messages) == len(labels))
    player.works("closing works", player.attempt("close", session.close))


def checkpointed(player: Player) -> None:
    """There is no room for a checkpoint, whose summary is longer than the reserve."""
    _, session = _opened(player)
    player.ground.fill()
    label = player.label("summary")
    filler = holdfast.user("and so on, " * 15_000)
    summary = [holdfast.user(text_of(label)), *[filler] * 12]
    refused = player.attempt(
        "checkpoint", lambda: session.checkpoint(summary, keep_last=1), summary=label, keep_last=1
    )
    player.fails("a checkpoint without room is refused as DiskFull", refused, holdfast.DiskFull)
    player.rule("it says what waits", len(_pending(refused.error)) == 1, refused.error)
    player.rule("it does not count yet", session.summary == [])
    player.fails(
        "what comes after it waits, too", later := player.append(session), holdfast.DiskFull
    )
    player.ground.free()
    _wait_until_written(player, session)
    player.rule("then it counts", _texts(session.summary)[:1] == [text_of(label)])
    player.promised(refused, None)
    player.promised(later, session.append([holdfast.user(text_of(later.labels[0]))]))
    player.works("closing works", player.attempt("close", session.close))


def blob(player: Player) -> None:
    """There is no room for a large payload; small entries behind it wait their turn."""
    _, session = _opened(player)
    player.ground.fill()
    large = player.append(session, "blob")
    player.fails("a blob without room is refused as DiskFull", large, holdfast.DiskFull)
    player.rule("it says what waits", len(_pending(large.error)) == 1, large.error)
    small = player.append(session)
    player.fails("what comes after it waits, too", small, holdfast.DiskFull)
    time.sleep(player.random.random() * _TWO_RETRIES_SECONDS)
    left = _left_lying(session.path, "blobs/*")
    player.rule("no half blob is left lying about", not left, left)
    player.ground.free()
    _wait_until_written(player, session)
    for attempt in (large, small):
        again = session.append([holdfast.user(text_of(attempt.labels[0]))])
        player.promised(attempt, again)
    player.works("closing works", player.attempt("close", session.close))


def compacted(player: Player) -> None:
    """There is no room for the copy that a compaction makes."""
    _, session = _opened(player)
    for _ in range(8):
        player.append(session, count=_BATCH)
    label = player.label("summary")
    player.attempt(
        "checkpoint",
        lambda: session.checkpoint([holdfast.user(text_of(label))], keep_last=200),
        summary=label,
        keep_last=200,
    )
    player.ground.fill()
    before = contents(session.path)
    refused = player.attempt("compact", session.compact)
    player.fails("a compaction without room is refused as DiskFull", refused, holdfast.DiskFull)
    player.rule("everything is as it was", contents(session.path) == before, [*before])
    # The reserve is still there: what is refused is the compaction, not the session.
    player.works("appending goes on", player.append(session))
    player.rule("nothing waits", session.trouble is None, session.trouble)
    player.ground.free()
    player.works("with room again it works", player.attempt("compact", session.compact))
    player.works("appending goes on after it", player.append(session))
    player.works("closing works", player.attempt("close", session.close))


def forked(player: Player) -> None:
    """There is no room for a fork."""
    store, session = _opened(player)
    for _ in range(4):
        player.append(session, count=_BATCH)
    player.append(session, "blob")
    player.ground.fill()
    refused = player.attempt("fork", session.fork)
    player.fails("a fork without room is refused as DiskFull", refused, holdfast.DiskFull)
    left = _left_lying(player.ground.home, "sessions/.new-*")
    player.rule("nothing is left lying about", not left, left)
    player.rule("only the source is listed", [each.id for each in store.list()] == [session.id])
    player.works("the source goes on", player.append(session))
    player.ground.free()
    again = player.attempt("fork", session.fork)
    if player.works("with room again it works", again):
        player.rule("the fork has all", again.result.messages == session.messages)
        again.result.close()
    player.works("closing works", player.attempt("close", session.close))


def streamed(player: Player) -> None:
    """There is no room for streamed text, nor for the message that it becomes."""
    _, session = _opened(player)
    player.ground.fill()
    refused, _ = _append_until_full(player, session)
    label = player.label("stream")
    stream = player.attempt("stream", session.stream, label=label).result
    for number in range(3):
        write = partial(stream.write, piece_of(label, number))
        wrote = player.attempt("piece", write, label=label, number=number)
        player.works("text can be streamed", wrote)
        time.sleep(0.06)
    finished = player.attempt("finish", stream.finish, label=label)
    player.fails("finishing waits for room", finished, holdfast.DiskFull)
    player.rule("an export has the text", streamed_text(label) in session.export())
    player.ground.free()
    _wait_until_written(player, session)
    player.promised(refused, session.append([holdfast.user(text_of(x)) for x in refused.labels]))
    player.rule("the text is there", session.messages[-1].text == streamed_text(label))

    player.ground.fill()
    late = player.label("stream")
    stream = player.attempt("stream", session.stream, label=late).result
    write = partial(stream.write, piece_of(late, 0))
    player.attempt("piece", write, label=late, number=0)
    player.ground.free()
    wanted = piece_of(late, 0).encode()
    player.soon(
        "streamed text gets into the live file once there is room",
        lambda: wanted in _bytes_of(session.path / "live.jsonl"),
    )
    player.works("finishing works", player.attempt("finish", stream.finish, label=late))
    player.works("closing works", player.attempt("close", session.close))


def _bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def repaired(player: Player) -> None:
    """There is no room to save what opening has to cut off."""
    store, session = _opened(player)
    player.attempt("close", session.close)
    torn = b'{"seq":99,"at":"2026' + b"x" * player.random.randrange(9000)
    with (session.path / "journal.jsonl").open("ab") as journal:
        journal.write(torn)
    player.ground.fill()
    before = contents(session.path)
    refused = player.attempt("open", lambda: store.open(session.id))
    player.fails("opening without room to repair raises DiskFull", refused, holdfast.DiskFull)
    player.rule("everything is as it was", contents(session.path) == before, [*before])
    with store.open(session.id, mode="read") as reader:
        player.rule("it can be read", reader.messages)
    player.ground.free()
    opened = player.attempt("open", lambda: store.open(session.id))
    if player.works("with room again it opens", opened):
        player.rule("and has set the torn bytes aside", opened.result.recovery.set_aside)
        player.works("appending goes on", player.append(opened.result))
        player.works("closing works", player.attempt("close", opened.result.close))


def recovered(player: Player) -> None:
    """A process died while it streamed, and there is no room to keep what it left."""
    store, session = _opened(player)
    label = player.label("stream")
    _stream_and_die(player, session, label)
    player.ground.fill()
    opened = player.attempt("open", lambda: store.open(session.id))
    # There is room for a reserve only now and then; either way nothing may be missing.
    if opened.error is not None:
        player.fails("opening without room raises DiskFull", opened, holdfast.DiskFull)
    else:
        text = opened.result.export()
        player.rule("what was streamed is kept in memory at least", f"{label}: " in text)
    player.ground.free()
    if opened.error is not None:
        opened = player.attempt("open", lambda: store.open(session.id))
        player.works("with room again it opens", opened)
    _wait_until_written(player, opened.result)
    found = opened.result.messages[-1]
    sentence = "what was streamed is there, as interrupted"
    whole = found.text == streamed_text(label, 2) and found.stop == "interrupted"
    player.rule(sentence, whole, found.text[:200])
    player.works("closing works", player.attempt("close", opened.result.close))


def _stream_and_die(player: Player, session: holdfast.Session, label: str) -> None:
    """Close the session, and let another process stream into it and be killed."""
    player.attempt("close", session.close)
    # Said here, because the other process does not know how many calls were made.
    player.attempt("stream", lambda: None, label=label)
    for number in range(2):
        player.attempt("piece", lambda: None, label=label, number=number)
    pid = os.fork()
    if pid == 0:
        stream = holdfast.open_store(player.ground.home).open(session.id).stream()
        for number in range(2):
            stream.write(piece_of(label, number))
        while piece_of(label, 1).encode() not in _bytes_of(session.path / "live.jsonl"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
