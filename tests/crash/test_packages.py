"""Programs that tests need: found where they are, and looked for again where they were not."""

from __future__ import annotations

import os

import pytest

from tests.crash.lab import packages

NAME = "a-program-of-nobody"
APT = f"""#!/bin/sh
echo "$*" >> "$0.asked"
test -e "$0.fails" && {{ echo 'E: Could not get lock' >&2; exit 100; }}
cp /bin/true "$(dirname "$0")/{NAME}"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of programs, the only one on the path."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(packages, "_said", {})
    return tmp_path


def make(path, text="#!/bin/sh\n"):
    path.write_text(text)
    path.chmod(0o755)


def test_what_was_missing_is_looked_for_again(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not packages.provided(NAME)
    assert packages.why_missing(NAME) == "it may not be installed here"
    make(folder / NAME)
    assert packages.provided(NAME)


def test_a_path_that_a_test_has_changed_hides_nothing(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert packages.provided("sh")


def test_whoever_is_installing_something_is_waited_for(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    make(folder / "apt-get", APT)
    assert packages.provided(NAME, "package")
    (asked,) = (folder / "apt-get.asked").read_text().splitlines()
    assert "DPkg::Lock::Timeout=300" in asked
    assert asked.endswith("install --no-install-recommends package")


def test_an_attempt_that_failed_is_told_and_made_once(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    make(folder / "apt-get", APT)
    (folder / "apt-get.fails").touch()
    assert not packages.provided(NAME, "package")
    assert not packages.provided(NAME, "package")
    assert len((folder / "apt-get.asked").read_text().splitlines()) == 3  # install, update, install
    assert packages.why_missing(NAME) == "apt-get says: E: Could not get lock"
