"""kill -9 at a random moment of a writing process, two hundred times.

After each the session is opened and held against what the process had been promised: nothing
acknowledged is lost or there twice, the order is kept, what was not acknowledged is whole or
absent, and streamed text older than 50 ms is there.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from tests.crash import writer_process
from tests.crash.writer_process import label_text, piece_text
from tests.disk import contents

KILLS = int(os.environ.get("HOLDFAST_KILLS", "200"))
WORKERS = 2
KILLS_A_SESSION = 10
LONGEST_LIFE_SECONDS = 0.15
WRITTEN_WITHIN_SECONDS = 0.05

pytestmark = pytest.mark.crash


class Nursery:
    """Forks writers from a process that has everything imported already, and kills them."""

    def __init__(self, home: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, writer_process.__file__, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def kill_one(self, session_id: str, seed: int, life_seconds: float) -> list[list[Any]]:
        """Let a writer live for a while; return what it said before it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{session_id} {seed}\n".encode())
        self._process.stdin.flush()
        (kind, pid) = json.loads(self._process.stdout.readline())
        assert kind == "child"
        time.sleep(life_seconds)
        os.kill(pid, signal.SIGKILL)
        said: list[list[Any]] = []
        while True:
            words = json.loads(self._process.stdout.readline())
            if words == ["dead", pid]:
                return said
            said.append(words)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def nursery(home: Path) -> Iterator[Nursery]:
    started = Nursery(home)
    try:
        yield started
    finally:
        started.close()


class Promises:
    """What all writers of one session were promised so far."""

    def __init__(self) -> None:
        self.acked: list[str] = []
        self.whole_or_absent: list[list[str]] = []
        self.streamed: dict[str, int] = {}
        self.must_have: dict[str, int] = {}

    def hear(self, said: list[list[Any]]) -> None:
        last_seen = max((words[1] for words in said), default=0.0)
        for kind, at, *words in said:
            if kind == "sent":
                self.whole_or_absent.append(words[0])
            elif kind == "acked":
                self.acked += words[0]
                self.whole_or_absent.remove(words[0])
            elif kind == "text":
                stream, count = words
                self.streamed[stream] = count
                # By the child's own clock: what it did not live to see does not count as its life.
                if at < last_seen - WRITTEN_WITHIN_SECONDS:
                    self.must_have[stream] = count

    def check(self, messages: list[holdfast.Message]) -> None:
        there = [_label(message) for message in messages]
        assert len(set(there)) == len(there), "something is there twice"
        assert [label for label in there if label in set(self.acked)] == self.acked
        for labels in self.whole_or_absent:
            assert sum(label in there for label in labels) in (0, len(labels)), labels
        sent = {label for labels in self.whole_or_absent for label in labels}
        assert set(there) <= {*self.acked, *sent, *self.streamed}
        for label, message in zip(there, messages, strict=True):
            self._check_content(label, message)
        for stream, count in self.must_have.items():
            text = messages[there.index(stream)].text if stream in there else ""
            assert text.count("[") >= count, f"{stream}: streamed text is lost"
        # Writers are numbered, and so is what each of them makes.
        assert there == sorted(there, key=lambda label: [*map(int, label[1:].split("-"))])

    def _check_content(self, label: str, message: holdfast.Message) -> None:
        if label not in self.streamed:
            assert message.text == label_text(label)
            return
        count = message.text.count("[")
        assert message.text == "".join(piece_text(label, number) for number in range(count))
        assert message.stop in ("end", "interrupted")
        if message.stop == "end":
            assert count == self.streamed[label]
        else:
            assert label not in self.acked
            # One piece may have been written that the child did not live to tell of.
            assert count <= self.streamed[label] + 1


def _label(message: holdfast.Message) -> str:
    found = re.match(r"\[?(s\d+-\d+)[ .]", message.text)
    assert found is not None, message
    return found[1]


def kill_and_check(home: Path, seed: int, kills: int) -> int:
    """Kill writers again and again; return how many entries had been acknowledged."""
    rng = random.Random(seed)
    store = holdfast.open_store(home)
    acknowledged = 0
    with nursery(home) as started:
        for start in range(0, kills, KILLS_A_SESSION):
            session_id = f"20260102-{start:06d}-{seed % 10**8:08d}"
            promises = Promises()
            for number in range(start, min(start + KILLS_A_SESSION, kills)):
                life = rng.random() * LONGEST_LIFE_SECONDS
                said = started.kill_one(session_id, number, life)
                promises.hear(said)
                check_session(store, session_id, promises)
            acknowledged += len(promises.acked)
    return acknowledged


def check_session(store: holdfast.LocalStore, session_id: str, promises: Promises) -> None:
    try:
        session = store.open(session_id)
    except holdfast.SessionNotFound:
        assert promises.acked == []
        assert promises.must_have == {}
        return
    with session:
        promises.check(session.messages)
    # Recovery is done once: a second opening finds nothing and changes nothing.
    before = contents(session.path)
    with store.open(session_id) as again:
        assert again.recovery.clean
        assert again.messages == session.messages
    assert contents(session.path) == before
    report = store.verify(session_id)
    assert report.ok, report.problems


def test_kill_9_at_a_random_moment(tmp_path):
    seed = int(os.environ.get("HOLDFAST_SEED", random.SystemRandom().randrange(10**8)))
    print(f"HOLDFAST_SEED={seed}")
    homes = [tmp_path / f"home {number}" for number in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        counts = pool.map(
            kill_and_check, homes, [seed + n for n in range(WORKERS)], [KILLS // WORKERS] * WORKERS
        )
        acknowledged = sum(counts)
    assert acknowledged > KILLS  # else hardly anything was tried
    for home in homes:
        store = holdfast.open_store(home)
        live = store.list()
        (home / "index.db").unlink()
        assert store.list() == live
        assert all(summary.state == "clean" for summary in live)
