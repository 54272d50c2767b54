"""Lock and live file that are gone, unreadable, or no files at all."""

from __future__ import annotations

import gc
import os

import pytest

import holdfast
from holdfast import user
from holdfast.files import Files
from holdfast.store.local.lock import LOCK_NAME, Lock, durable_size, holder_of
from tests.journal.writer_on_files import Desk

REAL = Files()


def texts(session):
    return [message.text for message in session.messages]


def test_a_writer_whose_lock_was_removed_stops(tmp_path, files):
    desk = Desk(files, tmp_path / "session")
    desk.append("a")
    (desk.folder / LOCK_NAME).unlink()
    desk.log._appender._look_again = 0
    with pytest.raises(holdfast.WriteFailed, match=r"lock of .* was removed") as caught:
        desk.append("b")
    assert caught.value.last_durable == 1
    assert not caught.value.may_be_gone  # what was written is where it was
    assert desk.texts() == ["a"]
    desk.writer.close()


def test_a_lock_that_was_dropped_is_free(tmp_path):
    lock = Lock.acquire(REAL, tmp_path, "1")
    assert holder_of(REAL, tmp_path) is not None
    del lock
    gc.collect()
    assert holder_of(REAL, tmp_path) is None


def test_how_much_is_durable_is_nothing_unless_the_lock_says_so(tmp_path, files):
    assert durable_size(files, tmp_path, 5) == 0
    lock = Lock.acquire(files, tmp_path, "1")
    lock.note_durable(5, 700)
    assert durable_size(files, tmp_path, 5) == 700
    assert durable_size(files, tmp_path, 6) == 0
    files.fail("read_at", name=LOCK_NAME)
    assert durable_size(files, tmp_path, 5) == 0
    (tmp_path / LOCK_NAME).write_bytes(b"garbage")
    assert durable_size(files, tmp_path, 5) == 0
    lock.release()
    assert files.left_open == []


def make_link(path):
    target = path.with_name("elsewhere")
    target.write_text('{"generation":1}\n{"stream":"s","after":-1,"text":"not ours"}\n')
    path.symlink_to(target)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, make_link])
@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_live_file_that_is_no_file_shows_nothing(store, make, mode):
    with store.create() as session:
        session.append(user("a"))
    make(session.path / "live.jsonl")
    with store.open(session.id, mode) as again:
        assert again.recovery.interrupted == []
        assert texts(again) == ["a"]
        assert all(isinstance(e, holdfast.Entry) for e in again.follow(live=True, wait=False))
        if mode == "write":
            again.append(user("b"))
            assert texts(again) == ["a", "b"]
