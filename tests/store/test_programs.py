"""Where programs are found that this package starts: outside of the workspace, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.store.programs import current_folder, find_program, path_outside


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return folder_with(tmp_path / "workspace" / "bin", "tool").parent


def folder_with(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize(
    "entry", ["{workspace}/bin", "bin", "", ".", "{link}", "{workspace}/x/../bin"]
)
def test_entries_that_lead_into_the_workspace_are_not_used(workspace, tmp_path, monkeypatch, entry):
    (tmp_path / "link").symlink_to(workspace / "bin")
    monkeypatch.chdir(workspace / "bin")
    outside = folder_with(tmp_path / "outside", "tool")
    first = entry.format(workspace=workspace, link=tmp_path / "link")
    monkeypatch.setenv("PATH", f"{first}:{outside}")
    assert find_program("tool", [workspace]) == f"{outside}/tool"
    assert path_outside([workspace]) == str(outside)
    monkeypatch.setenv("PATH", first)
    assert find_program("tool", [workspace]) is None
    assert find_program("sh", [workspace]) in ("/usr/bin/sh", "/bin/sh")  # if nothing else is left


def test_a_link_outside_to_a_program_inside_is_not_used(workspace, tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "tool").symlink_to(workspace / "bin" / "tool")
    monkeypatch.setenv("PATH", str(outside))
    assert find_program("tool", [workspace]) is None
    assert find_program("tool", []) == f"{outside}/tool"


def test_what_cannot_be_run_is_passed_over(workspace, tmp_path, monkeypatch):
    folder = folder_with(tmp_path / "a", "tool")
    (folder / "tool").chmod(0o644)
    (tmp_path / "b" / "tool").mkdir(parents=True)
    last = folder_with(tmp_path / "c", "tool")
    monkeypatch.setenv("PATH", f"{folder}:{tmp_path / 'b'}:{last}")
    assert find_program("tool", [workspace]) == f"{last}/tool"


def test_the_repository_around_the_workspace_is_avoided_with_it(workspace, tmp_path, monkeypatch):
    top = tmp_path / "repository"
    own = folder_with(top / "node_modules" / ".bin", "tool")
    (top / "sub" / "folder").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(own))
    assert find_program("tool", [top / "sub" / "folder"]) == f"{own}/tool"
    (top / ".git").touch()  # as a worktree has it
    assert find_program("tool", [top / "sub" / "folder"]) is None


def test_the_systems_own_folders_count_also_in_a_workspace_that_is_everything(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert find_program("sh", ["/"]) in ("/usr/bin/sh", "/bin/sh")


def test_the_folder_that_this_process_is_in(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert current_folder() == [os.path.realpath(folder)]
    folder.rmdir()
    assert current_folder() == []
