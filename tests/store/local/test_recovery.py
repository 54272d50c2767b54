"""What opening a session finds, does and says; and what it leaves alone."""

from __future__ import annotations

import errno

import pytest

import holdfast
from holdfast.journal.format import seal
from holdfast.store.types import Recovery
from tests.disk import contents, snapshot

FIRST = "20260102-030405-aaaabbbb"


@pytest.fixture
def journal(store):
    with store.create(session_id=FIRST) as session:
        for text in ("one", "two", "three"):
            session.append(holdfast.user(text))
    return session.path / "journal.jsonl"


def texts(session) -> list[str]:
    return [message.text for message in session.messages]


def test_nothing_to_recover(store, journal):
    with store.open(FIRST) as session:
        assert session.recovery == Recovery()
        assert session.recovery.clean
        assert str(session.recovery) == "nothing to recover"


def test_each_thing_found_is_a_sentence(store, journal):
    data = journal.read_bytes()
    lines = data.splitlines(keepends=True)
    lines[1] = lines[1].replace(b"one", b"ONE")
    lines[2] = b"\0" * (len(lines[2]) - 1) + b"\n"
    journal.write_bytes(b"".join(lines) + b'{"seq":9,"at')
    with store.open(FIRST) as session:
        recovery = session.recovery
        assert not recovery.clean
        assert texts(session) == ["ONE", "three"]
    (aside,) = recovery.set_aside
    assert (aside.offset, aside.size_bytes, aside.reason) == (len(data), 12, "torn record")
    (damage,) = recovery.damage
    assert damage.length == len(lines[2]) - 1
    assert (recovery.edited, recovery.unverified, recovery.files) == (1, 1, 1)
    assert str(recovery) == (
        f"12 bytes at offset {len(data)} (torn record) were moved to {aside.path}; "
        f"{damage.length} bytes at offset {damage.offset} are damaged (unreadable); not changed; "
        "1 line(s) were changed after they were written; 1 line(s) could not be verified"
    )


def test_a_last_line_without_its_newline_is_kept(store, journal):
    journal.write_bytes(journal.read_bytes()[:-1])
    with store.open(FIRST) as session:
        assert session.recovery == Recovery(newline_added=True)
        assert str(session.recovery) == "the last line had no newline; it was kept"
        session.append(holdfast.user("four"))
    with store.open(FIRST) as session:
        assert session.recovery.clean
        assert texts(session) == ["one", "two", "three", "four"]


def test_an_interrupted_stream_and_a_second_file_are_told(fragile, files, home):
    session = fragile.create(session_id=FIRST)
    session.append(holdfast.user("one"))
    files.fail("sync", name="journal.jsonl")
    session.append(holdfast.user("two"))
    live = session.stream()
    live.write("half a sent")
    before = contents(home)
    with holdfast.open_store(home).open(FIRST, mode="read") as reader:
        # Whoever streams is alive: the text is not a message yet.
        assert reader.recovery == Recovery(files=2)
    assert contents(home) == before
    session.close()
    with fragile.open(FIRST) as again:
        assert again.recovery.files == 2
        assert (
            str(again.recovery) == "the journal continues in 2 files because a write failed earlier"
        )
        assert texts(again) == ["one", "two", "half a sent"]
    report = Recovery(interrupted=[holdfast.assistant("x", stop="interrupted")])
    assert str(report) == "a partial answer was saved as a message"


def test_temporary_files_that_a_crash_left_are_removed_and_nothing_else(store, journal):
    folder = journal.parent
    left = [".journal.2.jsonl.abcdefgh", ".live.jsonl.23456789", ".journal.jsonl.zzzzzzzz"]
    kept = [".notes", ".journal.jsonl", "notes.txt", ".journal.jsonl.TOO-LONG-NAME", ".git/config"]
    for name in [*left, *kept]:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")
    store.open(FIRST, mode="read").close()
    assert all((folder / name).exists() for name in left)
    store.open(FIRST).close()
    assert not any((folder / name).exists() for name in left)
    assert all((folder / name).read_bytes() == b"x" for name in kept)


def test_files_that_a_compaction_merged_are_removed_and_do_not_come_back(fragile, files):
    with fragile.create(session_id=FIRST) as session:
        session.append(holdfast.user("one"))
        files.fail("sync", name="journal.jsonl")
        session.append(holdfast.user("two"))
        second = session.path / "journal.2.jsonl"
        kept = second.read_bytes()
        session.compact()
    second.write_bytes(kept)  # a crash came before it was removed
    files.calls.clear()
    with fragile.open(FIRST) as again:
        # Else a power cut could bring the old file back without what it goes on in.
        assert files.first("sync_folder", FIRST) < files.first("unlink", second.name)
        assert texts(again) == ["one", "two"]
        assert again.recovery.clean
        again.append(holdfast.user("three"))
    assert not second.exists()
    with fragile.open(FIRST) as again:
        assert texts(again) == ["one", "two", "three"]


