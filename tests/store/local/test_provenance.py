"""Where entries came from is recorded outside what their sender controls."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

import holdfast
from holdfast.files import Files
from holdfast.store.local import layout as home
from holdfast.store.local import provenance
from holdfast.store.local.layout import KEY_NAME
from holdfast.store.local.provenance import ORIGIN_NAME, Origin, OriginKey
from holdfast.store.types import ARCHIVE, Provenance, Receipt
from holdfast.store.write.encode import ImportedEntry, encode_all
from tests.hostile import copied_session, journal, live_file, said

AT = "2026-11-15T19:40:12.001Z"
FUTURE = "2099-01-01T00:00:00.000Z"


@pytest.fixture
def ours(store):
    with store.create(title="ours") as session:
        session.append(holdfast.user("hello"))
    return session


def past(seq, body, at=AT):
    return ImportedEntry(seq, at, encode_all([body])[0][0])


def staged(store, *, at=AT):
    with store.stage("20261115-194012-k3v9q2ab", started=at, source="an agent: /x") as staging:
        staging.add(past(1, holdfast.user("from elsewhere"), at))
        return staging.publish()


def received(store, made):
    with store.receive(made.id, "/tmp/x.holdfast") as receiving:
        receiving.add("journal.jsonl", [(made.path / "journal.jsonl").read_bytes()])
        return receiving.publish()


def other_home(store, tmp_path):
    return holdfast.open_store(tmp_path / "other", files=store._backend.home.files)


def test_an_archive_is_foreign_even_if_it_came_from_here(store, ours, tmp_path):
    """A sender who once got a session from this home cannot send it back as ours."""
    shutil.copytree(ours.path, tmp_path / "kept")
    store.delete(ours.id)
    made = SimpleNamespace(id=ours.id, path=tmp_path / "kept")
    received(store, made)
    found = store.provenance(ours.id)
    assert found.is_foreign(0)
    assert found.source == "unpacked from the archive /tmp/x.holdfast"
    assert [each.kind for each in found.received] == [ARCHIVE]


def test_the_first_opening_closes_the_foreign_part(store, ours, tmp_path):
    with other_home(store, tmp_path) as other:
        received(other, ours)
        assert other.provenance(ours.id).foreign == [(0, None)]
        with other.open(ours.id, mode="read") as session:
            last = session.state.seq
        assert other.provenance(ours.id).foreign == [(0, None)]
        with other.open(ours.id) as session:
            assert session.provenance().foreign == [(0, last)]
            seq = session.append(holdfast.user("mine")).seq
            assert not session.provenance().is_foreign(seq)


def test_text_that_the_sender_was_streaming_is_foreign(store, ours, tmp_path):
    with store.open(ours.id) as session, session.stream() as live:
        live.write("half an answer")
        shutil.copytree(session.path, tmp_path / "kept")
        live.finish()
    with other_home(store, tmp_path) as other:
        folder = other.path / "sessions" / ours.path.parent.name
        folder.mkdir(parents=True)
        shutil.copytree(tmp_path / "kept", folder / ours.id)
        with other.open(ours.id) as session:
            kept = [e for e in session.branch() if e.body.role == "assistant"]
            assert kept[0].body.stop == "interrupted"
            assert session.provenance().is_foreign(kept[0].seq)


def test_a_folder_that_was_copied_by_hand_is_foreign(store, ours, tmp_path):
    with other_home(store, tmp_path) as other:
        with other.create() as session:
            session.append(holdfast.user("theirs"))
        shutil.copytree(ours.path, session.path.parent / ours.id)
        found = other.provenance(ours.id)
        assert not found.recorded
        assert found.foreign == [(0, None)]
        assert found.source.startswith("copied here")
        with other.open(ours.id) as copied:
            seq = copied.append(holdfast.user("mine")).seq
            found = copied.provenance()
            assert found.recorded
            assert found.is_foreign(1)
            assert not found.is_foreign(seq)
            assert found.source.startswith("copied here")


def test_a_record_does_not_count_for_another_session(store, ours):
    with store.create() as second:
        second.append(holdfast.user("two"))
    shutil.copy(ours.path / ORIGIN_NAME, second.path / ORIGIN_NAME)
    assert not store.provenance(second.id).recorded


def _unsigned(path: Path) -> None:
    path.write_text(json.dumps({"origin": json.loads(path.read_text())["origin"], "mac": ""}))


def _other_mac(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "mac": "é"}))


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "spoil",
    [
        Path.unlink,
        _unsigned,
        _other_mac,
        _fifo,
        _link,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"[" * 5000),
        lambda path: path.write_bytes(b"\xff"),
        lambda path: path.write_bytes(path.read_bytes() + b" " * 300_000),
        lambda path: path.write_bytes(path.read_bytes().replace(b"origin", b"other", 1)),
    ],
)
def test_a_record_that_was_spoilt_makes_everything_foreign(store, ours, spoil):
    spoil(ours.path / ORIGIN_NAME)
    assert store.provenance(ours.id) == Provenance([(0, None)], recorded=False)
    assert ours.id in {summary.id for summary in store.list()}


def test_a_signed_record_of_another_shape_makes_everything_foreign(store, ours):
    key = store._backend.home.origin_key
    data = b'{"session":17}'
    text = b'{"origin":' + data + b',"mac":"' + key.sign(data).encode() + b'"}'
    (ours.path / ORIGIN_NAME).write_bytes(text)
    assert not store.provenance(ours.id).recorded


def test_another_machine_has_another_key(store, ours, monkeypatch):
    assert [summary.foreign for summary in store.list()] == [False]
    for module in (home, provenance):
        monkeypatch.setattr(module, "machine_id", lambda _: b"another")
    with holdfast.open_store(store.path) as moved:
        assert not moved.provenance(ours.id).recorded
        assert [summary.foreign for summary in moved.list()] == [True]  # its cache was made before


def test_another_user_has_another_key(store, ours, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with holdfast.open_store(store.path) as moved:
        assert not moved.provenance(ours.id).recorded


def test_a_machine_may_have_no_id(monkeypatch, tmp_path):
    paths = (tmp_path / "missing", tmp_path / "empty")
    paths[1].write_text("\n")
    monkeypatch.setattr(home, "MACHINE_ID_PATHS", paths)
    assert home.machine_id(Files()) == b""
    paths[0].write_text("abc\n")
    assert home.machine_id(Files()) == b"abc"
    (tmp_path / "link").symlink_to(paths[0])
    monkeypatch.setattr(home, "MACHINE_ID_PATHS", (tmp_path / "link",))
    assert home.machine_id(Files()) == b"abc"


def test_the_key_is_private_and_made_once(store, ours):
    path = store.path / KEY_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    assert len(before) == 32
    with holdfast.open_store(store.path) as again, again.create() as session:
        session.append(holdfast.user("two"))
    assert path.read_bytes() == before
    assert sorted(store.path.glob(".origin*")) == []


def test_of_two_processes_one_makes_the_key(tmp_path):
    """The second one finds the first one's and uses it."""

    class FakeFiles(Files):
        def link(self, source: Path, target: Path) -> None:
            if target.name == KEY_NAME and not target.exists():
                target.write_bytes(b"k" * 32)
            super().link(source, target)

    key = OriginKey(FakeFiles(), tmp_path)
    key.make()
    assert (tmp_path / KEY_NAME).read_bytes() == b"k" * 32
    assert key.sign(b"x") == OriginKey(Files(), tmp_path).sign(b"x")


