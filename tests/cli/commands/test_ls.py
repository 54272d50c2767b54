"""``holdfast ls``: which sessions, and what it says of those that it does not show."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from contextlib import suppress

import pytest

import holdfast
from holdfast import user
from tests.cli.kept import BUILD, DOCS, HOSTILE, put, put_build
from tests.cli.program import PROGRAM


def shown(done):
    assert done.code == 0, done.err
    return [line.split()[0] for line in done.out.splitlines()]


def test_this_folder_alone_says_what_is_elsewhere(program):
    put_build(program)
    put(program, DOCS, workspace="/somewhere/else")
    assert shown(program.run("ls")) == [DOCS, BUILD]
    done = program.run("ls", "--here")
    assert shown(done) == [BUILD]
    assert done.err == "1 shown · 1 in other folders (without --here)\n"


def test_the_sessions_of_a_project_are_found_wherever_its_folder_was(program):
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        who = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
        subprocess.run(["git", *who, *words], cwd=program.folder, check=True)
    put_build(program)
    put(program, DOCS)
    (program.folder / "below").mkdir()
    done = program.run("ls", "--project", "below")
    assert shown(done) == [BUILD]
    assert done.err == "1 shown · 1 of other projects (without --project)\n"
    done = program.run("ls", "--project", program.temporary)
    assert (done.code, done.out) == (2, "")
    assert "is not in a git project. Use --here" in done.err
    assert program.run("ls", "--project", "nowhere").code == 2


def test_times_tags_and_states_narrow_and_are_counted(program):
    put_build(program)
    put(program, DOCS, tags=["release", "urgent"])
    done = program.run("ls", "--tag", "urgent", "--tag", "release")
    assert shown(done) == [DOCS]
    assert done.err == "1 shown · 1 that do not match (--tag)\n"
    done = program.run("ls", "--until", "1h")
    assert (shown(done), done.err) == ([], "0 shown · 2 that do not match (--until)\n")
    assert shown(program.run("ls", "--since", "yesterday", "--until", "today")) == [DOCS, BUILD]
    journal = put(program, "20260104-030405-eeeeffff") / "journal.jsonl"
    journal.write_bytes(b"nothing of ours")
    done = program.run("ls", "--state", "damaged", "--limit", "1")
    assert shown(done) == ["20260104-030405-eeeeffff"]
    assert done.err == "1 shown · 2 that do not match (--state)\n"


def test_a_limit_counts_what_fits_alone(program):
    for number in range(4):
        put(program, f"2026010{number + 1}-030405-aaaabbbb", tags=["odd"] if number % 2 else [])
    done = program.run("ls", "--limit", "1", "--tag", "odd")
    assert len(shown(done)) == 1
    assert done.err == "1 shown · 1 more (--all) · 2 that do not match (--tag)\n"
    assert len(shown(program.run("ls", "--limit", "1", "--tag", "odd", "--all"))) == 2
    assert program.run("ls", "--limit", "0").err == "0 shown · 4 more (--all)\n"


def test_a_mistyped_time_gets_a_sentence(program):
    done = program.run("ls", "--since", "last tuesday week")
    assert (done.code, done.out) == (2, "")
    assert "is not a time: use an age such as 14d" in done.err


def test_the_long_form_has_aligned_columns(program):
    put_build(program)
    put(program, DOCS, text="完成 the docs", model="模型" * 20, tags=["文"], workspace="/a/文件夹")
    head, *rows = program.run("ls", "-l").out.splitlines()
    place = head.index("title")

    def columns(text):
        wide = sum(each > "\u2e80" for each in text)
        return len(text) + wide

    for row, title in zip(rows, ["完成 the docs #文", "fix the build"], strict=True):
        assert row.endswith(f"  {title}")
        assert columns(row) - columns(title) == place
    assert "$0.0125" in rows[1]


def test_nothing_in_a_title_reaches_the_terminal_raw(program):
    put(program, DOCS, text=HOSTILE, tags=[HOSTILE], model=HOSTILE, workspace=f"/tmp/{HOSTILE[:4]}")
    for words in (["ls"], ["ls", "-l"]):
        done = program.run(*words, CLICOLOR_FORCE="0")
        assert all(each.isprintable() or each == "\n" for each in done.out)
        assert len(done.out.splitlines()) == len(words)
    assert json.loads(program.run("ls", "--json").out)["title"].startswith("\x1b]0;owned")


def test_an_interrupted_session_is_found_by_its_state(program):
    store = holdfast.open_store(program.home)
    with store.create(session_id=BUILD) as session:
        session.append([user("go"), holdfast.Turn("started")])
    assert shown(program.run("ls", "--state", "interrupted")) == [BUILD]
    assert shown(program.run("ls", "--state", "clean")) == []


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, False),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"CLICOLOR_FORCE": "0"}, False),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_obey(program, environment, coloured):
    put(program, DOCS)
    (program.home / "sessions/2026-01" / DOCS / "journal.jsonl").write_bytes(b"x")
    done = program.run("ls", **environment)
    assert ("\x1b[31mdamaged" in done.out) == coloured
    assert ("\x1b" in done.out) == coloured


def test_as_json_it_says_what_it_hides_beside_the_objects(program):
    for number in range(3):
        put(program, f"2026010{number + 1}-030405-aaaabbbb")
    done = program.run("ls", "--json", "--limit", "2")
    assert len(done.lines) == 2
    assert done.err == "2 shown · 1 more (--all)\n"
    assert program.run("ls", "--json").err == ""


def on_terminal(program, columns, *words):
    """Return the lines that a terminal of so many columns is given."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    process = subprocess.Popen(
        [*PROGRAM, *words],
        cwd=program.folder,
        env={**program.environment, "PAGER": "cat", "TERM": "xterm", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # the other end is closed
        while piece := os.read(ours, 65536):
            seen += piece
    os.close(ours)
    assert process.wait(60) == 0
    return seen.decode().splitlines()


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (160, "age cost model folder"),
        (125, "age cost model folder"),
        (124, "age cost folder"),
        (103, "age cost folder"),
        (102, "age cost"),
        (85, "age cost"),
        (80, "age"),
        (70, ""),
    ],
)
def test_the_long_form_sheds_columns_on_a_narrow_terminal(program, columns, names):
    put(program, DOCS, text="long " * 50, tags=["release", "urgent", "文" * 40], model="m")
    put(program, BUILD, text="short")
    head, *rows = on_terminal(program, columns, "ls", "-l")
    assert head.split() == ["session", "state", "msgs", *names.split(), "title"]
    assert len(rows) == 2
    for row in rows:
        assert len(row) + sum(each > "\u2e80" for each in row) <= columns
    assert any(" #re" in row for row in rows)
