"""Holds a store against what its witness heard: the four rules, after every fault and reopening.

1. Every acknowledged entry is there, as it was given, in order, exactly once.
2. An entry that was not acknowledged is there whole or not at all.
3. A second opening changes nothing.
4. The index rebuilt from scratch equals the live index.

Entries are compared whole (role, parts, how a stream ended), their numbers must rise, and neither
opening nor verifying may find damage. But a power cut may take any of the lines that were written
together and not acknowledged: if the last of them is there, the hole before it is damage.

And, because a store that only reads is no use: what is opened can be written, and keeps that too.

Sessions are where they were moved to; what came from elsewhere is there whole or not at all, and
known to be foreign; if the note of a batch is there, all of the batch is. What a follower was shown
is there, and live text that had its second. A torn end that was on the disk is kept aside. What was
erased is in no file. A tool has acted only if the disk says that it was approved and begun, a
command runs only if the disk says as which process. The file that is locked stays the same one.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from holdfast.files import Files
from holdfast.journal.format import parse
from holdfast.model.entry import Header
from holdfast.runtime.tools.shell.spool import folder_of, recover_folder
from tests.crash.lab import ledger
from tests.crash.lab.erasing import SNAPSHOT
from tests.crash.lab.ledger import HERE, INTENT, TRASH, Call, Ending, Fork, Life, Streamed
from tests.crash.lab.scenario import streamed_text, text_of
from tests.crash.lab.tally import Tally
from tests.disk import contents

_LABEL = re.compile(r"([a-z]\d+[a-z]*): ")
_SUFFIXES_OF_STREAMS = ("stream", "output")
AFTERWARDS = "z1"
_WRAPPER_AND_COMMAND = 2
_Body = holdfast.Message | holdfast.Tool


class Oracle:
    """Judges one home.

    ``power_cut``: live text may be gone that had not its second; else what another program could
    see must be there. ``faulty``: the process had met errors, so that even text it could not write
    may be gone. ``writes``: also verify what was opened, and append to it. ``lists``: also hold the
    index to rule 4.
    """

    def __init__(
        self,
        home: Path,
        said: Iterable[list[Any]],
        *,
        power_cut: bool = False,
        faulty: bool = False,
        writes: bool = True,
        lists: bool = True,
        files: Files | None = None,
    ) -> None:
        self._store = holdfast.open_store(home, files=files)
        self._home = home
        self._lives = ledger.read(said)
        self._power_cut = power_cut
        self._faulty = faulty
        self._writes = writes
        self._lists = lists
        self.tally = Tally(cases=1)

    def judge(self) -> Tally:
        """Check everything; returns the counts of this case."""
        for life in self._lives.values():
            if life.fell is not None:
                self.tally.break_(f"an error that is not Holdfast's own escaped: {life.fell}")
            self.tally.acknowledged += len(life.promised)
            if life.session is not None:
                self._judge_session(life, life.session)
            noted = self._store.has_unfinished_batch()
            if life.owes_note and not noted:
                self.tally.lose("a batch was published, and nothing says what is to be done then")
            for call in life.erased_sessions:
                self._judge_erased_session(call)
            for session_id, fork in life.forks.items():
                # Whoever finds the note relies on all sessions of the batch.
                fork.certain = fork.certain or (noted and session_id in life.batched)
                self._judge_fork(session_id, fork)
        if self._lists:
            self._judge_index()
        return self.tally

    # One session

    def _judge_session(self, life: Life, session_id: str) -> None:
        self._bring_back(life, session_id)
        session = self._open(session_id, must_be_there=bool(life.promised or life.shown))
        if session is None:
            return
        with session:
            self._judge_recovery(session, life.synced)
            self._judge_entries(life, session)
            self._judge_state(life, session)
        self._judge_kept(life, session.path)
        self._judge_erased(life, session_id)
        if life.promised and self._store.provenance(session_id).any_foreign:
            self.tally.break_(f"{session_id} was written here and counts as foreign")
        self._judge_second_opening(session, life.synced)

    def _bring_back(self, life: Life, session_id: str) -> None:
        """Look where a session is, and restore one that was deleted."""
        places = life.places
        if session_id in self._store.ids():
            if HERE not in places:
                self.tally.break_(f"{session_id} was deleted and is still there")
        elif session_id in self._store.deleted_ids():
            if TRASH not in places:
                self.tally.lose(f"{session_id} is in the trash and was not deleted")
            self._store.restore(session_id)
            self.tally.count("brought back from the trash")

    def _judge_kept(self, life: Life, folder: Path) -> None:
        """Hold the folder to what is in no entry: torn lines, and who runs a command."""
        kept = b"\0".join(contents(folder).values()) if life.torn else b""
        for text in life.torn:
            if text.encode() not in kept:
                self.tally.lose(f"a torn line is gone: {text}")
        for call_id in life.ran:
            found = recover_folder(folder_of(folder / "spool", call_id), claim=False)
            if len(found.processes) != _WRAPPER_AND_COMMAND:
                self.tally.break_(f"{call_id} runs, and nothing says as which process: {found}")

    def _open(self, session_id: str, *, must_be_there: bool) -> holdfast.Session | None:
        try:
            session = self._store.open(session_id)
        except holdfast.SessionNotFound as error:
            if must_be_there:
                self.tally.lose(f"session {session_id} is gone: {error}")
            return None
        except Exception as error:  # noqa: BLE001  a traceback is a refusal, too
            self.tally.refuse(f"{session_id} does not open: {type(error).__name__}: {error}")
            return None
        if session.read_only:
            self.tally.refuse(f"{session_id} opens read-only: {session.recovery}")
        return session

    def _judge_recovery(self, session: holdfast.Session, synced: list[tuple[int, int]]) -> None:
        """Hold an opening to having found nothing worse than an unfinished end."""
        found = session.recovery
        holes = [-1 if piece.before is None else piece.before for piece in found.damage]
        excused = bool(holes) and all(self._may_be_hole(hole, synced) for hole in holes)
        if found.edited or ((found.damage or found.unverified) and not excused):
            self.tally.break_(f"{session.id} is damaged: {found}")

    def _judge_whole(self, session: holdfast.Session, synced: list[tuple[int, int]]) -> None:
        """Hold a closed session to verifying."""
        holes = 0
        for problem in self._store.verify(session.id).problems:
            if problem.kind == "damage":
                name, _, offset = problem.where.rpartition(":")
                before = _counting((session.path / name).read_bytes()[: int(offset)])
                if self._may_be_hole(before[-1].seq if before else -1, synced):
                    holes += 1
                    continue
            elif problem.kind == "unverified" and holes:
                continue  # the line behind a hole
            self.tally.break_(f"{session.id} does not verify: {problem}")
        if holes:
            self.tally.count("holes among lines that were written together", holes)

    def _may_be_hole(self, before: int, synced: list[tuple[int, int]]) -> bool:
        """Tell whether what stood behind a number may be lost: not if later ones were promised."""
        return self._power_cut and not any(first <= before < last for first, last in synced)

    def _judge_entries(self, life: Life, session: holdfast.Session) -> None:
        there = _numbered(session)
        promised = life.promised
        for label, seq in promised.items():
            if label not in there:
                self.tally.lose(f"{label} was acknowledged and is not there")
            elif seq is not None and seq not in there[label]:
                self.tally.lose(f"{label} was acknowledged as {seq} and is {sorted(there[label])}")
        for label, numbers in there.items():
            if len(numbers) > 1:
                self.tally.repeat(f"{label} is there as {sorted(numbers)}")
        for group in life.attempted:
            if sum(label in there for label in group) not in (0, len(group)):
                self.tally.break_(f"of the batch {group} only a part is there")
        known = {*promised, *life.streams, *(label for group in life.attempted for label in group)}
        for label in sorted(there.keys() - known - {AFTERWARDS}):
            self.tally.break_(f"{label} is there and was never appended")
        self._judge_numbers(session.path)
        self._judge_bodies(life, there)
        self._judge_live_text(life, there, session)
        self._judge_seen(life, there, _approved(session) if life.effects else set())

    def _judge_seen(
        self, life: Life, there: dict[str, dict[int, _Body]], approved: set[str]
    ) -> None:
        """Hold the journal to what others have seen of it, and to what was done on its word."""
        for label, seq in life.shown.items():
            if seq not in there.get(label, {}):
                self.tally.lose(f"{label} was shown to a follower as {seq} and is not there")
        for call_id, effect in life.effects.items():
            if effect != "reads" and call_id + INTENT not in there:
                self.tally.break_(f"{call_id} has acted, and nothing says that it was begun")
            if call_id not in approved:
                self.tally.break_(f"{call_id} has acted, and nothing says that it was approved")

    def _judge_numbers(self, folder: Path) -> None:
        for name, numbers in _numbers(folder):
            for earlier, later in pairwise(numbers):
                if later <= earlier:
                    self.tally.break_(f"in {name} {later} comes after {earlier}")

    def _judge_bodies(self, life: Life, there: dict[str, dict[int, _Body]]) -> None:
        streams = life.streamed
        for label, bodies in there.items():
            for body in bodies.values():
                if isinstance(body, holdfast.Message):
                    self._judge_message(label, body, streams)
                elif body != holdfast.Tool(body.call_id, "bash", "started", "unknown"):
                    self.tally.lose(f"{label} is altered: {body}")

    def _judge_message(
        self, label: str, message: holdfast.Message, streams: dict[str, Streamed]
    ) -> None:
        """Hold a message to being what was given under its label, whole."""
        if not label.endswith(_SUFFIXES_OF_STREAMS):
            if _with_payload(message, text_of(label)) != _given(label):
                self.tally.lose(f"{label} is altered: {str(message)[:200]} …")
            return
        stream = streams.get(label, Streamed())
        nameless = msgspec.structs.replace(message, stream=None)
        if message.stream is not None and nameless in _possible(label, stream):
            return
        if stream.finished:
            self.tally.lose(f"{label} was finished and is altered: {message}")
        else:
            self.tally.break_(f"{label} is what was never streamed: {message}")

    def _judge_live_text(
        self, life: Life, there: dict[str, dict[int, _Body]], session: holdfast.Session
    ) -> None:
        if self._faulty:
            return
        for label, pieces in (life.settled if self._power_cut else life.written).items():
            # Followers are not shown a last line before it has its end, which the next append adds.
            last = [each for each in session.messages[-1:] if label_of(each) == label]
            text = next(map(_text, [*there.get(label, {}).values(), *last]), "")
            if not text.startswith(streamed_text(label, pieces)):
                self.tally.lose(f"of {label} {pieces} pieces were to be seen; there is {text!r}")

    def _judge_state(self, life: Life, session: holdfast.Session) -> None:
        messages = session.messages
        streams = life.streamed
        for message in [*messages, *session.summary[:1]]:
            self._judge_shown(message, streams)
        endings = life.endings
        if endings is None:
            self.tally.count("too many endings to tell")
            self._judge_order(life, messages)
            return
        found = Ending(
            branch=tuple(filter(None, map(label_of, messages))),
            summary=next((label_of(message) for message in session.summary), None),
            title=session.meta.get("title"),
            input=session.totals.input,
            snapshot=self._snapshot(session),
        )
        if found not in [msgspec.structs.replace(ending, kept=0) for ending in endings]:
            few = f"{endings[:3]}{' …' * (len(endings) > 3)}"
            self.tally.break_(f"the session is in no state it may be in: {found}, not {few}")

    def _snapshot(self, session: holdfast.Session) -> str | None:
        """Return the label of the session's snapshot; hold it to being what was put."""
        try:
            text = session.get(SNAPSHOT)
        except holdfast.StorageError as error:
            self.tally.lose(f"the snapshot of {session.id} is not there: {error}")
            return None
        found = _LABEL.match(text or "")
        if found is None:
            return None
        if text != text_of(found[1]):
            self.tally.lose(f"the snapshot {found[1]} is altered")
        return found[1]

    def _judge_erased(self, life: Life, session_id: str) -> None:
        """Hold the home to having nothing of what was erased, also of what was only begun."""
        tombstones = {(each.session, each.seq) for each in self._store.tombstones()}
        for label, call in life.erased.items():
            if (session_id, call.facts["seq"]) in tombstones:
                self._judge_gone(label)
            elif call.outcome == "promised":
                self.tally.lose(f"{label} was erased, and nothing says so")

    def _judge_erased_session(self, call: Call) -> None:
        session_id, label = call.facts["session"], call.facts["label"]
        self._store.half_erased(remove=True)
        if session_id in self._store.ids():
            if call.outcome == "promised":
                self.tally.break_(f"{session_id} was erased and is still there")
            return
        made = (session_id, None) in {(each.session, each.seq) for each in self._store.tombstones()}
        if call.outcome == "promised" and not made:
            self.tally.lose(f"{session_id} was erased, and nothing says so")
        self._judge_gone(label)

    def _judge_gone(self, label: str) -> None:
        words = f"{label}: {text_of(label)[len(label) + 2 :][:4]}".encode()
        for name, data in contents(self._home).items():
            if words in data or (name.endswith(".gz") and words in gzip.decompress(data)):
                self.tally.break_(f"{label} was erased, and {name} has it")

    def _judge_order(self, life: Life, messages: list[holdfast.Message]) -> None:
        """Hold what was promised to its order, where no more can be told."""
        labels = [label for label in map(label_of, messages) if label in life.promised]
        if labels != [label for label in life.promised if label in labels]:
            self.tally.break_(f"what was promised is not in order: {labels}")

    def _judge_shown(self, message: holdfast.Message, streams: dict[str, Streamed]) -> None:
        """Hold a message of the session to what was given, blobs put back."""
        label = label_of(message)
        if label is not None:
            self._judge_message(label, message, streams)

    def _judge_fork(self, session_id: str, fork: Fork) -> None:
        session = self._open(session_id, must_be_there=fork.certain)
        if session is None:
            return
        if self._store.provenance(session_id).is_foreign(1) != fork.foreign:
            self.tally.break_(f"{session_id} is taken for {'ours' if fork.foreign else 'foreign'}")
        with session:
            self._judge_recovery(session, fork.synced)
            self._judge_numbers(session.path)
            messages = session.messages
        for message in messages:
            self._judge_shown(message, fork.streams)
        labels = tuple(filter(None, map(label_of, messages)))
        if labels not in fork.branches:
            self.tally.lose(f"fork {session_id} has {labels}, not one of {fork.branches}")
        self._judge_second_opening(session, fork.synced)

    def _judge_second_opening(self, first: holdfast.Session, synced: list[tuple[int, int]]) -> None:
        if self._writes:
            self._judge_whole(first, synced)
        before = contents(first.path)
        locked = _inode_of(first.path / "lock")
        with self._store.open(first.id) as again:
            if locked is None or _inode_of(first.path / "lock") != locked:
                self.tally.break_("the file that is locked is another one now: two may write")
            if again.recovery.set_aside or again.recovery.interrupted:
                self.tally.break_(f"a second opening repairs again: {again.recovery}")
            self._judge_recovery(again, synced)
            if contents(first.path) != before:
                self.tally.break_("a second opening changes files")
            if not self._writes:
                return
            messages = again.messages
            again.append(holdfast.user(text_of(AFTERWARDS)))
        with self._store.open(first.id, mode="read") as third:
            if third.messages != [*messages, holdfast.user(text_of(AFTERWARDS))]:
                self.tally.break_("what was appended after the reopening is not there")

    def _judge_index(self) -> None:
        live = self._store.list()
        for path in self._home.glob("index.db*"):
            path.unlink()
        rebuilt = self._store.list()
        if live != rebuilt:
            self.tally.break_(f"the index says {live}, the journals {rebuilt}")


