"""The tools that change files: what they keep, and what they refuse."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.files import Files
from holdfast.model.message import FileChange
from holdfast.runtime.tools import workspace as workspace_module
from holdfast.runtime.tools.base import Done
from holdfast.runtime.tools.file_change import CHANGE_NAME, recover_change
from holdfast.runtime.tools.shell.spool import folder_of
from holdfast.runtime.tools.workspace import digest
from tests.runtime.tools.desk import Desk, text_of

# Writing


def test_a_new_file(desk):
    done = desk.run("write", path="a/b.txt", content="ä\n")
    assert (text_of(done), done.outcome) == ("Wrote a/b.txt: 3 bytes.", "completed")
    assert (desk.root / "a/b.txt").read_bytes() == "ä\n".encode()
    after = digest("ä\n".encode())
    assert done.changes == [FileChange("a/b.txt", None, after)]
    assert desk.blobs == {after: "ä\n".encode()}


def test_a_file_that_was_read(desk):
    desk.file("x", "old")
    desk.run("read", path="x")
    done = desk.run("write", path="x", content="new")
    assert done.changes == [FileChange("x", digest(b"old"), digest(b"new"))]
    assert desk.blobs == {digest(b"old"): b"old", digest(b"new"): b"new"}
    assert text_of(done) == "Replaced x: 3 bytes."
    assert desk.run("write", path="x", content="").outcome == "completed"
    assert (desk.root / "x").read_bytes() == b""


def test_a_file_that_was_not_read_is_not_overwritten(desk):
    desk.file("x", "old")
    done = desk.run("write", path="x", content="new")
    assert (text_of(done), done.outcome) == ("x already exists; read it first.", "failed")
    assert (desk.root / "x").read_text() == "old"
    assert desk.blobs == {}
    desk.file("empty")
    assert desk.run("write", path="empty", content="new").outcome == "completed"


@pytest.mark.parametrize("tool", ["write", "edit"])
@pytest.mark.parametrize("first", ["read", "write", "edit"])
def test_a_file_that_somebody_else_changed_is_refused(desk, tool, first):
    arguments = {"write": {"content": "mine"}, "edit": {"old": "old", "new": "mine"}}
    desk.file("x", "old")
    desk.run("read", path="x")
    if first != "read":
        assert desk.run(first, path="x", **arguments[first]).outcome == "completed"
    desk.file("x", "old of others")
    done = desk.run(tool, path="x", **arguments[tool])
    assert done.outcome == "failed"
    assert "changed by another program since you last read it" in text_of(done)
    assert (desk.root / "x").read_text() == "old of others"
    desk.run("read", path="x")
    assert desk.run(tool, path="x", **arguments[tool]).outcome == "completed"


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\r\nc\n", "c\nd\n", b"c\nd\n"),
        (b"a\r\n", "c\r\nd\n", b"c\r\nd\n"),
        (b"a\rb", "c\nd", b"c\rd"),
        (b"\xef\xbb\xbfa", "b", b"\xef\xbb\xbfb"),
        ("a".encode("utf-16"), "€", "€".encode("utf-16")),
        (b"\xe4", "\xf6", b"\xf6"),
        (b"\xe4\r\n", "€\n", "€\r\n".encode()),
        (b"\0\1", "text", b"text"),
    ],
)
def test_writing_keeps_the_form_of_a_file(desk, before, content, after):
    desk.file("x", before)
    desk.run("read", path="x")
    done = desk.run("write", path="x", content=content)
    assert done.outcome == "completed"
    assert (desk.root / "x").read_bytes() == after


def test_what_no_file_can_hold_is_refused(desk):
    done = desk.run("write", path="x", content="\ud800")
    assert done.outcome == "failed"
    assert "cannot be written in UTF-8" in text_of(done)
    assert os.listdir(desk.root) == []
    assert desk.run("write", path=".", content="x").outcome == "failed"


# Editing


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"old": "", "new": "x"}, "The old text is empty; to write a whole file use write."),
        ({"old": "a", "new": "a"}, "The old and the new text are the same."),
        ({"old": "z", "new": "y"}, "The old text is not in x."),
        ({"old": "a  b", "new": "y"}, "It is there with other white space"),
        ({"old": "a", "new": "y"}, "is in x 2 times (lines 1, 2): give more"),
        ({"old": "a b", "new": "€"}, "cannot be written in LATIN-1"),
    ],
)
def test_an_edit_that_is_not_clear_is_refused(desk, arguments, sentence):
    desk.file("x", b"a b\na \xe4\n")
    done = desk.run("edit", path="x", **arguments)
    assert done.outcome == "failed"
    assert sentence in text_of(done)
    assert (desk.root / "x").read_bytes() == b"a b\na \xe4\n"
    assert done.changes == []


def test_an_edit_keeps_mode_encoding_and_line_ends(desk):
    path = desk.file("x", "one\r\ntwo\r\n".encode("utf-16"))
    path.chmod(0o755)
    done = desk.run("edit", path="x", old="one\ntwo", new="1\n2\n3")
    assert text_of(done) == "Replaced 1 place in x (line 1)."
    assert path.read_bytes() == "1\r\n2\r\n3\r\n".encode("utf-16")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_all_places_at_once(desk):
    desk.file("x", "a\n" * 12)
    done = desk.run("edit", path="x", old="a", new="b", replace_all=True)
    assert text_of(done) == (
        "Replaced 12 places in x (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more)."
    )
    assert (desk.root / "x").read_text() == "b\n" * 12


def test_binary_and_missing_files_are_not_edited(desk):
    desk.file("x", b"a\0")
    assert "binary" in text_of(desk.run("edit", path="x", old="a", new="b"))
    assert text_of(desk.run("edit", path="y", old="a", new="b")) == "There is no file y."


@settings(max_examples=60, deadline=None)
@given(
    text=st.text("ab \n€ä", max_size=30),
    old=st.text("ab\n", min_size=1, max_size=3),
    new=st.text("ab\n€", max_size=5),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
def test_an_edit_is_what_replace_does(text, old, new, encoding, line_end):
    text += "\n"
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Files, "sync", lambda *_: None)  # not what this is about
        patch.setattr(os, "fsync", lambda *_: None)
        desk = Desk(Path(folder))
        path = desk.file("x", text.replace("\n", line_end).encode(encoding))
        done = desk.run("edit", path="x", old=old, new=new, replace_all=True)
        expected = text.replace(old, new)
        if old in text and old != new:
            assert done.outcome == "completed"
        else:
            assert done.outcome == "failed"
            expected = text
        assert path.read_bytes() == expected.replace("\n", line_end).encode(encoding)


def test_parallel_edits_of_one_file_come_one_after_the_other(desk: Desk):
    desk.file("x", "".join(f"<{number}>" for number in range(20)))

    async def main() -> list[Done]:
        calls = [
            desk.call({"path": "x", "old": f"<{number}>", "new": f"[{number}]"})
            for number in range(20)
        ]
        return await asyncio.gather(*(desk.tools["edit"].run(call) for call in calls))

    done = asyncio.run(main())
    assert {each.outcome for each in done} == {"completed"}
    assert (desk.root / "x").read_text() == "".join(f"[{number}]" for number in range(20))


def test_an_edit_that_has_begun_is_told_though_it_was_cancelled(desk: Desk, monkeypatch):
    desk.file("x", "old")
    held, begun = threading.Event(), threading.Event()
    real = workspace_module.Workspace.replace_file

    def slow(*args: object) -> None:
        begun.set()
        held.wait(30)
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(workspace_module.Workspace, "replace_file", slow)

    async def main() -> Done:
        call = desk.call({"path": "x", "old": "old", "new": "new"})
        task = asyncio.ensure_future(desk.tools["edit"].run(call))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.sleep(0)
        held.set()
        return await task

    done = asyncio.run(main())
    assert done.outcome == "completed"
    assert done.changes == [FileChange("x", digest(b"old"), digest(b"new"))]
    assert (desk.root / "x").read_text() == "new"


# After a crash


class FakeDeath(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("path", ["x", "new"])
@pytest.mark.parametrize("moment", ["keep", "publish", "replace_file", "after"])
def test_a_crash_at_any_moment_can_be_told(desk, monkeypatch, path, moment):
    def die(*_: object) -> None:
        raise FakeDeath

    desk.file("x", "old")
    desk.run("read", path="x")
    owner: object = {
        "keep": desk,
        "publish": Files,
        "replace_file": workspace_module.Workspace,
        "after": desk.tools["write"]._seen,
    }[moment]
    monkeypatch.setattr(owner, "note" if moment == "after" else moment, die)
    with pytest.raises(FakeDeath):
        desk.run("write", path=path, content="new")
    found = recover_change(desk.spool, "call-2", desk.workspace)
    assert found.state == ("completed" if moment == "after" else "never_ran")
    before = digest(b"old") if path == "x" else None
    expected = FileChange(path, before, digest(b"new"))
    assert found.change == (expected if moment in ("replace_file", "after") else None)
    assert all(name in desk.blobs for name in (before, digest(b"new")) if found.change and name)
    if found.change:
        desk.file(path, "others")
        assert recover_change(desk.spool, "call-2", desk.workspace).state == "unknown"


def test_what_cannot_be_told_is_unknown(desk):
    desk.run("write", path="x", content="new")
    assert recover_change(desk.spool, "call-1", desk.workspace).state == "completed"
    (desk.root / "x").unlink()
    (desk.root / "x").mkdir()
    assert recover_change(desk.spool, "call-1", desk.workspace).state == "unknown"
    note = folder_of(desk.spool, "call-1") / CHANGE_NAME
    note.write_text("{")
    assert recover_change(desk.spool, "call-1", desk.workspace).state == "unknown"
