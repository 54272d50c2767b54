"""The file of running streams: what is read back, whatever happened to it meanwhile."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from holdfast.files import Files
from holdfast.model.event import Event
from holdfast.store.local import live as live_module
from holdfast.store.local.layout import LIVE_NAME
from holdfast.store.local.live import NOTHING_LIVE, LiveFile, LiveView, read_live
from tests.fakes import FakeFiles

REAL = Files()


class FakeBusyFiles(Files):
    """Does something just before the ``nth`` read, as a writer at work would."""

    def __init__(self, nth: int, action: Callable[[], None]) -> None:
        self.left = nth
        self.action = action

    def read_at(self, descriptor: int, size: int, offset: int) -> bytes:
        self.left -= 1
        if self.left == 0:
            self.action()
        return super().read_at(descriptor, size, offset)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "session"
    folder.mkdir()
    (folder / "journal.jsonl").touch()
    return folder


def event(text: str, stream: str = "s1") -> Event:
    return Event(stream, "text", 3, text)


def texts(view: LiveView) -> list[str]:
    return [each.text for each in view.events]


def filled(folder: Path, *words: str, files: Files = REAL) -> LiveFile:
    live = LiveFile(files, folder)
    for word in words:
        live.append([event(word)])
    return live


def size(folder: Path) -> int:
    return (folder / LIVE_NAME).stat().st_size


# Reading back


def test_events_are_read_back_as_they_were(folder):
    events = [
        event("plain"),
        Event("s2", "tool_call", 0, '{"a":', call_id="c1", name="shell", model="m"),
        event('quotes " and \\ and \n lines \u2028 and \0'),
        event("half a pair: \ud83d and \udc00, a whole one: \U0001f600"),
        event(""),
    ]
    live = LiveFile(REAL, folder)
    live.append(events[:2])
    live.append(events[2:])
    assert read_live(REAL, folder).events == events
    assert live.size_bytes == size(folder)
    live.close()
    assert read_live(REAL, folder).events == events


def test_where_there_is_no_file_nothing_is_live(folder):
    assert read_live(REAL, folder) == NOTHING_LIVE
    assert read_live(REAL, folder, LiveView(5, 6, [], 7)) == NOTHING_LIVE


def test_a_second_look_shows_only_what_is_new(folder):
    live = filled(folder, "one")
    view = read_live(REAL, folder)
    assert texts(view) == ["one"]
    for word in ("two", "three"):
        live.append([event(word)])
        view = read_live(REAL, folder, view)
        assert texts(view) == [word]
        again = read_live(REAL, folder, view)
        assert (texts(again), again.end) == ([], size(folder))
    live.close()


def test_after_it_was_emptied_a_reader_starts_anew(folder):
    live = filled(folder, "one", "two")
    first = read_live(REAL, folder)
    live.clear()
    live.clear()
    empty = read_live(REAL, folder, first)
    assert (empty.inode, texts(empty), empty.end) == (first.inode, [], 0)
    live.append([event("three, and longer than what was there before" * 9)])
    for since in (first, empty):
        view = read_live(REAL, folder, since)
        assert view.generation > first.generation
        assert texts(view) == ["three, and longer than what was there before" * 9]
    live.close()


def test_generations_grow_though_the_clock_stands_still_or_goes_back(folder, monkeypatch):
    seen = []
    live = LiveFile(REAL, folder)
    for now in (5_000, 5_000, 3_000, 9_000):
        monkeypatch.setattr(time, "time_ns", lambda now=now: now * 1_000_000)
        live.append([event("x")])
        seen.append(read_live(REAL, folder).generation)
        live.clear()
    live.append([event("x")])
    live.close()
    live = LiveFile(REAL, folder)  # the next process goes on counting
    live.clear()
    live.append([event("x")])
    seen.append(read_live(REAL, folder).generation)
    live.close()
    assert seen == sorted(set(seen))
    assert seen[1] == seen[0] + 1


def test_a_rewritten_file_is_another_file_and_read_from_its_start(folder):
    live = filled(folder, *"abcdefgh")
    first = read_live(REAL, folder)
    live.rewrite([event("h"), event("i", "s2")])
    assert live.size_bytes == size(folder)
    view = read_live(REAL, folder, first)
    assert view.inode != first.inode
    assert view.generation > first.generation
    assert texts(view) == ["h", "i"]
    live.append([event("j")])
    assert texts(read_live(REAL, folder, view)) == ["j"]
    assert sorted(os.listdir(folder)) == ["journal.jsonl", LIVE_NAME]
    live.close()


def test_another_inode_with_the_same_generation_is_read_from_its_start(folder):
    filled(folder, "one", "two").close()
    view = read_live(REAL, folder)
    other = LiveView(view.inode + 1, view.generation, [], view.end)
    assert texts(read_live(REAL, folder, other)) == ["one", "two"]


def test_a_file_that_became_shorter_is_read_from_its_start(folder):
    live = filled(folder, "one")
    short = size(folder)
    live.append([event("two")])
    live.close()
    view = read_live(REAL, folder)
    os.truncate(folder / LIVE_NAME, short)
    assert texts(read_live(REAL, folder, view)) == ["one"]


@pytest.mark.parametrize("nth", [2, 3])
def test_a_file_emptied_and_filled_during_a_look_is_shown_by_the_next(folder, nth):
    live = filled(folder, "old", "older")
    known = read_live(REAL, folder)
    live.append([event("last")])

    def refill() -> None:
        live.clear()
        live.append([event("new"), event("newer"), event("newest")])

    view = read_live(FakeBusyFiles(nth, refill), folder, known)
    assert view.events == []
    assert texts(read_live(REAL, folder, view)) == ["new", "newer", "newest"]
    live.close()


def test_what_is_appended_during_a_look_comes_with_the_next(folder):
    live = filled(folder, "one")
    view = read_live(FakeBusyFiles(2, lambda: live.append([event("two")])), folder)
    assert texts(view) == ["one"]
    assert texts(read_live(REAL, folder, view)) == ["two"]
    live.close()


# Torn lines


def test_every_cut_of_the_last_line_leaves_the_others(folder):
    live = filled(folder, "one", "two")
    before = size(folder)
    live.append([event("three")])
    live.close()
    whole = (folder / LIVE_NAME).read_bytes()
    for end in range(before, len(whole)):
        (folder / LIVE_NAME).write_bytes(whole[:end])
        view = read_live(REAL, folder)
        assert (texts(view), view.end) == (["one", "two"], before)
        (folder / LIVE_NAME).write_bytes(whole)
        assert texts(read_live(REAL, folder, view)) == ["three"]


def test_a_damaged_line_in_the_middle_costs_only_itself(folder):
    live = filled(folder, "one")
    start = size(folder)
    live.append([event("two")])
    end = size(folder)
    live.append([event("three")])
    live.close()
    whole = (folder / LIVE_NAME).read_bytes()
    for place in range(start, end - 1):
        for byte in (b"\0", b"\n", b"7"):
            damaged = whole[:place] + byte + whole[place + 1 :]
            if damaged != whole:
                (folder / LIVE_NAME).write_bytes(damaged)
                assert texts(read_live(REAL, folder)) == ["one", "three"]


@pytest.mark.parametrize(
    "fields",
    [
        {"stream": "s1", "kind": "text", "after": "3", "text": "not a number"},
        {"stream": "s1", "kind": "text"},
        {"kind": "text", "after": 3, "text": "of no stream"},
        {"stream": "s1", "kind": "text", "after\ud800": 3, "text": "half a character in a name"},
    ],
)
def test_a_whole_line_that_is_no_event_is_passed_over(folder, fields):
    filled(folder, "one").close()
    with (folder / LIVE_NAME).open("ab") as file:
        file.write(live_module._line(fields))
    live = filled(folder, "two")
    live.close()
    assert texts(read_live(REAL, folder)) == ["one", "two"]


@pytest.mark.parametrize("start", [b'["list"', b'{"a":}', b"[" * 100_000, b'"', b'{"a":"\xff"'])
def test_a_fitting_sum_does_not_make_sense_of_nonsense(folder, start):
    line = b'%s,"sum":"%08x"}\n' % (start, crc32(start))
    (folder / LIVE_NAME).write_bytes(line)
    view = read_live(REAL, folder)
    assert (view.events, view.generation, view.end) == ([], 0, len(line))


@pytest.mark.parametrize("generation", ["7", None, 1.5])
def test_a_generation_that_is_no_number_is_none(folder, generation):
    (folder / LIVE_NAME).write_bytes(live_module._line({"generation": generation}))
    assert read_live(REAL, folder).generation == 0


def test_text_after_a_torn_line_of_a_dead_process_is_readable(folder):
    filled(folder, "one", "two").close()
    whole = (folder / LIVE_NAME).read_bytes()
    for cut in (1, 9, 30):
        (folder / LIVE_NAME).write_bytes(whole[:-cut])
        view = read_live(REAL, folder)
        live = filled(folder, "three")
        assert live.size_bytes == size(folder)
        assert texts(read_live(REAL, folder)) == ["one", "three"]
        assert texts(read_live(REAL, folder, view)) == ["three"]
        live.close()


def test_a_torn_first_line_of_a_dead_process_is_begun_anew(folder):
    (folder / LIVE_NAME).write_bytes(b'{"generation":17')
    live = filled(folder, "one")
    assert texts(read_live(REAL, folder)) == ["one"]
    assert read_live(REAL, folder).generation > 0
    live.close()


# Failures


@pytest.mark.parametrize("kept", [0, 1, 30, 200])
def test_a_failed_write_is_undone(folder, kept):
    files = FakeFiles()
    live = filled(folder, "one", files=files)
    before = size(folder)
    with files.full_disk(kept), pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        live.append([event("two"), event("three" * 100)])
    assert (size(folder), live.size_bytes) == (before, before)
    live.append([event("two"), event("three")])
    assert texts(read_live(REAL, folder)) == ["one", "two", "three"]
    live.close()


@pytest.mark.parametrize("kept", [0, 1, 30, 60])
def test_a_failed_first_write_is_undone(folder, kept):
    files = FakeFiles()
    live = LiveFile(files, folder)
    with files.full_disk(kept), pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        live.append([event("one")])
    live.append([event("one")])
    assert live.size_bytes == size(folder)
    view = read_live(REAL, folder)
    assert view.generation > 0
    assert texts(view) == ["one"]
    with files.full_disk(5), pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        live.append([event("two")])
    assert texts(read_live(REAL, folder)) == ["one"]
    live.close()


@pytest.mark.parametrize("step", ["open_append", "write", "sync", "rename", "sync_folder"])
def test_after_a_failed_rewrite_writing_goes_on_in_the_file_that_has_the_name(folder, step):
    files = FakeFiles()
    live = filled(folder, "one", "two", files=files)
    before = len(os.listdir("/proc/self/fd"))
    files.fail(step)
    with pytest.raises(OSError, match="Input/output"):
        live.rewrite([event("two")])
    live.append([event("three")])
    assert texts(read_live(REAL, folder))[-2:] == ["two", "three"]
    assert live.size_bytes == size(folder)
    assert len(os.listdir("/proc/self/fd")) == before
    assert sorted(os.listdir(folder)) == ["journal.jsonl", LIVE_NAME]
    live.close()


def test_a_rewrite_that_cannot_open_the_new_file_does_not_lose_the_old_descriptor(folder):
    files = FakeFiles()
    live = filled(folder, "one", files=files)
    files.fail("open_append", errno.EMFILE, name=LIVE_NAME, nth=2)
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        live.rewrite([event("one")])
    live.append([event("two")])  # not to a descriptor that is closed, or by now another file
    live.rewrite([event("one"), event("two")])
    assert texts(read_live(REAL, folder)) == ["one", "two"]
    live.close()


@pytest.mark.parametrize("then", ["append", "sync", "clear"])
def test_a_new_file_that_could_not_be_opened_is_opened_by_the_next_call(folder, then):
    """What is open has no name any more: text written there would be lost with the process."""
    files = FakeFiles()
    live = filled(folder, "one", files=files)
    files.fail("open_append", errno.EMFILE, name=LIVE_NAME, nth=2)
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        live.rewrite([event("one"), event("two")])
    if then == "append":
        live.append([event("three")])
        assert texts(read_live(REAL, folder)) == ["one", "two", "three"]
    elif then == "sync":
        live.sync()
        assert files.last("sync", LIVE_NAME) > files.last("open_append", LIVE_NAME)
    else:
        live.clear()
        assert texts(read_live(REAL, folder)) == []
    live.close()


# The file itself


def test_a_new_file_has_a_durable_name_before_anything_is_in_it(folder):
    files = FakeFiles()
    os.utime(folder / "journal.jsonl", (1, 1))
    live = filled(folder, "one", files=files)
    assert files.first("open_append", LIVE_NAME) < files.first("sync_folder", folder.name)
    assert files.first("sync_folder", folder.name) < files.first("write", LIVE_NAME)
    assert (folder / "journal.jsonl").stat().st_mtime > 1  # the index will look again
    live.sync()
    assert files.last("write", LIVE_NAME) < files.last("sync", LIVE_NAME)
    live.close()


def test_a_name_that_could_not_be_made_durable_is_made_again(folder):
    files = FakeFiles()
    files.fail("sync_folder")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="Input/output"):
        LiveFile(files, folder)
    assert len(os.listdir("/proc/self/fd")) == before
    live = LiveFile(files, folder)
    assert files.count("sync_folder", folder.name) == 2
    live.close()


def test_a_journal_that_cannot_be_touched_is_no_matter(folder):
    (folder / "journal.jsonl").unlink()
    live = filled(folder, "one")
    assert texts(read_live(REAL, folder)) == ["one"]
    live.close()


def test_an_existing_file_is_gone_on_with(folder):
    filled(folder, "one").close()
    os.utime(folder / "journal.jsonl", (1, 1))
    files = FakeFiles()
    live = filled(folder, "two", files=files)
    assert texts(read_live(REAL, folder)) == ["one", "two"]
    assert files.count("sync_folder") == 0
    assert (folder / "journal.jsonl").stat().st_mtime == 1
    live.close()


def test_closing_removes_the_file_only_if_nothing_is_in_it(folder):
    live = filled(folder, "one")
    live.close()
    assert size(folder) > 0
    live = LiveFile(REAL, folder)
    live.clear()
    live.close()
    assert not (folder / LIVE_NAME).exists()
    files = FakeFiles()
    live = LiveFile(files, folder)
    files.fail("unlink", errno.EROFS)
    live.close()
    assert size(folder) == 0


def oversized(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, int]:
    """Write more than is read; return it, and where the last line ends that is read."""
    filled(folder, *"abcdef").close()
    data = (folder / LIVE_NAME).read_bytes()
    monkeypatch.setattr(live_module, "MOST_READ_BYTES", len(data) // 2)
    return data, data.rfind(b"\n", 0, len(data) // 2) + 1


def test_what_is_too_much_to_read_is_saved_before_it_is_cut_off(folder, monkeypatch):
    data, end = oversized(folder, monkeypatch)
    files = FakeFiles()
    live = LiveFile(files, folder)
    assert (folder / LIVE_NAME).read_bytes() == data[:end]
    (saved,) = (folder / "damaged").iterdir()
    assert saved.read_bytes() == data[end:]
    assert saved.name == f"live-{end}-{crc32(data[end:]):08x}.bin"
    assert files.last("sync_folder", "damaged") < files.last("truncate", LIVE_NAME)
    monkeypatch.undo()
    live.append([event("new")])
    assert texts(read_live(REAL, folder))[-1] == "new"
    live.close()


@pytest.mark.parametrize("operation", ["write", "sync", "rename", "sync_folder"])
def test_what_cannot_be_saved_is_not_cut_off(folder, monkeypatch, operation):
    data, _ = oversized(folder, monkeypatch)
    files = FakeFiles()
    files.fail(operation, errno.ENOSPC)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No space"):
        LiveFile(files, folder)
    assert len(os.listdir("/proc/self/fd")) == before
    assert (folder / LIVE_NAME).read_bytes() == data
    assert not list(folder.glob("damaged/*"))
