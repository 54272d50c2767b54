"""``holdfast import``: what is found, what is asked, what is new, what cannot be read."""

import json
from pathlib import Path

import pytest

import holdfast
from holdfast.exchange.importing.importer import ImportRun
from holdfast.files import Files
from holdfast.keeper.import_plan import plan_import
from tests.cli.kept import DOCS, HOSTILE, put
from tests.cli.shell import Shell

CLAUDE = "9f1c2d3e-0000-4000-8000-000000000001"


def claude_line(number: int, text: str) -> str:
    previous = f"u{number - 1}" if number else None
    return json.dumps(
        {
            "type": "user",
            "uuid": f"u{number}",
            "parentUuid": previous,
            "sessionId": CLAUDE,
            "cwd": "/home/me/app",
            "timestamp": f"2026-02-03T04:05:{number:02}.000Z",
            "message": {"role": "user", "content": text},
        }
    )


def claude(home: Path, *lines: str, name: str = CLAUDE) -> Path:
    """Leave a session as Claude Code does."""
    path = home / ".claude" / "projects" / "-home-me-app" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def found(program):
    """A user who has one session of Claude Code, with a line that cannot be read."""
    home = Path(program.environment["HOME"])
    claude(home, claude_line(0, "hello"), "{torn", claude_line(1, HOSTILE))
    return program


def texts(program):
    (session_id,) = [folder.name for folder in program.sessions()]
    with holdfast.open_store(program.home).open(session_id, mode="read") as session:
        return [message.text for message in session.messages]


def test_a_plan_is_shown_and_nobody_to_ask_is_a_mistake(found):
    done = found.run("import", "auto", "--dry-run")
    assert (done.code, done.out) == (0, "")
    row = done.err.splitlines()[1].split()
    assert (row[0], row[2:6]) == ("claude-code", ["1", "0", "0", "0"])
    assert "1 session would be imported" in done.err
    done = found.run("import", "auto")
    assert done.code == 2
    assert "Not a terminal, so I can't ask" in done.err
    assert found.sessions() == []


def test_only_what_is_new_is_imported_again(found):
    done = found.run("import", "auto", "--yes")
    assert done.code == 0, done.err
    assert "1 session imported" in done.err
    assert "2 messages in all" in done.err
    assert f"{CLAUDE}.jsonl:2: is not complete JSON" in done.err
    assert "1 place could not be imported" in done.err
    assert texts(found) == ["hello", HOSTILE]
    done = found.run("import", "auto")
    assert (done.code, "nothing is new" in done.err) == (0, True)
    home = Path(found.environment["HOME"])
    claude(home, claude_line(0, "hello"), "{torn", claude_line(1, HOSTILE), claude_line(2, "more"))
    done = found.run("import", "auto", "--yes")
    assert "1 session with new messages" in done.err
    assert texts(found) == ["hello", HOSTILE, "more"]


def test_what_is_in_the_trash_stays_there(found):
    found.run("import", "auto", "--yes")
    found.run("rm", found.sessions()[0].name, "--yes")
    done = found.run("import", "auto", "--yes")
    assert done.code == 0
    assert found.sessions() == []
    assert done.err.splitlines()[1].split()[5] == "1"


def test_a_path_is_recognised_or_named(found):
    place = Path(found.environment["HOME"]) / ".claude" / "projects"
    done = found.run("import", place, "--json")
    session, result = done.lines
    assert (session["agent"], session["action"], session["problem_count"]) == (
        "claude-code",
        "created",
        1,
    )
    assert session["problems"][0]["line"] == 2
    assert result["actions"] == {"created": 1}
    assert found.run("import", place, "--from", "claude-code", "--json").lines[0]["type"] == "plan"
    assert found.run("import", "--from", "claude-code", "--yes").code == 0
    assert found.run("import", "--from", "codex").err == "no sessions were found\n"


