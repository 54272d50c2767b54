"""Compaction: less on disk, the same session, and the old bytes in the archive."""

from __future__ import annotations

import errno
import gzip
import shutil

import pytest

import holdfast
from holdfast import Label, Turn, assistant, user
from holdfast.files import Files
from holdfast.model.entry import Entry
from holdfast.store.local.reader import Journal


def texts(messages):
    return [message.text for message in messages]


def journal_bytes(session):
    return (session.path / "journal.jsonl").read_bytes()


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


@pytest.fixture
def filled():
    def fill(store: holdfast.Store) -> holdfast.Session:
        session = store.create(title="t")
        session.append([user("covered 1"), assistant("covered 2")])
        session.usage(input=10, output=1, cost_usd=1.0)
        off = session.append(user("off the branch"))
        session.append(Label("there", off.seq))
        session.rewind(3)
        session.append([Turn("started"), user("kept 1")])
        session.checkpoint("so far", keep_last=1)
        session.append([user("kept 2"), Turn("completed")])
        return session

    return fill


def test_compaction_drops_what_is_covered_or_off_the_branch(store, filled):
    session = filled(store)
    before, context, totals = journal_bytes(session), session.context(), session.totals
    count, state = session.state.messages, session.state
    report = session.compact()
    after = journal_bytes(session)
    assert b'"text","text":"covered 1"' in before
    assert b'"text","text":"covered 1"' not in after
    assert b"covered 2" not in after
    assert b"off the branch" not in after
    assert session.context() == context
    assert texts(session.messages) == ["kept 1", "kept 2"]
    assert (session.totals, session.state.messages) == (totals, count)
    assert session.meta == {"title": "t"}
    assert session.state.labels == state.labels
    assert session.state.turn == state.turn
    assert session.state.started == state.started
    assert (report.before_bytes, report.after_bytes) == (len(before), len(after))
    assert report.lines_left_out > 3


def test_kept_lines_are_kept_byte_for_byte(store, filled):
    session = filled(store)
    before = journal_bytes(session).splitlines()
    session.compact()
    own = [
        line
        for line in journal_bytes(session).splitlines()
        if not any(b'"type":"%s"' % kind in line for kind in (b"header", b"gap", b"mark"))
    ]
    assert own
    assert all(line in before for line in own)


def test_the_old_journal_is_in_the_archive(store, filled):
    session = filled(store)
    before = journal_bytes(session)
    report = session.compact()
    with gzip.open(report.archive) as archive:
        assert archive.read() == before
    assert (session.path / "archive").stat().st_mode & 0o777 == 0o700


def test_a_compacted_journal_verifies_and_goes_on(store, filled):
    session = filled(store)
    session.compact()
    assert store.verify(session.id).ok
    position = session.append(user("next"))
    session.append(user("and next"))
    assert texts(session.messages) == ["kept 1", "kept 2", "next", "and next"]
    session.close()
    assert store.verify(session.id).ok
    with store.open(session.id) as again:
        assert again.recovery.clean
        assert again.state == session.state
        assert texts(again.context()) == ["so far", "kept 1", "kept 2", "next", "and next"]
        assert again.append(user("third")).seq > position.seq
        again.rewind(position)
        again.compact()
        again.compact()
        assert texts(again.context()) == ["so far", "kept 1", "kept 2", "next"]
    assert store.verify(session.id).ok
    assert len(list((session.path / "archive").iterdir())) == 3


def with_continuation(fragile, files):
    session = fragile.create()
    session.append([user("a"), user("b")])
    files.fail("sync", errno.EIO, name="journal.jsonl")
    session.append(user("c"))
    files.fail("sync", errno.EIO, name="journal.2.jsonl")
    session.append(user("d"))
    assert sorted(path.name for path in session.path.glob("journal*")) == [
        "journal.2.jsonl",
        "journal.3.jsonl",
        "journal.jsonl",
    ]
    return session


