"""A disk that dies, and a process that runs out of things: Holdfast's own errors, nothing lost."""

from __future__ import annotations

import errno
import os
import sys

import pytest

import holdfast
from holdfast import user
from tests.processes import run

READING = ("read_at", "status")


def dies(files):
    for method in READING:
        files.fail(method, errno.EIO, times=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda session: session.checkpoint("so far", keep_last=1),
        lambda session: session.rewind(2),
        lambda session: session.fork(),
        lambda session: session.messages,
        lambda session: session.context(),
        lambda session: session.summary,
        lambda session: session.truncate(1),
        lambda session: session.append(user("z"), id="once"),
        lambda session: session.compact(),
        lambda session: list(session.follow(wait=False)),
        lambda session: session.export(),
    ],
)
def test_reading_from_a_dead_disk_is_an_error_of_ours(fragile, files, call):
    with fragile.create() as made:
        for text in "abc":
            made.append(user(text))
    session = fragile.open(made.id)
    dies(files)
    with pytest.raises(holdfast.StorageError, match=r"cannot be|could not be"):
        call(session)
    files.heal()
    assert [message.text for message in session.messages] == ["a", "b", "c"]


def test_a_stream_after_a_first_append_that_failed_for_good(fragile, files):
    session = fragile.create()
    files.fail("make_folder", errno.EIO, times=None)
    with pytest.raises(holdfast.WriteFailed):
        session.append(user("a"))
    stream = session.stream()
    stream.write("text")
    with pytest.raises(holdfast.WriteFailed):
        stream.finish()


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_process_that_ran_out_of_something_keeps_its_session(fragile, files, error, eventually):
    session = fragile.create()
    session.append(user("a"))
    files.fail("open_append", error, times=None)
    with pytest.raises(holdfast.DiskFull, match=os.strerror(error)) as caught:
        session.append(user("x" * 300_000))  # it needs a file of its own
    assert caught.value.cause == os.strerror(error)
    assert "when writing works again" in str(caught.value)
    assert isinstance(session.trouble, holdfast.DiskFull)
    files.heal()
    eventually(lambda: session.trouble is None)
    assert [len(message.text) for message in session.messages] == [1, 300_000]


@pytest.mark.parametrize("method", ["open_append", "write", "sync_folder", "rename"])
def test_a_first_append_without_descriptors_waits_for_them(fragile, files, method, eventually):
    session = fragile.create()
    files.fail(method, errno.EMFILE, times=None)
    with pytest.raises(holdfast.DiskFull):
        session.append(user("a"))
    files.heal()
    eventually(lambda: session.trouble is None)
    assert session.messages == [user("a")]
    session.close()
    with fragile.open(session.id) as again:
        assert again.messages == [user("a")]


def test_a_write_that_met_no_memory_is_tried_again(fragile, files):
    session = fragile.create()
    session.append(user("a"))
    files.fail("write", errno.ENOMEM, name="journal.jsonl", times=1)
    with pytest.raises(holdfast.DiskFull, match=os.strerror(errno.ENOMEM)):
        session.append(user("b"))
    session.append(user("b"))  # the same call takes up what waits
    assert [message.text for message in session.messages] == ["a", "b"]


def test_a_module_that_cannot_be_imported_late_is_an_error_of_ours(store, monkeypatch):
    """A process without descriptors cannot import what is imported on first use."""
    monkeypatch.setitem(sys.modules, "holdfast.store.catalog.index", None)
    with pytest.raises(holdfast.StorageError, match="cannot be listed"):
        store.list()


@pytest.mark.parametrize("reopened", [False, True])
def test_a_finished_stream_does_not_come_back_after_a_compaction(fragile, files, reopened):
    """Its entry, whose name tells that it is finished, must not go while the text is there."""
    session = fragile.create()
    session.append(user("a"))
    files.fail("truncate", errno.EIO, name="live.jsonl", times=None)
    with session.stream() as live:
        live.write("streamed")
    for text in "bc":
        session.append(user(text))
    session.checkpoint("so far", keep_last=1)
    if reopened:
        session.close()
        files.fail("open_append", errno.EIO, name="live.jsonl", times=None)
        session = fragile.open(session.id)
    with pytest.raises(holdfast.StorageError, match="could not be compacted"):
        session.compact()
    files.heal()
    session.compact()
    session.close()
    with fragile.open(session.id) as again:
        assert again.messages == [user("c")]


