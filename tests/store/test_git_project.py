"""Which project a folder belongs to."""

from __future__ import annotations

import os
import subprocess

import pytest

import holdfast
from holdfast.store.git_project import project_names, project_of, workspace_path

WHO = ("-c", "user.name=me", "-c", "user.email=me@example.org")


def git(*words: object) -> str:
    done = subprocess.run(["git", *map(str, words)], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    git("init", "-q", folder)
    git("-C", folder, *WHO, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


REMOTES = {
    "https://example.org/me/it.git": "example.org/me/it",
    "https://example.org/me/it": "example.org/me/it",
    "https://example.org/me/it/": "example.org/me/it",
    "http://Example.ORG:8080/me/it.git": "example.org/me/it",
    "HTTPS://me:secret@example.org/me/it.git": "example.org/me/it",
    "https://secret@example.org/me/it.git": "example.org/me/it",
    "https://me:s@cret@example.org/me/it.git": "example.org/me/it",
    "https://example.org/me/it.git?token=secret": "example.org/me/it",
    "https://example.org/me/it#secret": "example.org/me/it",
    '"https://me:secret@example.org/me/it.git"': "example.org/me/it",
    "https://example.org/me/it ; secret": "example.org/me/it",
    "ssh://git@example.org:2222/me/it.git": "example.org/me/it",
    "ssh://git@[::1]:2222/me/it.git": "[::1]/me/it",
    "git@example.org:me/it.git": "example.org/me/it",
    "git@example.org:/me/it.git": "example.org/me/it",
    "example.org:me/it.git": "example.org/me/it",
    "git+ssh://example.org/me/it": "example.org/me/it",
    # Places on this machine say nothing about the project: its root commit does.
    "/srv/git/it.git": None,
    "../it": None,
    "it/there": None,
    "file:///srv/git/it.git": None,
    "https://": None,
    "https://example.org": None,
    "https://me:not/a/port@example.org/it": None,
    "": None,
}


@pytest.mark.parametrize(("url", "expected"), REMOTES.items())
def test_a_remote_names_the_project_without_credentials(project, url, expected):
    with (project / ".git" / "config").open("a") as config:
        config.write(f'[remote "origin"]\n\turl = {url}\n\tfetch = +refs/heads/*\n')
    root = git("-C", project, "rev-list", "--max-parents=0", "HEAD")
    names = list(project_names(str(project)))
    assert names == [f"git:{expected}", f"git:{root}"] if expected else [f"git:{root}"]
    assert not any("secret" in name for name in names)


def test_origin_comes_before_other_remotes(project):
    git("-C", project, "remote", "add", "aaa", "https://example.org/fork")
    assert project_of(str(project)) == "git:example.org/fork"
    git("-C", project, "remote", "add", "origin", "https://example.org/it")
    assert project_of(str(project)) == "git:example.org/it"
    git("-C", project, "remote", "set-url", "origin", "/a/folder/here")
    assert project_of(str(project)) == "git:example.org/fork"


@pytest.mark.parametrize("content", [b"\xff\xfe not text", b"not a config\n", b"[remote"])
def test_a_configuration_that_cannot_be_read_has_no_remote(project, content):
    (project / ".git" / "config").write_bytes(content)
    assert not any("example" in name for name in project_names(str(project)))


def test_a_configuration_that_is_missing_has_no_remote(project):
    (project / ".git" / "config").unlink()
    assert len(list(project_names(str(project)))) == 1


def test_a_repository_without_commits_or_remote_is_no_project_yet(tmp_path):
    git("init", "-q", tmp_path / "new")
    assert project_of(str(tmp_path / "new")) is None


def test_of_several_root_commits_the_same_one_is_taken_always(project):
    git("-C", project, "checkout", "-q", "--orphan", "other")
    git("-C", project, *WHO, "commit", "-q", "--allow-empty", "-m", "second root")
    git("-C", project, *WHO, "merge", "-q", "--allow-unrelated-histories", "-m", "x", "master")
    roots = git("-C", project, "rev-list", "--max-parents=0", "HEAD").split()
    assert len(roots) == 2
    assert project_of(str(project)) == f"git:{min(roots)}"


def test_a_worktree_and_a_submodule_have_their_own_kind_of_git_folder(project, tmp_path):
    git("-C", project, "remote", "add", "origin", "https://example.org/it")
    git("-C", project, "worktree", "add", "-q", tmp_path / "tree")
    assert project_of(str(tmp_path / "tree")) == "git:example.org/it"
    outer = tmp_path / "outer"
    git("init", "-q", outer)
    add = ("submodule", "--quiet", "add", project, "inner")
    git("-C", outer, "-c", "protocol.file.allow=always", *add)
    assert (outer / "inner" / ".git").is_file()
    root = git("-C", project, "rev-list", "--max-parents=0", "HEAD")
    assert project_of(str(outer / "inner")) == f"git:{root}"


@pytest.mark.parametrize("content", [b"", b"gitdir: /nowhere/at/all\n", b"\xff\xfe"])
def test_a_git_file_that_leads_nowhere_is_no_project(tmp_path, content):
    (tmp_path / ".git").write_bytes(content)
    assert project_of(str(tmp_path)) is None


def test_a_git_folder_that_cannot_be_looked_at_is_no_project(tmp_path):
    (tmp_path / ".git").symlink_to(".git")
    assert project_of(str(tmp_path)) is None
    assert project_of("/" + "x" * 5000) is None


def test_no_git_command_means_no_root_commit(project, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert project_of(str(project)) is None


def test_git_that_does_not_answer_in_time_means_no_root_commit(project, tmp_path, monkeypatch):
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(slow.parent))
    monkeypatch.setattr("holdfast.store.git_project._GIT_TIMEOUT_SECONDS", 0.05)
    assert project_of(str(project)) is None


def test_inside_a_git_hook_the_folder_decides_and_not_the_environment(
    project, tmp_path, monkeypatch
):
    root = git("-C", project, "rev-list", "--max-parents=0", "HEAD")
    git("init", "-q", tmp_path / "other")
    git("-C", tmp_path / "other", *WHO, "commit", "-q", "--allow-empty", "-m", "another first")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert project_of(str(project)) == f"git:{root}"


def test_a_workspace_is_recorded_absolute_and_without_links(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert workspace_path("link") == str(tmp_path.resolve() / "real")


def test_a_hostile_repository_makes_git_run_nothing(tmp_path, monkeypatch):
    repository = tmp_path / "hostile"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(repository)]
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    for number in range(2):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(number)], check=True)
    root = subprocess.run(
        [*git, "rev-list", "--max-parents=0", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    (repository / ".git" / "objects" / root[:2] / root[2:]).unlink()
    proof = tmp_path / "ran"
    for name, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(repository / ".git"),
        "remote.origin.uploadpack": f"env > {proof}; false",
    }.items():
        subprocess.run([*git, "config", name, value], check=True)
    monkeypatch.setenv("SOME_API_KEY", "secret")
    assert project_of(str(repository)) is None
    assert not proof.exists()


def test_git_gets_no_secrets(tmp_path, monkeypatch):
    proof = tmp_path / "environment"
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nenv > {proof}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SOME_API_KEY", "hush-hush")
    (tmp_path / "w" / ".git").mkdir(parents=True)
    assert project_of(str(tmp_path / "w")) is None
    assert "hush-hush" not in proof.read_text()
    assert "PATH=" in proof.read_text()


@pytest.mark.parametrize("name", ["config", "commondir"])
def test_a_pipe_or_something_endless_is_not_read(tmp_path, name):
    git = tmp_path / ".git"
    git.mkdir()
    os.mkfifo(git / name)
    assert project_of(str(tmp_path)) is None
    (git / name).unlink()
    (git / name).symlink_to("/dev/zero")
    assert project_of(str(tmp_path)) is None
    (git / name).unlink()
    (git / name).write_bytes(b"x" * (1024 * 1024 + 1))
    assert project_of(str(tmp_path)) is None


def test_a_worktree_whose_file_is_too_large_has_no_project(tmp_path):
    (tmp_path / ".git").write_bytes(b"gitdir: " + b"x" * (1024 * 1024 + 1))
    assert project_of(str(tmp_path)) is None


@pytest.mark.parametrize("born", [False, True])
def test_a_session_that_moves_records_its_folder_as_a_new_one_does(store, project, tmp_path, born):
    (tmp_path / "link").symlink_to(project)
    (tmp_path / "outside").mkdir()
    expected = store.create(workspace=project).meta
    assert expected["project"]
    session = store.create(title="t")
    if born:
        session.append(holdfast.user("hello"))
    session.update(workspace=tmp_path / "link")
    assert session.meta == {"title": "t", **expected}
    session.update(workspace=str(tmp_path / "outside"))
    outside = str((tmp_path / "outside").resolve())
    assert session.meta == {"title": "t", "workspace": outside, "project": None}
    session.update(workspace=project, project="mine")
    assert session.meta == {"title": "t", **expected, "project": "mine"}
    session.update(workspace=None)
    assert session.meta == {"title": "t", "workspace": None, "project": None}
    session.update(title="u")
    assert session.meta == {"title": "u", "workspace": None, "project": None}
    session.append(holdfast.user("bye"))
    session.update(workspace=tmp_path / "link")
    session.close()
    assert [each.id for each in store.list(workspace=tmp_path / "link")] == [session.id]
    assert [each.id for each in store.list(project=project)] == [session.id]


def test_a_folder_without_a_project_brings_none(store, tmp_path):
    session = store.create()
    session.update(workspace=tmp_path)
    assert session.meta == {"workspace": str(tmp_path.resolve())}