def _approved(session: holdfast.Session) -> set[str]:
    """Return the tool calls that the journal says were approved."""
    bodies = [entry.body for entry in _entries(session)]
    return {
        body.call_id
        for body in bodies
        if isinstance(body, holdfast.Approval) and body.decision == "allow"
    }


def _inode_of(path: Path) -> int | None:
    return path.stat().st_ino if path.exists() else None


def label_of(message: holdfast.Message) -> str | None:
    """Return the label of a message, if it has one."""
    found = _LABEL.match(_whole_text(message.content))
    return found[1] if found else None


def _whole_text(parts: Iterable[Any]) -> str:
    """Return all text of a message, a tool's output included, and of a blob its beginning."""
    texts = []
    for part in parts:
        if isinstance(part, holdfast.ToolResult):
            texts.append(_whole_text(part.content))
        elif isinstance(part, holdfast.Text):
            texts.append(part.blob.preview if part.blob is not None else part.text)
    return "".join(texts)


@cache
def _given(label: str) -> holdfast.Message:
    """Return the message that the scenario appends under a label."""
    if not label.endswith("call"):
        return holdfast.user(text_of(label))
    wish = holdfast.ToolCall(id=label, name="bash", arguments={"command": "make"})
    return holdfast.assistant([holdfast.Text(text=text_of(label)), wish])