@pytest.mark.parametrize("form", ["json", "jsonl", "markdown"])
def test_what_is_pending_can_be_exported_from_a_disk_that_cannot_be_read(fragile, files, form):
    with fragile.create() as made:
        made.append(user("on the dead disk"))
    session = fragile.open(made.id)
    files.fail("write", errno.EIO, name="journal", times=None)
    dies(files)
    with pytest.raises(holdfast.WriteFailed):
        session.append(user("in memory"))
    text = session.export(form)
    assert "in memory" in text
    assert ("incomplete" in text) == (form == "json")


def test_what_was_read_before_is_exported_with_it(fragile, files):
    with fragile.create() as made:
        made.append(user("read before"))
    session = fragile.open(made.id)
    assert session.messages
    files.fail("write", errno.EIO, name="journal", times=None)
    dies(files)
    with pytest.raises(holdfast.WriteFailed):
        session.append(user("in memory"))
    assert [line.count("text") > 0 for line in session.export("jsonl").splitlines()] == [True] * 2


def test_a_blob_that_cannot_be_opened_now_is_not_replaced_by_its_preview(fragile, files):
    with fragile.create() as made:
        made.append(user("x" * 300_000))
    session = fragile.open(made.id)
    session.context()  # the journal is open and read
    blob = next(iter((session.path / "blobs").iterdir()))
    files.fail("open_read", errno.EMFILE, name=blob.name)
    with pytest.raises(holdfast.StorageError, match=os.strerror(errno.EMFILE)):
        _ = session.messages
    assert len(session.messages[0].text) == 300_000
    files.fail("open_read", errno.EIO, name=blob.name)
    assert session.messages[0].content[0].blob is not None


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: b"no gzip" + data])
def test_a_damaged_archive_does_not_keep_anybody_from_appending(store, damage, caplog):
    session = store.create()
    session.append(user("a"), id="first")
    session.checkpoint("so far")
    session.compact()
    session.close()
    (archive,) = (session.path / "archive").iterdir()
    archive.write_bytes(damage(archive.read_bytes()))
    (session.path / "ids.json").unlink()  # else the archive need not be read
    with store.open(session.id) as again:
        again.append(user("b"), id="second")
        assert again.messages == [user("b")]
    assert "is damaged" in caplog.text


def test_a_deletion_that_is_reported_as_failed_has_not_happened(fragile, files):
    with fragile.create() as session:
        session.append(user("a"))
    files.fail("sync_folder", errno.EIO, name="trash", times=None)
    with pytest.raises(holdfast.StorageError, match="cannot be deleted"):
        fragile.delete(session.id)
    files.heal()
    with fragile.open(session.id) as again:
        assert again.messages == [user("a")]


def test_many_threads_may_use_a_fresh_process_at_once(home, store):
    """What a library looks up on first use is looked up at import, where there is one thread."""
    sessions = []
    for number in range(4):
        with store.create() as session:
            session.append(user(str(number)))
            session.checkpoint("so far")  # leaves a mark, which holds a state
        sessions.append(session.id)
    source = """
import threading
sys.setswitchinterval(1e-6)
gate = threading.Barrier(8)
opened = []

def look(session_id):
    gate.wait()
    with store.open(session_id, "read") as session:
        opened.append(session.state.messages)

threads = [threading.Thread(target=look, args=(sys.argv[2 + n % 4],)) for n in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(opened)
"""
    assert run(source, home, *sessions).strip() == str([1] * 8)


def test_a_power_cut_does_not_bring_text_back_that_a_compaction_forgot(fragile, files):
    """Emptying the live file must last before the entry goes whose name tells it is finished."""
    session = fragile.create()
    with session.stream() as live:
        live.write("streamed")
    session.checkpoint("so far")
    session.compact()
    emptied = files.last("truncate", "live.jsonl")
    assert emptied < files.last("sync", "live.jsonl") < files.last("rename", ".journal.jsonl")


def test_folders_above_the_home_last_too_whoever_made_them(fragile, files, home):
    session = fragile.create()
    session.append(user("a"))
    for folder in [home, home.parent, home.parent.parent]:
        assert files.count("sync_folder", folder.name) >= 1
    files.fail("sync_folder", errno.EACCES, name=home.parents[1].name, times=None)
    other = holdfast.open_store(home, files=files).create()
    other.append(user("b"))  # not ours to open, hence not made by us
