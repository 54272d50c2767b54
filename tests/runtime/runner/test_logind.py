"""What a logout does to runners, as logind says, and what is done about it."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys

import pytest

from holdfast.runtime.runner import logind as logout
from holdfast.runtime.runner import spawn as launching
from holdfast.runtime.runner.logind import Logout, of_this_user
from holdfast.runtime.runner.spawn import start
from tests.runtime.runner.runner_clients import run

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with systemd, as far as a program can tell."""

    class Machine:
        systemd = tmp_path / "systemd"
        lingers = tmp_path / "linger"
        programs = tmp_path / "bin"

        def says(self, answer: str, code: int = 0) -> None:
            self.program("busctl", f"cat <<'END'\n{answer}\nEND\nexit {code}")

        def program(self, name: str, script: str) -> None:
            path = self.programs / name
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

        def asked(self) -> Logout:
            return of_this_user(self.systemd, self.lingers)

    for folder in (Machine.systemd, Machine.lingers, Machine.programs):
        folder.mkdir()
    monkeypatch.setenv("XDG_SESSION_ID", "7")
    monkeypatch.setenv("PATH", f"{Machine.programs}:{os.environ['PATH']}")
    return Machine()


def test_where_a_logout_kills_the_user_is_told(machine):
    machine.says('b true\nas 0\nas 1 "somebody"')
    assert machine.asked() == Logout(kills=True)
    assert "loginctl enable-linger" in machine.asked().warning
    assert machine.asked().prefix == []


def test_who_lingers_has_runners_started_through_systemd(machine):
    machine.says("b true\nas 0\nas 0")
    (machine.lingers / ME).touch()
    assert machine.asked() == Logout(kills=True, lingers=True)
    assert machine.asked().warning is None
    assert machine.asked().prefix[:3] == ["systemd-run", "--user", "--scope"]


@pytest.mark.parametrize(
    "answer",
    [
        "b false\nas 0\nas 0",
        f'b true\nas 0\nas 2 "somebody" "{ME}"',
        'b true\nas 1 "somebody"\nas 0',
        "",
        "Failed to get property",
    ],
)
def test_where_a_logout_leaves_processes_alone_nothing_is_done(machine, answer):
    machine.says(answer)
    assert machine.asked() == Logout()


def test_only_some_users_may_be_killed(machine):
    machine.says(f'b true\nas 1 "{ME}"\nas 0')
    assert machine.asked().kills


def test_without_systemd_a_session_or_an_answer_nothing_is_done(machine, monkeypatch):
    machine.says("b true\nas 0\nas 0")
    assert of_this_user(machine.systemd / "none", machine.lingers) == Logout()
    monkeypatch.setattr(logout, "_ASK_SECONDS", 0.05)
    machine.program("busctl", "exec sleep 60")
    assert machine.asked() == Logout()
    monkeypatch.setattr(logout, "_ASK", ("no-such-program",))
    assert machine.asked() == Logout()
    monkeypatch.delenv("XDG_SESSION_ID")
    monkeypatch.setattr(logout, "_ASK_SECONDS", 60)
    machine.says("b true\nas 0\nas 0")
    assert machine.asked() == Logout()


@pytest.mark.parametrize("works", [True, False])
def test_a_runner_is_started_through_systemd_or_else_without(machine, office, monkeypatch, works):
    monkeypatch.setattr(launching, "of_this_user", lambda **_: Logout(kills=True, lingers=True))
    marker = office.file("through-systemd")
    begin = f'echo "$@" > {marker}\n'
    go_on = 'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"'
    machine.program("systemd-run", begin + (go_on if works else "exit 1"))
    told: list[str] = []
    assert start(office.launch(), told.append).state == "ready"
    assert "--user --scope" in marker.read_text()
    assert [text for text in told if "logging out ends it" in text] == told
    assert len(told) == (not works), "a logout ends a runner that systemd did not start"
    run(office.begin())


def test_a_machine_that_lost_its_systemd_run_starts_runners_all_the_same(
    machine, office, monkeypatch
):
    monkeypatch.setattr(launching, "of_this_user", lambda **_: Logout(kills=True, lingers=True))
    monkeypatch.setattr(Logout, "prefix", ["no-such-program"])
    assert start(office.launch()).state == "ready"
    run(office.begin())


_ON_THAT_MACHINE = """
from pathlib import Path
from holdfast.runtime.runner import logind as logout
logout.of_this_user.__defaults__ = (Path({systemd!r}), Path({lingers!r}))
from holdfast.cli.main import main
main()
"""


@pytest.mark.parametrize("verb", ["attach", "send", "detach"])
def test_the_user_is_told_before_the_first_prompt_when_a_runner_is_started(
    machine, office, monkeypatch, verb
):
    machine.says("b true\nas 0\nas 0")
    program = _ON_THAT_MACHINE.format(systemd=str(machine.systemd), lingers=str(machine.lingers))
    monkeypatch.setenv("HOLDFAST_HOME", str(office.home))

    def holdfast(*words: str, given: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            cwd=office.workspace,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "enable-linger" not in holdfast("-p", "say: hi")
    words = {
        "attach": ["attach", "hi"],
        "send": ["send", "hi", "say: x"],
        "detach": ["-c", "-p", "say: x", "--detach"],
    }[verb]
    holdfast("-c", "-p", "say: hi", "-n", "hi")
    try:
        assert holdfast(*words, given="/quit\n" * (verb == "attach")).count("enable-linger") == 1
        assert "enable-linger" not in holdfast(*words), "it runs already"
    finally:
        holdfast("stop", "--all")
