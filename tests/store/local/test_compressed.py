"""Compressed sessions: listed, searched, read and followed; unpacked to be written; never lost."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.files import Files
from holdfast.journal.format import seal
from holdfast.store.local.compressed import MAGIC, CompressedFile
from holdfast.store.local.orphan_blobs import leftovers
from holdfast.store.local.reader import Journal
from holdfast.store.local.segment import Segment
from tests.crash.lab.packages import provided
from tests.disk import FakeUnsyncedFiles, snapshot
from tests.dying import MOMENTS, dies

LARGE = "x" * 300_000
FRAME_BYTES = 64 * 1024


@pytest.fixture(autouse=True)
def small_frames(monkeypatch):
    monkeypatch.setattr("holdfast.store.local.compressed.FRAME_BYTES", FRAME_BYTES)


def fill(store, count=60, **meta):
    with store.create(title="the title", **meta) as session:
        words = "word " * 1000
        session.append([holdfast.user(f"message {number} {words}") for number in range(count)])
        session.append(holdfast.user(LARGE))
        session.usage(input=1, output=2, model="m")
    return session


@pytest.fixture
def session(store):
    return fill(store)


@pytest.fixture
def journal(session):
    return session.path / "journal.jsonl"


@pytest.fixture
def plain(journal):
    return journal.read_bytes()


def texts(store, id):
    with store.open(id, mode="read") as session:
        return [message.text for message in session.messages]


def test_it_takes_less_room_and_says_the_same(store, session, journal, plain):
    before = texts(store, session.id), store.list(), store.verify(session.id)
    (found,) = store.search("message 7")
    done = store.compress(session.id)
    assert done.before_bytes == len(plain)
    assert done.after_bytes == journal.stat().st_size < len(plain) / 5
    assert journal.read_bytes().startswith(MAGIC)
    assert (texts(store, session.id), store.list(), store.verify(session.id)) == before
    assert store.search("message 7") == [found]
    (store.path / "index.db").unlink()
    assert store.list() == before[1]
    assert list(store.checkup()) == []
    assert store.compress(session.id) == done
    assert journal.stat().st_mode & 0o777 == 0o600


def test_it_is_unpacked_to_be_written(store, session, journal, plain):
    store.compress(session.id)
    with store.open(session.id) as opened:
        assert opened.recovery.clean
        assert journal.read_bytes() == plain
        opened.append(holdfast.user("more"))
    assert journal.read_bytes().startswith(plain)
    assert texts(store, session.id)[-1] == "more"
    assert store.verify(session.id).ok


def test_one_that_may_not_be_written_stays_packed(store, session, journal, plain):
    vow = seal(999, "2026-01-02T03:04:05.000Z", "vows", b'{"must":true}', plain[-11:-3])
    journal.write_bytes(plain + vow + b"\n")
    store.compress(session.id)
    packed = snapshot(session.path)["journal.jsonl"]
    with store.open(session.id) as opened:
        assert opened.read_only
    assert snapshot(session.path)["journal.jsonl"] == packed
    assert store.is_compressed(session.id)


def test_there_and_back_is_exact(store, session, journal, plain):
    store.compress(session.id)
    done = store.decompress(session.id)
    assert journal.read_bytes() == plain
    assert done.after_bytes == len(plain)
    assert store.decompress(session.id).before_bytes == len(plain)


def test_other_programs_can_unpack_it(store, session, journal, plain):
    if not provided("zstd", "zstd"):
        reason = "Another program was NOT asked: zstd is missing."
        assert not os.environ.get("HOLDFAST_NOTHING_SKIPPED"), reason
        pytest.skip(reason)
    store.compress(session.id)
    with journal.open("rb") as file:
        done = subprocess.run(["zstd", "-dc"], stdin=file, capture_output=True, check=True)
    assert done.stdout == plain


def test_a_torn_end_survives_as_it_is(store, session, journal, plain):
    with journal.open("ab") as file:
        file.write(b'{"seq":')
    store.compress(session.id)
    assert [problem.kind for problem in store.verify(session.id).problems] == ["torn"]
    with store.open(session.id) as opened:
        (piece,) = opened.recovery.set_aside
        assert piece.size_bytes == 7
    assert journal.read_bytes() == plain


def test_a_session_in_use_is_not_touched(store, session, journal, plain):
    with store.open(session.id):
        for call in (store.compress, store.decompress):
            with pytest.raises(holdfast.SessionLocked):
                call(session.id)
    assert journal.read_bytes() == plain


def test_readers_beside_it_notice_nothing(store, session):
    expected = texts(store, session.id)
    with store.open(session.id, mode="read") as early:
        store.compress(session.id)
        assert [message.text for message in early.messages] == expected
    with store.open(session.id, mode="read") as middle:
        store.decompress(session.id)
        assert [message.text for message in middle.messages] == expected


def test_followers_go_on_across_it(store, session):
    follower = holdfast.open_store(store.path).open(session.id, mode="read").follow(after=-1)
    first = follower.poll()
    assert first
    store.compress(session.id)
    assert follower.poll() == []
    assert follower.poll() == []
    with store.open(session.id) as opened:
        opened.append(holdfast.user("new"))
    more = [str(entry.body) for entry in follower.poll() if isinstance(entry, holdfast.Entry)]
    assert ["new" in text for text in more if "Message" in text] == [True]
    follower.close()
    store.compress(session.id)
    with store.open(session.id, mode="read") as opened:
        assert list(opened.follow(wait=False))[: len(first)] == first


def test_many_entries_are_followed_in_several_steps(store, monkeypatch):
    session = fill(store)
    store.compress(session.id)
    monkeypatch.setattr("holdfast.store.local.watch._MOST_AT_ONCE", 7)
    with store.open(session.id, mode="read") as opened:
        entries = list(opened.follow(wait=False))
    assert len([entry for entry in entries if entry.type == "message"]) == 61


def test_forks_deletion_and_restoring(store, session):
    expected = texts(store, session.id)
    store.compress(session.id)
    with store.open(session.id, mode="read") as opened, opened.fork() as fork:
        assert [message.text for message in fork.messages] == expected
    store.delete(session.id)
    store.restore(session.id)
    assert texts(store, session.id) == expected


def test_blobs_of_a_compressed_session_are_known(store, session):
    (blob,) = (session.path / "blobs").iterdir()
    store.compress(session.id)
    os.utime(blob, (1, 1))
    assert leftovers(Files(), session.path, remove=True).count == 0
    assert blob.exists()


def test_a_journal_in_several_files(fragile, files):
    with fragile.create() as session:
        session.append(holdfast.user("one"))
        files.fail("sync", name="journal.jsonl")
        session.append(holdfast.user("two"))
    fragile.compress(session.id)
    for name in ("journal.jsonl", "journal.2.jsonl"):
        assert (session.path / name).read_bytes().startswith(MAGIC)
    assert texts(fragile, session.id) == ["one", "two"]
    assert fragile.verify(session.id).ok
    with fragile.open(session.id) as opened:
        opened.append(holdfast.user("three"))
    assert texts(fragile, session.id) == ["one", "two", "three"]


def test_every_stretch_reads_as_it_was(store, session, journal, plain):
    store.compress(session.id)
    segment = Segment(Files(), session.path, 1)
    size = len(plain)
    places = [0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, size - 1, size, size + 5]
    for start in places:
        for end in places:
            assert segment.read(start, end) == (plain[start:end] if end > start else b"")
    segment.close()


def test_reading_from_many_threads(store, session, plain):
    store.compress(session.id)
    segment = Segment(Files(), session.path, 1)
    wrong: list[int] = []

    def read(step):
        places = range(0, len(plain), step)
        wrong.extend(
            each for each in places if segment.read(each, each + 9) != plain[each : each + 9]
        )

    threads = [threading.Thread(target=read, args=(step,)) for step in (997, 31_013, 250_007)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    segment.close()
    assert wrong == []


# Damage


def frames_of(data):
    return [place for place in range(len(data)) if data.startswith(MAGIC, place)]


def test_a_frame_that_is_damaged_costs_that_frame_only(store, session, journal, plain):
    expected = texts(store, session.id)
    store.compress(session.id)
    data = bytearray(journal.read_bytes())
    first, second, *_ = frames_of(data)
    data[(second + first) // 2] ^= 0xFF
    journal.write_bytes(data)
    kinds = {problem.kind for problem in store.verify(session.id).problems}
    assert "damage" in kinds
    left = texts(store, session.id)
    assert left
    assert left == expected[-len(left) :]
    with store.open(session.id) as opened:
        opened.append(holdfast.user("more"))
    assert texts(store, session.id) == [*left, "more"]
    (kept,) = (session.path / "damaged").iterdir()
    assert kept.read_bytes() == data
    assert {finding.kind for finding in store.checkup()} <= {"damage", "unverified", "header"}
    assert all(finding.fixed for finding in store.checkup(fix=True))
    assert texts(store, session.id) == [*left, "more"]


def test_a_damaged_one_is_copied_where_it_cannot_be_linked(fragile, files):
    session = fill(fragile)
    journal = session.path / "journal.jsonl"
    fragile.compress(session.id)
    data = bytearray(journal.read_bytes())
    data[frames_of(data)[1] + 200] ^= 0xFF
    journal.write_bytes(data)
    files.fail("link", errno.EPERM)
    fragile.open(session.id).close()
    (kept,) = (session.path / "damaged").iterdir()
    assert kept.read_bytes() == data


def test_a_damaged_one_is_not_kept_where_a_link_leads(store, session, journal, tmp_path):
    (tmp_path / "outside").mkdir()
    (session.path / "damaged").symlink_to(tmp_path / "outside")
    store.compress(session.id)
    data = bytearray(journal.read_bytes())
    data[frames_of(data)[1] + 200] ^= 0xFF
    journal.write_bytes(data)
    with pytest.raises(holdfast.StorageError, match="Not a directory"):
        store.open(session.id)
    assert journal.read_bytes() == data
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("cut", [1, 9, 20])
def test_a_table_that_is_cut_off_is_done_without(store, session, journal, plain, cut):
    expected = texts(store, session.id)
    store.compress(session.id)
    journal.write_bytes(journal.read_bytes()[:-cut])
    assert texts(store, session.id) == expected
    with store.open(session.id):
        assert journal.read_bytes() == plain
    assert len(list((session.path / "damaged").iterdir())) == 1


def test_no_change_of_a_byte_ends_in_anything_but_a_report(store, tmp_path):
    session = fill(store, 3)
    journal = session.path / "journal.jsonl"
    store.compress(session.id)
    data = journal.read_bytes()
    for place in [*range(0, len(data), 37), *range(len(data) - 40, len(data))]:
        changed = bytearray(data)
        changed[place] ^= 0x55
        journal.write_bytes(changed)
        with Journal(Files(), session.path) as opened:
            list(opened.records())
    for end in range(0, len(data), 41):
        journal.write_bytes(data[:end])
        with Journal(Files(), session.path) as opened:
            list(opened.records())


def test_a_file_that_only_begins_like_one(tmp_path):
    path = tmp_path / "journal.jsonl"
    for content in (
        MAGIC,
        MAGIC + b"?" * 100,
        MAGIC + b"\xff\xff\xff\xff\x00\xb1\xea\x92\x8f",
        MAGIC + b"\x01\x00\x00\x00\x00\xb1\xea\x92\x8f",
        MAGIC + b"0" * 40 + b"\x01\x00\x00\x00\x00\xb1\xea\x92\x8f",
    ):
        path.write_bytes(content)
        segment = Segment(Files(), tmp_path, 1)
        assert (segment.size, segment.read(0, 10)) == (0, b"")
        segment.close()


def test_frames_that_are_not_whole_or_too_large(tmp_path):
    zstd = importlib.import_module("backports.zstd")
    path = tmp_path / "journal.jsonl"
    for content in (zstd.compress(b"x" * 1000)[:-2], zstd.compress(b"\0" * (9 << 20))):
        path.write_bytes(content)
        segment = Segment(Files(), tmp_path, 1)
        assert segment.size == 0
        segment.close()


# Trouble


@pytest.mark.parametrize("method", ["open_append", "write", "sync", "rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["compress", "decompress"])
def test_trouble_of_the_disk_leaves_it_as_it_was(fragile, files, method, code, call):
    session = fill(fragile, 3)
    if call == "decompress":
        fragile.compress(session.id)
    before = snapshot(session.path)
    files.fail(method, code, name=".journal.jsonl" if method != "sync" else "")
    with pytest.raises(holdfast.StorageError):
        getattr(fragile, call)(session.id)
    after = snapshot(session.path)
    for each in (before, after):
        del each["lock"], each["."]
    assert after == before
    files.heal()
    getattr(fragile, call)(session.id)
    assert fragile.verify(session.id).ok
    assert files.left_open == []


def test_what_was_written_wrong_never_gets_the_name(fragile, files, monkeypatch):
    session = fill(fragile, 3)
    plain = (session.path / "journal.jsonl").read_bytes()
    real = CompressedFile.read
    monkeypatch.setattr(CompressedFile, "read", lambda self, a, b: real(self, a, b)[:-1] + b"?")
    with pytest.raises(holdfast.StorageError, match="differs from the original"):
        fragile.compress(session.id)
    monkeypatch.undo()
    assert (session.path / "journal.jsonl").read_bytes() == plain
    assert sorted(path.name for path in session.path.iterdir()) == [
        "blobs",
        "journal.jsonl",
        "lock",
        "origin.json",
    ]


@pytest.mark.parametrize("content", [b"", b"no journal\n"])
def test_what_cannot_be_read_is_left_alone(store, session, journal, content):
    journal.write_bytes(content)
    with pytest.raises(holdfast.DamagedJournal):
        store.compress(session.id)
    assert journal.read_bytes() == content


def test_without_the_package_it_says_what_to_do(store, session, monkeypatch):
    store.compress(session.id)

    def missing(name, *rest):
        raise ImportError(name)

    monkeypatch.setattr("holdfast.journal.bounded.importlib.import_module", missing)
    for mode in ("read", "write"):
        with pytest.raises(holdfast.StorageError, match=r"holdfast\[zstd\]"):
            store.open(session.id, mode=mode)
    (summary,) = store.list()
    assert summary.state == "damaged"
    assert "holdfast[zstd]" in summary.problem
    with pytest.raises(holdfast.StorageError, match=r"holdfast\[zstd\]"):
        store.compress(session.id)


def test_an_interrupt_leaves_it_as_it_was(fragile, files):
    session = fill(fragile, 3)
    plain = (session.path / "journal.jsonl").read_bytes()

    def interrupt():
        raise KeyboardInterrupt

    files.on("sync", interrupt, name=".journal.jsonl")
    with pytest.raises(KeyboardInterrupt):
        fragile.compress(session.id)
    assert (session.path / "journal.jsonl").read_bytes() == plain
    assert not list(session.path.glob(".journal*"))


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("call", ["compress", "decompress", "open"])
def test_a_crash_at_any_point_costs_nothing(tmp_path, moment, call):
    home, pristine = tmp_path / "home", tmp_path / "pristine"
    with holdfast.open_store(pristine, files=FakeUnsyncedFiles()) as store:
        session = fill(store, 3)
        expected = texts(store, session.id)
        plain = (session.path / "journal.jsonl").read_bytes()
        if call != "compress":
            store.compress(session.id)
    number = 0
    while True:
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(pristine, home)

        def work(files):
            with holdfast.open_store(home, files=files) as store:
                if call == "open":
                    store.open(session.id).close()
                else:
                    getattr(store, call)(session.id)

        died = dies(work, number, moment)
        with holdfast.open_store(home, files=FakeUnsyncedFiles()) as store:
            assert texts(store, session.id) == expected
            assert store.verify(session.id).ok
            assert [summary.state for summary in store.list()] == ["clean"]
            work(FakeUnsyncedFiles())
            with store.open(session.id) as opened:
                assert opened.recovery.clean
            (folder,) = home.glob(f"sessions/*/{session.id}")
            assert (folder / "journal.jsonl").read_bytes() == plain
            assert sorted(path.name for path in folder.iterdir()) == [
                "blobs",
                "journal.jsonl",
                "lock",
                "origin.json",
            ]
        if not died:
            break
        number += 1
    assert number >= (1 if moment == "torn" else 4)


def test_a_journal_that_was_compressed_once_is_read_for_ever(tmp_path):
    golden = Path(__file__).parents[1].parent / "golden"
    shutil.copy(golden / "packed.zst", tmp_path / "journal.jsonl")
    segment = Segment(Files(), tmp_path, 1)
    assert segment.read(0, segment.size) == (golden / "plain.jsonl").read_bytes()
    assert segment.packed is not None
    assert not segment.packed.damaged
    segment.close()
