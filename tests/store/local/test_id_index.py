"""Finding an id without reading history: what is saved beside the journal, and when it counts."""

from __future__ import annotations

import json
import os
import shutil
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast import Custom, IdConflict, user
from holdfast.files import Files
from holdfast.store.local import id_index
from holdfast.store.local.id_index import INDEX_NAME, IdIndex
from holdfast.store.local.reader import Journal


@pytest.fixture
def store(home):
    with holdfast.open_store(home) as store:
        yield store


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Save what is known of short journals, too."""
    monkeypatch.setattr(id_index, "SAVE_AT_CLOSE_BYTES", 1)
    monkeypatch.setattr("holdfast.store.local.log_writer.SAVE_AT_CLOSE_BYTES", 1)


@pytest.fixture
def read(monkeypatch):
    """Count the bytes of journals that are read to find ids."""
    found: list[int] = []
    original = id_index._ids_in

    def counted(lines: bytes):
        found.append(len(lines))
        return original(lines)

    monkeypatch.setattr(id_index, "_ids_in", counted)
    return found


def filled(store, count=300):
    with store.create() as session:
        tickets = [session.submit(user(f"text {n}"), id=f"id {n}") for n in range(count)]
        tickets[-1].wait()
    return session


def saved(session):
    return json.loads((session.path / INDEX_NAME).read_bytes())["index"]


def text_of(journal, id):
    return journal.find_id(id).body.text


def check_found(store, session, count: int = 300) -> None:
    """Every id is found, and an id that is not there is not."""
    with store.open(session.id) as again:
        for number in range(0, count, 7):
            assert again.append(user(f"text {number}"), id=f"id {number}").known
        assert not again.append(user("new"), id=f"new {again.seq}").known
        with pytest.raises(IdConflict):
            again.append(user("other"), id="id 0")


def test_what_was_saved_is_not_read_again(store, read):
    session = filled(store)
    assert saved(session)["seq"] == session.seq
    assert sum(count for _, count in saved(session)["runs"]) == 300
    read.clear()
    check_found(store, session)
    size = (session.path / "journal.jsonl").stat().st_size
    assert sum(read) < size / 10  # what was appended since


def test_nothing_is_saved_of_a_short_journal(store, monkeypatch):
    monkeypatch.undo()
    session = filled(store, 3)
    assert not (session.path / INDEX_NAME).exists()
    check_found(store, session, 3)


def test_it_is_saved_while_a_session_is_open(store, monkeypatch):
    monkeypatch.setattr(id_index, "_SAVE_EVERY_IDS", 100)
    monkeypatch.setattr("holdfast.journal.writer.MARK_EVERY_BYTES", 4000)
    session = store.create()
    for number in range(400):
        session.append(user(f"text {number}"), id=f"id {number}")
    session._recorder._task.stop()
    runs = saved(session)["runs"]
    assert sum(count for _, count in runs) >= 100
    session.close()
    check_found(store, session, 400)


def test_runs_are_merged_so_that_there_are_few(store, monkeypatch):
    monkeypatch.setattr(id_index, "_LEAST_WASTE_BYTES", 2000)
    session = filled(store, 10)
    for turn in range(40):
        with store.open(session.id) as again:
            again.append(
                [user(f"{turn} {n}") for n in range(10)], ids=[f"{turn} {n}" for n in range(10)]
            )
        counts = [count for _, count in saved(session)["runs"]]
        assert sum(counts) == 10 * (turn + 2)
        assert all(one > 2 * other for one, other in pairwise(counts))
        (file,) = session.path.glob("ids-*.runs")
        assert file.name == saved(session)["file"]
        assert file.stat().st_size < 2000 + 100 * sum(counts)
    check_found(store, session, 10)


def test_an_index_of_many_pages_finds_all(tmp_path):
    records = sorted(os.urandom(8) + n.to_bytes(8, "big") for n in range(2000))
    twins = [b"\x80" * 8 + n.to_bytes(8, "big") for n in range(200)]  # over several pages
    records = sorted([*records, *twins])
    name, runs = id_index._new_file(Files(), tmp_path, records)
    descriptor = Files().open_read(tmp_path / name)
    run = id_index._Run(Files(), descriptor, *runs[0])
    for record in records[::17]:
        assert int.from_bytes(record[8:], "big") in run.find(record[:8])
    assert sorted(run.find(b"\x80" * 8)) == list(range(200))
    for digest in (b"\0" * 8, b"\xff" * 8, b"\x80" * 7 + b"\x81", b"\x7f" * 8):
        assert run.find(digest) == []
    assert run.records() == records
    Files().close(descriptor)


def lost(path: Path) -> None:
    path.unlink()


def shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def altered(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(3, len(data), 50):
        data[place] ^= 1
    path.write_bytes(data)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("harm", [lost, shortened, altered, emptied, a_folder])
@pytest.mark.parametrize("which", ["ids.json", "ids-*.runs"])
def test_what_is_damaged_costs_time_and_nothing_else(store, harm, which):
    session = filled(store)
    (path,) = session.path.glob(which)
    harm(path)
    if path.is_dir() and which == "ids.json":
        path.rmdir()
    check_found(store, session)
    check_found(store, session)


def test_a_merge_of_a_damaged_run_reads_everything_again(store):
    session = filled(store)
    (path,) = session.path.glob("ids-*.runs")
    altered(path)
    with store.open(session.id) as again:
        tickets = [again.submit(user(f"more {n}")) for n in range(3)]
        tickets[-1].wait()
        journal = again._recorder.journal()
        journal.ids.catch_up(journal)
        journal.ids._recent = {b"12345678": (1,)} | {n.to_bytes(8, "big"): (1,) for n in range(200)}
        journal.ids.save(journal, closing=True)
    check_found(store, session)


def forged(made, key=None, **fields):
    """Save an index that says it is complete and has no ids."""
    index = {**saved(made), "runs": [], **fields}
    data = msgspec.json.encode(index)
    mac = "0" * 64 if key is None else key.sign(b"ids\n" + data)
    signed = msgspec.json.encode({"index": msgspec.Raw(data), "mac": mac})
    (made.path / INDEX_NAME).write_bytes(signed)


def test_an_index_that_another_home_signed_hides_nothing(store, home, tmp_path):
    session = filled(store)
    forged(session)
    check_found(store, session)


@pytest.mark.parametrize(
    "lie",
    [
        {"inode": 1},
        {"uid": "another"},
        {"session": "20261115-194012-k3v9q2ab"},
        {"segment": 2},
        {"offset": 10**9},
        {"offset": 0},
        {"sum": "00000000"},
        {"seq": 7},
        {"archives": ""},
    ],
)
def test_an_index_of_another_journal_hides_nothing(store, lie):
    session = filled(store)
    forged(session, store._backend.home.origin_key, **lie)
    check_found(store, session)


def test_the_forged_index_would_hide_ids_if_it_counted(store):
    """The test above can fail: with nothing wrong but the runs, ids are hidden."""
    session = filled(store)
    forged(session, store._backend.home.origin_key)
    with store.open(session.id) as again:
        assert not again.append(user("text 0"), id="id 0").known


def test_an_older_journal_in_its_place_is_read_again(store):
    session = filled(store, 50)
    journal = session.path / "journal.jsonl"
    before = journal.read_bytes()
    with store.open(session.id) as again:
        for number in range(50, 100):
            again.append(user(f"text {number}"), id=f"id {number}")
    os.truncate(journal, 0)
    journal.write_bytes(before)  # the same inode
    with store.open(session.id) as again:
        assert again.append(user("text 3"), id="id 3").known
        assert not again.append(user("text 77"), id="id 77").known


def test_a_copied_session_is_read_again(store, home):
    session = filled(store, 50)
    copy = home.parent / "elsewhere" / session.id
    shutil.copytree(session.path, copy)
    with holdfast.open_store(home) as other, other.open(copy) as again:
        assert again.append(user("text 3"), id="id 3").known


def test_ids_outlive_compactions_without_reading_archives(store, monkeypatch):
    session = filled(store, 50)
    for _ in range(2):
        with store.open(session.id) as again:
            again.append(user("more"), id=f"more {again.seq}")
            again.checkpoint("so far")
            again.compact()
    with monkeypatch.context() as patched:
        patched.setattr(id_index, "_archived", None)  # not to be called
        with store.open(session.id) as again:
            assert not again.append(user("new"), id="new").known
    check_found(store, session, 50)
    (session.path / INDEX_NAME).unlink()
    check_found(store, session, 50)


def test_an_archive_that_was_added_or_removed_is_noticed(store):
    session = filled(store, 50)
    with store.open(session.id) as again:
        again.checkpoint("so far")
        again.compact()
    (archive,) = (session.path / "archive").iterdir()
    archive.unlink()
    with store.open(session.id) as again:
        assert not again.append(user("text 0"), id="id 0").known


def test_a_view_finds_ids_and_saves_nothing(store, home):
    session = filled(store, 50)
    (session.path / INDEX_NAME).unlink()
    view = store.open(session.id, "read")
    journal = view._reading.snapshot
    assert journal.find_id("id 7").body == user("text 7")
    assert journal.find_id("none") is None
    assert not (session.path / INDEX_NAME).exists()
    with Journal(Files(), session.path) as plain:  # without the key of the home
        assert text_of(plain, "id 7") == "text 7"
        plain.ids.save(plain, closing=True)
    assert not (session.path / INDEX_NAME).exists()


def test_ids_in_lines_of_every_shape(store):
    odd = ['quote " and \\', "☃ \ud800"[:1], "id", "a" * 1000, "\n"]
    with store.create() as session:
        for number, id in enumerate(odd):
            session.append(Custom("e", {"id": "inner", "n": number}), id=id)
        session.append(Custom("e", {"id": "inner"}))
    journal = session.path / "journal.jsonl"
    lines = journal.read_bytes().splitlines()
    foreign = b'{"seq":90,"at":"2026-11-15T19:40:12.001Z","type":"event","name":"f","id":"late"}'
    glued = b'{"seq":91,"at":"x","id":"one","type":"event","name":"g"}'
    torn = b'{"seq":92,"at":"x","id":"torn'
    journal.write_bytes(
        b"\n".join([*lines, foreign, glued + glued.replace(b"91", b"93"), torn, b""])
    )
    (session.path / INDEX_NAME).unlink(missing_ok=True)
    with store.open(session.id) as again:
        log = again._recorder.journal()
        for number, id in enumerate(odd):
            assert log.find_id(id).body.data["n"] == number
        assert log.find_id("inner") is None
        assert log.find_id("late").seq == 90
        assert log.find_id("one").seq == 93
        assert log.find_id("torn") is None


def test_a_line_longer_than_any_reader_loads_is_passed_over(store, monkeypatch):
    session = filled(store, 20)
    monkeypatch.setattr(id_index, "LONGEST_LINE_BYTES", 1000)
    monkeypatch.setattr(id_index, "_CHUNK_BYTES", 300)
    journal = session.path / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    long = b'{"id":"' + b"x" * 5000 + b'"}\n'
    journal.write_bytes(b"".join([*lines[:10], long, *lines[10:]]))
    with Journal(Files(), session.path) as plain:
        for number in (0, 7, 8, 12, 19):
            assert text_of(plain, f"id {number}") == f"text {number}"


def test_a_journal_that_shrinks_while_it_is_read(store):
    session = filled(store, 20)
    with Journal(Files(), session.path) as plain:
        plain.last.end += 1000
        assert text_of(plain, "id 3") == "text 3"


def test_what_cannot_be_saved_is_known_all_the_same(store, monkeypatch):
    session = filled(store, 50)

    def failing(*_):
        raise OSError(28, "No space left on device")

    with store.open(session.id) as again:
        again.append(user("more"), id="more")
        journal = again._recorder.journal()
        with monkeypatch.context() as patched:
            patched.setattr(id_index, "_write_new", failing)
            patched.setattr(Files, "publish", failing)
            again._recorder.log_writer.save_ids(journal, closing=True)
        assert again.append(user("more"), id="more").known
        again.append(user("again"), id="again")
        journal.ids.save(journal, closing=True)
        assert again.append(user("more"), id="more").known
    check_found(store, session, 50)


def test_nothing_is_saved_without_a_key_or_behind_a_damaged_line(store, monkeypatch):
    with store.create() as session:
        session.append(user("a"), id="a")
        journal = session._recorder.journal()
        with monkeypatch.context() as patched:
            patched.setattr(journal.key, "sign", lambda _: None)
            journal.ids.save(journal, closing=True)
        assert not (session.path / INDEX_NAME).exists()
    (session.path / INDEX_NAME).unlink()
    with (session.path / "journal.jsonl").open("ab") as file:
        file.write(b"no line\n" * 3)
    with Journal(Files(), session.path) as plain:
        plain.key = store._backend.home.origin_key
        IdIndex(plain, plain.key).save(plain, closing=True)
    assert not (session.path / INDEX_NAME).exists()


def test_a_run_that_is_gone_when_it_is_merged_is_read_again(store):
    session = filled(store, 20)
    with store.open(session.id) as again:
        again.append(user("more"), id="more")
        journal = again._recorder.journal()
        (session.path / saved(session)["file"]).unlink()
        journal.ids.save(journal, closing=True)
        journal.ids.save(journal, closing=True)
        assert again.append(user("text 3"), id="id 3").known
    check_found(store, session, 20)


def test_a_record_is_added_once(store):
    session = filled(store, 5)
    with Journal(Files(), session.path) as plain:
        plain.ids.catch_up(plain)
        plain.ids._place = (1, 0)  # as after an interrupt
        plain.ids.catch_up(plain)
        assert [len(numbers) for numbers in plain.ids._recent.values()] == [1] * 5
