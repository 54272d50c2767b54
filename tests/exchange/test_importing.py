"""What becomes of a source that is imported again: nothing twice, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

import holdfast
from holdfast import Checkpoint, Usage, assistant, user
from holdfast.exchange.importers import importer
from holdfast.exchange.importing.importer import ImportRun
from holdfast.exchange.importing.items import (
    HeadItem,
    Item,
    MessageItem,
    MetaItem,
    RawItem,
    Source,
    SummaryItem,
    UsageItem,
)
from holdfast.exchange.importing.ledger import suffix_of
from holdfast.exchange.importing.source_files import SourceReader


class FakeImporter:
    """Says what a test tells it to."""

    name = "fake"
    title = "Fake"

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.modified_ns = 1_800_000_000 * 10**9

    @property
    def source(self) -> Source:
        return Source("fake", "one", "/nowhere", len(self.items), self.modified_ns)

    def found(self, home, environment):
        return []

    def sniff(self, path, reading):
        return False

    def sessions(self, path, reading):
        return iter([self.source])

    def read(self, source, reading) -> Iterator[Item]:
        return iter(list(self.items))


def at(second: int) -> str:
    return f"2026-05-06T18:00:{second:02d}.000Z"


def said(text: str, second: int = 0, **more) -> MessageItem:
    message = assistant(text, model="m") if second % 2 else user(text)
    return MessageItem(message, at(second), **more)


def spent(output: int, request: str | None = None) -> UsageItem:
    return UsageItem(Usage(1, output, None, model="m", request=request))


def take(store, fake):
    return ImportRun(store).take(fake, fake.source)


def texts(store, session_id):
    with store.open(session_id, mode="read") as session:
        assert store.verify(session_id).ok
        return [message.text for message in session.messages]


@pytest.fixture
def fake():
    return FakeImporter([MetaItem({"title": "t"}), said("a", 0), said("b", 1), spent(5, "r1")])


def test_a_new_source_becomes_a_session_of_its_time(store, fake):
    done = take(store, fake)
    assert done.action == "created"
    assert done.session == f"20260506-180000-{suffix_of('fake', 'one')}"
    assert texts(store, done.session) == ["a", "b"]
    (summary,) = store.list()
    assert (summary.started, summary.updated) == (at(0), at(1))
    assert summary.title == "t"
    assert summary.totals.output == 5


def test_what_is_new_is_appended(store, fake):
    first = take(store, fake)
    fake.items += [said("c", 2), said("d", 3), spent(7, "r2")]
    again = take(store, fake)
    assert again.action == "grown"
    assert again.session == first.session
    assert again.counts.messages == 2
    assert again.counts.requests == 1
    assert texts(store, again.session) == ["a", "b", "c", "d"]
    (summary,) = store.list()
    assert summary.updated == at(3)
    assert summary.totals.output == 12
    assert take(store, fake).action == "unchanged"


def test_growth_in_several_batches_and_several_times(store, fake, monkeypatch):
    monkeypatch.setattr("holdfast.exchange.importing.incremental._BATCH_ITEMS", 3)
    take(store, fake)
    expected = ["a", "b"]
    for step in range(4):
        new = [said(f"{step}.{number}", number) for number in range(10)]
        fake.items += new
        expected += [each.message.text for each in new]
        done = take(store, fake)
        assert done.action == "grown"
        assert texts(store, done.session) == expected


def test_a_touched_source_adds_no_messages(store, fake):
    first = take(store, fake)
    fake.modified_ns += 1
    again = take(store, fake)
    assert again.action == "unchanged"
    assert texts(store, first.session) == ["a", "b"]
    assert take(store, fake).action == "unchanged"


def test_a_message_that_was_still_growing_becomes_a_branch(store, fake):
    first = take(store, fake)
    fake.items[2:] = [said("b, and more", 1), spent(9, "r1"), said("c", 2)]
    again = take(store, fake)
    assert again.action == "branched"
    assert texts(store, first.session) == ["a", "b, and more", "c"]
    with store.open(first.session, mode="read") as session:
        assert session.totals.output == 9, "the difference is counted, not the whole again"
        assert session.state.messages == 4
    assert take(store, fake).action == "unchanged"
    fake.items.append(said("d", 3))
    assert take(store, fake).action == "grown"
    assert texts(store, first.session) == ["a", "b, and more", "c", "d"]


def test_a_source_that_was_rewritten_becomes_a_branch_from_the_beginning(store, fake):
    fake.items += [item for n in range(40) for item in (said(f"m{n}", n % 60), spent(1))]
    first = take(store, fake)
    fake.items[1] = said("another beginning", 0)
    fake.items.append(said("end", 2))
    again = take(store, fake)
    assert again.action == "branched"
    assert again.counts.requests == 0
    assert texts(store, first.session)[:2] == ["another beginning", "b"]
    with store.open(first.session, mode="read") as session:
        assert session.totals.requests == 41, "no request is counted twice"
        session_messages = session.state.messages
    assert session_messages == 42 + 43


def test_a_source_that_became_shorter_changes_nothing(store, fake):
    first = take(store, fake)
    del fake.items[2:]
    again = take(store, fake)
    assert again.action == "shorter"
    assert texts(store, first.session) == ["a", "b"]


def test_what_was_erased_is_not_brought_back(store, fake):
    first = take(store, fake)
    with store.open(first.session) as session:
        place = next(session.entries(types=["message"]))
        session.erase(place.seq)
    assert take(store, fake).action == "unchanged"
    fake.items += [said("c", 2)]
    with ImportRun(store) as importing:
        assert importing.standing(fake.source) == "erased"
    assert take(store, fake).action == "erased"
    assert texts(store, first.session) == ["b"]
    store.delete(first.session, erase=True)
    assert take(store, fake).action == "deleted"
    assert store.ids() == set()


def test_what_was_said_here_keeps_the_head(store, fake):
    first = take(store, fake)
    with store.open(first.session) as session:
        session.append([user("mine"), assistant("ours")])
        session.update(title="my own title")
    fake.items += [said("c", 2), said("d", 3)]
    done = take(store, fake)
    assert done.action == "grown"
    assert texts(store, first.session) == ["a", "b", "mine", "ours"]
    fake.items += [said("e", 4)]
    assert take(store, fake).action == "grown"
    assert texts(store, first.session) == ["a", "b", "mine", "ours"]
    with store.open(first.session) as session:
        assert session.meta["title"] == "my own title"
        last = max(
            entry.seq
            for entry in session.follow(wait=False)
            if isinstance(entry, holdfast.Entry) and entry.type == "message"
        )
        session.rewind(last)
        assert [message.text for message in session.messages] == ["a", "b", "c", "d", "e"]


def test_a_new_title_in_the_source_counts(store, fake):
    first = take(store, fake)
    fake.items.append(MetaItem({"title": "renamed there"}))
    take(store, fake)
    with store.open(first.session, mode="read") as session:
        assert session.meta["title"] == "renamed there"


def test_growth_after_a_compaction_of_the_session(store, fake):
    fake.items = [said("a", 0, id="a"), said("b", 1, id="b"), said("c", 2, id="c")]
    first = take(store, fake)
    with store.open(first.session) as session:
        session.checkpoint("so far")
        session.compact()
    fake.items += [said("x", 3, id="x", parent="b")]
    assert take(store, fake).action == "grown"
    fake.items += [said("y", 4, id="y", parent="x")]
    assert take(store, fake).action == "grown"
    assert store.verify(first.session).ok


def test_a_deleted_session_is_not_imported_again(store, fake):
    first = take(store, fake)
    store.delete(first.session)
    assert ImportRun(store).standing(fake.source) == "deleted"
    assert take(store, fake).action == "deleted"
    store.restore(first.session)
    assert take(store, fake).action == "unchanged"


def test_a_source_without_messages_leaves_nothing(store, fake):
    fake.items = [MetaItem({"title": "t"}), RawItem("x", {"a": 1})]
    assert take(store, fake).action == "empty"
    assert store.list() == []
    assert list((store.path / "sessions").iterdir()) == []


def test_standing(store, fake):
    importing = ImportRun(store)
    assert importing.standing(fake.source) == "created"
    importing.take(fake, fake.source)
    assert importing.standing(fake.source) == "unchanged"
    fake.modified_ns += 1
    assert importing.standing(fake.source) == "grown"


def test_branches_moves_and_compactions(store, fake):
    fake.items = [
        said("a", 0, id="a"),
        said("b", 1, id="b"),
        RawItem("note", {"n": 1}, id="n", parent="a"),
        said("x", 2, id="x", parent="n"),
        HeadItem("b"),
        said("c", 3),
        SummaryItem([user("sum")], keep_from="b", tokens=7, id="k"),
        said("d", 4),
        said("root", 5, id="r", parent=None),
        HeadItem("k"),
    ]
    done = take(store, fake)
    assert texts(store, done.session) == ["a", "b", "c"]
    with store.open(done.session, mode="read") as session:
        assert [message.text for message in session.context()] == ["sum", "b", "c"]
        checkpoint = next(e.body for e in session.branch() if isinstance(e.body, Checkpoint))
        assert checkpoint.tokens == 7


def test_copies_of_a_conversation_count_a_request_once(store):
    def copy(id: str, *requests: str) -> tuple[FakeImporter, Source]:
        one = FakeImporter(
            [MetaItem({"family": "f"}), said("a", 0), *[spent(5, each) for each in requests]]
        )
        return one, Source("fake", id, "/nowhere", 1, 1)

    with ImportRun(store) as importing:
        for one, source in [copy("one", "r1", "r2"), copy("two", "r1", "r2", "r3")]:
            importing.take(one, source)
    one, source = copy("three", "r2", "r4")
    third = ImportRun(store).take(one, source)
    assert third.counts.requests == 1
    assert sum(each.totals.requests for each in store.list()) == 4


def test_a_name_that_is_taken_by_another_session(store, fake):
    store.create(session_id=f"20260506-180000-{suffix_of('fake', 'one')}").append(user("mine"))
    done = take(store, fake)
    assert done.action == "created"
    assert done.session.endswith(suffix_of("fake", "one", 1))
    assert take(store, fake).action == "unchanged"


def test_what_cannot_be_stored_is_reported(store, fake):
    fake.items.append(RawItem("x", {"number": float("nan")}))
    done = take(store, fake)
    assert done.problem_count == 1
    assert "cannot be stored" in done.problems[0].reason


def test_a_held_session_is_not_touched(store, fake):
    first = take(store, fake)
    fake.items.append(said("c", 2))
    with holdfast.open_store(store.path).open(first.session), pytest.raises(holdfast.SessionLocked):
        take(store, fake)
    assert take(store, fake).action == "grown"


def test_an_interrupted_import_leaves_nothing_and_goes_on(store, fake):
    class FakeInterrupt(FakeImporter):
        def read(self, source, reading):
            yield from self.items
            raise KeyboardInterrupt

    broken = FakeInterrupt(fake.items)
    with pytest.raises(KeyboardInterrupt):
        take(store, broken)
    assert store.list() == []
    assert list((store.path / "sessions").iterdir()) == []
    assert take(store, fake).action == "created"


@pytest.mark.parametrize("after", [1, 4, 7, 10])
def test_an_interrupted_growth_goes_on(store, fake, monkeypatch, after):
    monkeypatch.setattr("holdfast.exchange.importing.incremental._BATCH_ITEMS", 3)
    first = take(store, fake)
    fake.items += [item for n in range(6) for item in (said(f"m{n}", n), spent(1))]

    class FakeInterrupt(FakeImporter):
        def read(self, source, reading):
            yield from self.items[: 4 + after]
            raise KeyboardInterrupt

    broken = FakeInterrupt(fake.items)
    with pytest.raises(KeyboardInterrupt):
        take(store, broken)
    assert take(store, fake).action == "grown"
    assert texts(store, first.session) == ["a", "b", *[f"m{n}" for n in range(6)]]
    with store.open(first.session, mode="read") as session:
        assert session.totals.requests == 7


KILLED = """
import os, sys
from pathlib import Path
import holdfast
from holdfast.exchange.importers import importer
from holdfast.exchange.importing.importer import ImportRun
from holdfast.exchange.importing.source_files import SourceReader

