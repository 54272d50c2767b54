"""Payloads too large for a line: on disk before the entry that names them, back unchanged."""

from __future__ import annotations

import errno
import os
from base64 import b64encode
from hashlib import sha256

import pytest

import holdfast
from holdfast import (
    File,
    Image,
    Opaque,
    Queued,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from holdfast.files import Files
from holdfast.model.entry import Checkpoint
from holdfast.model.message import BlobRef, UnknownPart
from holdfast.store.local.blobs import LARGEST_BLOB_BYTES, Blobs
from holdfast.store.write.blob_refs import references

LARGE = 300 * 1024


TEXT = "large text ☃ " * (LARGE // 12)


IMAGE = b64encode(os.urandom(LARGE)).decode()


def blobs(session):
    folder = session.path / "blobs"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def tool_result(part):
    return holdfast.Message(
        role="tool", content=[ToolResult(call_id="c1", content=[part], outcome="completed")]
    )


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(user(TEXT), id="text"),
        pytest.param(user([Image(media_type="image/png", data=IMAGE)]), id="image"),
        pytest.param(user([File(name="f", media_type="a/b", data=IMAGE)]), id="file"),
        pytest.param(
            user([File(name="f", media_type="a/b", data="not base64 " * 30_000)]), id="not base64"
        ),
        pytest.param(
            user([File(name="f", media_type="a/b", data=IMAGE[:-4] + "é")]), id="not even ASCII"
        ),
        pytest.param(
            user([File(name="f", media_type="a/b", data=IMAGE[:-3] + "\n" + IMAGE[-3:])]),
            id="base64 of another shape",
        ),
        pytest.param(
            assistant([ToolCall(id="1", name="w", arguments={"text": TEXT, "n": [1, None]})]),
            id="tool call",
        ),
        pytest.param(tool_result(Text(text=TEXT)), id="tool result"),
        pytest.param(
            tool_result(ToolResult(call_id="2", content=[Text(text=TEXT)], outcome="failed")),
            id="nested tool result",
        ),
        pytest.param(assistant([Thinking(text=TEXT, signature="s")]), id="thinking"),
        pytest.param(assistant([Opaque(vendor="v", data={"x": [TEXT]})]), id="opaque"),
        pytest.param(user("\ud800 " * 100 + "x" * LARGE), id="lone surrogates"),
        pytest.param(
            assistant([ToolCall(id="1", name="w", arguments=["\udfff" + "x" * LARGE])]),
            id="lone surrogates in arguments",
        ),
        pytest.param(user([Text(text=TEXT), Text(text="small"), Text(text=TEXT)]), id="twice"),
    ],
)
def test_a_large_payload_comes_back_identical(store, message):
    with store.create() as session:
        session.append(user("small"))
        session.append(message)
        assert len(blobs(session)) == 1
        assert session.messages == [user("small"), message]
        assert session.context() == [user("small"), message]
    journal = (session.path / "journal.jsonl").read_bytes()
    assert len(journal) < 5000
    for mode in ("read", "write"):
        assert store.open(session.id, mode).messages == [user("small"), message]
    assert store.verify(session.id).ok
    (name,) = blobs(session)
    assert sha256((session.path / "blobs" / name).read_bytes()).hexdigest() == name
    assert (session.path / "blobs").stat().st_mode & 0o777 == 0o700
    assert (session.path / "blobs" / name).stat().st_mode & 0o777 == 0o600


def test_parts_of_unknown_types_stay_as_they_are(store):
    message = user([Text(text=TEXT), UnknownPart(fields={"type": "hologram", "data": TEXT})])
    session = store.create()
    session.append(message)
    assert len(blobs(session)) == 1
    assert session.messages == [message]
    assert store.open(session.id, "read").messages == [message]


def test_what_is_small_stays_in_the_line(store):
    session = store.create()
    message = user([Text(text="x" * 200_000), Text(text="y" * 200_000)])
    session.append(message)
    assert blobs(session) == []
    assert store.open(session.id, "read").messages == [message]


def test_a_large_summary_is_a_blob_too(store):
    with store.create() as session:
        session.append(user("a"))
        session.checkpoint([user(TEXT), assistant("small")])
        assert session.summary == [user(TEXT), assistant("small")]
    again = store.open(session.id)
    assert again.context() == [user(TEXT), assistant("small")]
    again.truncate(0)
    assert again.summary == [user(TEXT), assistant("small")]
    assert len(blobs(again)) == 1