def test_compaction_merges_continuation_files(fragile, files):
    session = with_continuation(fragile, files)
    parts = [path.read_bytes() for path in sorted(session.path.glob("journal*"))]
    report = session.compact()
    assert [path.name for path in session.path.glob("journal*")] == ["journal.jsonl"]
    assert texts(session.messages) == ["a", "b", "c", "d"]
    with gzip.open(report.archive) as archive:
        archived = archive.read()
    assert all(part in archived for part in parts)
    session.append(user("e"))
    files.fail("sync", errno.EIO, name="journal.jsonl")
    session.append(user("f"))
    session.close()
    assert fragile.verify(session.id).ok
    with fragile.open(session.id) as again:
        assert texts(again.messages) == ["a", "b", "c", "d", "e", "f"]
        again.compact()
        assert texts(again.messages) == ["a", "b", "c", "d", "e", "f"]


def test_a_crash_before_continuation_files_are_removed_is_harmless(fragile, files, tmp_path):
    session = with_continuation(fragile, files)
    copies = []

    def crash() -> None:
        copies.append(tmp_path / "copy")
        shutil.copytree(fragile.path, copies[0])

    files.on("unlink", crash, name="journal.2.jsonl")
    session.compact()
    copy = holdfast.open_store(copies[0])
    folder = copy.find(session.id)
    assert (folder / "journal.2.jsonl").exists()
    assert copy.verify(session.id).ok
    assert texts(copy.open(session.id, "read").messages) == ["a", "b", "c", "d"]
    with copy.open(session.id) as again:
        assert texts(again.messages) == ["a", "b", "c", "d"]
        again.append(user("e"))
    with copy.open(session.id) as again:
        assert texts(again.messages) == ["a", "b", "c", "d", "e"]
        again.compact()
        assert texts(again.messages) == ["a", "b", "c", "d", "e"]


def test_continuation_files_that_cannot_be_removed_do_no_harm(fragile, files):
    session = with_continuation(fragile, files)
    files.fail("unlink", errno.EIO, name="journal.2.jsonl")
    session.compact()
    session.append(user("e"))
    session.close()
    assert fragile.verify(session.id).ok
    assert texts(fragile.open(session.id).messages) == ["a", "b", "c", "d", "e"]


STEPS = [
    ("make_folder", "archive"),
    ("write", ".gz"),
    ("sync", ".gz"),
    ("rename", ".gz"),
    ("sync_folder", "archive"),
    ("open_append", ".journal.jsonl."),
    ("write", ".journal.jsonl."),
    ("sync", ".journal.jsonl."),
    ("rename", ".journal.jsonl."),
]


@pytest.mark.parametrize(("method", "name"), STEPS)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_compaction_that_fails_leaves_everything_as_it_was(
    fragile, files, filled, method, name, error
):
    session = filled(fragile)
    before = contents(session.path)
    files.fail(method, error, name=name)
    expected = holdfast.DiskFull if error == errno.ENOSPC else holdfast.StorageError
    with pytest.raises(expected):
        session.compact()
    after = contents(session.path)
    # Where the swap itself may have happened, the archive stays: it is a copy too many at worst.
    for archived in [each for each in after if each.endswith(".gz")]:
        assert method in {"sync_folder", "rename"}
        assert gzip.decompress(after.pop(archived)) == before["journal.jsonl"]
    assert after == before
    session.append(user("goes on"))
    session.compact()
    session.close()
    assert texts(fragile.open(session.id).messages) == ["kept 1", "kept 2", "goes on"]
    assert fragile.verify(session.id).ok


def test_a_folder_that_cannot_be_synced_after_the_swap_acknowledges_nothing_more(
    fragile, files, filled
):
    session = filled(fragile)
    # The first one is for the archive's folder.
    files.fail("sync_folder", errno.EIO, name=session.id, nth=2)
    with pytest.raises(holdfast.StorageError):
        session.compact()
    with pytest.raises(holdfast.WriteFailed):
        session.append(user("which file would it be in after a power cut?"))
    session.close()
    assert texts(fragile.open(session.id).messages) == ["kept 1", "kept 2"]


def test_a_journal_that_is_not_ours_any_more_is_not_compacted(store, filled):
    session = filled(store)
    path = session.path / "journal.jsonl"
    theirs = path.read_bytes().replace(b"kept", b"KEPT")
    path.unlink()
    path.write_bytes(theirs)
    with pytest.raises(holdfast.WriteFailed):
        session.append(user("x"))
    with pytest.raises(holdfast.WriteFailed):
        session.compact()
    assert path.read_bytes() == theirs