def test_a_key_that_is_none_is_replaced(store, ours):
    (store.path / KEY_NAME).write_bytes(b"short")
    with holdfast.open_store(store.path) as again:
        assert not again.provenance(ours.id).recorded
        with again.create() as session:
            session.append(holdfast.user("two"))
            assert session.provenance() == Provenance()
    assert len((store.path / KEY_NAME).read_bytes()) == 32


def test_something_else_in_the_place_of_the_key_is_left_alone(store, tmp_path):
    store.path.mkdir(parents=True, exist_ok=True)
    (store.path / KEY_NAME).mkdir()
    with store.create() as session:
        session.append(holdfast.user("kept all the same"))
        assert not session.provenance().recorded
    assert (store.path / KEY_NAME).is_dir()


def test_without_a_key_nothing_is_ours(store, ours):
    (store.path / KEY_NAME).unlink()
    with holdfast.open_store(store.path) as again:
        assert not again.provenance(ours.id).recorded


def test_it_is_recorded_before_it_is_appended(files, home):
    """A crash in between leaves a record of entries that do not exist, never the other way."""
    with holdfast.open_store(home, files=files) as store, store.create() as session:
        session.append(holdfast.user("mine"))

        class Crash(Exception):
            pass

        def record(*_):
            raise Crash

        size = (session.path / "journal.jsonl").stat().st_size
        assert session._recorder is not None
        with pytest.raises(Crash):
            session._recorder.adopt([past(50, holdfast.user("theirs"))], record)
        assert (session.path / "journal.jsonl").stat().st_size >= size
        assert session.state.messages == 1