def test_a_large_queued_prompt_is_a_blob(store):
    session = store.create()
    session.append(Queued([Text(text=TEXT)]))
    assert len(blobs(session)) == 1
    (entry,) = (each for each in session.follow(wait=False) if each.type == "queued")
    assert [ref.sha256 for ref in references(entry.body)] == blobs(session)
    assert store.verify(session.id).ok


def test_references_are_found_wherever_they_are(store):
    session = store.create()
    nested = tool_result(ToolResult(call_id="2", content=[Text(text=TEXT)], outcome="failed"))
    session.append([nested, Checkpoint([user(TEXT + "2")], keep_from=0), holdfast.Meta({"a": 1})])
    found = [ref.sha256 for each in session.follow(wait=False) for ref in references(each.body)]
    assert sorted(found) == blobs(session)


def test_a_large_event_that_no_blob_can_hold_stays_in_the_line(store):
    session = store.create()
    session.event("big", TEXT)
    assert blobs(session) == []
    (entry,) = (each for each in session.follow(wait=False) if each.type == "event")
    assert entry.body.data == TEXT


@pytest.mark.parametrize("first", [True, False])
def test_a_blob_is_durable_before_the_entry_that_names_it(fragile, files, first):
    session = fragile.create()
    if not first:
        session.append(user("small"))
    files.calls.clear()
    session.append(user(TEXT))
    name = blobs(session)[0]
    order = [
        files.first("write", f".{name}."),
        files.first("sync", f".{name}."),
        files.first("rename", f".{name}."),
        files.first("sync_folder", "blobs"),
        files.first("write", "journal.jsonl"),
        files.first("sync", "journal.jsonl"),
    ]
    assert order == sorted(order)
    made = files.first("make_folder", "blobs")
    parent = next(
        place
        for place, (method, _) in enumerate(files.calls)
        if method == "sync_folder" and place > made
    )
    assert parent < files.first("write", "journal.jsonl")


def test_a_blob_that_is_there_already_is_not_written_again_but_its_folder_is_synced(fragile, files):
    session = fragile.create()
    session.append(user(TEXT))
    files.calls.clear()
    session.append(user(TEXT))
    name = blobs(session)[0]
    assert files.count("write", f".{name}.") == 0
    assert files.first("sync_folder", "blobs") < files.first("write", "journal.jsonl")


def test_a_blob_cut_short_by_somebody_is_written_again(store):
    session = store.create()
    session.append(user(TEXT))
    path = session.path / "blobs" / blobs(session)[0]
    path.write_bytes(b"short")
    session.append(user(TEXT))
    assert session.messages == [user(TEXT), user(TEXT)]


def alter(path):
    path.write_bytes(TEXT.encode()[:-1] + b"?")


def remove(path):
    path.unlink()


def link_away(path):
    path.unlink()
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("change", [alter, remove, link_away])
def test_a_payload_that_is_given_again_is_there_again(store, change):
    session = store.create()
    session.append(user(TEXT))
    path = session.path / "blobs" / blobs(session)[0]
    change(path)
    session.append(user(TEXT))
    assert path.read_bytes() == TEXT.encode()
    assert not path.is_symlink()
    assert session.messages == [user(TEXT), user(TEXT)]
    assert store.verify(session.id).problems == []


def test_what_is_kept_again_is_there_again(store):
    session = store.create()
    session.append(user("hello"))
    name = session.keep(b"data")
    (session.path / "blobs" / name).write_bytes(b"date")
    assert session.keep(b"data") == name
    assert session.blob(name) == b"data"


def test_a_blob_that_is_relied_on_is_synced_and_if_it_cannot_be_written_again(fragile, files):
    session = fragile.create()
    session.append(user(TEXT))
    name = blobs(session)[0]
    files.calls.clear()
    session.append(user(TEXT))
    assert files.first("sync", name) < files.first("write", "journal.jsonl")
    files.fail("sync", errno.EIO, name=name)
    files.calls.clear()
    session.append(user(TEXT))
    assert files.first("rename", f".{name}.") < files.first("write", "journal.jsonl")
    assert session.messages == [user(TEXT)] * 3


