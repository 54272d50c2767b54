"""``holdfast doctor``: what it says, what it changes, and what it exits with."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from contextlib import contextmanager

import pytest

import holdfast
from holdfast.runtime.protocol.socket_path import run_folder
from tests.cli.program import PROGRAM, Done
from tests.cli.shell import Shell
from tests.disk import snapshot


@pytest.fixture
def session(program):
    with holdfast.open_store(program.home) as store, store.create() as session:
        for text in ("one", "two", "three"):
            session.append(holdfast.user(text))
    return session


def damage(session):
    journal = session.path / "journal.jsonl"
    data = journal.read_bytes()
    place = data.index(b'"two"')
    start, end = data.rindex(b"\n", 0, place) + 1, data.index(b"\n", place)
    journal.write_bytes(data[:start] + b"\x1b" * (end - start) + data[end:])


def test_all_is_well(program, session):
    before = snapshot(program.home)
    done = program.run("doctor")
    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("no problems\n")
    assert snapshot(program.home) == before


def test_a_home_that_is_not_there(program):
    done = program.run("doctor")
    assert done.code == 0
    assert not program.home.exists()


def test_damage_is_told_then_mended(program, session):
    damage(session)
    before = snapshot(program.home)
    done = program.run("doctor")
    assert done.code == 65
    assert "safe: the rest of the session can be read" in done.out
    assert "--fix would rewrite the journal" in done.out
    assert "2 can be repaired (--fix)" in done.err
    assert "\x1b" not in done.out
    assert snapshot(program.home) == before
    mended = program.run("doctor", "--fix")
    assert mended.code == 0
    assert "done: rewrite the journal" in mended.out
    assert "2 repaired" in mended.err
    assert program.run("doctor").out == ""
    assert len(list((session.path / "archive").iterdir())) == 1


def test_one_object_a_finding(program, session):
    damage(session)
    *findings, summary = program.run("doctor", "--json").lines
    assert [each["kind"] for each in findings] == ["damage", "unverified"]
    assert all(each["safe"] and each["fix"] and each["damage"] for each in findings)
    assert (summary["sessions"], summary["problems"], summary["damaged"]) == (1, 2, 2)
    *findings, summary = program.run("doctor", "--json", "--fix").lines
    assert all(each["fixed"] for each in findings)
    assert (summary["fixed"], summary["damaged"]) == (2, 0)


def test_what_is_only_untidy_is_no_damage(program, session):
    (session.path / "journal.jsonl").chmod(0o644)
    done = program.run("doctor")
    assert done.code == 0
    assert done.out.startswith("permissions")


def test_what_cannot_be_mended_stays_told(program, session):
    journal = session.path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"two"', b'"TWO"'))
    done = program.run("doctor", "--fix")
    assert done.code == 65
    assert done.out.startswith("edited")
    assert "--fix would" not in done.out


def test_a_session_in_use_is_named(program, session):
    with holdfast.open_store(program.home) as store, store.open(session.id):
        done = program.run("doctor")
    assert done.code == 0
    assert f"{session.id} is being written" in done.err


def test_sockets_of_runners_that_are_gone(program, session):
    folder = run_folder(program.home)
    folder.mkdir(mode=0o700, parents=True)
    dead, alive = folder / "dead.sock", folder / "alive.sock"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(dead))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(alive))
        listening.listen()
        done = program.run("doctor")
        assert done.code == 0
        assert [line for line in done.out.splitlines() if line.startswith("socket")] == [
            f"socket       {dead}: the socket of a runner that has exited"
        ]
        program.run("doctor", "--fix")
        assert alive.exists()
        assert not dead.exists()


def test_a_bar_on_a_terminal(tmp_path):
    shell = Shell(tmp_path)
    with holdfast.open_store(shell.home) as store, store.create() as session:
        session.append(holdfast.user("one"))
    code, screen = shell.type("doctor", answers={})
    assert code == 0
    assert "100 % checking every journal" in screen
    assert "no problems" in screen


# What ends nothing

_AS_ANYBODY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]


def as_anybody(program, *words, **environment):
    """Run as somebody whom rights keep out, which root has to ask for."""
    if os.geteuid() != 0:
        return program.run(*words, **environment)
    if shutil.which("setpriv") is None:
        pytest.skip("root is let in everywhere, and there is no setpriv")
    done = subprocess.run(
        [*_AS_ANYBODY, *PROGRAM, *words],
        cwd=program.folder,
        env=program.environment | environment,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@contextmanager
def closed(path, mode=0):
    before = path.stat().st_mode & 0o777
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(before)


def test_a_home_that_is_no_folder(program, session):
    journal = session.path / "journal.jsonl"
    journal.chmod(0o644)
    for home in (journal, journal / "below"):
        done = program.run("doctor", "--fix", HOLDFAST_HOME=str(home))
        assert (done.code, done.out) == (2, "")
        assert "is not a folder. Set HOLDFAST_HOME" in done.err
    assert journal.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("what", ["home", "sessions", "month", "session", "journal", "trash"])
@pytest.mark.parametrize("fix", [[], ["--fix"]])
def test_what_nobody_can_read_is_damage_and_ends_nothing(program, session, what, fix):
    (program.home / "trash").mkdir(mode=0o700)
    path = {
        "home": program.home,
        "sessions": program.home / "sessions",
        "month": session.path.parent,
        "session": session.path,
        "journal": session.path / "journal.jsonl",
        "trash": program.home / "trash",
    }[what]
    with closed(path):
        done = as_anybody(program, "doctor", *fix)
    assert done.code == 65
    (line, *_) = [each for each in done.out.splitlines() if each.startswith("closed")]
    assert str(path if what != "journal" else session.path) in line
    assert "check the owner and the permissions" in done.out
    assert program.run("doctor").code == 0


def test_a_journal_that_is_a_link_is_damage(program, session):
    journal = session.path / "journal.jsonl"
    moved = program.folder / "moved.jsonl"
    journal.rename(moved)
    journal.symlink_to(moved)
    done = program.run("doctor")
    assert done.code == 65
    assert done.out.startswith("misplaced")
    assert "rights" not in done.out


def test_a_socket_that_cannot_be_removed(program, session):
    folder = run_folder(program.home)
    folder.mkdir(mode=0o700, parents=True)
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(folder / "dead.sock"))
    with closed(folder, 0o500):
        done = as_anybody(program, "doctor", "--fix")
    assert done.code == 0
    assert "could not remove it" in done.out
    assert (folder / "dead.sock").exists()
    with closed(folder):
        done = as_anybody(program, "doctor", "--fix")
    assert done.code == 65
    assert f"closed       {folder}" in done.out


def test_nothing_is_left_beside_the_caches(program, session):
    program.run("ls")
    program.run("search", "one")
    before = sorted(path.name for path in program.home.iterdir())
    assert program.run("doctor").code == 0
    assert sorted(path.name for path in program.home.iterdir()) == before
