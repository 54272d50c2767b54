"""Where sessions are and how one is found: ids, parts of ids, paths, keys."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import holdfast
from holdfast.model.ids import key_session_id
from tests.disk import snapshot

FIRST = "20260102-030405-aaaabbbb"


SECOND = "20260102-030406-aaaacccc"


def put(store: holdfast.Store, session_id: str, text: str = "hello") -> Path:
    with store.create(session_id=session_id) as session:
        session.append(holdfast.user(text))
    return session.path


def test_nothing_is_on_disk_before_the_first_entry(store, home):
    with store.create(workspace=home.parent, title="kept in memory") as session:
        assert session.update(model="m") is None
        assert session.messages == []
        assert session.context() == []
    with store.session("some key"):
        pass
    assert store.list() == []
    assert store.search("hello") == []
    assert store.cleanup(0) == 0
    assert not home.exists()


def test_the_home_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "given"))
    assert holdfast.open_store().path == tmp_path / "given"
    monkeypatch.delenv("HOLDFAST_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert holdfast.open_store().path == tmp_path / "state" / "holdfast"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert holdfast.open_store().path == tmp_path / ".local" / "state" / "holdfast"


def test_a_home_that_is_given_as_a_relative_path_stays_where_it_is(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    store = holdfast.open_store("relative")
    monkeypatch.chdir("/")
    put(store, FIRST)
    assert (tmp_path / "relative" / "sessions" / "2026-01" / FIRST / "journal.jsonl").is_file()


def test_a_store_of_another_kind_is_refused():
    with pytest.raises(holdfast.UsageError, match="postgresql"):
        holdfast.open_store("postgresql://host/base")


@pytest.mark.parametrize("part", [FIRST, "aaaabbbb", "030405", "abb", f"2-030405-{FIRST[16:]}"])
def test_a_session_is_found_by_its_id_or_a_unique_part(store, part):
    put(store, FIRST, "the first")
    put(store, SECOND, "the second")
    with store.open(part) as session:
        assert session.id == FIRST
        assert session.messages == [holdfast.user("the first")]


def test_a_part_of_several_ids_is_refused_with_the_candidates(store):
    for letter in "abcdefg":
        put(store, f"20260102-030405-{letter * 8}")
    with pytest.raises(
        holdfast.UsageError, match=r"part of 7 session ids: .*aaaaaaaa.* and 2 more"
    ):
        store.open("030405")
    with pytest.raises(holdfast.UsageError, match=r"part of 2 session ids: .*b, .*c\."):
        put(store, "20260102-030406-xxxxxxxb")
        put(store, "20260102-030406-xxxxxxxc")
        store.open("xxxxx")


def test_a_session_is_found_by_path(store, home, tmp_path, monkeypatch):
    folder = put(store, FIRST)
    elsewhere = holdfast.open_store(tmp_path / "other home")
    monkeypatch.chdir(folder.parent)
    for wanted in (
        str(folder),
        str(folder / "journal.jsonl"),
        folder,
        folder / "journal.jsonl",
        Path(FIRST),
        Path(FIRST, "journal.jsonl"),
    ):
        with store.open(wanted) as session:
            assert session.path == folder
    for wanted in (folder, folder / "journal.jsonl"):
        with elsewhere.open(wanted) as session:
            session.append(holdfast.user("from the other home"))
    assert not elsewhere.path.exists()
    for wanted in (str(folder), str(folder / "journal.jsonl")):
        with pytest.raises(holdfast.UsageError):
            elsewhere.open(wanted)


def test_a_path_may_lead_anywhere_also_to_a_folder_that_is_not_named_like_a_session(
    store, tmp_path
):
    copy = tmp_path / "a copy"
    put(store, FIRST).rename(copy)
    with store.open(copy) as session:
        session.append(holdfast.user("more"))
    assert session.id == "a copy"
    assert len(store.open(copy, mode="read").messages) == 2
    with pytest.raises(holdfast.SessionNotFound):
        store.open(FIRST)


BAD_IDS = [
    "",
    "../x",
    "../../etc/passwd",
    "/etc/passwd",
    "a/b",
    ".",
    "..",
    "nul\0byte",
    "x" * 10240,
    "20260102-030405-AAAABBBB",
    "20260102-030405-aaaabbbb\n",
    "ключ",
    "\ud800",
    None,
    7,
    b"20260102-030405-aaaabbbb",
    ["20260102-030405-aaaabbbb"],
    pytest.param(object(), id="object()"),  # its own words would hold an address
]


@pytest.mark.parametrize("wanted", BAD_IDS, ids=lambda wanted: repr(wanted)[:24])
@pytest.mark.parametrize("verb", ["open", "delete", "verify", "restore", "create"])
def test_what_cannot_be_an_id_is_refused_and_changes_nothing(store, home, verb, wanted):
    put(store, FIRST)
    before = snapshot(home)
    with pytest.raises(holdfast.HoldfastError) as caught:
        if verb == "create":
            store.create(session_id="key-" if wanted is None else wanted)
        else:
            getattr(store, verb)(wanted)
    assert isinstance(caught.value, holdfast.UsageError)
    assert len(str(caught.value)) < 400
    assert snapshot(home) == before


def test_paths_that_only_look_as_if_they_were_inside_are_refused(store, home, tmp_path):
    folder = put(store, FIRST)
    outside = tmp_path / FIRST
    outside.mkdir()
    (outside / "journal.jsonl").write_bytes((folder / "journal.jsonl").read_bytes())
    before = snapshot(tmp_path)
    for wanted in (
        f"{home}/sessions/2026-01/../../../x",
        f"{home}/sessions/",
        f"{home}/sessions/{'x' * 5000}",
        f"{home}/sessions/\0",
        f"{home}/index.db",
    ):
        with pytest.raises(holdfast.UsageError) as caught:
            store.open(wanted)
        assert len(str(caught.value)) < 400
    # Only the name counts: the session of that name in this home is opened, not the one outside.
    with store.open(f"{home}/sessions/../../{FIRST}", mode="read") as session:
        assert session.path == folder
    for missing in (tmp_path / "nowhere", tmp_path / "nul\0", tmp_path / ("x" * 5000)):
        with pytest.raises(holdfast.SessionNotFound):
            store.open(missing)
    assert snapshot(tmp_path) == before


def test_an_id_that_nobody_has_is_not_found(store, home):
    for wanted in (FIRST, "zzzz", key_session_id("nobody"), f"{home}/sessions/2026-01/{FIRST}"):
        with pytest.raises(holdfast.SessionNotFound):
            store.open(wanted)
    assert not home.exists()


def test_a_symbolic_link_in_the_place_of_a_session_is_not_followed(store, home, tmp_path):
    theirs = tmp_path / "theirs"
    put(store, FIRST).rename(theirs)
    place = home / "sessions" / "2026-01" / FIRST
    place.symlink_to(theirs)
    before = snapshot(tmp_path)
    for verb in (store.open, store.delete, store.verify):
        for wanted in (FIRST, "aaaabbbb", place, str(place)):
            with pytest.raises(holdfast.SessionNotFound):
                verb(wanted)
    session = store.create(session_id=FIRST)
    with pytest.raises(holdfast.SessionExists):
        session.append(holdfast.user("must not arrive there"))
    assert store.search("hello") == []
    assert snapshot(theirs) == {
        name.removeprefix("theirs/").replace("theirs", "."): value
        for name, value in before.items()
        if name.startswith("theirs")
    }


def test_a_symbolic_link_in_the_place_of_a_month_is_not_followed(store, home, tmp_path):
    put(store, FIRST)
    theirs = tmp_path / "theirs"
    month = home / "sessions" / "2026-01"
    month.rename(theirs)
    month.symlink_to(theirs)
    before = snapshot(tmp_path)
    for wanted in (FIRST, "aaaabbbb", f"{month}/{FIRST}"):
        with pytest.raises(holdfast.SessionNotFound):
            store.open(wanted)
    session = store.create(session_id=SECOND)
    with pytest.raises(holdfast.WriteFailed, match="Not a directory"):
        session.append(holdfast.user("must not arrive there"))
    assert snapshot(theirs) == {
        str(Path(name).relative_to("theirs")): value
        for name, value in before.items()
        if name.startswith("theirs")
    }
    assert sorted(path.name for path in (home / "sessions").iterdir()) == ["2026-01"]


def test_a_symbolic_link_in_the_place_of_a_journal_is_not_followed(store, home, tmp_path):
    folder = put(store, FIRST)
    theirs = tmp_path / "theirs.jsonl"
    (folder / "journal.jsonl").rename(theirs)
    (folder / "journal.jsonl").symlink_to(theirs)
    before = snapshot(tmp_path)
    for mode in ("read", "write"):
        for wanted in (FIRST, folder, folder / "journal.jsonl"):
            with pytest.raises(holdfast.StorageError, match="symbolic links"):
                store.open(wanted, mode=mode)
    with pytest.raises(holdfast.StorageError):
        store.verify(FIRST)
    assert snapshot(tmp_path) == before


def test_a_file_in_the_place_of_a_session_a_month_or_the_home(store, home, tmp_path):
    place = put(store, FIRST)
    place.rename(tmp_path / "away")
    place.write_bytes(b"a file")
    with pytest.raises(holdfast.SessionNotFound):
        store.open(FIRST)
    with pytest.raises(holdfast.SessionExists):
        store.create(session_id=FIRST).append(holdfast.user("hello"))
    place.unlink()
    place.parent.rmdir()
    place.parent.write_bytes(b"a file")
    with pytest.raises(holdfast.SessionNotFound):
        store.open(FIRST)
    with pytest.raises(holdfast.WriteFailed, match="Not a directory"):
        store.create(session_id=FIRST).append(holdfast.user("hello"))
    (tmp_path / "file").write_bytes(b"a file")
    other = holdfast.open_store(tmp_path / "file" / "home")
    with pytest.raises(holdfast.WriteFailed, match="Not a directory"):
        other.create().append(holdfast.user("hello"))
    with pytest.raises(holdfast.StorageError, match="cannot be listed"):
        other.list()
    assert (tmp_path / "file").read_bytes() == b"a file"


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO, errno.ELOOP, errno.EMFILE])
def test_where_it_cannot_be_told_whether_there_is_a_session_nothing_is_made(
    fragile, files, home, error
):
    put(fragile, FIRST)
    with fragile.session("key") as session:
        session.append(holdfast.user("hello"))
    before = snapshot(home)
    for call in (
        lambda: fragile.create(session_id=FIRST),
        lambda: fragile.session("key"),
        lambda: fragile.session("key", mode="read"),
        lambda: fragile.open(FIRST),
        lambda: fragile.open(session.path),
        lambda: fragile.delete(FIRST),
    ):
        files.fail("status_of", error)
        with pytest.raises(holdfast.StorageError) as caught:
            call()
        assert type(caught.value) is holdfast.StorageError
    assert snapshot(home) == before


def test_a_session_that_cannot_be_told_from_a_stranger_is_not_deleted(fragile, files, home):
    folder = put(fragile, FIRST)
    files.fail("status_of", errno.EIO, name=FIRST, nth=2)  # the first look finds it
    with pytest.raises(holdfast.StorageError, match="cannot be deleted"):
        fragile.delete(FIRST)
    assert folder.is_dir()


@pytest.mark.parametrize("error", [errno.ENOENT, errno.ENOTDIR])
def test_what_is_not_there_is_not_found(fragile, files, error):
    put(fragile, FIRST)
    files.fail("status_of", error)
    with pytest.raises(holdfast.SessionNotFound):
        fragile.open(FIRST)


def test_a_lock_of_the_store_has_one_holder(store, home):
    with store.create() as session:
        session.append(holdfast.user("hello"))
    held = store.lock("a name")
    with pytest.raises(holdfast.SessionLocked):
        store.lock("a name")
    held.release()
    store.lock("a name").release()
