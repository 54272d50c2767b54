"""Which messages are searched: by role, tool, model, folder, project, agent, session and time."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import holdfast


@pytest.fixture
def clock(monkeypatch):
    def set_to(day: int) -> None:
        at = f"2026-01-{day:02d}T00:00:00.000Z"
        monkeypatch.setattr("holdfast.journal.format.timestamp", lambda: at)

    return set_to


@pytest.fixture
def filled(store, tmp_path, clock):
    """Two sessions that say needle everywhere."""
    clock(1)
    with store.create(workspace=tmp_path, model="big-model-1", title="needle one") as session:
        session.append(holdfast.system("needle"))
        session.append(holdfast.user("needle"))
        call = holdfast.ToolCall(id="1", name="bash", arguments={"c": "needle"})
        session.append(holdfast.assistant([call]))
        session.append(holdfast.tool_result("1", "needle"))
        clock(2)
        session.append(holdfast.assistant("needle", model="other"))
    clock(3)
    imported = {"agent": "codex", "id": "x"}
    with store.create(project="git:example.org/it", imported=imported) as other:
        other.append(holdfast.user("needle"))
        call = holdfast.ToolCall(id="1", name="Read", arguments={})
        other.append(holdfast.assistant([call]))
        other.append(holdfast.tool_result("1", "needle"))
        other.append(holdfast.tool_result("1", "needle without a call"))
    return session.id, other.id


def roles(store, **where) -> list[str]:
    return sorted(hit.role for hit in store.search("needle", **where))


@pytest.fixture(params=["index", "files"])
def way(request, monkeypatch):
    """Both ways to the same answer."""
    if request.param == "files":
        monkeypatch.setattr("holdfast.store.search.text_index.NAME", "no/such/place")


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["assistant", "assistant", "system", "title", "tool", "tool", "tool", "user", "user"]),
    ({"role": "user"}, ["user", "user"]),
    ({"role": ["title", "SYSTEM"]}, ["system", "title"]),
    ({"role": "nobody"}, []),
    ({"tool": "bash"}, ["assistant", "tool"]),
    ({"tool": "read"}, ["tool"]),
    ({"tool": "gone"}, []),
    ({"model": "big"}, ["assistant", "system", "title", "tool", "user"]),
    ({"model": "OTHER"}, ["assistant"]),
    ({"model": ["big", "other"], "role": "assistant"}, ["assistant", "assistant"]),
    ({"agent": "codex"}, ["tool", "tool", "user"]),
    ({"agent": "holdfast", "role": "user"}, ["user"]),
    ({"project": "git:example.org/it"}, ["tool", "tool", "user"]),
    ({"workspace": "/nowhere"}, []),
    (
        {"since": datetime(2026, 1, 2, tzinfo=UTC), "until": datetime(2026, 1, 3, tzinfo=UTC)},
        ["assistant"],
    ),
    ({"until": datetime(2026, 1, 1, tzinfo=UTC)}, []),
    ({"since": datetime(2026, 1, 4, tzinfo=UTC)}, []),
]


@pytest.mark.parametrize(("where", "expected"), CASES, ids=[str(where) for where, _ in CASES])
@pytest.mark.usefixtures("way", "filled")
def test_conditions(store, where, expected):
    assert roles(store, **where) == expected
    assert roles(store, **where, substring=True) == expected


@pytest.mark.usefixtures("way")
def test_folder_session_and_project(store, filled, tmp_path):
    first, second = filled
    assert {hit.session for hit in store.search("needle", workspace=tmp_path)} == {first}
    assert {hit.session for hit in store.search("needle", session=second)} == {second}
    assert {hit.session for hit in store.search("needle", session=[first, second])} == set(filled)
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org", "-C", tmp_path / "p"]
    subprocess.run(["git", "init", "-q", tmp_path / "p"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    with store.create(workspace=tmp_path / "p") as session:
        session.append(holdfast.user("needle"))
    (tmp_path / "p").rename(tmp_path / "q")
    assert [hit.session for hit in store.search("needle", project=tmp_path / "q")] == [session.id]


@pytest.mark.usefixtures("way")
def test_a_hit_tells_about_its_session(store, filled, tmp_path):
    hit = store.search("needle", role="assistant", model="other")[0]
    assert (hit.title, hit.workspace, hit.agent) == (
        "needle one",
        str(tmp_path.resolve()),
        "holdfast",
    )
    assert hit.model == "other"
    hit = store.search("needle", agent="codex", tool="Read")[0]
    assert (hit.agent, hit.tool, hit.kind) == ("codex", "Read", "tool_result")
    entries = {
        entry.seq: entry for entry in store.open(hit.session, mode="read").follow(wait=False)
    }
    assert entries[hit.seq].body.role == "tool"


def test_conditions_also_where_there_is_much(store, filled, monkeypatch):
    monkeypatch.setattr("holdfast.store.search.engine._MOST_AT_ONCE", 2)
    for where, expected in CASES:
        assert roles(store, **where) == expected
    limited = store.search("needle", limit=4)
    assert limited == store.search("needle")[:4]
    assert len(store.search("need", substring=False)) == 2  # of beginnings only the last read


def test_times_that_nobody_can_read(store):
    with store.create() as session:
        session.append(holdfast.user("needle"))
    journal = session.path / "journal.jsonl"
    data = journal.read_bytes()
    stamp = store.open(session.id, mode="read").state.updated.encode()
    journal.write_bytes(data.replace(stamp, b"some day, perhaps"))
    assert len(store.search("needle")) == 1
    assert store.search("needle", until=datetime.now(UTC) + timedelta(days=1)) == []
    (activity,) = store.activity()
    assert (activity.at, activity.prompts) == ("", 1)