def test_compaction_with_damage_in_the_middle(store, filled):
    session = filled(store)
    session.append(user("kept 3"))
    session.close()
    path = session.path / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"text":"kept 2"', b'"text";"kept 2"'))
    damaged = path.read_bytes()
    with store.open(session.id) as again:
        assert [piece.kind for piece in again.recovery.damage] == ["unreadable"]
        assert texts(again.context()) == ["so far", "kept 1", "kept 3"]
        again.append(user("kept 4"))
        assert again.state.gaps
        report = again.compact()
        assert texts(again.context()) == ["so far", "kept 1", "kept 3", "kept 4"]
        assert again.state.gaps == []
        again.append(user("kept 5"))
    with gzip.open(report.archive) as archive:
        assert archive.read().startswith(damaged)
    kinds = {problem.kind for problem in store.verify(session.id).problems}
    assert kinds <= {"unverified"}
    with store.open(session.id) as again:
        assert texts(again.context()) == ["so far", "kept 1", "kept 3", "kept 4", "kept 5"]


def test_garbage_between_two_neighbours_leaves_no_hole(store):
    session = store.create()
    session.append(user("a"))
    session.close()
    path = session.path / "journal.jsonl"
    whole = path.read_bytes()
    with store.open(session.id) as again:
        again.append(user("b"))
    rest = path.read_bytes()[len(whole) :]
    path.write_bytes(whole + b"garbage\n" + rest)
    with store.open(session.id) as again:
        assert texts(again.messages) == ["a", "b"]
        again.compact()
        assert texts(again.messages) == ["a", "b"]
    with Journal(Files(), session.path) as journal:
        numbers = [entry.seq for entry in journal.records() if isinstance(entry, Entry)]
    assert numbers == sorted(set(numbers))
    assert not any(problem.kind == "damage" for problem in store.verify(session.id).problems)


def test_compaction_of_a_large_journal_is_written_in_chunks(fragile, files, monkeypatch):
    monkeypatch.setattr("holdfast.store.local.compact._CHUNK_BYTES", 5000)
    session = fragile.create()
    session.append([user(f"{number} " + "x" * 300) for number in range(100)])
    files.calls.clear()
    report = session.compact()
    assert files.count("write", ".journal.jsonl.") > 5
    assert len(session.messages) == 100
    with gzip.open(report.archive) as archive:
        assert len(archive.read()) == report.before_bytes
    assert fragile.verify(session.id).ok


def test_an_id_is_still_known_when_its_entry_was_left_out(store):
    with store.create() as session:
        session.append(user("first"))
        paid = session.append(user("pay"), id="request-1")
        session.checkpoint("paid")
        session.compact()
        assert "pay" not in [message.text for message in session.messages]
        assert session.append(user("pay"), id="request-1").seq == paid.seq
        (session.path / "archive" / ".half-written.gz").write_bytes(b"not one")
    with store.open(session.id) as again:
        assert again.append(user("pay"), id="request-1").seq == paid.seq
        assert again.append(user("pay"), id="request-2").seq > paid.seq
        assert [message.text for message in again.messages] == ["pay"]


@pytest.mark.parametrize("at", [rb"\"20", rb"\ud800", rb"\n", b"", "٢٠٢٦-01-01T00:00:00Z".encode()])
@pytest.mark.parametrize("rewrite", [holdfast.Session.compact, holdfast.Session.mend])
def test_a_header_with_a_time_that_is_none_gets_one(store, at, rewrite):
    with store.create() as session:
        session.append(user("hello"))
        started = session.state.started
    data = journal_bytes(session)
    (session.path / "journal.jsonl").write_bytes(data.replace(started.encode(), at, 1))
    with store.open(session.id) as session:
        rewrite(session)
        session.append(user("goodbye"))
    assert store.verify(session.id).ok
    with store.open(session.id, "read") as again:
        assert texts(again.messages) == ["hello", "goodbye"]
        assert started <= again.state.started <= again.state.updated