def test_the_original_is_never_touched(found):
    place = Path(found.environment["HOME"]) / ".claude"
    before = {
        path: (path.stat(), path.is_file() and path.read_bytes()) for path in place.rglob("*")
    }
    found.run("import", "auto", "--yes")
    after = {path: (path.stat(), path.is_file() and path.read_bytes()) for path in place.rglob("*")}
    assert {p: (s.st_mtime_ns, s.st_ino, d) for p, (s, d) in before.items()} == {
        p: (s.st_mtime_ns, s.st_ino, d) for p, (s, d) in after.items()
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Name what to import"),
        (["nowhere"], "There is no file or folder nowhere"),
        (["--from", "cluade-code"], "Did you mean claude-code?"),
        (["."], "is not recognised as sessions of any agent"),
    ],
)
def test_mistakes(program, words, said):
    (program.folder / "letter.txt").write_text("Dear diary")
    done = program.run("import", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_an_archive_that_is_damaged_leaves_nothing(program):
    put(program, DOCS)
    program.run("export", DOCS, "-o", "a.holdfast")
    data = bytearray((program.folder / "a.holdfast").read_bytes())
    place = data.index(b"journal.jsonl") + 40
    data[place] ^= 0xFF
    (program.folder / "a.holdfast").write_bytes(data)
    program.run("rm", DOCS, "--yes")
    done = program.run("import", "a.holdfast")
    assert (done.code, done.out) == (65, "")
    assert "was not imported" in done.err
    assert program.sessions() == []


def test_a_session_that_is_held_is_named_and_tried_again(found):
    found.run("import", "auto", "--yes")
    home = Path(found.environment["HOME"])
    claude(home, claude_line(0, "hello"), claude_line(1, HOSTILE), claude_line(2, "more"))
    with holdfast.open_store(found.home).open(found.sessions()[0].name):
        done = found.run("import", "auto", "--yes")
    assert done.code == 75
    assert "is being written by process" in done.err
    assert found.run("import", "auto", "--yes").code == 0
    assert "more" in texts(found)


def test_somebody_at_a_terminal_is_asked_and_sees_a_bar(tmp_path):
    shell = Shell(tmp_path)
    claude(tmp_path / "me", claude_line(0, "hello"))
    code, screen = shell.type("import", "auto", answers={"Import 1 session? [y/N]: ": "y\n"})
    assert code == 0, screen
    assert "importing" in screen
    assert "100%" in screen
    assert len(holdfast.open_store(shell.home).ids()) == 1


@pytest.fixture
def broken(program):
    """A user who has a database of opencode that is none, and nothing else."""
    path = Path(program.environment["HOME"]) / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"SQLite format 3\0garbage" * 1000)
    return program, path


def test_a_damaged_database_is_named(broken):
    program, path = broken
    for words in (["auto"], ["auto", "--dry-run"], [path], ["--from", "opencode", path]):
        done = program.run("import", *words)
        assert done.code == 65
        assert f"{path}: cannot be read (file is not a database)" in done.err
    problem = program.run("import", "auto", "--json").lines[0]
    assert (problem["type"], problem["path"]) == ("problem", str(path))
    claude(Path(program.environment["HOME"]), claude_line(0, "hello"))
    done = program.run("import", "auto", "--yes")
    assert done.code == 65, "what can be read is imported"
    assert "1 session imported" in done.err
    assert str(path) in done.err


def test_a_folder_that_nobody_may_read_is_named(store, tmp_path, monkeypatch):
    claude(tmp_path, claude_line(0, "hello"))
    closed = tmp_path / ".claude" / "projects" / "closed"
    closed.mkdir()
    look = Files.folders

    def refusing(self, folder):
        if folder == closed:
            raise PermissionError(13, "Permission denied")
        return look(self, folder)

    monkeypatch.setattr(Files, "folders", refusing)
    with ImportRun(store) as importing:
        plan = plan_import(importing, "auto", None, tmp_path, {})
    assert len(plan.sources) == 1
    assert [(each.path, each.reason) for each in plan.problems] == [
        (str(closed), "cannot be read (Permission denied)")
    ]


def test_a_second_import_at_the_same_time_is_told_to_wait(found):
    store = holdfast.open_store(found.home)
    with ImportRun(store) as importing:
        importing.hold()
        done = found.run("import", "auto", "--yes")
    assert done.code == 75
    assert "Another import into" in done.err
    assert found.run("import", "auto", "--yes").code == 0
