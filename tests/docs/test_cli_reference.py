"""The reference in docs/cli.md is what the commands say of themselves."""

import re
import shutil
import subprocess
import sys

import pytest

from tests.docs.markdown import ROOT

SCRIPT = ROOT / "scripts" / "cli_reference.py"


def run(script, *words):
    return subprocess.run(
        [sys.executable, script, *words], capture_output=True, text=True, check=False
    )


def test_the_page_is_current():
    done = run(SCRIPT, "--check")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def copy(tmp_path):
    for name in ("docs/cli.md", "scripts/cli_reference.py"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_what_is_written_by_hand_stays_and_the_rest_is_written_anew(copy):
    page = copy / "docs" / "cli.md"
    before = page.read_text("utf-8")
    page.write_text(before.replace("### holdfast ls", "### holdfast list"), "utf-8")
    done = run(copy / "scripts" / "cli_reference.py", "--check")
    assert done.returncode == 1
    assert "is not current" in done.stderr
    assert run(copy / "scripts" / "cli_reference.py").returncode == 0
    assert page.read_text("utf-8") == before
    page.write_text("# no place\n", "utf-8")
    assert run(copy / "scripts" / "cli_reference.py").returncode == 1
    assert page.read_text("utf-8") == "# no place\n"


def test_every_command_is_in_it():
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    told = run("-m", "holdfast", "--help").stdout.partition("\nTalk:")[2]
    verbs = set(re.findall(r"^  (\w+)  ", told, re.MULTILINE))
    assert verbs
    assert verbs == set(re.findall(r"^### holdfast (\w+)$", text, re.MULTILINE))
