"""Setting up: what each stage installs, and that nothing is installed twice."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_PIN = re.compile(
    r"^([a-z0-9-]+)==([^ ]+)((?: ;[^\\\n]*)?)((?: \\\n    --hash=\S+)+)$", re.MULTILINE
)

# Stands in for the interpreter: records what it is asked to install, and builds an "environment"
# with itself in it. Everything else is done by the real interpreter.
_FAKE_PYTHON = """
import json, os, shutil, sys
fake, log, *words = sys.argv[1:]
if words[:1] == ["-m"]:
    with open(log, "a") as file:
        file.write(json.dumps(words) + "\\n")
    if words[1] == "venv":
        shutil.rmtree(".venv", ignore_errors=True)
        os.makedirs(".venv/bin")
        shutil.copy(fake, ".venv/bin/python")
    sys.exit(1 if words[1] == "pip" and os.environ.get("PIP_FAILS") else 0)
if words[:1] == ["-c"] and "_base_executable" in words[1]:
    print(fake)
    sys.exit()
os.execv(sys.executable, [sys.executable, *words])
"""


def pins(name):
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    return {found[1]: found[2] for found in _PIN.finditer(text)}


@pytest.mark.parametrize("name", ["run", "dev"])
def test_every_requirement_has_a_version_and_hashes_and_no_address(name):
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    named = re.findall(r"^[a-z0-9][a-z0-9-]*", text, re.MULTILINE)
    assert sorted(pins(name)) == sorted(named)
    assert "://" not in text
    assert "index-url" not in text


def test_dev_holds_everything_that_run_holds_in_the_same_version():
    assert pins("run").items() <= pins("dev").items()


def test_run_holds_what_the_program_declares_and_no_tool_of_the_checks():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]

    def names(requirements):
        return {re.split(r"[^\w-]", each)[0].replace("_", "-") for each in requirements}

    running = names(project["project"]["dependencies"]) | names(extras["agent"])
    installing = names(project["build-system"]["requires"]) | {"editables"}
    assert running | installing <= pins("run").keys()
    checking = names(extras["dev"]) - running - installing
    assert {"mypy", "pytest", "hypothesis"} <= checking
    assert not checking & pins("run").keys()


class Checkout:
    """A folder with what ``scripts/setup`` reads, and an interpreter that installs nothing."""

    def __init__(self, folder):
        self.folder = folder / "a folder with spaces"
        for name in ("scripts", "requirements"):
            shutil.copytree(ROOT / name, self.folder / name)
        shutil.copy(ROOT / "pyproject.toml", self.folder)
        self._log = folder / "log"
        self._python = folder / "python"
        script = folder / "fake.py"
        script.write_text(_FAKE_PYTHON)
        words = [sys.executable, str(script), str(self._python), str(self._log)]
        self._python.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        self._python.chmod(0o755)

    def setup(self, *stage, pip_fails=False, code=0):
        """Run it; return what was done, in order: ``venv``, a requirements file, or ``.``."""
        self._log.write_text("")
        environment = {**os.environ, "PYTHON": str(self._python)}
        if pip_fails:
            environment["PIP_FAILS"] = "1"
        done = subprocess.run(
            ["sh", self.folder / "scripts" / "setup", *stage],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        calls = [json.loads(line) for line in self._log.read_text().splitlines()]
        return ["venv" if words[1] == "venv" else words[-1] for words in calls]

    def change(self, name):
        """Change a file that the set-up reads."""
        path = self.folder / name
        path.write_text(path.read_text() + "# changed\n")


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


RUN = "requirements/run.txt"
DEV = "requirements/dev.txt"


def test_running_needs_only_its_own_requirements(checkout):
    assert checkout.setup("run") == ["venv", RUN, "."]
    assert checkout.setup("run") == []


def test_the_checks_are_added_to_what_running_needs(checkout):
    checkout.setup("run")
    assert checkout.setup("dev") == [DEV]
    assert checkout.setup("run") == []
    assert checkout.setup("dev") == []
    assert checkout.setup() == []


def test_dev_alone_is_enough_for_running(checkout):
    assert checkout.setup() == ["venv", DEV, "."]
    assert checkout.setup("run") == []


def test_new_pins_of_the_checks_rebuild_for_the_checks_alone(checkout):
    checkout.setup("dev")
    checkout.change(DEV)
    assert checkout.setup("run") == []
    assert checkout.setup("dev") == ["venv", DEV, "."]


def test_an_old_dev_stage_is_remembered_when_running_updates_the_package(checkout):
    checkout.setup("dev")
    checkout.change(DEV)
    checkout.change("pyproject.toml")
    assert checkout.setup("run") == ["."]
    assert checkout.setup("dev") == ["venv", DEV, "."]


def test_new_pins_for_running_rebuild_once_for_each_stage(checkout):
    checkout.setup("dev")
    checkout.change(RUN)
    assert checkout.setup("run") == ["venv", RUN, "."]
    assert checkout.setup("dev") == [DEV]
    assert checkout.setup("run") == []


def test_a_new_description_installs_only_the_package(checkout):
    checkout.setup("dev")
    checkout.change("pyproject.toml")
    assert checkout.setup("dev") == ["."]
    assert checkout.setup("run") == []


@pytest.mark.parametrize("stage", ["run", "dev"])
def test_a_set_up_that_failed_starts_again(checkout, stage):
    checkout.setup("run")
    checkout.change(RUN)
    assert checkout.setup(stage, pip_fails=True, code=1)[0] == "venv"
    assert checkout.setup(stage) == ["venv", f"requirements/{stage}.txt", "."]


def test_a_moved_folder_is_set_up_again(checkout):
    checkout.setup("run")
    checkout.folder = checkout.folder.rename(checkout.folder.with_name("moved"))
    assert checkout.setup("run") == ["venv", RUN, "."]


def test_an_unknown_stage_is_rejected(checkout):
    assert checkout.setup("test", code=1) == []


def test_what_to_try_next_names_commands_of_the_environment():
    done = subprocess.run(
        ["sh", ROOT / "scripts" / "next_steps"], capture_output=True, text=True, check=True
    )
    commands = re.findall(r"^  (\S+)", done.stdout, re.MULTILINE)
    assert commands == [".venv/bin/holdfast"] * 3
