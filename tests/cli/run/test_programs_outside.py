"""What the agent itself starts, in a project that brings programs of its own; and keys in /proc."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from holdfast.model.ids import new_name
from tests.cli.program import Program, results, until
from tests.cli.vendor import streamed, vendor_on_loopback

NAMES = ("bash", "sh", "git", "rg", "python3", "ls", "cat", "systemd-run", "busctl", "less", "ps")
NAMED = 'provider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nkey_variable = "MY_OWN_KEY"'
KEY = "sk-very-secret-key"
# Prints the environment of every process from the command's parent to the first one.
ANCESTORS = (
    "pid=$PPID; while [ $pid -gt 1 ]; do tr '\\0' '\\n' < /proc/$pid/environ; "
    "echo above $pid; pid=$(sed 's/.*) . //' /proc/$pid/stat | cut -d' ' -f1); done; echo walked"
)


def traps(folder: Path, made: Path) -> Path:
    """Fill a folder with programs that leave a trace if anybody runs them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        file = folder / name
        file.write_text(f"#!/bin/sh\necho {name} >> {made}\nexit 0\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.fixture
def sprung(program: Program) -> Path:
    """The file in which each trap writes down that it was run."""
    return program.folder.parent / "sprung"


@pytest.mark.parametrize("entry", ["absolute", "relative", "empty", "link"])
def test_a_program_of_the_project_is_not_what_the_agent_starts(program, sprung, entry):
    subprocess.run(["git", "init", "-q", str(program.folder)], check=True)
    own = traps(program.folder / ("" if entry == "empty" else "bin"), sprung)
    link = program.folder.parent / "elsewhere"
    link.symlink_to(own)
    first = {"absolute": str(own), "relative": "bin", "empty": "", "link": str(link)}[entry]
    program.environment["PATH"] = f"{first}:{program.environment['PATH']}"
    (program.folder / "notes").write_text("hello\n")
    for prompt in ("run: ls", "run: cat notes", "grep: hello"):
        done = program.run("-p", prompt, "--provider", "rehearsal")
        assert "denied" not in done.err
    shown = {results(program.journal(session))[0][1] for session in program.sessions()}
    assert {"hello\n", "notes:1:hello"} <= shown
    assert any("notes\n" in each for each in shown)
    assert program.run("-p", "run: true && echo done", "--allow-all").code == 0
    assert program.run("ls").code == 0
    assert not sprung.exists()


def test_neither_does_a_runner_start_one_nor_call_for_attention_with_it(program, sprung):
    own = traps(program.folder / "bin", sprung)
    (own / "notify").write_text(f"#!/bin/sh\necho notify >> {sprung}\n")
    (own / "notify").chmod(0o755)
    outside = program.folder.parent / "tools"
    outside.mkdir()
    (outside / "notify").write_text(f"#!/bin/sh\necho called > {outside}/called\n")
    (outside / "notify").chmod(0o755)
    program.configure('on_attention = "notify"\n')
    program.environment["PATH"] = f"{own}:{outside}:{program.environment['PATH']}"
    done = program.run("-p", "run: ls", "--detach", "--provider", "rehearsal")
    assert done.code == 0
    until((outside / "called").exists)
    assert not sprung.exists()
    program.run("stop", "--all")


def test_what_needs_no_approval_gets_nothing_that_makes_the_shell_run_something_else(program):
    made = program.folder / "made"
    (program.folder / "start").write_text(f"touch {made}\n")
    evil = {"BASH_ENV": "start", "BASH_FUNC_ls%%": f"() {{ touch {made}; }}", "ENV": "start"}
    program.environment |= evil
    done = program.run("-p", "run: ls", "--provider", "rehearsal")
    assert "denied" not in done.err
    assert results(program.journal())[0] == ("completed", "start\n")
    assert not made.exists()


def test_a_hostile_repository_runs_nothing(program, sprung):
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", program.folder, *words], check=True, capture_output=True)

    git("init", "-q")
    (program.folder / "file").write_text("x")
    git("add", "file")
    git("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x")
    trap = program.folder / "trap"
    trap.write_text(f"#!/bin/sh\necho trap >> {sprung}\n")
    trap.chmod(0o755)
    for setting in (
        "core.fsmonitor",
        "core.pager",
        "pager.rev-list",
        "pager.config",
        "core.sshCommand",
        "core.alternateRefsCommand",
        "diff.external",
        "gpg.program",
        "credential.helper",
    ):
        git("config", setting, str(trap))
    git("config", "core.hooksPath", str(program.folder))
    git("config", "log.showSignature", "true")
    prompt = "write: new\nx"
    assert program.run("-p", prompt, "--allow-all", "--provider", "rehearsal").code == 0
    assert program.run("-c", "-p", "run: ls", "--provider", "rehearsal").code == 0
    assert (program.folder / "new").exists()
    assert not sprung.exists()


# Keys


def hides(pid: int, key: str) -> bool:
    """Tell whether a process shows its environment without a key, or not at all.

    While a program is being loaded its environment is empty: nothing is hidden yet.
    """
    try:
        shown = Path(f"/proc/{pid}/environ").read_bytes().decode()
    except PermissionError:  # only root sees the environment of a process that hides its memory
        return True
    return "HOLDFAST_HOME=" in shown and key not in shown


def test_a_command_of_a_run_finds_none_above_itself(program):
    program.configure(f"{NAMED}\n")
    keys = {"ANTHROPIC_API_KEY": KEY, "MY_OWN_KEY": KEY, "OPENAI_BASE_URL": f"http://a:{KEY}@x"}
    path = program.script({"call": "bash", "arguments": {"command": ANCESTORS}})
    done = program.run("-p", "go", "--script", path, "--allow-all", **keys)
    assert done.code == 0, done.err
    ((outcome, shown),) = results(program.journal())
    assert outcome == "completed"
    assert "HOLDFAST_HOME=" in shown
    assert KEY not in shown


def test_nor_does_one_of_a_runner_find_any_in_it_or_in_a_client(program):
    program.configure(f'{NAMED}\nmode = "allow-all"\n')
    key = f"sk-{new_name()}"  # others run at the same time, with keys of their own
    look = f"grep -la {key} /proc/[0-9]*/environ 2>/dev/null; echo looked"
    command = f"until [ -e go ]; do sleep 0.05; done; {look}"
    path = program.script({"call": "bash", "arguments": {"command": command}})
    keys = {"ANTHROPIC_API_KEY": key, "MY_OWN_KEY": key}
    done = program.run("-p", "go", "--script", path, "--detach", **keys)
    assert done.code == 0, done.err
    (session,) = program.sessions()
    client = program.start("attach", session.name, **keys)
    until(lambda: hides(client.pid, key))
    (program.folder / "go").touch()
    until(lambda: results(program.journal()))
    assert [shown for _, shown in results(program.journal())] == ["looked\n"]
    program.run("stop", "--all")


def test_the_provider_still_gets_the_key(program):
    with vendor_on_loopback(streamed("openai", "hello")) as vendor:
        keys = {"OPENAI_BASE_URL": f"{vendor.url}/v1", "OPENAI_API_KEY": KEY}
        done = program.run("-p", "hi", "--model", "m", **keys)
        assert "hello" in done.out, done.err
        (received,) = vendor.received
        assert received.headers["authorization"] == f"Bearer {KEY}"