def test_a_fork_keeps_what_is_foreign(store, ours, tmp_path):
    session_id = staged(store)
    with store.open(session_id) as session:
        session.append(holdfast.user("mine"))
        with session.fork() as fork:
            assert fork.provenance().is_foreign(1)
            assert fork.provenance().source == "imported from an agent: /x"
            seq = fork.append(holdfast.user("mine, too")).seq
            assert not fork.provenance().is_foreign(seq)
    with store.open(ours.id) as session, session.fork() as fork:
        assert fork.provenance() == Provenance()


def test_a_signed_name_is_of_this_home_and_this_session(store, ours, tmp_path):
    assert ours.signed_name("7") == ours.signed_name("7")
    assert ours.signed_name("7").startswith("7-")
    assert ours.signed_name("7") != ours.signed_name("8").replace("8-", "7-")
    with store.create() as another:
        another.append(holdfast.user("hi"))
        assert another.signed_name("7") != ours.signed_name("7")
    with other_home(store, tmp_path) as other:
        folder = other.path / "sessions" / ours.path.parent.name / ours.id
        shutil.copytree(ours.path, folder)
        with other.open(ours.id) as copied:
            assert copied.signed_name("7") != ours.signed_name("7")


def test_opening_a_session_of_an_old_home_makes_a_key(store, ours):
    (store.path / "origin.key").unlink()
    (ours.path / "origin.json").unlink()
    with holdfast.open_store(store.path) as again:
        with again.open(ours.id) as session:
            last = session.state.seq
            session.append(holdfast.user("mine"))
            assert session.provenance().is_foreign(last)
            assert not session.provenance().is_foreign(session.state.seq)
        assert not again.provenance(ours.id).is_foreign(last + 2)


def test_accepting_what_was_copied_by_hand(store, ours, tmp_path):
    with other_home(store, tmp_path) as other:
        (other.path / "sessions" / "2026-11").mkdir(parents=True)
        shutil.copytree(ours.path, other.path / "sessions" / ours.path.parent.name / ours.id)
        other.accept(ours.id)
        assert other.provenance(ours.id) == Provenance()
        with other.open(ours.id) as session:
            assert session.provenance() == Provenance()


def test_what_comes_after_the_accepted_part_stays_foreign(tmp_path):
    files, key = Files(), OriginKey(Files(), tmp_path)
    key.make()
    folder = tmp_path / "20261115-194012-k3v9q2ab"
    folder.mkdir()
    origin = Origin(folder.name, [(0, 5), (8, 20), (30, 40)])
    provenance.write_new(files, folder, key, origin)
    provenance.accept(files, folder, key, 10)
    found = provenance.provenance_of(files, folder, key)
    assert found.foreign == [(11, 20), (30, 40)]
    changed = provenance.read_origin(files, folder, key)
    assert changed is not None
    assert changed.accepted == [(0, 5), (8, 10)]


def test_a_full_disk_leaves_everything_foreign(store, ours, tmp_path, monkeypatch):
    """The session opens all the same; what cannot be recorded as ours counts as foreign."""
    with other_home(store, tmp_path) as other:
        received(other, ours)

        def full(*_):
            raise OSError(errno.ENOSPC, "no room")

        monkeypatch.setattr(Files, "publish", full)
        with other.open(ours.id) as session:
            seq = session.append(holdfast.user("mine")).seq
            assert session.provenance().is_foreign(seq)
        with pytest.raises(holdfast.DiskFull):
            other.accept(ours.id)


def test_spans_are_joined():
    joined = provenance._merged([(7, 9), (0, 3), (4, 5), (20, None), (25, 30), (40, None)])
    assert joined == [(0, 5), (7, 9), (20, None)]
    many = provenance._merged((number * 3, number * 3) for number in range(2000))
    assert len(many) == 500
    assert many[0][0] == 0
    assert many[-1] == (1999 * 3, 1999 * 3)
    assert provenance._merged([(0, 5), (3, None)]) == [(0, None)]


