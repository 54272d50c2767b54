"""A process that writes sessions until it is killed, and says what it has been promised.

Run with a home folder; then each line on standard input names a session and a seed. For each a
child is forked that writes to that session. What it was promised goes to standard output, one JSON
array a line, with the time by the clock that all processes share; the pipe is outside the store, so
that what was said there has been said, whatever becomes of the child:

    ["child", pid]                     it is about to write
    ["sent", time, labels]             an append begins
    ["acked", time, labels]            the append has returned
    ["text", time, stream, count]      so many pieces have been streamed
    ["tick", time]                     it has just been running
"""

from __future__ import annotations

import json
import os
import random
import sys
import time

import holdfast


def label_text(label: str) -> str:
    return f"{label} " + "x" * (sum(label.encode()) % 400)


def piece_text(stream: str, number: int) -> str:
    return f"[{stream}.{number}]"


def say(*words: object) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


class Babbler:
    """Appends messages, batches and streams without end."""

    def __init__(self, session: holdfast.Session, rng: random.Random, name: str) -> None:
        self.session = session
        self.rng = rng
        self.name = name
        self.count = 0

    def label(self) -> str:
        self.count += 1
        return f"{self.name}-{self.count}"

    def run(self) -> None:
        while True:
            self.rng.choice((self.one, self.batch, self.background, self.stream, self.stream))()

    def one(self) -> None:
        label = self.label()
        say("sent", time.monotonic(), [label])
        self.session.append(holdfast.user(label_text(label)))
        say("acked", time.monotonic(), [label])

    def batch(self) -> None:
        labels = [self.label() for _ in range(3)]
        say("sent", time.monotonic(), labels)
        self.session.append([holdfast.user(label_text(label)) for label in labels])
        say("acked", time.monotonic(), labels)

    def background(self) -> None:
        labels = [[self.label()] for _ in range(5)]
        tickets = []
        for each in labels:
            say("sent", time.monotonic(), each)
            tickets.append(self.session.submit(holdfast.user(label_text(each[0]))))
        for each, ticket in zip(labels, tickets, strict=True):
            ticket.wait()
            say("acked", time.monotonic(), each)

    def stream(self) -> None:
        label = self.label()
        say("text", time.monotonic(), label, 0)
        with self.session.stream() as live:
            for number in range(self.rng.randrange(1, 40)):
                live.write(piece_text(label, number))
                say("text", time.monotonic(), label, number + 1)
                for _ in range(self.rng.randrange(4)):
                    time.sleep(self.rng.random() / 300)
                    say("tick", time.monotonic())
            say("sent", time.monotonic(), [label])
            live.finish()
        say("acked", time.monotonic(), [label])


def main() -> None:
    home = sys.argv[1]
    for line in sys.stdin:
        session_id, seed = line.split()
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            say("dead", pid)
            continue
        say("child", os.getpid())
        store = holdfast.open_store(home)
        try:
            session = store.open(session_id)
        except holdfast.SessionNotFound:
            session = store.create(session_id=session_id)
        Babbler(session, random.Random(int(seed)), f"s{seed}").run()


if __name__ == "__main__":
    main()
