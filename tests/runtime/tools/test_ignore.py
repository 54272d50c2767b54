"""Ignored files, held against what git itself says."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.runtime.tools import gitignore as ignore
from holdfast.runtime.tools.gitignore import Walk, parse
from holdfast.runtime.tools.glob_match import alternatives, compiled, path_expression
from holdfast.runtime.tools.workspace import Workspace

FILES = [
    "a",
    "b",
    "x.py",
    "a b",
    "a[1]",
    "#c",
    "!d",
    "e\\f",
    "a1/b",
    "a1/b2/x.py",
    "a1/b2/b",
    "a1/b2/c/d/x.pyc",
    "b2/a",
    "b2/b2/b",
    "end ",
    "build/out/keep",
    "build/x.py",
    "deep/build/x",
]


def environment() -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**clean, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *words],
        check=True,
        capture_output=True,
        text=True,
        env=environment(),
    ).stdout


def seen_by_git(folder: Path) -> set[str]:
    listed = git(folder, "ls-files", "-z", "--others", "--exclude-standard")
    return set(listed.split("\0")) - {""}


def seen_by_us(root: Path, top: str = ".") -> set[str]:
    workspace = Workspace(root)
    return {place.shown for place in Walk(workspace, workspace.locate(top), Event())}


def make(root: Path, files: list[str] = FILES) -> None:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    git(folder, "init", "-q")
    make(folder)
    return folder


@pytest.mark.parametrize(
    "lines",
    [
        "b\n",
        "/b\n",
        "b2/\n",
        "*.py\n!x.py\n",
        "*\n!*/\n!*.py\n",
        "a1/b2\n!a1/b2/b\n",
        "a1/**\n!a1/b\n",
        "**/b\n",
        "a1/**/b\n",
        "a1/**/x.pyc\n",
        "**/b2/**\n",
        "a1/*/x.py\n",
        "a?\n",
        "a[0-9]\n",
        "[[:alpha:]]\n",
        "[!a]\n",
        "[^a]\n",
        "a\\[1\\]\n",
        "a[[]1]\n",
        "[]-]\n",
        "[a\n",
        "[[:nothing:]]\n",
        "[z-a]\n",
        "[\\a]\n",
        "\\#c\n\\!d\n",
        "#c\n",
        "e\\\\f\n",
        "e\\",
        "a b   \nend\\ \n",
        "end \n",
        "x.py\r\nb\r\n",
        "\ufeffb\n",
        "/\n",
        "!\n",
        "\n\n",
        "build/\n!build/x.py\n",
        "build/*\n!build/x.py\n",
        "a**\n",
        "**\n",
        "a1/b2/c/\n",
        "x.*\n!x.pyc\n",
        "*a*\n",
        "*1*2*\n",
        "b2\nb2/\n!b2\n",
    ],
)
def test_patterns_are_read_as_git_reads_them(root, lines):
    (root / ".gitignore").write_bytes(lines.encode())
    assert seen_by_us(root) == seen_by_git(root)


PATTERN = st.lists(
    st.sampled_from(
        ["a", "b", "x", "py", ".", "*", "**", "?", "/", "[ab]", "[!a]", "1", "2", "b2"]
    ),
    min_size=1,
    max_size=5,
).map("".join)
LINES = st.lists(st.tuples(st.sampled_from(["", "!", "/"]), PATTERN, st.sampled_from(["", "/"])))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from([".", "a1", "a1/b2", "b2", ".git/info"]), LINES, max_size=4))
def test_any_patterns_at_any_level_are_read_as_git_reads_them(files):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        git(root, "init", "-q")
        make(root)
        for where, lines in files.items():
            name = "exclude" if where == ".git/info" else ".gitignore"
            (root / where / name).write_text("\n".join(map("".join, lines)))
        assert seen_by_us(root) == seen_by_git(root)


def test_deeper_files_come_first_and_the_repositorys_own_last(root):
    (root / ".git/info/exclude").write_text("*.py\nb\n")
    (root / ".gitignore").write_text("!x.py\n")
    (root / "a1/b2/.gitignore").write_text("x.py\n!b\n")
    assert seen_by_us(root) == seen_by_git(root)
    assert "x.py" in seen_by_us(root)
    assert "a1/b2/x.py" not in seen_by_us(root)


def test_a_workspace_below_the_repository_obeys_what_is_above(root):
    (root / ".git/info/exclude").write_text("c\n")
    (root / ".gitignore").write_text("/a1/b2/x.py\n")
    (root / "a1/.gitignore").write_text("b\n")
    ours = seen_by_us(root / "a1" / "b2")
    assert ours == set()
    assert seen_by_us(root, "a1/b2") == set()
    (root / "a1/.gitignore").write_text("")
    assert seen_by_us(root / "a1" / "b2") == {"b"}
    assert seen_by_us(root, "a1/b2") == {"a1/b2/b"}


def test_without_repository_the_files_of_the_workspace_count(tmp_path):
    root = tmp_path / "plain"
    root.mkdir()
    make(root)
    (tmp_path / ".gitignore").write_text("a\n")  # above: not ours
    (root / ".gitignore").write_text("b\n")
    seen = seen_by_us(root)
    assert "a" in seen
    assert not any(name.endswith("/b") or name == "b" for name in seen)
    assert "a1/b" not in seen_by_us(root, "a1")


def test_a_worktree_obeys_the_repository_it_belongs_to(root, tmp_path):
    git(root, "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "--allow-empty", "-mx")
    tree = tmp_path / "tree"
    git(root, "worktree", "add", "-q", str(tree))
    make(tree)
    (root / ".git/info/exclude").write_text("*.py\n")
    assert seen_by_us(tree) == seen_by_git(tree)
    assert "x.py" not in seen_by_us(tree)
    (tree / ".git").write_text("gitdir: /nowhere")
    assert "x.py" in seen_by_us(tree)


def test_links_are_not_entered_and_rules_behind_links_do_not_count(root, tmp_path):
    (tmp_path / "rules").write_text("*\n")
    (root / ".gitignore").symlink_to(tmp_path / "rules")
    (root / "loop").symlink_to(".")
    (root / "b2/.gitignore").mkdir()
    seen = seen_by_us(root)
    assert seen == set(FILES)


def test_a_walk_can_be_stopped_and_has_an_end(root, monkeypatch):
    workspace = Workspace(root)
    stop = Event()
    walk = iter(Walk(workspace, workspace.locate("."), stop))
    next(walk)
    stop.set()
    assert list(walk) == []
    monkeypatch.setattr(ignore, "MOST_ENTRIES", 5)
    cut = Walk(workspace, workspace.locate("."), Event())
    assert len(list(cut)) < 6
    assert cut.cut


def test_names_that_are_not_utf_8_are_matched(tmp_path):
    with open(os.fsencode(tmp_path) + b"/\xe4.py", "w"):
        pass
    (tmp_path / ".gitignore").write_bytes(b"\xe4.*\n")
    assert seen_by_us(tmp_path) == {".gitignore"}


# Patterns


def test_matching_takes_no_longer_for_a_bad_pattern():
    assert not compiled("*a" * 30 + "b").fullmatch("a" * 250)
    assert not compiled("**/" * 30 + "b").fullmatch("a/" * 100)
    assert compiled("*a" * 30).fullmatch("a" * 250)


@given(st.text("ab.*?[]!/\\-:", max_size=12), st.text("ab./", max_size=8))
def test_every_pattern_is_an_expression(pattern, name):
    compiled(pattern).fullmatch(name)
    path_expression(pattern).fullmatch(name)


@pytest.mark.parametrize(
    ("pattern", "spelled"),
    [
        ("a", ["a"]),
        ("*.{c,h}", ["*.c", "*.h"]),
        ("{a,b}{c,d}", ["ac", "ad", "bc", "bd"]),
        ("{a,{b,c}}", ["a", "b", "c"]),
        ("{a}", ["{a}"]),
        ("{a,b", ["{a,b"]),
        ("", []),
    ],
)
def test_braces_are_spelled_out(pattern, spelled):
    assert sorted(alternatives(pattern)) == sorted(spelled)
    assert len(alternatives("{a,b}" * 30)) < 300


def test_a_comment_or_nothing_is_no_pattern():
    assert parse("#a\n\n/\n!\n   \n") == ()
    (pattern,) = parse("!/a/")
    assert pattern.folders_only
    assert pattern.whole_path
    assert not pattern.ignores
    assert isinstance(pattern.expression, re.Pattern)