one = importer("claude-code")
(source,) = one.sessions(Path(sys.argv[2]), SourceReader())
store = holdfast.open_store(sys.argv[1])

def progress(done, total):
    print(done, flush=True)
    if done > 2_000_000:
        sys.stdin.read()

ImportRun(store).take(one, source, progress)
"""


def test_a_killed_import_leaves_nothing_visible(store, tmp_path):
    path = tmp_path / "big.jsonl"
    with path.open("w") as file:
        for number in range(4000):
            line = {
                "type": "user",
                "uuid": f"u{number}",
                "parentUuid": f"u{number - 1}" if number else None,
                "sessionId": "s",
                "timestamp": at(0),
                "message": {"role": "user", "content": "word " * 200},
            }
            file.write(json.dumps(line) + "\n")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(store.path), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for read in process.stdout:
        if int(read) > 2_000_000:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert store.list() == []
    assert any(each.name.startswith(".new-") for each in (store.path / "sessions").iterdir())
    one = importer("claude-code")
    (source,) = one.sessions(path, SourceReader())
    done = ImportRun(store).take(one, source)
    assert done.counts.messages == 4000
    assert os.stat(path).st_size == source.size_bytes


def test_a_request_that_a_source_repeats_is_counted_once(store, fake):
    fake.items += [said("c", 2), spent(5, "r1"), said("d", 3), spent(9, "r1")]
    first = take(store, fake)
    assert first.counts.requests == 2
    fake.items += [said("e", 4), spent(9, "r1"), spent(1, "r2"), spent(1, "r2")]
    assert take(store, fake).counts.requests == 1
    with store.open(first.session, mode="read") as session:
        assert session.totals.output == 10


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_copies_of_copies_count_a_request_once(store, order):
    copies = [("a", "a", ["r1"]), ("b", "a", ["r1", "r2"]), ("c", "b", ["r1", "r2", "r3"])]
    for id, family, requests in (copies[number] for number in order):
        one = FakeImporter(
            [MetaItem({"family": family}), said(id, 0), *[spent(5, each) for each in requests]]
        )
        with ImportRun(store) as importing:
            importing.take(one, Source("fake", id, f"/{id}", 1, 1))
    assert sum(each.totals.requests for each in store.list()) == 3


def test_one_import_at_a_time(store, fake):
    with ImportRun(store) as importing:
        importing.take(fake, fake.source)
        with ImportRun(store) as other, pytest.raises(holdfast.StorageError) as refused:
            other.take(fake, fake.source)
    assert refused.value.exit_code == 75
    assert "Another import" in str(refused.value)
    assert take(store, fake).action == "unchanged"


def test_an_import_sees_what_another_has_just_imported(store, fake):
    waiting = ImportRun(store)
    take(store, fake)
    with waiting:
        assert waiting.take(fake, fake.source).action == "unchanged"
