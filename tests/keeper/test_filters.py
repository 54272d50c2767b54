"""Selections over a store, and what they hide."""

from __future__ import annotations

import subprocess

import pytest

from holdfast import UsageError, open_store, user
from holdfast.keeper.filters import SessionFilter, select_sessions


@pytest.fixture
def store(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    with open_store(tmp_path / "home") as store:
        for folder, tags in ((here, []), (here, ["a"]), (here, ["a", "b"]), (there, ["a"])):
            with store.create(workspace=folder, tags=tags) as session:
                session.append(user("hello"))
        yield store


def hidden(selection):
    return selection.beyond_limit, selection.elsewhere, selection.unmatched


def test_everything_is_selected_without_a_condition(store):
    assert SessionFilter().is_empty
    found = select_sessions(store, SessionFilter())
    assert len(found.sessions) == 4
    assert hidden(found) == (0, 0, 0)


def test_what_a_selection_hides_is_counted(store, tmp_path):
    wanted = SessionFilter(workspace=tmp_path / "here", tags=("a",))
    assert not wanted.is_empty
    found = select_sessions(store, wanted)
    assert [each.tags for each in found.sessions] == [["a", "b"], ["a"]]
    assert hidden(found) == (0, 1, 1)
    found = select_sessions(store, wanted, limit=1)
    assert [each.tags for each in found.sessions] == [["a", "b"]]
    assert hidden(found) == (1, 1, 1)
    assert hidden(select_sessions(store, SessionFilter(), limit=3)) == (1, 0, 0)
    assert hidden(select_sessions(store, SessionFilter(state="damaged"))) == (0, 0, 4)


def test_a_project_is_an_identity_or_a_folder_in_one(store, tmp_path):
    with pytest.raises(UsageError, match="not a folder, and not a project"):
        select_sessions(store, SessionFilter(project=str(tmp_path / "gone")))
    with pytest.raises(UsageError, match="not in a git project"):
        select_sessions(store, SessionFilter(project=str(tmp_path / "here")))
    assert hidden(select_sessions(store, SessionFilter(project="git:unknown"))) == (0, 4, 0)
    project = tmp_path / "project"
    project.mkdir()
    git = ["git", "-C", str(project), "-c", "user.name=me", "-c", "user.email=me@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    with store.create(workspace=project) as session:
        session.append(user("hello"))
    found = select_sessions(store, SessionFilter(project=str(project)))
    assert [each.id for each in found.sessions] == [session.id]
    assert hidden(found) == (0, 4, 0)