def _possible(label: str, stream: Streamed) -> Iterator[holdfast.Message]:
    """Yield every message that may have become of a stream, without the stream's name."""
    if stream.may_be_finished:
        yield _ended(label, stream, stream.pieces, "end", "completed")
    if not stream.finished:
        for pieces in range(1, stream.pieces + 1):
            yield _ended(label, stream, pieces, "interrupted", "unknown")


def _ended(label: str, stream: Streamed, pieces: int, stop: str, outcome: str) -> holdfast.Message:
    text = holdfast.Text(text=streamed_text(label, pieces))
    if stream.call_id is None:
        return holdfast.assistant(text, stop=stop)
    result = holdfast.ToolResult(call_id=stream.call_id, content=[text], outcome=outcome)
    return holdfast.Message(role="tool", content=[result])


def _with_payload(message: holdfast.Message, text: str) -> holdfast.Message:
    """Return a message with a reference to just this text replaced by it."""
    parts = [
        holdfast.Text(text=text) if _refers_to(part, text) else part for part in message.content
    ]
    return msgspec.structs.replace(message, content=parts)


def _refers_to(part: Any, text: str) -> bool:
    if not isinstance(part, holdfast.Text) or part.blob is None or part.text:
        return False
    ref = part.blob
    return (ref.sha256, ref.size_bytes, ref.encoding) == (*_digest(text), "text")


