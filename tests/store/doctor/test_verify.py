"""Every problem that a session on disk can have, found and named; nothing changed."""

from __future__ import annotations

import re

import pytest

import holdfast
from holdfast.files import Files
from holdfast.model.event import Event
from holdfast.model.message import BlobRef
from holdfast.store.local.blobs import Blobs
from holdfast.store.local.live import LiveFile
from tests.disk import snapshot

LARGE = "x" * 300_000


@pytest.fixture
def session(store):
    with store.create() as session:
        session.append(holdfast.user("one"))
        session.append(holdfast.assistant("two"))
        session.append(holdfast.user("three"))
        session.append([holdfast.user(LARGE), holdfast.user(LARGE)])
    return session


@pytest.fixture
def journal(session):
    return session.path / "journal.jsonl"


def found(store, session) -> list[tuple[str, str, str]]:
    before = snapshot(session.path)
    report = store.verify(session.id)
    assert snapshot(session.path) == before
    assert report.ok == (not report.problems)
    return [(problem.kind, problem.where, problem.detail) for problem in report.problems]


def line_start(data: bytes, seq: int) -> int:
    return data.index(b'{"seq":%d,' % seq)


def test_an_intact_session(store, session, journal):
    told = []
    report = store.verify(session.id, progress=lambda done, total: told.append((done, total)))
    assert report.ok
    assert report.problems == []
    assert report.id == session.id
    assert report.messages == 5
    assert report.entries == journal.read_bytes().count(b"\n")
    assert report.size_bytes == journal.stat().st_size
    assert report.files == 1
    assert told[-1] == (report.size_bytes, report.size_bytes)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


def test_a_session_in_several_files(fragile, files):
    with fragile.create() as session:
        session.append(holdfast.user("one"))
        files.fail("sync", name="journal.jsonl")
        session.append(holdfast.user("two"))
        session.append(holdfast.user("three"))
    report = fragile.verify(session.id)
    assert report.ok
    assert report.files == 2
    assert report.messages == 3
    second = session.path / "journal.2.jsonl"
    second.write_bytes(second.read_bytes().replace(b"two", b"TWO"))
    ((kind, where, _),) = found(fragile, session)
    assert (kind, where.partition(":")[0]) == ("edited", "journal.2.jsonl")


def test_a_header_that_cannot_be_read(store, session, journal):
    data = journal.read_bytes()
    end = data.index(b"\n")
    journal.write_bytes(b"?" * end + data[end:])
    assert found(store, session) == [
        ("header", "journal.jsonl", "the first line cannot be read"),
        ("damage", "journal.jsonl:0", f"{end} bytes unreadable"),
        ("unverified", f"journal.jsonl:{end + 1}", "entry 1 cannot be checked"),
    ]


def test_a_torn_end(store, session, journal):
    with journal.open("ab") as file:
        file.write(b'{"seq":99,"at')
    size = journal.stat().st_size
    ((kind, where, detail),) = found(store, session)
    assert (kind, where) == ("torn", f"journal.jsonl:{size - 13}")
    assert detail.startswith("13 bytes")


def test_damage_in_the_middle(store, session, journal):
    data = journal.read_bytes()
    place = line_start(data, 2)
    length = data.index(b"\n", place) - place
    journal.write_bytes(data[:place] + b"\0" * length + data[place + length :])
    assert found(store, session) == [
        ("damage", f"journal.jsonl:{place}", f"{length} bytes unreadable"),
        ("unverified", f"journal.jsonl:{place + length + 1}", "entry 3 cannot be checked"),
    ]


def test_an_edited_line(store, session, journal):
    data = journal.read_bytes()
    journal.write_bytes(data.replace(b'"two"', b'"TWO"'))
    assert found(store, session) == [
        (
            "edited",
            f"journal.jsonl:{line_start(data, 2)}",
            "entry 2 was changed after it was written",
        )
    ]


