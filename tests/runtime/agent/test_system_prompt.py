"""The system prompt: what is in it, where it is from, and that it stays the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.runtime.agent.system_prompt import LARGEST_AGENTS_BYTES, instructions

STARTED = "2026-11-15T19:40:12.001Z"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder two levels below the root of a git project."""
    inside = tmp_path / "project" / "src" / "app"
    inside.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    return inside


def test_it_says_where_and_since_when_and_nothing_that_changes(project):
    first = instructions(project, STARTED)
    assert f"Workspace: {project}" in first
    assert "2026-11-15" in first
    assert "19:40" not in first
    assert instructions(project, STARTED) == first


def test_instructions_come_from_the_user_then_from_the_root_of_the_project_down(project, tmp_path):
    own = tmp_path / "config"
    own.mkdir()
    (own / "AGENTS.md").write_text("be brief")
    root = tmp_path / "project"
    (root / "AGENTS.md").write_text("use tabs")
    (project / "AGENTS.md").write_text("no tabs here")
    (tmp_path / "AGENTS.md").write_text("above the project")
    text = instructions(project, STARTED, own)
    places = [text.index(each) for each in ("be brief", "use tabs", "no tabs here")]
    assert places == sorted(places)
    assert "above the project" not in text
    assert f"# Instructions from {root / 'AGENTS.md'}" in text


def test_without_git_only_the_workspace_itself_speaks(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "AGENTS.md").write_text("above")
    (inside / "AGENTS.md").write_text("here")
    text = instructions(inside, STARTED)
    assert "here" in text
    assert "above" not in text


def test_a_link_counts_only_if_it_stays_in_the_project(project, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a private key")
    (project / "AGENTS.md").symlink_to(secret)
    root = tmp_path / "project"
    (root / "CLAUDE.md").write_text("use tabs")
    (root / "AGENTS.md").symlink_to("CLAUDE.md")
    text = instructions(project, STARTED)
    assert "use tabs" in text
    assert "a private key" not in text


def test_what_cannot_be_read_is_left_out(project, tmp_path):
    (project / "AGENTS.md").mkdir()
    root = tmp_path / "project"
    (root / "AGENTS.md").symlink_to("AGENTS.md")
    assert "# Instructions" not in instructions(project, STARTED)


def test_a_long_file_is_cut_and_says_so(project):
    (project / "AGENTS.md").write_bytes(b"x" * (LARGEST_AGENTS_BYTES + 10) + b"\xff")
    text = instructions(project, STARTED)
    assert text.count("x" * 100) == LARGEST_AGENTS_BYTES // 100
    assert "goes on; only the beginning is here" in text
