"""Archives: an exact copy comes back, and nothing else gets in."""

from __future__ import annotations

import io
import json
import os
import stat
import struct
import zipfile
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.exchange.archive.read import is_archive, manifest_of, take_archive
from holdfast.exchange.exporting.export import export_to
from holdfast.exchange.exporting.transcript import ExportOptions
from tests.exchange.exporters.conversations import conversations, exported, session_of


def content(folder):
    """Return every file of a session that says what is in it: no lock, origin or index of ids."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
        and path.name not in ("lock", "origin.json")
        and not path.name.startswith("ids")
    }


@pytest.fixture
def rich(store):
    """A session with blobs, an archive, branches, a checkpoint, and a stream that never ended."""
    session = store.create(workspace=".", title="A title")
    session.append(holdfast.user("x" * 300_000))
    first = session.append(holdfast.user("one"))
    session.append(holdfast.assistant("wrong"))
    session.rewind(first)
    session.append(holdfast.assistant("right"))
    session.usage(input=1, output=2)
    session.checkpoint("so far", keep_last=1)
    session.compact()
    session.append(holdfast.user("after \ud800"))
    session.close()
    with store.open(session.id) as again:
        again.append(holdfast.user("and?"))
        stream = again.stream()
        stream.write("half a rep")
        left = {name: (again.path / name).read_bytes() for name in ("journal.jsonl", "live.jsonl")}
    for name, data in left.items():  # as if it had been killed
        (session.path / name).write_bytes(data)
    return store.open(session.id, mode="read")


@pytest.fixture
def archive(rich, store, tmp_path):
    with store.open(rich.id, mode="read") as session:
        return export_to(session, "archive", tmp_path).path


@pytest.fixture
def other(tmp_path):
    with holdfast.open_store(tmp_path / "other") as store:
        yield store


def test_a_session_comes_back_to_the_byte(rich, archive, other):
    assert is_archive(archive)
    done = take_archive(other, archive)
    assert (done.action, done.session) == ("created", rich.id)
    with other.open(rich.id, mode="read") as copy:
        there, here = content(copy.path), content(rich.path)
        assert there == here
        assert {name.partition("/")[0] for name in here} == {
            "journal.jsonl",
            "live.jsonl",
            "blobs",
            "archive",
        }
        assert copy.messages == rich.messages
        assert copy.messages[-1].text == "half a rep"
        assert copy.totals == rich.totals
        for path in [copy.path, *copy.path.rglob("*")]:
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert other.verify(rich.id).problems == [
        each for each in other.verify(rich.id).problems if each.kind == "interrupted"
    ]
    with other.open(rich.id) as writable:
        writable.append(holdfast.user("and it goes on"))


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(conversations)
def test_any_session_comes_back_to_the_byte(tmp_path_factory, messages):
    folder = tmp_path_factory.mktemp("any")
    with session_of(messages) as session:
        path = folder / "a.holdfast"
        path.write_bytes(exported(session, "archive"))
        with holdfast.open_store(folder / "other") as other:
            take_archive(other, path)
            with other.open(session.id, mode="read") as copy:
                assert content(copy.path) == content(session.path)


def test_a_session_that_is_there_is_left_alone(rich, archive, other, store):
    take_archive(other, archive)
    assert take_archive(other, archive).action == "unchanged"
    with other.open(rich.id) as session:
        session.append(holdfast.user("further"))
    assert take_archive(other, archive).action == "unchanged", "it has gone on from there"
    with store.open(rich.id) as session:
        session.append(holdfast.user("elsewhere"))
        newer = export_to(session, "archive", archive.with_name("newer.holdfast")).path
    with pytest.raises(holdfast.SessionExists, match="trash"):
        take_archive(other, newer)
    other.delete(rich.id)
    assert take_archive(other, newer).action == "created"


def test_a_session_of_a_key_comes_back(store, other, tmp_path):
    with store.session(key="telegram:42") as session:
        session.append(holdfast.user("hello"))
        path = export_to(session, "archive", tmp_path).path
    take_archive(other, path)
    with other.session(key="telegram:42", mode="read") as copy:
        assert copy.messages == session.messages


def test_continuation_files_come_along(fragile, files, other, tmp_path):
    session = fragile.create()
    session.append(holdfast.user("one"))
    files.fail("sync", 5, name="journal")
    session.append(holdfast.user("two"))
    session.close()
    with fragile.open(session.id, mode="read") as again:
        path = export_to(again, "archive", tmp_path / "a.holdfast").path
    take_archive(other, path)
    with other.open(session.id, mode="read") as copy:
        assert content(copy.path) == content(session.path)
        assert len(content(copy.path)) == 2
        assert [each.text for each in copy.messages] == ["one", "two"]


def test_what_is_not_written_yet_is_not_in_it(rich, store, other, tmp_path):
    journal = rich.path / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"seq":99,"at":"20')
    with store.open(rich.id, mode="read") as session:
        path = export_to(session, "archive", tmp_path / "a.holdfast").path
    take_archive(other, path)
    with other.open(rich.id, mode="read") as copy:
        assert content(copy.path)["journal.jsonl"] == whole


def test_a_damaged_session_comes_back_damaged(rich, store, other, tmp_path):
    journal = rich.path / "journal.jsonl"
    lines = journal.read_bytes().split(b"\n")
    lines[2] = lines[2][:-20] + b"?" * 20
    journal.write_bytes(b"\n".join(lines))
    blob = next((rich.path / "blobs").iterdir())
    blob.write_bytes(b"altered")
    with store.open(rich.id, mode="read") as session:
        path = export_to(session, "archive", tmp_path / "a.holdfast").path
    assert manifest_of(path).left_out == [f"blobs/{blob.name}: it was altered"]
    done = take_archive(other, path)
    told = [(each.path, each.line, each.reason.partition(":")[0]) for each in done.problems]
    assert told == [
        (f"{path}: journal.jsonl", 3, "damage"),
        (f"{path}: journal.jsonl", 4, "unverified"),
    ]
    assert done.problem_count == 2, "only an archived journal names the blob"
    with other.open(rich.id, mode="read") as copy:
        assert content(copy.path)["journal.jsonl"] == b"\n".join(lines)


def altered(archive, change):
    """Return an archive whose manifest fits what was changed in it."""
    members = unpacked(archive)
    about = json.loads(members.pop("manifest.json"))
    change(members)
    about["files"] = json.loads(manifest(members))["files"]
    path = archive.with_name("altered.holdfast")
    return packed(path, [*members.items(), ("manifest.json", json.dumps(about))])


def test_a_line_that_does_not_fit_its_seal_is_reported(archive, rich, other):
    line = 1 + content(rich.path)["journal.jsonl"].split(b"right")[0].count(b"\n")

    def change(members):
        members["journal.jsonl"] = members["journal.jsonl"].replace(b"right", b"RIGHT")

    done = take_archive(other, altered(archive, change))
    (problem,) = done.problems
    assert done.action == "created"
    assert problem.path.endswith("altered.holdfast: journal.jsonl")
    assert (problem.line, done.problem_count) == (line, 1)
    assert "was changed after it was written" in problem.reason
    assert take_archive(other, altered(archive, change)).action == "unchanged"


def test_a_blob_that_is_not_there_is_reported(store, other, tmp_path):
    with store.create() as session:
        session.append(holdfast.user("x" * 300_000))
        path = export_to(session, "archive", tmp_path / "a.holdfast").path
    name = next(each for each in unpacked(path) if each.startswith("blobs/"))
    done = take_archive(other, altered(path, lambda members: members.pop(name)))
    (problem,) = done.problems
    assert (problem.path.rpartition(" ")[2], problem.line) == (name, None)
    assert "missing, for entry" in problem.reason


def test_a_journal_with_a_long_way_to_the_damage(store, other, tmp_path):
    with store.create() as session:
        session.append([holdfast.user("x" * 60_000) for _ in range(40)])
        session.append(holdfast.user("it is here"))
        path = export_to(session, "archive", tmp_path / "a.holdfast").path

    def change(members):
        members["journal.jsonl"] = members["journal.jsonl"].replace(b"it is here", b"it was here")

    (problem,) = take_archive(other, altered(path, change)).problems
    assert problem.line == content(session.path)["journal.jsonl"].count(b"\n")


def test_what_a_crash_left_is_no_damage(archive, other):
    done = take_archive(other, archive)
    assert (done.problems, done.problem_count) == ([], 0)


def test_a_session_that_was_compressed_meanwhile_is_the_same(archive, rich, store, other):
    take_archive(other, archive)
    assert other.compress(rich.id).after_bytes
    assert take_archive(other, archive).action == "unchanged"
    with store.open(rich.id) as session:
        session.append(holdfast.user("elsewhere"))
        newer = export_to(session, "archive", archive.with_name("newer.holdfast")).path
    with pytest.raises(holdfast.SessionExists, match="trash"):
        take_archive(other, newer)


def test_a_copy_without_its_workspace_is_the_same_conversation(rich, store, other, tmp_path):
    with store.open(rich.id, mode="read") as session:
        options = ExportOptions(strip_workspace=True)
        path = export_to(session, "archive", tmp_path / "a.holdfast", options).path
        manifest = manifest_of(path)
        assert not manifest.exact
        assert [each.partition("/")[0] for each in manifest.left_out] == ["live.jsonl", "archive"]
        take_archive(other, path)
        with other.open(rich.id, mode="read") as copy:
            assert other.verify(rich.id).ok
            assert copy.meta == {"title": "A title"}
            assert copy.messages == [m for m in session.messages if m.stop != "interrupted"]
            said = [m.text for m in copy.context()]
            assert said == ["so far", "right", "after \ud800", "and?"]
            assert copy.totals == session.totals
            assert copy.state.head == session.state.head
            assert b'host":""' in content(copy.path)["journal.jsonl"]
    with other.open(rich.id) as writable:
        writable.append(holdfast.user("and it goes on"))


# Hostile archives


def packed(path, members, **options):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for info, data in members:
            made.writestr(info, data, **options)
    return path


def unpacked(path):
    with zipfile.ZipFile(path) as made:
        return {info.filename: made.read(info) for info in made.infolist()}


def manifest(files, **changes):
    """Return a manifest that fits."""
    session = "20260101-000000-abcdefgh"
    listed = [
        {"name": name, "size_bytes": len(data), "sha256": sha256(data).hexdigest()}
        for name, data in files.items()
    ]
    about = {"format": 1, "session": session, "version": "1", "at": "now", "files": listed}
    return json.dumps(about | changes).encode()


def refused(other, path, reason):
    with pytest.raises(holdfast.ImportRejected, match=reason) as caught:
        take_archive(other, path)
    assert caught.value.source == path
    assert other.ids() == set()
    left = list((other.path / "sessions").rglob("*")) if other.path.exists() else []
    assert [each for each in left if each.name.startswith(".new")] == []


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/cron.d/evil",
        "blobs/../../evil",
        "blobs/" + "A" * 64,
        "lock",
        "origin.json",
        "archive/.hidden",
        "damaged/a/b",
        "journal.jsonl/x",
        "blobs\\x",
        "journal.0.jsonl",
        "blobs/",
    ],
)
def test_a_name_that_no_session_has_is_refused(name, other, tmp_path):
    files = {"journal.jsonl": b"{}\n", name: b"x"}
    path = packed(tmp_path / "a", [("manifest.json", manifest(files)), *files.items()])
    refused(other, path, "which is not a file of a session")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFDIR, stat.S_IFCHR])
def test_links_and_special_files_are_refused(kind, other, tmp_path):
    info = zipfile.ZipInfo("damaged/x")
    info.external_attr = (kind | 0o777) << 16
    files = {"journal.jsonl": b"{}\n", "damaged/x": b"/etc/passwd"}
    rest = [("manifest.json", manifest(files)), ("journal.jsonl", b"{}\n")]
    refused(other, packed(tmp_path / "a", [*rest, (info, b"/etc/passwd")]), "a link or a special")


def test_a_bomb_is_refused(other, tmp_path):
    data = b"\0" * (80 * 1024 * 1024)
    files = {"journal.jsonl": data}
    path = packed(tmp_path / "a", [("manifest.json", manifest(files)), *files.items()])
    assert path.stat().st_size < 200_000
    refused(other, path, "too much for a session")


def test_a_size_that_lies_is_refused(other, tmp_path):
    files = {"journal.jsonl": b"a" * 10_000}
    path = packed(tmp_path / "a", [("manifest.json", manifest(files)), *files.items()])
    small = manifest({"journal.jsonl": b"a" * 10})
    path = packed(tmp_path / "b", [("manifest.json", small), *files.items()])
    refused(other, path, "differ from those that its manifest lists")
    data = bytearray(path.read_bytes())
    place = data.rindex(b"journal.jsonl") - 46 + 24  # the size, in the directory
    data[place : place + 4] = struct.pack("<I", 10)
    path.write_bytes(data)
    refused(other, path, "damaged|altered")


def test_members_that_share_bytes_are_refused(other, tmp_path):
    """A file inside another's bytes: so a small archive unpacks to any size."""
    inner = packed(tmp_path / "inner", [("damaged/x", b"a" * 100)], compress_type=0).read_bytes()
    local, directory = inner[: inner.index(b"PK\x01\x02")], inner[inner.index(b"PK\x01\x02") :]
    entry = bytearray(directory[: directory.index(b"PK\x05\x06")])
    files = {"journal.jsonl": local, "damaged/x": b"a" * 100}
    members = [("manifest.json", manifest(files)), ("journal.jsonl", local)]
    path = packed(tmp_path / "a", members, compress_type=0)
    data = path.read_bytes()
    start, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    entry[42:46] = struct.pack("<I", data.index(local))
    tail = bytearray(data[end:])
    tail[8:12] = struct.pack("<HH", 3, 3)
    tail[12:16] = struct.pack("<I", end - start + len(entry))
    path.write_bytes(data[:end] + entry + tail)
    assert unpacked(path)["damaged/x"] == b"a" * 100
    refused(other, path, "shares bytes")