def test_a_missing_line(store, session, journal):
    data = journal.read_bytes()
    start, end = line_start(data, 2), line_start(data, 3)
    journal.write_bytes(data[:start] + data[end:])
    assert [kind for kind, *_ in found(store, session)] == ["edited"]


def test_a_missing_or_altered_payload_is_told_once(store, session):
    (blob,) = (session.path / "blobs").iterdir()
    blob.write_bytes(b"something else")
    ((kind, where, detail),) = found(store, session)
    assert (kind, where) == ("blob", f"blobs/{blob.name}")
    assert re.fullmatch(r"altered, for entry \d+", detail)
    blob.unlink()
    ((kind, where, detail),) = found(store, session)
    assert (kind, where) == ("blob", f"blobs/{blob.name}")
    assert re.fullmatch(r"missing, for entry \d+", detail)


def test_text_that_was_being_streamed(store, session):
    file = LiveFile(Files(), session.path)
    file.append([Event("stream", "text", 0, "half a sent")])
    file.close()
    ((kind, where, detail),) = found(store, session)
    assert (kind, where) == ("interrupted", "live.jsonl")
    assert detail.startswith("assistant text")


def test_what_others_can_read(store, session, journal):
    (blob,) = (session.path / "blobs").iterdir()
    for path, mode in ((journal, 0o644), (blob, 0o604), (session.path, 0o750)):
        path.chmod(mode)
    assert found(store, session) == [
        ("permissions", session.id, "mode 0750 gives access to other users"),
        ("permissions", f"{session.id}/blobs/{blob.name}", "mode 0604 gives access to other users"),
        ("permissions", f"{session.id}/journal.jsonl", "mode 0644 gives access to other users"),
    ]


def test_a_session_that_cannot_be_read_is_an_error_of_ours(fragile, files):
    with fragile.create() as session:
        session.append(holdfast.user("one"))
    files.fail("open_read", 13)
    with pytest.raises(holdfast.StorageError, match="Permission denied"):
        fragile.verify(session.id)


def test_blobs_are_read_with_care(fragile, files):
    with fragile.create() as session:
        session.append(holdfast.user("large " * 60_000))
    (blob,) = (session.path / "blobs").iterdir()
    blobs = Blobs(files, session.path)
    assert blobs.is_intact(blob.name)
    assert not blobs.is_intact("a_name_that_is_none")
    assert not blobs.is_intact("\0")
    files.fail("read_at", name=blob.name)
    assert not blobs.is_intact(blob.name)
    assert blob.name not in files.left_open


def test_an_unsound_journal_in_two_files_counts_nothing_twice(fragile, files):
    with fragile.create() as session:
        session.append(holdfast.user("one"))
        files.fail("sync", name="journal.jsonl")
        session.append(holdfast.user("two"))
    first = session.path / "journal.jsonl"
    second = session.path / "journal.2.jsonl"
    lines = second.read_bytes().splitlines(keepends=True)
    again = first.read_bytes().splitlines(keepends=True)[1]
    second.write_bytes(b"".join([lines[0], again, *lines[1:]]))
    report = fragile.verify(session.id)
    assert report.messages == 2


@pytest.mark.parametrize("name", ["\0", "x" * 300])
def test_a_payload_of_a_name_that_no_file_can_have(store, name):
    blob = BlobRef(sha256=name, size_bytes=1, media_type="text/plain", encoding="text")
    with store.create() as session:
        session.append(holdfast.Message(role="user", content=[holdfast.Text(text="", blob=blob)]))
    ((kind, where, detail),) = found(store, session)
    assert (kind, where) == ("blob", f"blobs/{name}")
    assert detail.startswith("missing")


def test_a_link_in_the_place_of_the_lock_ends_nothing(store):
    with store.create() as session:
        session.append(holdfast.user("hello"))
    (session.path / "lock").unlink()
    (session.path / "lock").symlink_to("lock")
    assert store.verify(session.id).entries == 2
