"""Sessions with a naive model beside them, which keeps the whole tree in a dictionary.

Whatever is done to a session is done to its model, and both must say the same at every moment. Unit
tests run short lists of operations; the crash laboratory lets hypothesis choose from all of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import holdfast
from holdfast import Label, Meta, Queued, Text, Tool, Turn, Usage, user
from holdfast.files import Files
from holdfast.model.entry import TREE, Entry
from holdfast.store.local.reader import Journal
from holdfast.store.read.fold import fold
from tests.disk import FakeUnsyncedFiles


@contextmanager
def tiny_marks_and_blocks() -> Iterator[None]:
    """Let marks and reader blocks be tiny: rewinds and reopenings cross them all the time."""
    with (
        patch("holdfast.journal.writer.MARK_EVERY_BYTES", 1500),
        patch("holdfast.store.local.segment._BLOCK_BYTES", 700),
        patch("holdfast.store.write.streams._WRITE_WITHIN_SECONDS", 0),
    ):
        yield


@dataclass
class Node:
    """One tree entry of the model."""

    parent: int | None
    text: str | None = None  # of a message
    summary: str | None = None  # of a checkpoint; it may be empty
    visible: list[int] = field(default_factory=list)  # messages that the checkpoint left
    is_turn: bool = False


class Model:
    """The naive truth: every tree entry, whole, in memory."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.head: int | None = None
        self.input = 0
        self.requests = 0
        self.count = 0
        self.ids: dict[str, int] = {}
        self.meta: dict[str, Any] = {}
        self.labels: dict[str, int] = {}
        self.queue: list[int] = []

    def add(self, seq: int, node: Node) -> None:
        self.nodes[seq] = replace(node, parent=self.head)
        self.head = seq
        self.count += node.text is not None

    def path(self, head: int | None) -> list[int]:
        found = []
        while head is not None:
            found.append(head)
            head = self.nodes[head].parent
        return found[::-1]

    def messages(self) -> list[str]:
        return [text for seq in self.path(self.head) if (text := self.nodes[seq].text) is not None]

    def visible(self) -> tuple[str | None, list[int]]:
        summary: str | None = None
        found: list[int] = []
        for seq in self.path(self.head):
            node = self.nodes[seq]
            if node.summary is not None:
                summary, found = node.summary, list(node.visible)
            elif node.text is not None:
                found.append(seq)
        return summary, found

    def context(self) -> list[str]:
        summary, found = self.visible()
        texts = [self.nodes[seq].text or "" for seq in found]
        return [summary, *texts] if summary else texts

    def keep(self, kept: set[int]) -> None:
        """Forget all nodes but these; a lost parent becomes the nearest kept ancestor."""
        for seq in kept:
            parent = self.nodes[seq].parent
            while parent is not None and parent not in kept:
                parent = self.nodes[parent].parent
            self.nodes[seq].parent = parent
        while self.head is not None and self.head not in kept:
            self.head = self.nodes[self.head].parent
        self.nodes = {seq: self.nodes[seq] for seq in kept}
        for node in self.nodes.values():  # a checkpoint that no longer counts may have shown more
            node.visible = [seq for seq in node.visible if seq in kept]


