"""Making and opening sessions: what is refused, and what then stays untouched."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import holdfast
from holdfast.journal.format import seal
from tests.disk import snapshot

FIRST = "20260102-030405-aaaabbbb"


def put(store: holdfast.Store, text: str = "hello", *, session_id: str | None = None) -> Path:
    with store.create(session_id=session_id) as session:
        session.append(holdfast.user(text))
    return session.path


def test_an_id_of_ones_own_can_be_used_once(store):
    put(store, session_id=FIRST)
    with pytest.raises(holdfast.SessionExists):
        store.create(session_id=FIRST)


def test_of_two_sessions_with_one_id_the_second_to_append_gets_nothing(store, home):
    one, two = store.create(session_id=FIRST), store.create(session_id=FIRST)
    one.append(holdfast.user("the first"))
    before = snapshot(home)
    with pytest.raises(holdfast.SessionExists):
        two.append(holdfast.user("the second"))
    assert snapshot(home) == {**snapshot(home), **before, "sessions": snapshot(home)["sessions"]}
    assert sorted(path.name for path in (home / "sessions").iterdir()) == ["2026-01"]
    with pytest.raises(holdfast.SessionExists):
        two.append(holdfast.user("again"))
    one.append(holdfast.user("more"))
    assert [message.text for message in one.messages] == ["the first", "more"]


@pytest.mark.parametrize("mode", ["append", "", None, "rw"])
def test_a_mode_that_there_is_not_is_refused(store, mode):
    put(store, session_id=FIRST)
    with pytest.raises(holdfast.UsageError):
        store.open(FIRST, mode=mode)
    with pytest.raises(holdfast.UsageError):
        store.session("key", mode=mode)


def test_writing_to_a_closed_session_is_refused(store, home):
    with store.create() as session:
        session.append(holdfast.user("hello"))
    before = snapshot(home)
    for attempt in (
        lambda: session.append(holdfast.user("late")),
        lambda: session.submit(holdfast.user("late")),
        lambda: session.update(title="late"),
        session.clear,
    ):
        with pytest.raises(holdfast.UsageError):
            attempt()
    session.close()
    assert snapshot(home) == before
    assert session.messages == [holdfast.user("hello")]


def test_writing_to_a_read_only_session_is_refused(store, home):
    folder = put(store)
    before = snapshot(home)
    with store.open(folder.name, mode="read") as session:
        assert session.read_only
        for attempt in (
            lambda: session.append(holdfast.user("no")),
            lambda: session.submit(holdfast.user("no")),
            lambda: session.update(title="no"),
            lambda: session.stream().write("no"),
            lambda: session.usage(input=1, output=1),
            lambda: session.on_entry(print),
            lambda: session.rewind(None),
            session.compact,
        ):
            with pytest.raises(holdfast.UsageError, match="read-only"):
                attempt()
    assert snapshot(home) == before


def test_opening_for_reading_changes_nothing(store, home):
    folder = put(store)
    (folder / "journal.jsonl").write_bytes((folder / "journal.jsonl").read_bytes() + b'{"seq":9')
    (folder / "live.jsonl").write_bytes(b"garbage")
    before = snapshot(home)
    with store.open(folder.name, mode="read") as session:
        assert session.messages == [holdfast.user("hello")]
        assert list(session.follow(wait=False))
    assert snapshot(home) == before


NOT_JOURNALS = {
    "empty": b"",
    "text": b"Dear diary,\ntoday nothing happened.\n",
    "picture": bytes(range(256)) * 16,
    "zeros": bytes(5000),
    "other json lines": b'{"role":"user"}\n[1,2]\nnull\n',
}


@pytest.mark.parametrize("content", NOT_JOURNALS.values(), ids=NOT_JOURNALS)
@pytest.mark.parametrize("lock", [True, False])
def test_a_file_that_is_not_a_journal_is_refused_and_left_as_it_is(store, home, content, lock):
    folder = put(store, session_id=FIRST)
    (folder / "journal.jsonl").write_bytes(content)
    if not lock:
        (folder / "lock").unlink()
    before = snapshot(home)
    for attempt in (
        lambda: store.open(FIRST),
        lambda: store.open(FIRST, mode="read"),
        lambda: store.verify(FIRST),
    ):
        with pytest.raises(holdfast.DamagedJournal) as caught:
            attempt()
        assert caught.value.path == folder / "journal.jsonl"
        assert caught.value.offset == 0
        assert caught.value.kind == ("empty" if content == b"" else "not a journal")
    assert snapshot(home) == before


def test_a_folder_without_a_journal_is_not_a_session(store, home):
    folder = put(store, session_id=FIRST)
    (folder / "journal.jsonl").unlink()
    (folder / "lock").unlink()
    before = snapshot(home)
    for attempt in (store.open, store.verify, lambda wanted: store.open(wanted, mode="read")):
        with pytest.raises(holdfast.SessionNotFound, match="no journal"):
            attempt(FIRST)
    assert snapshot(home) == before


def test_a_folder_in_the_place_of_a_journal(store, home):
    folder = put(store, session_id=FIRST)
    (folder / "journal.jsonl").unlink()
    (folder / "journal.jsonl").mkdir()
    before = snapshot(home)
    for attempt in (store.open, store.verify, lambda wanted: store.open(wanted, mode="read")):
        with pytest.raises(holdfast.StorageError, match="not a regular file"):
            attempt(FIRST)
    assert snapshot(home) == before


def newer_header(folder: Path, fields: bytes = b'"session":"x","uid":"y"') -> None:
    """Make the journal one of format 7."""
    path = folder / "journal.jsonl"
    lines = path.read_bytes().split(b"\n")
    header = b'{"format":7,%s}' % fields
    lines[0] = seal(0, "2026-01-02T03:04:05.000Z", "header", header, b"")
    path.write_bytes(b"\n".join(lines))


def newer_header_of_another_shape(folder: Path) -> None:
    newer_header(folder, b'"name":{"of":"session"}')


def unknown_must(folder: Path) -> None:
    """Add an entry of a type that must be understood."""
    path = folder / "journal.jsonl"
    data = path.read_bytes()
    chain = data[-11:-3]
    line = seal(99, "2026-01-02T03:04:05.000Z", "vows", b'{"must":true,"to":"you"}', chain)
    path.write_bytes(data + line + b"\n")


@pytest.mark.parametrize("change", [newer_header, newer_header_of_another_shape, unknown_must])
def test_a_journal_that_needs_a_newer_version_opens_read_only(store, home, change):
    folder = put(store, session_id=FIRST)
    change(folder)
    before = snapshot(folder)
    for mode in ("write", "read"):
        with store.open(FIRST, mode=mode) as session:
            assert session.read_only
            assert session.messages == [holdfast.user("hello")]
            with pytest.raises(holdfast.FormatTooNew) as caught:
                session.append(holdfast.user("no"))
            assert caught.value.supported == 1
            assert caught.value.found in ("format 7", "entries of type 'vows'")
    after = snapshot(folder)
    before["lock"] = after["lock"]  # says who looked last
    assert after == before
    (summary,) = store.list()
    assert summary.messages == 1


@pytest.mark.parametrize("change", [newer_header, newer_header_of_another_shape])
def test_a_newer_format_shows_also_if_a_mark_hides_the_header(store, change):
    with store.create() as session:
        session.append(holdfast.user("hello"))
        session.checkpoint("so far")
    change(session.path)
    with store.open(session.id) as opened, pytest.raises(holdfast.FormatTooNew):
        opened.append(holdfast.user("no"))


def test_an_unknown_entry_that_need_not_be_understood_does_not_stop_writing(store):
    folder = put(store, session_id=FIRST)
    data = (folder / "journal.jsonl").read_bytes()
    line = seal(99, "2026-01-02T03:04:05.000Z", "vows", b'{"must":1}', data[-11:-3])
    (folder / "journal.jsonl").write_bytes(data + line + b"\n")
    with store.open(FIRST) as session:
        session.append(holdfast.user("more"))
        assert session.recovery.clean
    assert line in (folder / "journal.jsonl").read_bytes()


def test_a_network_file_system_is_refused_for_writing_unless_forced(fragile, files, home):
    folder = put(fragile)
    files.network_file_system = lambda path: "nfs4"
    before = snapshot(home)
    with pytest.raises(holdfast.UsageError, match="nfs4"):
        fragile.open(folder.name)
    with pytest.raises(holdfast.UsageError, match="nfs4"):
        put(fragile)
    with fragile.open(folder.name, mode="read") as session:
        assert session.messages == [holdfast.user("hello")]
    assert snapshot(home) == before
    files.in_one = True
    forced = holdfast.open_store(home, files=files, force=True)
    with forced.open(folder.name) as session:
        session.append(holdfast.user("at my own risk"))
    put(forced)
    assert not files.in_one  # a call that is broken off would be made again, and append twice


def test_a_network_file_system_is_refused_before_anything_is_made_there(fragile, files, home):
    files.network_file_system = lambda path: "fuse.sshfs"
    session = fragile.create()
    with pytest.raises(holdfast.UsageError, match=r"fuse\.sshfs"):
        session.append(holdfast.user("hello"))
    assert not home.exists()


@pytest.mark.parametrize("method", ["open_append", "write", "sync", "sync_folder", "rename"])
@pytest.mark.parametrize("error", [errno.EIO, errno.EACCES, errno.EROFS])
def test_a_session_that_cannot_be_made_leaves_nothing_behind(fragile, files, home, method, error):
    put(fragile, session_id=FIRST)
    session = fragile.create(session_id="20260102-030405-zzzzzzzz")
    files.fail(method, error, times=None)
    before = snapshot(home)
    with pytest.raises(holdfast.WriteFailed) as caught:
        session.append(holdfast.user("never"))
    assert caught.value.last_durable is None
    files.heal()
    left = set(snapshot(home)) - set(before)
    # After the rename the session is whole, though nobody was told that it is.
    assert all("zzzzzzzz" in name for name in left) if method == "sync_folder" else left == set()
    with fragile.open(FIRST) as other:
        other.append(holdfast.user("goes on"))


def test_a_home_that_may_not_be_written_says_what_to_do(fragile, files, home):
    files.fail("make_folder", errno.EACCES)
    with pytest.raises(holdfast.WriteFailed, match="HOLDFAST_HOME"):
        fragile.create().append(holdfast.user("hello"))
    assert not home.exists()


def test_a_sync_that_fails_after_the_rename_lets_go_of_the_session(fragile, files):
    put(fragile)
    session = fragile.create(session_id=FIRST)
    files.fail("sync_folder", name="2026-01")
    with pytest.raises(holdfast.WriteFailed):
        session.append(holdfast.user("whole, but not acknowledged"))
    with fragile.open(FIRST) as again:
        assert again.messages == [holdfast.user("whole, but not acknowledged")]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errno.EACCES, holdfast.StorageError),
        (errno.EIO, holdfast.StorageError),
        (errno.EMFILE, holdfast.StorageError),
        (errno.ENOSPC, holdfast.DiskFull),
    ],
)
def test_opening_what_cannot_be_opened_is_an_error_of_ours(fragile, files, home, error, expected):
    folder = put(fragile)
    for mode, method in (("write", "open_read"), ("write", "open_lock"), ("read", "open_read")):
        files.fail(method, error)
        with pytest.raises(expected):
            fragile.open(folder.name, mode=mode)
        files.heal()
    descriptors = len(os.listdir("/proc/self/fd"))
    files.fail("open_append", error)
    with pytest.raises(expected):
        fragile.open(folder.name)
    assert len(os.listdir("/proc/self/fd")) == descriptors
    with fragile.open(folder.name) as session:
        assert session.recovery.clean


def test_a_read_that_fails_closes_what_it_opened(fragile, files):
    folder = put(fragile)
    descriptors = len(os.listdir("/proc/self/fd"))
    files.fail("read_at", name="journal.jsonl")
    with pytest.raises(holdfast.StorageError):
        fragile.open(folder.name, mode="read")
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_reading_works_where_syncing_does_not(fragile, files):
    folder = put(fragile)
    files.fail("sync", times=None)
    with fragile.open(folder.name, mode="read") as session:
        assert session.messages == [holdfast.user("hello")]


def test_closing_the_store_closes_every_session(store, home):
    sessions = [store.create() for _ in range(3)]
    for session in sessions:
        session.append(holdfast.user("hello"))
    reader = store.open(sessions[0].id, mode="read")
    store.close()
    for session in sessions:
        with pytest.raises(holdfast.UsageError):
            session.append(holdfast.user("late"))
        with holdfast.open_store(home).open(session.id) as again:
            assert len(again.messages) == 1
    reader.close()


def test_closing_the_store_closes_the_others_if_one_cannot(fragile, files):
    stuck, other = fragile.create(), fragile.create()
    for session in (stuck, other):
        session.append(holdfast.user("hello"))
    with files.full_disk():
        ticket = stuck.submit(holdfast.user("waits for room"))
        with pytest.raises(holdfast.DiskFull):
            ticket.wait()
        with pytest.raises(holdfast.DiskFull):
            fragile.close()
        with pytest.raises(holdfast.UsageError):
            other.append(holdfast.user("late"))
    stuck.append(holdfast.user("there is room"))
    assert [each.text for each in stuck.messages] == ["hello", "waits for room", "there is room"]