def test_folders_above_that_are_not_ours_to_open_were_not_made_by_us(fragile, files, tmp_path):
    with fragile.create(session_id=FIRST) as session:
        session.append(holdfast.user("one"))
    elsewhere = tmp_path / "somebody's" / "copy"
    elsewhere.mkdir(parents=True)
    session.path.rename(elsewhere / FIRST)
    for name in ("copy", "somebody's"):
        files.fail("sync_folder", errno.EACCES, name=name)
    with fragile.open(elsewhere / FIRST) as again:
        again.append(holdfast.user("two"))
        assert texts(again) == ["one", "two"]
    assert [fault.hits for fault in files.faults] == [1, 1]


@pytest.mark.parametrize("method", ["sync", "open_append", "truncate", "make_folder", "rename"])
def test_a_repair_that_fails_changes_nothing_and_lets_go(fragile, files, home, method):
    with fragile.create(session_id=FIRST) as session:
        session.append(holdfast.user("one"))
    journal = session.path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"seq":9')
    before = journal.read_bytes()
    files.fail(method, errno.EIO)
    with pytest.raises(holdfast.StorageError):
        fragile.open(FIRST)
    files.heal()
    assert journal.read_bytes() in (before, before[:-8])
    with fragile.open(FIRST) as again:
        assert texts(again) == ["one"]
    assert (session.path / "damaged").is_dir()
    (saved,) = (session.path / "damaged").iterdir()
    assert saved.read_bytes() == b'{"seq":9'


def test_a_failed_sync_on_opening_lets_go(fragile, files):
    with fragile.create(session_id=FIRST) as session:
        session.append(holdfast.user("one"))
    files.fail("sync", name="journal.jsonl")
    with pytest.raises(holdfast.StorageError):
        fragile.open(FIRST)
    fragile.open(FIRST).close()


def test_an_interrupt_while_the_session_is_made_leaves_nothing(fragile, files, home):
    def interrupt() -> None:
        raise KeyboardInterrupt

    for method, name in (("sync", "journal.jsonl"), ("rename", ""), ("sync_folder", "2026-01")):
        session = fragile.create(session_id=FIRST)
        files.on(method, interrupt, name=name)
        with pytest.raises(KeyboardInterrupt):
            session.append(holdfast.user("hello"))
        assert list((home / "sessions").glob("*/*")) == []
        assert list((home / "sessions").glob(".new-*")) == []


def test_a_key_that_fits_is_kept_when_the_header_has_been_lost(store):
    with store.session("mine") as session:
        session.append(holdfast.user("one"))
    line = seal(0, "2026-01-02T03:04:05.000Z", "header", b'{"format":1,"name":"odd"}', b"")
    journal = session.path / "journal.jsonl"
    data = journal.read_bytes()
    journal.write_bytes(line + data[data.index(b"\n") :])
    with store.session("mine") as session:
        session.append(holdfast.user("two"))
        assert texts(session) == ["one", "two"]


def test_a_fork_that_cannot_be_made_is_an_error_of_ours(fragile, files, home):
    with fragile.create(session_id=FIRST) as session:
        position = session.append(holdfast.user("one"))
        session.update(title="not on the branch")
        before = snapshot(home)
        for wrong in (position.seq + 1, 0, 999):
            with pytest.raises(holdfast.UsageError):
                session.fork(wrong)
        assert snapshot(home) == before
        for error, expected in ((errno.EIO, holdfast.StorageError), (28, holdfast.DiskFull)):
            files.fail("write", error)
            with pytest.raises(expected):
                session.fork()
            assert len(fragile.list()) == 1
        with session.fork() as fork:
            assert texts(fork) == ["one"]


def test_a_fork_has_its_payloads_where_links_cannot_be_made(fragile, files):
    with fragile.create(session_id=FIRST) as session:
        for letter in "abc":
            session.append(holdfast.user(letter * 300_000))
        blobs = sorted((session.path / "blobs").iterdir())
        gone = blobs[2].read_bytes().decode()
        blobs[2].unlink()
        files.fail("link", errno.EXDEV)
        fork = session.fork()
    with fork:
        links = [path.stat().st_nlink for path in sorted((fork.path / "blobs").iterdir())]
        assert links == [1, 2]  # one copied, one linked
        expected = [letter * (400 if letter in gone else 300_000) for letter in "abc"]
        assert texts(fork) == expected


def test_a_fork_takes_no_file_that_a_journal_of_somebody_else_names(store, home, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"keep out")
    with store.create(session_id=FIRST) as session:
        session.append(holdfast.user("x" * 300_000))
    (blob,) = (session.path / "blobs").iterdir()
    journal = session.path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(blob.name.encode(), str(secret).encode()))
    with store.open(FIRST) as session, session.fork() as fork:
        assert secret.stat().st_nlink == 1
        assert list(fork.path.rglob("secret")) == []
