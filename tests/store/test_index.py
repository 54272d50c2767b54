"""What a list shows of a session, in which order, and of which sessions."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import holdfast


@pytest.fixture
def clock(monkeypatch):
    """Set the time that entries get."""

    def set_to(at: str) -> None:
        monkeypatch.setattr("holdfast.journal.numbering.timestamp", lambda: at)

    return set_to


def put(store: holdfast.LocalStore, text: str = "hello", **meta: Any) -> str:
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


def test_the_title_is_the_first_user_text_if_none_was_given(store):
    put(store, "do this")
    assert store.list()[0].title == "do this"


def test_the_key_is_listed(store):
    with store.session("telegram:42") as session:
        session.append(holdfast.user("hello"))
    assert store.list()[0].key == "telegram:42"


def test_strange_facts_do_not_break_the_list(store):
    with store.create(title="\ud800 lone", workspace=os.fsdecode(b"/no/\xff/utf8")) as session:
        session.append(holdfast.user("hello"))
        session.update(provider=7, model=["m"], tags=["plain", 10**30, {"deep": [None]}], x=10**30)
        session.usage(input=10**30, output=1)
    put(store, "the next one")
    for _ in range(2):  # the second time from the cache
        listed = {summary.id: summary for summary in store.list()}
        summary = listed[session.id]
        assert summary.title == "\ud800 lone"
        assert summary.workspace == os.fsdecode(b"/no/\xff/utf8")
        assert (summary.provider, summary.model, summary.tags) == (None, None, ["plain"])
        assert summary.totals.input == 10**30
        assert len(listed) == 2
        assert len(store.list(workspace=os.fsdecode(b"/no/\xff/utf8"))) == 1
    with store.open(session.id) as again:
        again.update(tags="not a list", title=None)
    assert [s.tags for s in store.list() if s.id == session.id] == [[]]


def test_last_updated_first_and_a_limit(store, clock):
    ids = []
    for day in (3, 1, 2):
        clock(f"2026-01-0{day}T00:00:00.000Z")
        ids.append(put(store))
    expected = [ids[0], ids[2], ids[1]]
    assert [summary.id for summary in store.list()] == expected
    for limit in (0, 1, 2, 3, 9):
        assert [summary.id for summary in store.list(limit=limit)] == expected[:limit]
    clock("2026-01-04T00:00:00.000Z")
    with store.open(ids[1]) as session:
        session.append(holdfast.user("again"))
    assert store.list(limit=1)[0].id == ids[1]


@pytest.mark.parametrize("limit", [-1, "3", 1.5])
def test_a_limit_that_is_none_is_refused(store, limit):
    put(store)
    with pytest.raises(holdfast.UsageError):
        store.list(limit=limit)


def test_sessions_of_a_time(store, clock):
    ids = []
    for day in (1, 2, 3):
        clock(f"2026-01-0{day}T00:00:00.000Z")
        ids.append(put(store))

    def listed(**times: datetime) -> list[str]:
        return sorted(summary.id for summary in store.list(**times))

    second = datetime(2026, 1, 2, tzinfo=UTC)
    assert listed(since=second) == sorted(ids[1:])
    assert listed(until=second) == ids[:1]
    assert listed(since=second, until=second + timedelta(milliseconds=1)) == ids[1:2]
    elsewhere = datetime(2026, 1, 2, 5, tzinfo=timezone(timedelta(hours=5)))
    assert listed(since=elsewhere) == sorted(ids[1:])
    naive = datetime(2026, 1, 2, tzinfo=UTC).astimezone().replace(tzinfo=None)
    assert listed(until=naive) == ids[:1]
    # A year of fewer than four digits is long ago, not after 2026.
    assert listed(since=datetime(300, 1, 1, tzinfo=UTC)) == sorted(ids)
    assert listed(until=datetime(300, 1, 1, tzinfo=UTC)) == []


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
