"""Holds a store against what its witness heard: the four rules, after every fault and reopening.

1. Every acknowledged entry is there, as it was given, in order, exactly once.
2. An entry that was not acknowledged is there whole or not at all.
3. A second opening changes nothing.
4. The index rebuilt from scratch equals the live index.

And, because a store that only reads is no use: what is opened can be written, and keeps that too.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from holdfast.journal.files import Files
from holdfast.journal.format import parse
from tests.crash.lab import ledger
from tests.crash.lab.ledger import INTENT, Ending, Fork, Life
from tests.crash.lab.scenario import streamed_text, text_of
from tests.crash.lab.tally import Tally
from tests.disk import contents

_LABEL = re.compile(r"([a-z]\d+[a-z]*): ")
_SUFFIXES_OF_STREAMS = ("stream", "output")
AFTERWARDS = "z1"


class Oracle:
    """Judges one home.

    ``power_cut``: unsynced live text may be gone; else what another program could see must be
    there. ``faulty``: the process had met errors, so that even text it could not write may be gone.
    ``writes``: also append to what was opened. ``lists``: also hold the index to rule 4.
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
        self._live_text_may_go = power_cut or faulty
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
            for session_id, fork in life.forks.items():
                self._judge_fork(session_id, fork)
        if self._lists:
            self._judge_index()
        return self.tally

    # One session

    def _judge_session(self, life: Life, session_id: str) -> None:
        session = self._open(session_id, must_be_there=bool(life.promised))
        if session is None:
            return
        with session:
            self._judge_entries(life, session)
            self._judge_state(life, session)
        self._judge_second_opening(session)

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
        self._judge_texts(there)
        self._judge_streams(life, there)

    def _judge_texts(self, there: dict[str, dict[int, str]]) -> None:
        for label, texts in there.items():
            if not label.endswith((*_SUFFIXES_OF_STREAMS, "blob", INTENT)):
                for text in texts.values():
                    if text != text_of(label):
                        self.tally.lose(f"{label} is altered: {text[:80]!r} …")

    def _judge_streams(self, life: Life, there: dict[str, dict[int, str]]) -> None:
        for label, texts in there.items():
            if not label.endswith(_SUFFIXES_OF_STREAMS):
                continue
            possible = {streamed_text(label, n) for n in range(life.streams.get(label, 0) + 1)}
            for text in texts.values():
                if text not in possible:
                    self.tally.break_(f"{label} has a text that was never streamed: {text!r}")
        if self._live_text_may_go:
            return
        for label, pieces in life.written.items():
            text = next(iter(there.get(label, {}).values()), "")
            if not text.startswith(streamed_text(label, pieces)):
                self.tally.lose(f"of {label} {pieces} pieces were to be seen; there is {text!r}")

    def _judge_state(self, life: Life, session: holdfast.Session) -> None:
        messages = session.messages
        for message in messages:
            self._judge_text(message)
        endings = life.endings
        if endings is None:
            self.tally.count("too many endings to tell")
            return
        found = Ending(
            branch=tuple(filter(None, map(_label, messages))),
            summary=next((_label(message) for message in session.summary), None),
            title=session.meta.get("title"),
            input=session.totals.input,
        )
        if found not in [msgspec.structs.replace(ending, kept=0) for ending in endings]:
            self.tally.break_(f"the session is in no state it may be in: {found}, not {endings}")

    def _judge_text(self, message: holdfast.Message) -> None:
        label = _label(message)
        if label is None or label.endswith(_SUFFIXES_OF_STREAMS):
            return
        if message.text != text_of(label):
            self.tally.lose(f"{label} is altered: {message.text[:80]!r} …")

    def _judge_fork(self, session_id: str, fork: Fork) -> None:
        session = self._open(session_id, must_be_there=True)
        if session is None:
            return
        with session:
            messages = session.messages
        for message in messages:
            self._judge_text(message)
        labels = tuple(filter(None, map(_label, messages)))
        if labels not in fork.branches:
            self.tally.lose(f"fork {session_id} has {labels}, not one of {fork.branches}")
        self._judge_second_opening(session)

    def _judge_second_opening(self, first: holdfast.Session) -> None:
        before = contents(first.path)
        with self._store.open(first.id) as again:
            if again.recovery.set_aside or again.recovery.interrupted:
                self.tally.break_(f"a second opening repairs again: {again.recovery}")
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


def _label(message: holdfast.Message) -> str | None:
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


def _numbered(session: holdfast.Session) -> dict[str, dict[int, str]]:
    """Return where each label is, by number, with its text, in journal and archive."""
    there: dict[str, dict[int, str]] = {}
    for entry in [*_entries(session), *_archived(session.path)]:
        body = entry.body
        if isinstance(body, holdfast.Tool):
            there.setdefault(body.call_id + INTENT, {})[entry.seq] = body.state
        elif isinstance(body, holdfast.Message):
            label = _label(body)
            if label is not None:
                there.setdefault(label, {})[entry.seq] = _whole_text(body.content)
    return there


def _entries(session: holdfast.Session) -> list[holdfast.Entry]:
    with session.follow(wait=False) as follower:
        return [entry for entry in follower if isinstance(entry, holdfast.Entry)]


def _archived(folder: Path) -> Iterator[holdfast.Entry]:
    for path in sorted((folder / "archive").glob("[!.]*.gz")):
        for line in gzip.decompress(path.read_bytes()).split(b"\n"):
            entry = parse(line, None, 0, 1) if line else None
            if entry is not None:
                yield entry
