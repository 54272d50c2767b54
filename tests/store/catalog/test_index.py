"""What a list shows of a session, in which order, and of which sessions."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

import holdfast


@pytest.fixture
def clock(monkeypatch):
    """Set the time that entries get."""

    def set_to(at: str) -> None:
        monkeypatch.setattr("holdfast.journal.format.timestamp", lambda: at)

    return set_to


def put(store: holdfast.Store, text: str = "hello", **meta: Any) -> str:
    with store.create(**meta) as session:
        session.append(holdfast.user(text))
    return session.id


def test_every_field_of_a_summary(store, tmp_path, clock):
    clock("2026-01-02T03:04:05.006Z")
    with store.create(
        workspace=tmp_path, project="git:example.org/it", provider="p", model="m1", tags=["a", "b"]
    ) as session:
        session.append(holdfast.system("be brief"))
        session.append(holdfast.user("  fix\n the   build "))
        session.update(model="m2", title="Build")
        session.usage(input=10, output=5, cost_usd=0.25, model="m1")
        clock("2026-02-03T04:05:06.007Z")
        session.usage(input=1, output=1, model="m2")
    (summary,) = store.list()
    assert summary == holdfast.Summary(
        id=session.id,
        state="clean",
        key=None,
        workspace=os.path.realpath(tmp_path),
        project="git:example.org/it",
        title="Build",
        first_text="fix the build",
        provider="p",
        model="m2",
        tags=["a", "b"],
        messages=2,
        totals=session.totals,
        started="2026-01-02T03:04:05.006Z",
        updated="2026-02-03T04:05:06.007Z",
        size_bytes=(session.path / "journal.jsonl").stat().st_size,
        problem=None,
    )
    assert summary.cost_usd == 0.25
    assert summary.message_count == 2
    assert summary.totals.models["m2"].unpriced == 1


def test_sessions_of_a_folder_also_through_a_symbolic_link(store, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    through_link = put(store, workspace=tmp_path / "link")
    direct = put(store, workspace=str(tmp_path / "real"))
    put(store, workspace=tmp_path)
    put(store)
    for wanted in (tmp_path / "link", str(tmp_path / "real"), tmp_path / "link" / ".." / "real"):
        assert {s.id for s in store.list(workspace=wanted)} == {through_link, direct}
    assert store.list(workspace=tmp_path / "gone") == []


def git(*words: object) -> None:
    subprocess.run(["git", *map(str, words)], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    git("init", "-q", folder)
    who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    git("-C", folder, *who, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def test_a_moved_project_keeps_its_sessions(store, project):
    session = put(store, workspace=project)
    put(store, workspace=project.parent)
    moved = project.with_name("moved")
    project.rename(moved)
    assert store.list(workspace=moved) == []
    assert [s.id for s in store.list(project=moved)] == [session]
    (moved / "src").mkdir()
    assert [s.id for s in store.list(project=str(moved / "src"))] == [session]
    identity = store.list(project=moved)[0].project
    assert identity.startswith("git:")
    assert [s.id for s in store.list(project=identity)] == [session]


def test_sessions_from_before_a_project_had_a_remote_are_found(store, project):
    before = put(store, workspace=project)
    git("-C", project, "remote", "add", "origin", "https://me:secret@example.org/me/it.git")
    after = put(store, workspace=project)
    assert {s.id for s in store.list(project=project)} == {before, after}
    assert {s.project for s in store.list(project="git:example.org/me/it")} == {
        "git:example.org/me/it"
    }


def test_a_worktree_belongs_to_the_same_project(store, project, tmp_path):
    main = put(store, workspace=project)
    git("-C", project, "worktree", "add", "-q", tmp_path / "tree")
    other = put(store, workspace=tmp_path / "tree")
    for folder in (project, tmp_path / "tree"):
        assert {s.id for s in store.list(project=folder)} == {main, other}


def test_a_folder_that_is_no_project_has_no_sessions_as_one(store, tmp_path):
    put(store, workspace=tmp_path)
    assert store.list(project=tmp_path) == []


def test_credentials_are_never_recorded(store, project):
    git("-C", project, "remote", "add", "origin", "https://me:hunter2@example.org/me/it.git")
    session = put(store, workspace=project)
    data = (store.open(session, mode="read").path / "journal.jsonl").read_bytes()
    assert b"hunter2" not in data
    assert b"git:example.org/me/it" in data
