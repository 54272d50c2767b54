"""Files that other programs run by themselves: no tool and no rewind writes them unasked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.program import Program, of_type, results, turns, until

TOLD = "other programs run this file by themselves"


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@x")
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


@pytest.fixture
def project(program: Program) -> Path:
    """A repository with a nested one, a bare one, a worktree, a link and a folder of hooks."""
    folder = program.folder
    git(folder, "init", "-q")
    git(folder, "config", "core.hooksPath", "tools/hooks")
    git(folder, "config", "filter.mine.clean", "sh scripts/clean.sh %f")
    git(folder, "config", "include.path", "../team.cfg")
    (folder / "team.cfg").write_text("[user]\n\tname = x\n")
    (folder / "link").symlink_to(".git/hooks")
    git(folder, "init", "-q", "nested")
    git(folder, "init", "-q", "--bare", "bare")
    git(folder, "commit", "-q", "--no-verify", "--allow-empty", "-m", "x")
    git(folder, "worktree", "add", "-q", "tree")
    git(folder, "init", "-q", "--separate-git-dir", "data", "apart")
    (folder / "almost").mkdir()
    (folder / "almost" / "config").write_text("")
    return folder


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git/config.new",
        ".GIT/config.new",
        ".git./config.new",
        ".g\u200cit/config",
        "git~1/config",
        "GIT~1/hooks/x",
        "src/../.git/hooks/x",
        "link/pre-commit",
        "nested/.git/hooks/x",
        "bare/hooks/pre-commit",
        "data/hooks/pre-commit",
        "almost/HEAD",
        "other/.git",
        "tools/hooks/pre-push",
        "scripts/clean.sh",
        ".husky/pre-commit",
        ".vscode/tasks.json",
        ".idea/runConfigurations/x.xml",
        ".envrc",
        "sub/.ENVRC",
        ".gitattributes",
        ".pre-commit-config.yaml",
        ".bashrc",
        ".holdfast/config.toml",
        ".claude/settings.json",
        ".hg/hgrc",
        "nested/.hg/hgrc",
        ".jj/repo/config.toml",
        ".sl/config",
        "_darcs/prefs/defaults",
        ".helix/languages.toml",
        ".gdbinit",
        ".Rprofile",
    ],
)
def test_a_run_denies_it_and_says_why_whatever_is_allowed(program, project, path):
    program.configure('allow = ["write", "write(.git/**)", "write(**)"]\nmode = "allow-all"\n')
    script = program.script({"call": "write", "arguments": {"path": path, "content": "evil"}})
    done = program.run("-p", "go", "--script", script, "--allow-all", "--allow", "write")
    assert done.code == 0
    assert TOLD in done.err
    ((outcome, told),) = results(program.journal())
    assert outcome == "denied"
    assert TOLD in told
    assert not any(file.read_bytes() == b"evil" for file in project.rglob("*") if file.is_file())


@pytest.mark.parametrize("path", ["team.cfg", "tree/.git", ".git/config"])
def test_so_it_is_with_a_file_that_is_changed(program, project, path):
    before = (project / path).read_bytes()
    first = before.decode().split("\n")[0]
    change = {"path": path, "old": first, "new": "evil"}
    script = program.script({"call": "edit", "arguments": change})
    done = program.run("-p", "go", "--script", script, "--allow-all")
    assert TOLD in done.err
    assert (project / path).read_bytes() == before


@pytest.mark.parametrize(
    "path", ["src/git.py", ".github/workflows/ci.yml", ".gitignore", "HEAD", "docs/config", "x.git"]
)
def test_other_files_are_written_as_before(program, project, path):
    script = program.script({"call": "write", "arguments": {"path": path, "content": "good"}})
    done = program.run("-p", "go", "--script", script, "--allow", "write")
    assert TOLD not in done.err
    assert (project / path).read_text() == "good"


def test_a_link_that_an_earlier_call_made_does_not_hide_it(program, project):
    """What was decided about ``docs/x`` does not hold for what ``docs`` is when it is written."""
    calls = [
        {"call": "bash", "arguments": {"command": "ln -s .git/hooks docs"}},
        {"call": "write", "arguments": {"path": "docs/post-checkout", "content": "evil"}},
    ]
    done = program.run("-p", "go", "--script", program.script({"calls": calls}), "--allow-all")
    assert TOLD in done.err
    assert (project / "docs").is_symlink()
    assert not (project / ".git" / "hooks" / "post-checkout").exists()
    assert [outcome for outcome, _ in results(program.journal())] == ["completed", "denied"]


@pytest.fixture
def approved(program: Program, project: Path) -> str:
    """A session in which a person approved a hook, after a question that said what it is."""
    program.configure('allow = ["write"]\nmode = "allow-all"\n')
    prompt = "write: .git/hooks/pre-push\nevil"
    assert program.run("-p", prompt, "--detach", "--allow-all").code == 0
    (folder,) = program.sessions()
    listed = program.run("approve", folder.name, "--show").out
    assert "write  .git/hooks/pre-push" in listed
    assert TOLD in listed
    assert not (project / ".git" / "hooks" / "pre-push").exists()
    assert program.run("approve", folder.name).code == 0
    until(lambda: "completed" in turns(program.journal()))
    (given,) = of_type(program.journal(), "approval")
    assert (given["decision"], "rule" in given) == ("allow", False)
    assert (project / ".git" / "hooks" / "pre-push").read_text() == "evil\n"
    program.run("stop", "--all")
    return folder.name


def test_a_person_is_asked_and_told_whatever_the_mode_and_a_rewind_leaves_it(
    program, project, approved
):
    hook = project / ".git" / "hooks" / "pre-push"
    done = program.run("rewind", approved, "--turns", "1", "--files", "--yes")
    assert done.code == 0
    assert TOLD in done.out
    assert "1 file is only restored with --autorun." in done.err
    assert hook.exists()
    done = program.run("rewind", approved, "--turns", "1", "--yes", "--overwrite", "--json")
    assert [(step["action"], TOLD in step["reason"]) for step in done.object["steps"]] == [
        ("skip", True)
    ]
    assert hook.exists()


def test_a_rewind_that_is_told_so_restores_it(program, project, approved):
    done = program.run("rewind", approved, "--turns", "1", "--files", "--yes", "--autorun")
    assert done.out.split() == ["remove", ".git/hooks/pre-push"]
    assert not (project / ".git" / "hooks" / "pre-push").exists()
