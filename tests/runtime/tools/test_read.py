"""The read tool, and what all file tools do with arguments and errors."""

from __future__ import annotations

import asyncio
import base64
import threading

import pytest

from holdfast.model.message import Image
from holdfast.runtime.tools import read as module
from holdfast.runtime.tools.base import Call, Done, FileTool, os_sentence, settled
from holdfast.runtime.tools.workspace import Workspace
from tests.runtime.tools.desk import Desk, text_of

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_lines_have_numbers(desk):
    desk.file("a/x.py", "one\n\n\tthree\n")
    done = desk.run("read", path="a/x.py")
    assert text_of(done) == "     1\tone\n     2\t\n     3\t\tthree"
    assert done.outcome == "completed"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "[x is empty]"),
        (b"a", "     1\ta\n[no line end at the end of the file]"),
        (b"\n", "     1\t"),
        (b"a\r\nb\r\n", "     1\ta\n     2\tb\n[CRLF line ends]"),
        (b"a\rb\r", "     1\ta\n     2\tb\n[CR line ends]"),
        (b"\xe4\n", "     1\tä\n[LATIN-1]"),
        (b"\xef\xbb\xbfa\n", "     1\ta\n[UTF-8 with byte order mark]"),
        ("ä\n".encode("utf-16"), "     1\tä\n[UTF-16-LE with byte order mark]"),
        ("a\u2028b\x0cc\x85\n".encode(), "     1\ta\u2028b\x0cc\x85"),
        (b"\x1b[31mred\n", "     1\t\x1b[31mred"),
    ],
)
def test_every_text_is_shown(desk, content, text):
    desk.file("x", content)
    assert text_of(desk.run("read", path="x")) == text


def test_a_part_of_a_file(desk):
    desk.file("x", "".join(f"{number}\n" for number in range(1, 11)))
    done = desk.run("read", path="x", offset="4", limit=2)
    assert text_of(done) == "     4\t4\n     5\t5\n[lines 4 to 5 of 10; continue with offset=6]"
    assert text_of(desk.run("read", path="x", offset=10)) == "    10\t10"
    done = desk.run("read", path="x", offset=11)
    assert (text_of(done), done.outcome) == ("x has only 10 lines.", "failed")


def test_long_files_are_cut_and_say_so(desk):
    desk.file("x", "\n" * 3000)
    lines = text_of(desk.run("read", path="x", limit=9999)).split("\n")
    assert lines[-1] == "[lines 1 to 2000 of 3000; continue with offset=2001]"
    assert len(lines) == 2001
    desk.file("x", ("y" * 1500 + "\n") * 100)
    text = text_of(desk.run("read", path="x"))
    assert text.endswith("[lines 1 to 67 of 100; continue with offset=68]")
    assert len(text) < module.MOST_CHARACTERS + 2000


def test_long_lines_are_cut_and_say_so(desk):
    desk.file("x", "y" * 2000 + "\n" + "y" * 2001 + "\n" + "y" * 5000 + "\n")
    one, two, three = text_of(desk.run("read", path="x")).split("\n")
    assert one.endswith("\t" + "y" * 2000)
    assert two.endswith("y… [1 more character in this line]")
    assert three.endswith("y… [3,000 more characters in this line]")


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a...", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_images_are_images(desk, data, media_type):
    desk.file("x", data)
    done = desk.run("read", path="x")
    assert text_of(done) == f"x: {media_type}, {len(data)} bytes."
    assert done.content[1] == Image(media_type=media_type, data=base64.b64encode(data).decode())


def test_images_have_a_limit(desk):
    desk.file("x", PNG + b"\0" * module.LARGEST_IMAGE_BYTES)
    done = desk.run("read", path="x")
    assert done.outcome == "failed"
    assert "Make a smaller copy" in text_of(done)


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("x", b"a\0b", "x is a binary file of 3 bytes"),
        ("x", b"xxxxxxxxWEBP\0", "x is a binary file"),
        (".", b"", ". is a folder; list its files with glob."),
        ("gone", b"", "There is no file gone."),
        ("../x", b"", "../x is outside the workspace"),
    ],
)
def test_what_cannot_be_shown_is_said(desk, name, data, sentence):
    desk.file("x", data)
    done = desk.run("read", path=name)
    assert done.outcome == "failed"
    assert text_of(done).startswith(sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "missing required field `path`"),
        ({"path": 1}, "Expected `str`"),
        ({"path": "x", "offset": 0}, "`int` >= 1"),
        ({"path": "x", "limit": "many"}, "Expected `int`"),
        ({"path": "x", "lines": 3}, "unknown field `lines`"),
    ],
)
def test_wrong_arguments_are_a_failed_answer(desk, arguments, sentence):
    done = desk.run("read", **arguments)
    assert done.outcome == "failed"
    assert sentence in text_of(done)


def test_an_error_of_the_system_is_a_failed_answer(desk, monkeypatch):
    def refuse(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied", "x")

    desk.file("x", "x")
    monkeypatch.setattr(Workspace, "read", refuse)
    done = desk.run("read", path="x")
    assert (text_of(done), done.outcome) == ("Permission denied: x", "failed")
    assert os_sentence(OSError("odd")) == "OSError."


def test_a_cancelled_call_says_so(desk: Desk):
    async def main() -> Done:
        task = asyncio.ensure_future(desk.tools["read"].run(desk.call({"path": "x"})))
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert asyncio.run(main()).outcome == "cancelled"


def test_the_subject_is_the_path(desk):
    assert desk.tools["read"].subject({"path": "a/b"}) == "a/b"
    assert desk.tools["glob"].subject({"pattern": "x"}) == "."


def test_work_in_a_thread_is_done_though_the_task_is_cancelled():
    held, begun = threading.Event(), threading.Event()

    def work(*, fail: bool) -> str:
        begun.set()
        held.wait(30)
        if fail:
            raise ValueError("no")
        return "done"

    async def main(*, fail: bool) -> str:
        held.clear()
        begun.clear()
        task = asyncio.ensure_future(settled(work, fail=fail))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        held.set()
        return await task

    assert asyncio.run(main(fail=False)) == "done"
    with pytest.raises(ValueError, match="no"):
        asyncio.run(main(fail=True))


def test_a_tool_without_work_is_a_mistake_of_ours(desk):
    class FakeTool(FileTool[module.ReadArguments]):
        arguments = module.ReadArguments

    call: Call = desk.call({"path": "x"})
    with pytest.raises(NotImplementedError):
        asyncio.run(FakeTool().run(call))