@pytest.mark.parametrize("how", ["missing", "altered", "unreadable"])
def test_a_blob_that_is_not_what_it_was_leaves_a_reference(fragile, files, how):
    with fragile.create() as session:
        message = user([Text(text="before"), Text(text=TEXT)])
        session.append(message)
    path = session.path / "blobs" / blobs(session)[0]
    if how == "missing":
        path.unlink()
    elif how == "altered":
        path.write_bytes(TEXT.encode()[:-1] + b"?")
    else:
        files.fail("open_read", errno.EACCES, name=path.name, times=None)
    with fragile.open(session.id) as again:
        (found,) = again.messages
        assert found.content[0] == Text(text="before")
        assert isinstance(found.content[1].blob, BlobRef)
        assert found.content[1].blob.preview == TEXT[:400]
        assert found.content[1].text == TEXT[:400]  # what there is; the reference says the rest
        assert [problem.kind for problem in fragile.verify(session.id).problems] == ["blob"]
        again.append(found)  # a reference can be stored as it is
        assert again.messages == [found, found]


def test_no_room_for_a_blob_is_completed_later(fragile, files, eventually):
    session = fragile.create()
    session.append(user("small"))
    with files.full_disk(room_bytes=10_000):
        with pytest.raises(holdfast.DiskFull) as caught:
            session.append(user(TEXT))
        assert len(caught.value.pending) == 1
        assert session.messages == [user("small")]
        assert [name for name in blobs(session) if not name.startswith(".")] == []
    eventually(lambda: len(session.messages) == 2)
    assert session.messages == [user("small"), user(TEXT)]
    assert len(blobs(session)) == 1
    assert session.trouble is None


def test_no_room_for_the_blob_of_the_very_first_entry(fragile, files, eventually):
    session = fragile.create()
    with files.full_disk(room_bytes=10_000), pytest.raises(holdfast.DiskFull):
        session.append(user(TEXT))
    eventually(lambda: len(session.messages) == 1)
    assert session.append(user(TEXT)).seq == 1
    assert session.messages == [user(TEXT)]


def test_a_blob_that_cannot_be_written_stops_the_session(fragile, files):
    session = fragile.create()
    session.append(user("small"))
    files.fail("sync_folder", errno.EIO, name="blobs")
    with pytest.raises(holdfast.WriteFailed):
        session.append(user(TEXT))
    assert session.messages == [user("small")]


def test_a_line_that_would_be_too_long_is_refused(store, monkeypatch):
    monkeypatch.setattr("holdfast.store.write.encode.LONGEST_LINE_BYTES", 500_000)
    session = store.create()
    with pytest.raises(holdfast.UsageError, match="too large"):
        session.event("big", "x" * 600_000)
    assert not store.path.exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"encoding":"base64"', b'"encoding":"json"'),
        (b'"encoding":"base64"', b'"encoding":"text"'),
        (b'"sha256":"', b'"sha256":"\\u0000'),
        (b'"sha256":"', b'"sha256":"../../'),
    ],
)
def test_an_altered_reference_stays_one(store, old, new):
    with store.create() as session:
        session.append(user([Text(text="before"), Image(media_type="image/png", data=IMAGE)]))
    path = session.path / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(old, new))
    (message,) = store.open(session.id, "read").messages
    assert message.text == "before"
    assert isinstance(message.content[1].blob, BlobRef)


def test_what_is_kept_comes_back(store):
    with store.create() as session:
        session.append(user("a"))
        name = session.keep(b"what a file was")
        assert name == sha256(b"what a file was").hexdigest()
        assert session.keep(b"what a file was") == name
        assert session.blob(name) == b"what a file was"
        assert session.blob("0" * 64) is None
        (session.path / "blobs" / name).write_bytes(b"something else")
        assert session.blob(name) is None
    assert session.blob("../journal.jsonl") is None


def test_a_session_without_entries_keeps_nothing(store):
    with store.create() as session:
        with pytest.raises(holdfast.UsageError, match="Append an entry first"):
            session.keep(b"x")
        assert not session.path.exists()


def test_no_room_to_keep_anything_is_said(fragile, files):
    with fragile.create() as session:
        session.append(user("a"))
        files.fail("open_append", errno.ENOSPC)
        with pytest.raises(holdfast.DiskFull):
            session.keep(b"x")
        files.fail("open_append", errno.EIO)
        with pytest.raises(holdfast.StorageError):
            session.keep(b"x")
        session.append(user("b"))


def test_a_blob_that_claims_more_than_any_has_is_not_read(tmp_path):
    blobs = Blobs(Files(), tmp_path)
    name = blobs.write(b"x")
    os.truncate(tmp_path / "blobs" / name, LARGEST_BLOB_BYTES + 1)
    assert blobs.read_named(name) is None
    assert not blobs.is_intact(name)
    assert blobs.write(b"x") == name  # it is replaced
    assert blobs.read_named(name) == b"x"
