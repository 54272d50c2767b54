"""Commands that need no approval: what counts as looking, and above all what does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.runtime.policy.policy import ONLY_LOOKS, Decision, Policy
from holdfast.runtime.tools.workspace import Workspace

ALLOWED = Decision("allow", ONLY_LOOKS)
ASKED = Decision("ask")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "workspace"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.txt").write_text("a")
    (tmp_path / "outside.txt").write_text("secret")
    (root / "link").symlink_to(tmp_path / "outside.txt")
    (root / "folder").symlink_to(tmp_path)
    return Workspace(root)


def decide(command: object, workspace: Workspace, policy: Policy | None = None) -> Decision:
    return (policy or Policy()).decide("bash", "unknown", {"command": command}, workspace)


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "ls -la",
        "ls -R src",
        "pwd",
        "cat src/a.txt",
        "cat -n 'src/a.txt' src/../src/a.txt",
        "head -n 5 src/a.txt",
        "tail -c 10 src/a.txt",
        "wc -l src/a.txt",
        "echo hello -n --help",
        "true",
    ],
)
def test_what_only_looks_inside_the_workspace_is_allowed(command, workspace):
    assert decide(command, workspace) == ALLOWED
    assert decide(command, workspace, Policy("deny")) == ALLOWED


@pytest.mark.parametrize(
    "command",
    [
        "ls /",
        "ls ..",
        "ls ~",
        "cat link",
        "cat folder/outside.txt",
        "cat src/../../outside.txt",
        "ls folder/",
        "ls -L",
        "ls -H folder",
        "ls --dereference",
        "wc --files0-from=link",
        "tail -f src/a.txt",
        "tail --pid=1 src/a.txt",
        "ls; rm x",
        "ls | sh",
        "ls > x",
        "ls $(id)",
        "cat <(id)",
        "PAGER=x ls",
        "true x",
        "pwd x",
        "./ls",
        "/bin/ls",
        "git status",
        "find . -delete",
        "",
        7,
        None,
    ],
)
def test_whatever_may_do_more_is_asked_about(command, workspace):
    assert decide(command, workspace) == ASKED


def test_a_program_that_the_workspace_brings_along_is_not_meant(workspace, monkeypatch):
    own = Path(workspace.root) / "bin"
    own.mkdir()
    for name in ("ls", "cat"):
        (own / name).write_text("#!/bin/sh\n")
        (own / name).chmod(0o755)
    system = os.environ["PATH"]
    for path in (f"{own}:{system}", f":{system}", f"bin:{system}", str(own), ""):
        monkeypatch.setenv("PATH", path)  # the system's own is what will be run
        assert decide("ls", workspace) == ALLOWED
    outside = Path(workspace.root).parent / "outside"
    outside.mkdir()
    (outside / "ls").symlink_to(own / "ls")
    monkeypatch.setenv("PATH", f"{outside}:/nowhere")
    assert decide("ls", workspace) == ASKED
    assert decide("cat src/a.txt", workspace) == ASKED


def test_what_is_denied_to_the_reading_tools_is_not_shown_by_a_command(workspace):
    policy = Policy("ask", deny=["read(src)"])
    assert decide("cat src/a.txt", workspace, policy) == ASKED
    assert decide("ls", workspace, policy) == ALLOWED
    assert decide("ls", workspace, Policy("ask", deny=["bash"])) == Decision("deny", "bash")