@cache
def _digest(text: str) -> tuple[str, int]:
    data = text.encode()
    return hashlib.sha256(data).hexdigest(), len(data)


def _text(body: _Body) -> str:
    return _whole_text(body.content) if isinstance(body, holdfast.Message) else ""


def _numbered(session: holdfast.Session) -> dict[str, dict[int, _Body]]:
    """Return where each label is, by number, with its body, in journal and archive."""
    there: dict[str, dict[int, _Body]] = {}
    for entry in [*_entries(session), *_archived(session.path)]:
        body = entry.body
        if isinstance(body, holdfast.Tool):
            there.setdefault(body.call_id + INTENT, {})[entry.seq] = body
        elif isinstance(body, holdfast.Message):
            label = label_of(body)
            if label is not None:
                there.setdefault(label, {})[entry.seq] = body
    return there


def _entries(session: holdfast.Session) -> list[holdfast.Entry]:
    with session.follow(wait=False) as follower:
        return [entry for entry in follower if isinstance(entry, holdfast.Entry)]


def _archived(folder: Path) -> Iterator[holdfast.Entry]:
    for path in _archives(folder):
        yield from _counting(gzip.decompress(path.read_bytes()))


def _archives(folder: Path) -> list[Path]:
    return sorted((folder / "archive").glob("[!.]*.gz"))


