"""Payloads too large for a line: on disk before the entry that names them, back unchanged."""

from __future__ import annotations

import os
from base64 import b64encode

import holdfast
from holdfast import (
    Image,
    Text,
    ToolResult,
    user,
)
from holdfast.model.entry import Checkpoint
from holdfast.store.write.blob_refs import blobs_of

LARGE = 300 * 1024


TEXT = "large text ☃ " * (LARGE // 12)


IMAGE = b64encode(os.urandom(LARGE)).decode()


def test_the_reference_tells_size_type_and_beginning(store):
    session = store.create()
    session.append(user([Text(text=TEXT), Image(media_type="image/png", data=IMAGE)]))
    (entry,) = (each for each in session.follow(wait=False) if each.type == "message")
    text, image = entry.body.content
    assert text.text == image.data == ""
    assert text.blob.preview == TEXT[:400]
    assert (text.blob.media_type, text.blob.encoding) == ("text/plain", "text")
    assert text.blob.size_bytes == len(TEXT.encode())
    assert (image.blob.media_type, image.blob.encoding) == ("image/png", "base64")
    assert (image.blob.size_bytes, image.blob.preview) == (LARGE, "")


def kept_by(session, data):
    """Append a result that changed a file; return the name of the blob."""
    name = session.keep(data)
    change = holdfast.FileChange(path="a", before=None, after=name)
    result = ToolResult(call_id="c", content=[], outcome="completed", changes=[change], kept=[name])
    session.append(holdfast.Message(role="tool", content=[result]))
    return name


def test_a_result_names_what_it_changed_and_kept(store):
    with store.create() as session:
        session.append(user("a"))
        name = kept_by(session, b"old")
    with store.open(session.id) as again:
        (result,) = again.messages[-1].content
        assert isinstance(result, ToolResult)
        assert result.changes == [holdfast.FileChange(path="a", before=None, after=name)]
        assert blobs_of(again.messages[-1]) == {name}
        assert blobs_of(Checkpoint([again.messages[-1]], 0)) == {name}


def test_a_fork_takes_what_results_keep_along(store):
    with store.create() as session:
        session.append(user("a"))
        name = kept_by(session, b"old")
        fork = session.fork()
        assert fork.blob(name) == b"old"
        fork.close()
