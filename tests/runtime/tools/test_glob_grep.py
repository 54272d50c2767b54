"""Finding files and lines."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys

import pytest

from holdfast.runtime.tools import gitignore as ignore
from holdfast.runtime.tools import glob as glob_module
from holdfast.runtime.tools import grep as grep_module
from holdfast.runtime.tools import grep_worker as matcher
from holdfast.runtime.tools.base import Done
from holdfast.runtime.tools.grep import Grep
from tests.runtime.tools.desk import Desk, text_of

EVIL = "(a|aa)+$"


@pytest.fixture
def tree(desk: Desk) -> Desk:
    """Some files to look through."""
    desk.file(".gitignore", "*.log\nbuild/\n")
    desk.file("main.py", "import os\n\n\ndef main():\n    return os\n")
    desk.file("src/one.py", "def one():\n    pass\n")
    desk.file("src/two.c", "int two;\r\nint three;\r\n")
    desk.file("src/.hidden", "def hidden\n")
    desk.file("noise.log", "def noise\n")
    desk.file("build/out.py", "def out\n")
    desk.file("data.bin", b"def \0\n")
    return desk


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        ({"pattern": "*.py"}, ["main.py", "src/one.py"]),
        ({"pattern": "src/*"}, ["src/.hidden", "src/one.py", "src/two.c"]),
        ({"pattern": "./src/**/*.{py,c}"}, ["src/one.py", "src/two.c"]),
        ({"pattern": "*", "path": "src"}, ["src/.hidden", "src/one.py", "src/two.c"]),
        ({"pattern": "/main.*"}, ["main.py"]),
        ({"pattern": "*.log"}, ["[no file matches]"]),
        ({"pattern": "../*"}, ["[no file matches]"]),
        ({"pattern": "*", "path": "build"}, ["build/out.py"]),
    ],
)
def test_files_are_listed(tree, arguments, files):
    done = tree.run("glob", **arguments)
    assert text_of(done).split("\n") == files
    assert done.outcome == "completed"


def test_an_absolute_pattern_is_meant_below_the_folder(tree):
    assert text_of(tree.run("glob", pattern=f"{tree.root}/src/*.py")) == "src/one.py"


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("gone", "There is no folder gone."), ("..", ".. is outside"), ("main.py", "no folder main")],
)
def test_only_folders_can_be_listed(tree, path, sentence):
    done = tree.run("glob", pattern="*", path=path)
    assert done.outcome == "failed"
    assert sentence in text_of(done)


def test_long_lists_are_cut_and_say_so(tree, monkeypatch):
    monkeypatch.setattr(glob_module, "MOST_FILES", 2)
    assert text_of(tree.run("glob", pattern="*")).endswith(
        "[4 more are not listed; use a narrower pattern or path]"
    )
    monkeypatch.setattr(ignore, "MOST_ENTRIES", 1)
    assert "stopped after looking at" in text_of(tree.run("glob", pattern="*"))
    assert "stopped after looking at" in text_of(tree.run("grep", pattern="x"))


def test_names_that_are_not_utf_8_can_be_told(desk):
    with open(os.fsencode(desk.root) + b"/\xe4.py", "w") as file:
        file.write("def x")
    assert text_of(desk.run("glob", pattern="*.py")) == "\ufffd.py"
    assert text_of(desk.run("grep", pattern="def")) == "\ufffd.py:1:def x"


# Lines


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            {"pattern": "^def "},
            ["main.py:4:def main():", "src/.hidden:1:def hidden", "src/one.py:1:def one():"],
        ),
        ({"pattern": "DEF", "glob": "*.py"}, ["[no match]"]),
        (
            {"pattern": "DEF", "glob": "*.py", "ignore_case": True},
            ["main.py:4:def main():", "src/one.py:1:def one():"],
        ),
        ({"pattern": "^def ", "mode": "files", "glob": "src/*.py"}, ["src/one.py"]),
        (
            {"pattern": "os|return", "path": "main.py", "context": 1},
            [
                "main.py:1:import os",
                "main.py-2-",
                "--",
                "main.py-4-def main():",
                "main.py:5:    return os",
            ],
        ),
        ({"pattern": "t.*;$", "path": "src"}, ["src/two.c:1:int two;", "src/two.c:2:int three;"]),
        ({"pattern": "noise", "path": "noise.log"}, ["noise.log:1:def noise"]),
        (
            {"pattern": "int", "limit": 1},
            ["src/two.c:1:int two;", "[stopped after 1 matches; there may be more]"],
        ),
    ],
)
def test_lines_are_found(tree, arguments, lines):
    done = tree.run("grep", **arguments)
    assert text_of(done).split("\n") == lines
    assert done.outcome == "completed"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"pattern": "("}, "The pattern is not a regular expression: missing )"),
        ({"pattern": "x", "path": "gone"}, "There is no file gone."),
        ({"pattern": "x", "path": "../x"}, "outside the workspace"),
        ({"pattern": "x", "mode": "other"}, "Invalid enum value 'other'"),
        ({"pattern": "x", "context": 50}, "<= 20"),
    ],
)
def test_what_cannot_be_searched_is_said(tree, arguments, sentence):
    done = tree.run("grep", **arguments)
    assert done.outcome == "failed"
    assert sentence in text_of(done)


def test_an_endless_expression_is_stopped(desk):
    desk.file("a", "x aaa\n")
    desk.file("b", "a" * 200 + "b\n")
    done = desk.run(Grep(time_limit_seconds=0.5), pattern=EVIL)
    assert text_of(done) == ("a:1:x aaa\n[stopped after 0.5 seconds, at b: use a simpler pattern]")


def test_an_endless_search_ends_without_its_parent(desk):
    desk.file("b", "a" * 200 + "b\n")
    request = {"pattern": EVIL, "ignore_case": False, "context": 0, "files_only": False}
    request |= {"limit": 1, "root": str(desk.root), "paths": ["b"]}
    done = subprocess.run(
        [sys.executable, "-I", "-S", matcher.__file__, "1"],
        input=json.dumps(request).encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGALRM, b'{"at": "b"}\n')


def test_a_search_can_be_cancelled(desk):
    desk.file("b", "a" * 200 + "b\n")

    async def main() -> Done:
        call = desk.call({"pattern": EVIL})
        task = asyncio.ensure_future(Grep(time_limit_seconds=1000).run(call))
        await asyncio.sleep(0.2)
        task.cancel()
        return await task

    # The thread ends too, or this would wait for it.
    assert asyncio.run(main()).outcome == "cancelled"


def test_long_answers_are_cut_and_say_so(desk, monkeypatch):
    desk.file("x", "a\n" + "b" * 600 + "\n")
    assert text_of(desk.run("grep", pattern="b")) == f"x:2:{'b' * 500}…"
    monkeypatch.setattr(grep_module, "MOST_CHARACTERS", 10)
    assert text_of(desk.run("grep", pattern="a|b")) == (
        "x:1:a\n[cut after 10 characters; search for something narrower]"
    )


def test_a_search_that_dies_says_that_it_is_not_all(tree, monkeypatch):
    monkeypatch.setattr(grep_module._MATCHER, "source", b"raise SystemExit(1)")
    assert text_of(tree.run("grep", pattern="x")) == (
        "[no match]\n[stopped after 20 seconds, at the beginning: use a simpler pattern]"
    )


# The process, in this one


def ask(
    desk: Desk, paths: list[str], pattern: str = "x", **more: object
) -> list[dict[str, object]]:
    request = {
        "pattern": pattern,
        "ignore_case": False,
        "context": 0,
        "files_only": False,
        "limit": 10,
        "root": str(desk.root),
        "paths": paths,
        **more,
    }
    answers = io.StringIO()
    matcher.main(io.StringIO(json.dumps(request)), answers)
    said = [json.loads(line) for line in answers.getvalue().splitlines()]
    return [word for word in said if "at" not in word]


def test_every_encoding_is_searched(desk):
    desk.file("a", "äx\n".encode("utf-16"))
    desk.file("b", b"\xe4x")
    desk.file("c", b"\xef\xbb\xbfx\r\n")
    desk.file("d", b"x\0")
    desk.file("e", b"")
    *found, end = ask(desk, ["a", "b", "c", "d", "e", "gone"], "^ä?x$")
    assert end == {"end": True}
    assert found == [
        {"path": "a", "count": 1, "lines": [[1, True, "äx"]]},
        {"path": "b", "count": 1, "lines": [[1, True, "äx"]]},
        {"path": "c", "count": 1, "lines": [[1, True, "x"]]},
    ]


def test_no_link_is_followed(desk, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("x")
    (desk.root / "link").symlink_to(tmp_path / "outside")
    (desk.root / "file").symlink_to(tmp_path / "outside" / "x")
    os.mkfifo(desk.root / "pipe")
    desk.file("a/b/x", "x")
    assert ask(desk, ["link/x", "file", "pipe", "a", "a/b/x"]) == [
        {"path": "a/b/x", "count": 1, "lines": [[1, True, "x"]]},
        {"end": True},
    ]


def test_limits(desk, monkeypatch):
    desk.file("a", "x\nx\nx\n")
    desk.file("b", "x\n")
    assert ask(desk, ["a", "b"], limit=2)[-1] == {"limit": True}
    assert ask(desk, ["a", "b"], limit=2)[0]["count"] == 2
    assert len(ask(desk, ["a", "b"], limit=2, files_only=True)) == 3
    assert ask(desk, ["a"], "(")[0]["error"]
    monkeypatch.setattr(matcher, "LARGEST_FILE_BYTES", 2)
    assert ask(desk, ["a", "b"])[0] == {"path": "a", "count": 0, "too_large": True, "lines": []}


def test_a_file_that_is_too_large_is_named(desk, monkeypatch):
    said = b'{"path": "a", "count": 0, "too_large": true, "lines": []}\n{"end": true}\n{"half'
    desk.file("a", "x")
    monkeypatch.setattr(Grep, "_search", lambda *_: grep_module._found(said))
    assert text_of(desk.run("grep", pattern="x")) == (
        "[no match]\n[a is too large to be searched; use bash]"
    )