def _numbers(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Yield the numbers of the journal's lines, and of each archive's, as they stand there."""
    yield "the journal", [entry.seq for entry in _counting(_journal(folder))]
    for path in _archives(folder):
        data = gzip.decompress(path.read_bytes())
        yield path.name, [entry.seq for entry in _counting(data)]


def _journal(folder: Path) -> bytes:
    """Return all files of a journal, but no continuation that a compaction has merged."""
    data = (folder / "journal.jsonl").read_bytes()
    header = _parsed(data.partition(b"\n")[0])
    last = header.body.holds if header and isinstance(header.body, Header) else 1
    while (path := folder / f"journal.{last + 1}.jsonl").exists():
        data += b"\n" + path.read_bytes()
        last += 1
    return data


def _counting(data: bytes) -> list[holdfast.Entry]:
    """Return the entries in journal files that follow each other.

    The header of a continuation names the last entry before it: what is greater does not count.
    """
    found: list[holdfast.Entry] = []
    for line in data.split(b"\n"):
        entry = _parsed(line)
        if entry is None:
            continue
        if isinstance(entry.body, Header) and entry.body.continues is not None:
            found = [each for each in found if each.seq <= entry.seq]
        else:
            found.append(entry)
    return found


def _parsed(line: bytes) -> holdfast.Entry | None:
    """Return the entry of a line; in an archive it may stand behind what a fault left."""
    begin = line.find(b'{"seq":')
    while begin >= 0:
        entry = parse(line[begin:], None, 0, 1)
        if entry is not None:
            return entry
        begin = line.find(b'{"seq":', begin + 1)
    return None
