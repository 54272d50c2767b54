"""Commands that need no approval are judged by what they would open when they run."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.cli.program import Program, alive, results, turns, until


@pytest.fixture
def secret(program: Program) -> str:
    """A secret outside, and a branch in which ``notes`` and ``sub`` are links to it."""
    outside = program.folder.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("very-secret\n")

    def git(*words: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@x")
        subprocess.run(["git", "-C", program.folder, *who, *words], check=True, capture_output=True)

    git("init", "-qb", "main")
    (program.folder / "notes").write_text("harmless\n")
    (program.folder / "sub").mkdir()
    (program.folder / "sub" / "secret").write_text("harmless\n")
    git("add", ".")
    git("commit", "-qm", "first")
    git("switch", "-qc", "evil")
    git("rm", "-qr", "sub", "notes")
    (program.folder / "notes").symlink_to(outside / "secret")
    (program.folder / "sub").symlink_to(outside)
    git("add", ".")
    git("commit", "-qm", "second")
    git("switch", "-q", "main")
    return "very-secret"


CHECKOUT = {"call": "bash", "arguments": {"command": "git checkout -q evil"}}


def command(text: str) -> dict[str, object]:
    return {"call": "bash", "arguments": {"command": text}}


def shown_in(program: Program) -> str:
    (folder,) = program.sessions()
    return (folder / "journal.jsonl").read_text()


@pytest.mark.parametrize(
    "looks",
    ["cat notes", "head -n 1 notes", "tail notes", "cat sub/secret", "ls sub", "cat sub/../notes"],
)
def test_a_link_that_an_allowed_command_put_there_is_seen(program, secret, looks):
    script = program.script({"calls": [CHECKOUT, command(looks)]})
    done = program.run("-p", "go", "--script", script, "--allow", "bash(git checkout:*)")
    assert done.code == 0
    assert [outcome for outcome, _ in results(program.journal())] == ["completed", "denied"]
    assert (program.folder / "notes").is_symlink()
    assert secret not in shown_in(program) + done.out + done.err


def test_no_other_command_of_the_answer_runs_beside_it(program, secret):
    calls = [command("cat notes"), CHECKOUT, command("ls"), command("pwd")]
    script = program.script({"calls": calls})
    done = program.run("-p", "go", "--script", script, "--allow", "bash(git checkout:*)")
    assert done.code == 0
    steps = [
        "started" if entry["type"] == "tool" else "result"
        for entry in program.journal()
        if entry["type"] == "tool" or entry.get("role") == "tool"
    ]
    apart = ["started", "result"]
    assert steps == [*apart, *apart, "started", "started", "result", "result"]
    assert results(program.journal())[0] == ("completed", "harmless\n")


def test_reading_tools_judge_again_what_is_denied(program, secret):
    program.configure('deny = ["read(private)"]\nallow = ["bash"]\n')
    (program.folder / "private").write_text(secret)
    calls = [
        command("rm notes; ln -s private notes"),
        {"call": "read", "arguments": {"path": "notes"}},
        {"call": "grep", "arguments": {"pattern": "very", "path": "notes"}},
    ]
    done = program.run("-p", "go", "--script", program.script({"calls": calls}))
    outcomes = [outcome for outcome, _ in results(program.journal())]
    assert outcomes == ["completed", "denied", "denied"]
    assert secret not in shown_in(program) + done.out


def test_a_person_is_asked_when_it_is_about_to_run_and_what_ran_stays_done(program, secret):
    program.configure('allow = ["bash(git checkout:*)", "bash(touch:*)"]\n')
    calls = [command("touch ran"), CHECKOUT, command("cat notes")]
    script = program.script({"calls": calls}, {"say": "done"})
    assert program.run("-p", "go", "--script", script, "--detach").code == 0
    (folder,) = program.sessions()
    assert "bash  cat notes" in program.run("approve", folder.name, "--show").out
    assert [outcome for outcome, _ in results(program.journal())] == ["completed", "completed"]
    assert secret not in shown_in(program)
    (status,) = program.run("status", "--json").lines
    os.kill(status["pid"], signal.SIGKILL)
    until(lambda: not alive(status["pid"]))
    (program.folder / "ran").unlink()
    again = program.script({"say": "done"})
    done = program.run("-r", folder.name, "--continue-turn", "--script", again)
    assert "denied: bash “cat notes”" in done.err
    assert [outcome for outcome, _ in results(program.journal())][2:] == ["denied"]
    assert turns(program.journal())[-1] == "completed"
    assert not (program.folder / "ran").exists()
    assert secret not in shown_in(program)


def test_a_link_whose_full_path_is_too_long_is_not_taken_for_a_file(program):
    """The kernel follows it by a short path, where ``realpath`` gives up without a word."""
    secret = program.folder.parent / "secret"
    secret.write_text("very-secret\n")
    folders = ["a" * 250] * 16
    (program.folder / "short").symlink_to("/".join(folders))
    place = os.open(program.folder, os.O_RDONLY)
    for name in folders:
        os.mkdir(name, dir_fd=place)
        inner = os.open(name, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.symlink(secret, "link", dir_fd=place)
    os.close(place)
    assert (program.folder / "short" / "link").read_text() == "very-secret\n"
    done = program.run("-p", "run: cat short/link")
    assert [outcome for outcome, _ in results(program.journal())] == ["denied"]
    assert "very-secret" not in shown_in(program) + done.out + done.err


@pytest.mark.parametrize("word", ["/proc/self/cwd/../secret", "link/../secret", "/dev/fd/0"])
def test_links_that_lead_each_process_elsewhere_are_not_judged(program, word):
    (program.folder.parent / "secret").write_text("very-secret\n")
    (program.folder / "sub").mkdir()
    (program.folder / "sub" / "secret").write_text("inside")
    (program.folder / "link").symlink_to("/proc/self/cwd")
    workspace, program.folder = program.folder, program.folder / "sub"
    done = program.run("-C", str(workspace), "-p", f"run: cat {word}")
    assert [outcome for outcome, _ in results(program.journal())] == ["denied"]
    assert "very-secret" not in shown_in(program) + done.out + done.err


def test_an_option_in_its_old_form_is_not_taken_for_a_path(program):
    (program.folder / "notes").write_text("harmless\n")
    program.run("-p", "run: tail +1f notes")
    assert [outcome for outcome, _ in results(program.journal())] == ["denied"]
