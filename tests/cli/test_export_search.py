"""What a chat writes and finds can be had without a screen."""

from __future__ import annotations

import json

import pytest

TEXT = "the needle is in here"


@pytest.fixture
def name(program):
    assert program.run("-p", f"say: {TEXT}", "-n", "Hay").code == 0
    (folder,) = program.sessions()
    return folder.name


def test_a_conversation_is_written_as_a_page_or_as_json(program, name):
    page = program.run("export", "hay")
    assert page.code == 0
    assert TEXT in page.out
    whole = json.loads(program.run("export", name, "--format", "json").out)
    assert whole["session"] == name
    lines = program.run("export", name, "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["role"] for line in lines][-2:] == ["user", "assistant"]


def test_a_file_that_is_there_is_left_alone(program, name):
    path = program.folder / "page.md"
    assert program.run("export", name, "-o", str(path)).code == 0
    written = path.read_text()
    assert TEXT in written
    path.write_text("mine")
    refused = program.run("export", name, "-o", str(path))
    assert (refused.code, refused.out, path.read_text()) == (2, "", "mine")
    assert "is there already" in refused.err
    assert program.run("export", name, "-o", str(path), "--force").code == 0
    assert path.read_text() == written


def test_a_place_that_cannot_be_written_gets_a_sentence(program, name):
    done = program.run("export", name, "-o", str(program.folder / "no" / "such" / "page.md"))
    assert done.code == 1
    assert "cannot be written" in done.err
    assert "Traceback" not in done.err


def test_words_are_found_with_the_session_and_the_entry(program, name):
    (hit, *_) = program.run("search", "the", "needle", "--json").lines
    assert hit["session"] == name
    shown = program.run("search", "needle")
    assert (shown.code, name in shown.out) == (0, True)
    limited = program.run("search", "needle", "--limit", "1")
    assert len(limited.out.splitlines()) == 1
    assert "there are more" in limited.err


def test_nothing_found_is_said_and_exits_1(program, name):
    done = program.run("search", "hay\x1b[31mstack")
    assert (done.code, done.out) == (1, "")
    assert "\x1b" not in done.err
