"""``holdfast migrate``: shown, asked, done; and what it says when it cannot."""

from __future__ import annotations

import json

import pytest

DOCUMENT = (
    '{"key":"%s","created":"2026-05-06T18:00:00Z","messages":[{"role":"user","content":"%s"}]}'
)


@pytest.fixture
def legacy(program):
    folder = program.folder / "legacy"
    folder.mkdir()
    (folder / "a.json").write_text(DOCUMENT % ("a", "hello"))
    (folder / "b.json").write_text(DOCUMENT % ("b", "world"))
    return folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_dry_run_only_shows(program, legacy):
    done = program.run("migrate", legacy, "--dry-run")
    assert done.code == 0
    assert done.out.splitlines() == ["migrated  a.json", "migrated  b.json"]
    assert done.err == "2 to migrate · 0 left\n"
    assert names(legacy) == ["a.json", "b.json"]
    assert not program.home.exists()


def test_without_anybody_to_ask_nothing_is_done(program, legacy):
    done = program.run("migrate", legacy)
    assert done.code == 2
    assert "--yes" in done.err
    assert names(legacy) == ["a.json", "b.json"]


def test_it_is_done_once(program, legacy):
    done = program.run("migrate", legacy, "--yes", "--json")
    assert done.code == 0
    assert [each["action"] for each in done.object["sources"]] == ["migrated", "migrated"]
    assert names(legacy) == ["a.json.migrated", "b.json.migrated"]
    assert len(program.sessions()) == 2
    again = program.run("migrate", legacy, "--yes")
    assert (again.code, again.out) == (0, "")
    assert again.err == "0 to migrate · 0 left\n"
    assert len(program.sessions()) == 2


def test_a_bad_file_is_named_and_left(program, legacy):
    (legacy / "c\x1b[31m.json").write_text('{"key": "c", "messages": [')
    done = program.run("migrate", legacy, "--yes")
    assert done.code == 65
    assert "\x1b" not in done.out
    (line,) = [line for line in done.out.splitlines() if line.startswith("left")]
    assert "not JSON" in line
    assert len(names(legacy)) == 3
    assert len(program.sessions()) == 2


def test_a_mistake_is_one_sentence(program, tmp_path):
    done = program.run("migrate", program.folder / "nowhere", "--yes")
    assert done.code == 2
    assert done.err.startswith("holdfast: ")
    assert "No such file" in done.err
    assert program.run("migrate", "", "--yes").code == 2
    program.home.mkdir()
    assert "sessions of this store" in program.run("migrate", program.home, "--yes").err


def test_a_target_that_cannot_be_written(program, legacy):
    program.home.parent.mkdir(exist_ok=True)
    program.home.write_text("a file in the way")
    done = program.run("migrate", legacy, "--yes")
    assert done.code == 1
    assert names(legacy) == ["a.json", "b.json"]


def test_lines_that_were_left_out_are_shown(program):
    path = program.folder / "x.jsonl"
    line = json.dumps({"role": "user", "content": "a", "created_at": "2026-05-06T18:00:00Z"})
    path.write_text(line + "\n" + "{\n" * 7)
    done = program.run("migrate", path, "--yes")
    assert done.code == 0
    assert f"{path}:2 is not complete JSON" in done.out
    assert "and 2 more (--json)" in done.out