def test_what_shrinks_too_well_is_not_packed(store, other, tmp_path):
    """It would come back looking like a bomb."""
    with store.create() as session:
        session.append(holdfast.user("x" * 2_000_000))
        path = export_to(session, "archive", tmp_path / "a.holdfast").path
    with zipfile.ZipFile(path) as made:
        kinds = {info.filename.partition("/")[0]: info.compress_type for info in made.infolist()}
    assert kinds["blobs"] == zipfile.ZIP_STORED
    assert kinds["journal.jsonl"] == zipfile.ZIP_DEFLATED
    assert take_archive(other, path).action == "created"


def test_sums_are_checked(archive, other):
    members = unpacked(archive)
    name = next(each for each in members if each.startswith("blobs/"))
    members["journal.jsonl"] = members["journal.jsonl"].replace(b"wrong", b"WRONG", 1)
    if members["journal.jsonl"] == unpacked(archive)["journal.jsonl"]:
        members["journal.jsonl"] = members["journal.jsonl"].replace(b"right", b"RIGHT", 1)
    refused(other, packed(archive.with_name("b"), list(members.items())), "journal.jsonl in it was")
    members = unpacked(archive) | {name: b"y" * len(unpacked(archive)[name])}
    refused(other, packed(archive.with_name("c"), list(members.items())), "blobs/.* in it was")
    files = {each: data for each, data in members.items() if each != "manifest.json"}
    about = json.loads(members["manifest.json"])
    members["manifest.json"] = manifest(files, session=about["session"])
    refused(other, packed(archive.with_name("d"), list(members.items())), "blobs/.* in it was")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 2}, "newer version"),
        ({"session": "../../x"}, "not a session id"),
        ({"session": "20260101-000000-zzzzzzzz"}, "cannot be read"),
        ({"files": []}, "manifest lists"),
        ({"files": "x"}, "manifest cannot be read"),
        ({"session": None}, "manifest cannot be read"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(archive, other, changes, reason):
    members = unpacked(archive)
    members["manifest.json"] = json.dumps(json.loads(members["manifest.json"]) | changes).encode()
    refused(other, packed(archive.with_name("b"), list(members.items())), reason)


def test_another_keys_session_is_refused(store, other, tmp_path):
    """Whoever opens the session of a key gets that one, not what somebody sent."""
    with store.create() as session:
        session.append(holdfast.user("evil"))
    files = content(session.path)
    for line in (files["journal.jsonl"], b'{"seq":1,"at":"x","type":"event","name":"y"}\n'):
        files["journal.jsonl"] = line
        key = "key-" + "a" * 52
        path = tmp_path / "a"
        packed(path, [("manifest.json", manifest(files, session=key)), *files.items()])
        refused(other, path, "its session cannot be read")


def test_a_journal_of_nothing_is_refused(other, tmp_path):
    files = {"journal.jsonl": b"hello\n"}
    path = packed(tmp_path / "a", [("manifest.json", manifest(files)), *files.items()])
    refused(other, path, "its session cannot be read")


def test_what_is_no_archive_is_refused(archive, other, tmp_path):
    cases = {
        "text": b"hello",
        "empty": b"",
        "torn": archive.read_bytes()[:-30],
        "beginning": b"PK\x03\x04" + b"\0" * 100,
    }
    for name, data in cases.items():
        path = tmp_path / name
        path.write_bytes(data)
        assert is_archive(path) == (name in ("torn", "beginning"))
        assert is_archive(path.rename(tmp_path / f"{name}.holdfast"))
        refused(other, tmp_path / f"{name}.holdfast", "not a Holdfast archive|damaged")
    plain = packed(tmp_path / "plain", [("readme.txt", b"hello")])
    assert not is_archive(plain)
    refused(other, plain, "no manifest")
    assert not is_archive(tmp_path / "missing")
    refused(other, tmp_path / "missing", "cannot be opened")
    link = tmp_path / "link"
    link.symlink_to(archive)
    assert not is_archive(link)
    refused(other, link, "cannot be opened")
    os.mkfifo(tmp_path / "pipe")
    assert not is_archive(tmp_path / "pipe")
    refused(other, tmp_path / "pipe", "not a regular file")


def test_names_that_repeat_and_files_without_end_are_refused(other, tmp_path):
    with pytest.warns(UserWarning, match="Duplicate"):
        path = packed(
            tmp_path / "a",
            [("journal.jsonl", b"x"), ("journal.jsonl", b"y"), ("manifest.json", b"{}")],
        )
    refused(other, path, "several files with the same name")
    many = [(f"damaged/{number}", b"") for number in range(50_002)]
    path = packed(tmp_path / "b", [("manifest.json", b"{}"), *many])
    refused(other, path, "too many files")
    long = [(f"damaged/{number:0200}", b"") for number in range(40_000)]
    path = packed(tmp_path / "c", [("manifest.json", b"{}"), *long])
    refused(other, path, "file list is too large")


def test_encrypted_and_unusual_packing_is_refused(other, tmp_path):
    files = {"journal.jsonl": b"x" * 100}
    members = [("manifest.json", manifest(files)), *files.items()]
    path = packed(tmp_path / "a", members, compress_type=zipfile.ZIP_LZMA)
    refused(other, path, "uses a compression")
    path = packed(tmp_path / "b", members)
    data = bytearray(path.read_bytes())
    place = data.rindex(b"journal.jsonl") - 46 + 8
    data[place] |= 1
    path.write_bytes(data)
    refused(other, path, "encrypted")


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_damaged_archive_is_the_session_or_nothing(archive, rich, tmp_path_factory, data):
    whole = archive.read_bytes()
    folder = tmp_path_factory.mktemp("fuzz")
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place : place + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    path = folder / "a"
    path.write_bytes(damaged)
    with holdfast.open_store(folder / "home") as store:
        try:
            take_archive(store, path)
        except holdfast.ImportRejected:
            assert store.ids() == set()
        else:
            with store.open(rich.id, mode="read") as copy:
                assert content(copy.path).items() <= content(rich.path).items()


def test_progress_ends_an_import_and_leaves_nothing(archive, other):
    seen = []

    def stop(done, total):
        seen.append((done, total))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take_archive(other, archive, stop)
    assert seen[0][0] <= seen[0][1]
    assert other.ids() == set()
    assert list((other.path / "sessions").iterdir()) == []


def test_a_full_disk_leaves_nothing(archive, tmp_path, files):
    with holdfast.open_store(tmp_path / "full", files=files) as store:
        files.fail("write", 28, name="journal")
        with pytest.raises(holdfast.DiskFull):
            take_archive(store, archive)
        assert store.ids() == set()
        take_archive(store, archive)


def test_anybody_can_look_inside(archive, rich):
    with zipfile.ZipFile(io.BytesIO(archive.read_bytes())) as made:
        assert made.testzip() is None
        about = json.loads(made.read("manifest.json"))
    assert about["session"] == rich.id
    assert about["title"] == "A title"
    for each in about["files"]:
        assert sha256(unpacked(archive)[each["name"]]).hexdigest() == each["sha256"]
