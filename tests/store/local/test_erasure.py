"""Erasing in files: no file of the home has the bytes any more, whenever the process died."""

from __future__ import annotations

import gzip
import itertools
import shutil
import zlib
from hashlib import sha256

import pytest

import holdfast
from holdfast import DiskFull, SessionNotFound, StorageError, UsageError, user
from holdfast.exchange.archive.read import take_archive
from holdfast.exchange.exporting.export import export_to
from holdfast.files import Files
from holdfast.model.entry import Header
from holdfast.store.local import erasure
from holdfast.store.local.layout import Home
from holdfast.store.types import Tombstone
from holdfast.store.write.erase import Erasure
from tests.disk import FakeUnsyncedFiles
from tests.dying import dies

SECRET = b"hunter2-unlikely"
TEXT = SECRET.decode()
LARGE = f"{TEXT} " * 30_000


def opened(home, files=None):
    return holdfast.open_store(home, files=files or FakeUnsyncedFiles())


def places_of(home, words=SECRET):
    """Return the files below a folder that have words in them, packed or not."""
    found = []
    for path in sorted(home.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            if path.suffix == ".gz":
                data += gzip.decompress(data)
            if words in data:
                found.append(str(path.relative_to(home)))
    return found


def filled(home, files=None):
    """Make a session that has a secret wherever it can be; return its id and the numbers."""
    with opened(home, files) as store:
        with store.create(title=f"about {TEXT}") as session:
            numbers = [1, session.append(user(f"first {TEXT}")).seq]  # the title is entry 1
            numbers.append(session.append(user(LARGE), id="large").seq)
            session.append(user("kept"))
            numbers.append(session.checkpoint(f"so far {TEXT}", keep_last=1).seq)
            session.compact()
            numbers.append(session.update(title=f"now {TEXT}").seq)
            numbers.append(session.put("graph", LARGE).seq)
            session.append(user("last"))
            session.compact()
            with session.stream() as live:
                live.write(f"streamed {TEXT}")
                numbers.append(live.finish().seq)
            damaged = session.path / "damaged"
            damaged.mkdir(0o700)
            (damaged / "tail-journal.jsonl-1-2-3.bin").write_bytes(SECRET)
            (session.path / "archive" / ".journal-x.jsonl.gz").write_bytes(gzip.compress(SECRET))
            (session.path / "blobs" / ".half").write_bytes(SECRET)
            for path in session.path.rglob("*"):
                path.chmod(0o700 if path.is_dir() else 0o600)
        assert store.list()[0].title
        assert store.search("hunter2")
    return session.id, numbers


def test_no_file_has_it_any_more(home):
    session_id, numbers = filled(home)
    before = places_of(home)
    for folder in ("archive", "blobs", "damaged", session_id):
        assert any(name.split("/")[-2:-1] == [folder] for name in before)
    with opened(home) as store:
        with store.open(session_id) as session:
            for number in numbers:
                session.erase(number)
            assert places_of(home) == []
            assert [message.text for message in session.messages] == ["kept", "last"]
            assert session.meta == {}
            assert session.get("graph") is None
        assert store.verify(session_id).ok
        assert store.list()[0].title == "kept"
        assert store.search("hunter2") == []
        assert places_of(home) == []
        with store.open(session_id) as session:  # nothing is left to be done
            assert session.recovery.clean
        archives = sorted((session.path / "archive").iterdir())
        assert len(archives) == 2
        for archive in archives:
            assert b'"kept"' in gzip.decompress(archive.read_bytes())


def test_what_an_archive_has_instead_verifies(home, tmp_path):
    session_id, numbers = filled(home)
    with opened(home) as store, store.open(session_id) as session:
        session.erase(numbers[1])
    archives = (session.path / "archive").iterdir()
    first = max(archives, key=lambda path: len(gzip.decompress(path.read_bytes())))
    copy = tmp_path / "copy" / "sessions" / session.path.parent.name / session_id
    copy.mkdir(parents=True)
    (copy / "journal.jsonl").write_bytes(gzip.decompress(first.read_bytes()))
    with opened(tmp_path / "copy") as store:
        kinds = [problem.kind for problem in store.verify(session_id).problems]
        assert set(kinds) <= {"blob", "permissions"}
        with store.open(session_id, mode="read") as session:
            assert session.entry(numbers[1]).body.reason == "erased"


def erase_all(home, session_id, numbers):
    def work(files):
        with opened(home, files) as store, store.open(session_id) as session:
            for number in numbers:
                session.erase(number)

    return work


@pytest.mark.parametrize("moment", ["before", "torn"])
def test_a_process_that_dies_leaves_the_old_session_or_the_erased_one(home, tmp_path, moment):
    session_id, numbers = filled(home)
    numbers = [numbers[2]]
    seen = set()
    for number in itertools.count():
        copy = tmp_path / str(number)
        shutil.copytree(home, copy)
        died = dies(erase_all(copy, session_id, numbers), number, moment)
        with opened(copy) as store:
            with store.open(session_id, mode="read") as reading:
                texts = [message.text for message in reading.messages]
                assert texts == ["kept", "last", f"streamed {TEXT}"]
            with store.open(session_id) as session:
                erased = store.tombstones() != []  # what was begun is done by now
                seen.add(erased)
                if not erased:
                    session.erase(numbers[0])
            assert not (session.path / "erasing.json").exists()
            assert not (session.path / "blobs" / sha256(LARGE.encode()).hexdigest()).exists()
            assert [each.seq for each in store.tombstones()] == numbers
            assert store.verify(session_id).ok
            with store.open(session_id, mode="read") as reading:
                assert [message.text for message in reading.messages] == texts
        archives = (session.path / "archive").iterdir()
        assert not any(b'"id":"large"' in gzip.decompress(path.read_bytes()) for path in archives)
        shutil.rmtree(copy)
        if not died:
            break
    assert seen == {False, True}


@pytest.mark.parametrize("moment", ["before", "torn"])
def test_a_process_that_dies_leaves_the_old_session_or_none(home, tmp_path, moment):
    session_id, _ = filled(home)
    seen = set()
    for number in itertools.count():
        copy = tmp_path / str(number)
        shutil.copytree(home, copy)

        def work(files, copy=copy):
            with opened(copy, files) as store:
                store.delete(session_id, erase=True)

        died = dies(work, number, moment)
        with opened(copy) as store:
            there = session_id in store.ids()
            seen.add(there)
            if there:
                assert store.verify(session_id).ok
                assert store.tombstones() == []
                store.delete(session_id, erase=True)
            else:
                assert len(store.tombstones()) == 1
                with pytest.raises(SessionNotFound):
                    store.restore(session_id)
                store.half_erased(remove=True)
            assert len(store.tombstones()) == 1
            assert store.half_erased().count == 0
            assert places_of(copy) == []
        shutil.rmtree(copy)
        if not died:
            break
    assert False in seen
    assert True in seen or moment == "torn"


def test_the_doctor_finishes_what_was_begun(home, monkeypatch):
    session_id, _ = filled(home)
    with opened(home) as store:
        with monkeypatch.context() as patched:
            patched.setattr(erasure, "finish_sessions", lambda _: None)
            store.delete(session_id, erase=True)
        assert places_of(home) != []
        found = list(store.checkup(fix=True))
        assert [each.kind for each in found if each.fixed] == ["leftover"]
        assert places_of(home) == []
        assert len(store.tombstones()) == 1


def exported(store, session_id, tmp_path):
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "copy.holdfast"
    with store.open(session_id, mode="read") as session:
        export_to(session, "archive", path)
    return path


def test_an_archive_of_an_erased_session_is_not_imported(home, tmp_path):
    session_id, _ = filled(home)
    with opened(home) as store:
        path = exported(store, session_id, tmp_path)
        store.delete(session_id, erase=True)
        with pytest.raises(UsageError, match=f"{session_id} was erased here at"):
            take_archive(store, path)
        assert store.ids() == set()
        assert places_of(home) == []


def test_an_archive_with_an_erased_entry_is_not_imported(home, tmp_path):
    session_id, numbers = filled(home)
    with opened(home) as store:
        old = exported(store, session_id, tmp_path)
        with store.open(session_id) as session:
            session.erase(numbers[-1])
        new = exported(store, session_id, tmp_path / "new")
        with pytest.raises(holdfast.SessionExists):
            take_archive(store, old)
        (gone,) = [store.delete(session_id)] and store.deleted()
        store.erase(gone)
        with pytest.raises(UsageError, match=f"Entry {numbers[-1]} of session {session_id} was"):
            take_archive(store, old)
        assert take_archive(store, new).session == session_id


def test_a_copy_in_the_trash_is_not_restored(home):
    session_id, _ = filled(home)
    with opened(home) as store:
        folder = store.find(session_id)
        shutil.copytree(folder, home / "kept")
        store.delete(session_id, erase=True)
        shutil.move(home / "kept", home / "trash" / f"{session_id}.backup")
        with pytest.raises(UsageError, match="was erased here"):
            store.restore(session_id)
        (home / "trash" / f"{session_id}.backup" / "journal.jsonl").write_bytes(b"nothing\n")
        store.restore(session_id)  # whatever it is, it is not that session


def test_tombstones_survive_a_torn_line(home):
    session_id, _ = filled(home)
    other, _ = filled(home)
    with opened(home) as store:
        store.delete(session_id, erase=True)
        with (home / erasure.LEDGER_NAME).open("ab") as ledger:
            ledger.write(b'{"session":"half')
        store.delete(other, erase=True)
        assert {each.session for each in store.tombstones()} == {session_id, other}


def test_a_session_whose_header_is_gone_leaves_no_tombstone(home):
    session_id, _ = filled(home)
    with opened(home) as store:
        path = store.find(session_id) / "journal.jsonl"
        lines = path.read_bytes().split(b"\n")
        path.write_bytes(b"\n".join([b"x" * len(lines[0]), *lines[1:]]))
        store.delete(session_id, erase=True)
        assert store.tombstones() == []
        assert places_of(home) == []


def test_one_that_cannot_be_read_at_all_is_erased_too(home):
    session_id, _ = filled(home)
    with opened(home) as store:
        (store.find(session_id) / "journal.jsonl").unlink()
        store.delete(session_id, erase=True)
        assert places_of(home) == []
        assert store.tombstones() == []


def test_an_archive_that_cannot_be_unpacked_is_cut_there(home):
    session_id, numbers = filled(home)
    with opened(home) as store:
        archive = max((store.find(session_id) / "archive").glob("j*"))
        archive.write_bytes(archive.read_bytes()[:-20])
        with store.open(session_id) as session:
            session.erase(numbers[1])
        assert zlib.decompress(archive.read_bytes(), wbits=31)  # whole again
        assert f"first {TEXT}".encode() not in zlib.decompress(archive.read_bytes(), wbits=31)


def test_files_of_a_failed_sync_stay_files_in_an_archive(home, monkeypatch):
    at = b'"at":"2026-11-15T19:40:12.001Z"'
    first = b'{"seq":0,%b,"type":"header","format":1,"session":"s","uid":"u"}' % at
    home.mkdir(exist_ok=True)
    path = home / "journal-x.jsonl.gz"
    torn = b'{"seq":1,"at":"2026-11-15T19:40:12.001Z","type":"mess'
    files = [first + b"\nno entry\n" + torn, first + b"\n"]
    path.write_bytes(b"".join(map(gzip.compress, files)))
    monkeypatch.setattr(erasure, "_CHUNK_BYTES", 1)
    erasure._rewrite_archive(Files(), path, 7)
    data = path.read_bytes()
    assert gzip.decompress(data) == first + b"\n" + first + b"\n"
    assert data.count(b"\x1f\x8b\x08") == 2
    erasure._rewrite_archive(Files(), path, 7)
    assert path.read_bytes() == data  # nothing in it has to be changed


@pytest.mark.parametrize("failing", ["begin", "finish"])
def test_a_full_disk_keeps_nobody_from_opening_it(home, monkeypatch, failing):
    session_id, numbers = filled(home)

    def fail(number):
        def refuse(*_):
            raise OSError(number, "refused")

        return refuse

    with opened(home) as store:
        with store.open(session_id) as session, monkeypatch.context() as patched:
            patched.setattr(erasure, "finish", fail(28))
            with pytest.raises(DiskFull):
                session.erase(numbers[-1])
            assert [message.text for message in session.messages] == ["kept", "last"]
            session.append(user("more"))
        with monkeypatch.context() as patched:
            patched.setattr(erasure, failing, fail(28))
            with store.open(session_id) as session:
                assert [message.text for message in session.messages] == ["kept", "last", "more"]
                session.append(user("still"))
            patched.setattr(erasure, failing, fail(5))
            with pytest.raises(StorageError):
                store.open(session_id)
        with store.open(session_id) as session:
            assert [message.text for message in session.messages][-1] == "still"
        assert [each.seq for each in store.tombstones()] == [numbers[-1]]
        assert store.verify(session_id).ok


def test_an_archive_is_as_it_was_if_it_cannot_be_written(home, monkeypatch):
    session_id, numbers = filled(home)
    with opened(home) as store, store.open(session_id) as session:
        before = {path: path.read_bytes() for path in (session.path / "archive").glob("j*")}

        def refuse(*_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(erasure, "_compress", refuse)
            with pytest.raises(DiskFull):
                session.erase(numbers[1])
        now = {path: path.read_bytes() for path in (session.path / "archive").iterdir()}
        assert now == before
        session.erase(numbers[1])
        assert b"first hunter2" not in gzip.decompress(max(before).read_bytes())


def test_files_that_a_rewrite_merged_are_removed(home):
    session_id, _ = filled(home)
    files = FakeUnsyncedFiles()
    folder = next((home / "sessions").glob(f"*/{session_id}"))
    for number in (2, 3):
        (folder / f"journal.{number}.jsonl").write_bytes(SECRET)
    header = Header(1, session_id, "uid")
    place = Home(files, home, force=False)
    erasure.finish(place, folder, header, 2, Erasure(99, "", []))
    assert not (folder / "journal.2.jsonl").exists()
    assert (folder / "journal.3.jsonl").exists()


def test_a_blob_stays_if_it_cannot_be_told_who_names_it(home):
    session_id, numbers = filled(home)
    with opened(home) as store, store.open(session_id) as session:
        (session.path / "notes.zst").write_bytes(b"packed")
        with pytest.raises(StorageError, match="cannot be searched"):
            session.erase(numbers[2])
        (session.path / "notes.zst").unlink()
        session.erase(numbers[2])
        assert store.tombstones() != []


def test_nothing_is_erased_while_entries_wait_for_room(home, monkeypatch):
    session_id, numbers = filled(home)
    with opened(home) as store, store.open(session_id) as session:
        monkeypatch.setattr(session._recorder, "trouble", lambda: DiskFull(home, ()))
        with pytest.raises(DiskFull):
            session.erase(numbers[1])
        monkeypatch.undo()


def test_a_fork_beside_damage_has_the_events(home):
    with opened(home) as store:
        with store.create() as session:
            session.append(user("a"))
            session.event("seen", 1)
            session.event("lost", 2)
            session.append(user("b"))
        path = session.path / "journal.jsonl"
        path.write_bytes(path.read_bytes().replace(b'{"seq":3,', b'{"sxq":3,'))
        with store.open(session.id, mode="read") as again, again.fork(events=True) as fork:
            assert [entry.body.data for entry in fork.entries(types=["event"])] == [1]


def test_an_intent_that_cannot_be_read_changes_nothing(home):
    session_id, _ = filled(home)
    with opened(home) as store:
        (store.find(session_id) / "erasing.json").write_bytes(b"{")
        with store.open(session_id) as session:
            assert len(session.messages) == 3
        assert store.tombstones() == []


def test_a_tombstone_is_recorded_once(home):
    place = Home(FakeUnsyncedFiles(), home, force=False)
    home.mkdir(exist_ok=True)
    for _ in range(2):
        erasure.record(place, Tombstone("s", "u", "now", seq=1))
    assert len(erasure.tombstones(place)) == 1
