"""Plans of imports: each file to the importer that recognises it, nothing new twice."""

from __future__ import annotations

import json
import shutil

import pytest

from holdfast import user
from holdfast.exchange.exporting.export import export_to
from holdfast.exchange.importing.importer import ImportRun
from holdfast.keeper.import_plan import plan_import
from tests.exchange.sources import CASES, GOLDEN, copied


def planned(store, path):
    with ImportRun(store) as importing:
        plan = plan_import(importing, str(path), None, path, {})
        return [(each.source.agent, each.standing) for each in plan.sources]


@pytest.mark.parametrize("case", CASES)
def test_the_sessions_of_one_agent_stay_its_own(case, store, tmp_path):
    found = planned(store, copied(case, tmp_path))
    assert {agent for agent, _ in found} == {case.partition("/")[0]}


def test_a_folder_with_files_of_several_agents(store, tmp_path):
    folder = copied("claude-code/branches", tmp_path)
    for case in ("codex/turns", "gemini-cli/document", "qwen-code/turns"):
        for file in (GOLDEN / case / "source").rglob("*.json*"):
            shutil.copy(file, folder / file.name)
    assert sorted(planned(store, folder)) == [
        ("claude-code", "created"),
        ("codex", "created"),
        ("gemini-cli", "created"),
        ("qwen-code", "created"),
    ]


def test_an_archive_of_a_session_that_is_here_is_not_new(store, tmp_path):
    with store.create() as session:
        session.append(user("hello"))
        path = export_to(session, "archive", tmp_path / "a.holdfast").path
    assert planned(store, path) == [("holdfast", "unchanged")]
    path.write_bytes(path.read_bytes()[:-30])
    assert planned(store, path) == [("holdfast", "created")], "what is wrong is said later"


def test_lines_that_no_importer_reads_are_nobodys(store, tmp_path):
    folder = copied("claude-code/branches", tmp_path)
    line = {"type": "queue-operation", "sessionId": "s"}
    (folder / "empty.jsonl").write_text(json.dumps(line) + "\n")
    assert planned(store, folder) == [("claude-code", "created")] * 2