def test_only_the_last_receipts_are_kept(store, ours):
    with store.open(ours.id) as session:
        for number in range(25):
            body = holdfast.user(str(number))
            session.adopt([past(session.state.seq + 10, body)], f"an agent: /{number}")
        assert len(session.provenance().received) == 20
        assert session.provenance().source.endswith("/24")
    receipt = Receipt("something newer", "/x", AT)
    assert Provenance(received=[receipt]).source.startswith("copied here")


# What a sender may try


def _forged(store):
    """Return a copied session in which entries have numbers above those of the lines after them.

    Lines are put in order block by block, so these stand in blocks of their own.
    """
    far = [
        said("user", "x" * 300_000, seq=1001, parent=None),
        said("assistant", "y" * 300_000, seq=1002, parent=1001),
        said("user", "z", seq=1003, parent=1002),
    ]
    near = [("event", {"name": "x", "data": "y" * 200_000, "seq": 10 + n}) for n in range(4)]
    state = {"seq": 20, "head": 1003}
    return copied_session(store.path, [*far, *near, ("mark", {"state": state, "seq": 20})])


def test_numbers_that_entries_of_ours_would_get_are_foreign(store):
    folder = _forged(store)
    with store.open(folder) as session:
        assert {1001, 1002} <= {entry.seq for entry in session.branch()}
        own = session.append(holdfast.user("ours")).seq
        found = session.provenance()
    assert own > 1003
    assert found.is_foreign(1003)
    assert not found.is_foreign(own)
    assert found.foreign == [(0, 1003)]


def test_a_line_that_is_out_of_order_is_counted(store):
    lines = [said("user", "a", seq=90, parent=None), said("user", "b", seq=5, parent=None)]
    folder = copied_session(store.path, lines)
    with store.open(folder) as session:
        assert session.append(holdfast.user("ours")).seq > 90


def test_a_line_that_cannot_be_read_has_no_number(store):
    folder = copied_session(store.path, [said("user", "a"), said("assistant", "b")])
    first, second, third = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(first + second + b'{"seq":9999\n' + third)
    with store.open(folder) as session:
        assert session.append(holdfast.user("ours")).seq < 9999
        assert session.provenance().is_foreign(2)


def test_what_a_session_gets_between_acceptance_and_opening_is_foreign(store):
    lines = [said("user", "a"), said("assistant", "b")]
    folder = copied_session(store.path, lines)
    store.accept(folder)
    grown = [*lines, said("user", "c"), said("assistant", "d")]
    (folder / "journal.jsonl").write_bytes(journal(grown))
    with store.open(folder) as session:
        assert session.provenance().foreign == [(3, 4)]
        session.append(holdfast.user("ours"))
    with store.open(folder) as session:
        assert session.provenance().foreign == [(3, 4)]


def test_an_accepted_session_is_ours_with_what_its_streams_left(store):
    live = live_file({"stream": "s1", "kind": "text", "after": 1, "text": "half"})
    folder = copied_session(store.path, [said("user", "a")], live=live)
    store.accept(folder)
    with store.open(folder) as session:
        assert session.state.seq > 1
        assert not session.provenance().any_foreign


def test_a_source_of_any_bytes_and_length_can_be_recorded(store):
    session_id = "20261115-194012-k3v9q2ab"
    with store.stage(session_id, started=AT, source="\udcff" * 9000) as staging:
        staging.add(past(1, holdfast.user("x")))
        staging.publish()
    with store.open(session_id) as session:
        for number in range(30):
            session.adopt([past(10 + 2 * number, holdfast.user("x"))], "\x1b\udcff" * 9000)
        found = session.provenance()
    assert found.recorded
    assert found.is_foreign(68)
    assert found.source.startswith("imported from \x1b\\udcff")


def test_a_damaged_session_is_marked_and_is_not_the_newest(store, ours):
    folder = copied_session(store.path, [said("user", "a")])
    (folder / "journal.jsonl").write_bytes(b"rubbish\n")
    os.utime(folder / "journal.jsonl", (4e9, 4e9))
    damaged = next(summary for summary in store.list() if summary.id == folder.name)
    assert (damaged.state, damaged.foreign) == ("damaged", True)
    assert damaged.updated < FUTURE