class World:
    """A store with some sessions in it, each with its model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.homes = 1
        self.number = 0
        self.store = holdfast.open_store(folder / "1", files=FakeUnsyncedFiles())
        self.histories = [History(self)]
        self.deleted: list[History] = []

    def die(self) -> None:
        """Let the process die: go on in a copy of what is on disk at this moment."""
        self.homes += 1
        home = self.folder / str(self.homes)
        if self.store.path.exists():
            shutil.copytree(self.store.path, home)
        self.close()
        self.store = holdfast.open_store(home, files=FakeUnsyncedFiles())
        for history in self.histories:
            history.return_to()

    def close(self) -> None:
        for history in self.histories:
            history.session.close()


class History:
    """A session and its model, side by side."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.session = world.store.create()
        self.model = Model()

    @property
    def store(self) -> holdfast.Store:
        return self.world.store

    @property
    def born(self) -> bool:
        return self.session.state.seq >= 0

    def text(self) -> str:
        self.world.number += 1
        return f"<{self.world.number}> " + "x" * (self.world.number * 37 % 211)

    def return_to(self) -> None:
        """Open the session again, wherever its store is now; one without an entry is gone."""
        if self.born:
            self.session = self.store.open(self.session.id)
        else:
            self.session, self.model = self.store.create(), Model()

    # One method an operation; ``pick`` and ``other`` are arbitrary numbers.

    def message(self, pick: int, other: int) -> None:
        text = self.text()
        position = self.session.append(user(text))
        self.model.add(position.seq, Node(None, text))

    def batch(self, pick: int, other: int) -> None:
        bodies: list[Any] = []
        nodes: list[Node | None] = []
        for number in range(1 + pick % 5):
            text = self.text()
            choice = (other >> number) % 3
            bodies.append([user(text), Meta({"n": text}), Turn("started")][choice])
            nodes.append([Node(None, text), None, Node(None, is_turn=True)][choice])
            if choice == 1:
                self.model.meta["n"] = text
        seq = self.session.append(bodies).seq - len(bodies)
        for offset, node in enumerate(nodes, 1):
            if node is not None:
                self.model.add(seq + offset, node)

    def once(self, pick: int, other: int) -> None:
        """Append with an id, new or known: the second time nothing is written."""
        name = text = f"id {pick % 2}"
        position = self.session.append(user(text), id=name)
        if name in self.model.ids:
            assert position.seq == self.model.ids[name]
        else:
            self.model.ids[name] = position.seq
            self.model.add(position.seq, Node(None, text))

    def submit(self, pick: int, other: int) -> None:
        texts = [self.text() for _ in range(1 + pick % 4)]
        tickets = [self.session.submit(user(text)) for text in texts]
        for text, ticket in zip(texts, tickets, strict=True):
            self.model.add(ticket.wait().seq, Node(None, text))

    def usage(self, pick: int, other: int) -> None:
        self.session.append(Usage(pick, 1, None if other % 2 else 0.5, model=f"m{other % 3}"))
        self.model.input += pick
        self.model.requests += 1

    def update(self, pick: int, other: int) -> None:
        self.session.update(**{f"f{pick % 4}": other})
        self.model.meta[f"f{pick % 4}"] = other

    def label(self, pick: int, other: int) -> None:
        target = self.any_node(other) if pick % 4 else None
        self.session.append(Label(f"l{pick % 3}", target))
        self.model.labels.pop(f"l{pick % 3}", None)
        if target is not None:
            self.model.labels[f"l{pick % 3}"] = target

    def turn(self, pick: int, other: int) -> None:
        state = ("started", "waiting", "completed", "failed")[pick % 4]
        position = self.session.append(Turn(state))
        self.model.add(position.seq, Node(None, is_turn=True))

    def tool(self, pick: int, other: int) -> None:
        body = Tool(call_id=str(pick), name="sh", state="started", effect="writes")
        self.model.add(self.session.append(body).seq, Node(None))

    def queue(self, pick: int, other: int) -> None:
        queue = self.model.queue
        if queue and pick % 3 == 0:
            gone = queue[other % len(queue)]
            text = self.text()
            message = holdfast.Message(role="user", content=[Text(text=text)], queued=gone)
            self.model.add(self.session.append(message).seq, Node(None, text))
            queue.remove(gone)
        elif queue and pick % 3 == 1:
            place = other % len(queue)
            body = Queued([Text(text="edited")], replaces=queue[place])
            queue[place] = self.session.append(body).seq
        else:
            queue.append(self.session.append(Queued([Text(text="later")])).seq)

    def checkpoint(self, pick: int, other: int) -> None:
        path = self.model.path(self.model.head)
        upto = path[pick % len(path)] if path and other % 3 else None
        keep_last = other % 4
        _, found = self.model.visible()
        covered = [seq for seq in found if upto is None or seq <= upto]
        rest = [seq for seq in found if seq not in covered]
        visible = (covered[-keep_last:] if keep_last else []) + rest
        summary = f"summary {self.text()}"
        position = self.session.checkpoint(summary, upto=upto, keep_last=keep_last)
        self.model.add(position.seq, Node(None, summary=summary, visible=visible))

    def truncate(self, pick: int, other: int) -> None:
        keep_last = pick % 5
        summary, found = self.model.visible()
        visible = found[-keep_last:] if keep_last else []
        position = self.session.truncate(keep_last)
        self.model.add(position.seq, Node(None, summary=summary or "", visible=visible))

    def rewind(self, pick: int, other: int) -> None:
        target = self.any_node(pick)
        self.session.rewind(target)
        self.model.head = target

    def replace(self, pick: int, other: int) -> None:
        texts = [self.text() for _ in range(pick % 3)]
        seq = self.session.replace([user(text) for text in texts]).seq - len(texts)
        self.model.head = None
        for offset, text in enumerate(texts, 1):
            self.model.add(seq + offset, Node(None, text))

    def clear(self, pick: int, other: int) -> None:
        self.session.clear()
        self.model.head = None

    def stream(self, pick: int, other: int) -> None:
        text = self.text()
        live = self.session.stream(model="m")
        live.write(text[:1])
        live.write(text[1:])
        self.model.add(live.finish().seq, Node(None, text))

    def abandon(self, pick: int, other: int) -> None:
        """Close with a stream still running: it is kept as interrupted."""
        text = self.text()
        self.session.stream(model="m").write(text)
        self.session.close()
        self.session = self.store.open(self.session.id)
        assert self.session.messages[-1].stop == "interrupted"
        self.model.add(self.session.state.head or 0, Node(None, text))

    def fork(self, pick: int, other: int) -> None:
        if not self.model.nodes:
            return  # nothing to fork
        at = self.any_node(pick) if pick % 2 else None
        fork = self.session.fork(at)
        if other % 2:
            fork.close()
            return
        model = self.model
        if at is not None:
            model.head = at
        kept = {seq for seq in model.path(model.head) if not model.nodes[seq].is_turn}
        whole = set(model.path(model.head))
        model.keep(kept)
        model.labels = {name: to for name, to in model.labels.items() if to in whole}
        model.ids = {name: seq for name, seq in model.ids.items() if seq in kept}
        model.input, model.requests, model.queue = 0, 0, []
        model.count = sum(1 for node in model.nodes.values() if node.text is not None)
        self.session.close()
        self.session = fork

    def compact(self, pick: int, other: int) -> None:
        if self.session.state.seq < 0:
            return
        model = self.model
        path = model.path(model.head)
        _, found = model.visible()
        last = max((seq for seq in path if model.nodes[seq].summary is not None), default=None)
        first = 0 if last is None else min([*found, last])
        self.session.compact()
        # What lies between messages may stay or go; no message and no summary depends on it.
        kept = {seq for seq in path if seq >= first}
        with Journal(Files(), self.session.path) as journal:
            there = {
                entry.seq
                for entry in journal.records()
                if isinstance(entry, Entry) and entry.type in TREE
            }
        assert {seq for seq in kept if model.nodes[seq].text is not None} <= there
        for seq in path:
            if seq < first and model.nodes[seq].text is not None:
                assert seq not in there
        model.keep({seq for seq in path if seq in there})

    def reopen(self, pick: int, other: int) -> None:
        if self.session.state.seq < 0:
            return
        self.session.close()
        self.session = self.store.open(self.session.id)
        assert self.session.recovery.clean

    def kill(self, pick: int, other: int) -> None:
        """Let the process die with a stream half written."""
        text = self.text()
        self.session.stream(model="m").write(text)
        self.world.die()
        assert [message.text for message in self.session.recovery.interrupted] == [text]
        self.model.add(self.session.state.head or 0, Node(None, text))

    def follow(self, pick: int, other: int) -> None:
        """Read from any number on, as a viewer does."""
        if not self.born:
            return
        after = pick % (self.session.state.seq + 2) - 1
        with self.session.follow(after=after, wait=False) as follower:
            entries = [entry for entry in follower if isinstance(entry, Entry)]
        assert [entry.seq for entry in entries] == sorted({entry.seq for entry in entries})
        texts = {
            entry.seq: entry.body.text
            for entry in entries
            if isinstance(entry.body, holdfast.Message)
        }
        nodes = self.model.nodes.items()
        assert texts == {seq: n.text for seq, n in nodes if seq > after and n.text is not None}

    def any_node(self, pick: int) -> int | None:
        places = [None, *sorted(self.model.nodes)]
        return places[pick % len(places)]

    # What must hold at every moment

    def check(self) -> None:
        session, model = self.session, self.model
        if session.state.seq < 0:
            assert session.messages == []
            return
        assert [message.text for message in session.messages] == model.messages()
        assert [message.text for message in session.context()] == model.context()
        summary, _ = model.visible()
        assert [message.text for message in session.summary] == ([summary] if summary else [])
        assert session.totals.input == model.input
        assert session.totals.requests == model.requests
        assert session.state.messages == model.count
        assert session.meta == model.meta
        assert session.state.labels == model.labels
        assert session.state.queue == model.queue

    def check_disk(self) -> None:
        session = self.session
        if session.state.seq < 0:
            return
        with Journal(Files(), session.path) as journal:
            entries = [record for record in journal.records() if isinstance(record, Entry)]
            assert all(entry.status == "ok" for entry in entries)
            assert fold(entries) == session.state
        reader = self.store.open(session.id, "read")
        seen = (session.messages, session.context(), session.state, session.summary, session.meta)
        assert (
            reader.messages,
            reader.context(),
            reader.state,
            reader.summary,
            reader.meta,
        ) == seen
        reader.close()
        assert self.store.verify(session.id).problems == []
        session.close()
        self.session = again = self.store.open(session.id)
        assert (again.messages, again.context(), again.state, again.summary, again.meta) == seen


OPERATIONS = [
    name
    for name, value in vars(History).items()
    if callable(value)
    and not name.startswith("_")
    and name not in ("text", "return_to", "any_node", "check", "check_disk")
]
