"""The example of the library: it must work anywhere, and its verdict must be able to say no."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_is_lost_in_a_folder_with_spaces_and_without_a_home(tmp_path):
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    script = shutil.copy(DEMO, folder)
    environment = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill -9" in done.stdout
    assert "a partial answer was saved" in done.stdout
    assert "torn record" in done.stdout
    assert done.stdout.rstrip().endswith("Nothing was lost.")
    assert "\033[" not in done.stdout
    assert not done.stderr
    assert [path.name for path in folder.iterdir()] == ["demo.py"]


@pytest.mark.parametrize(
    ("acknowledged", "seen", "lost"),
    [
        (["a", "b"], "The log", []),
        (["a", "b", "c"], "The log", [0]),
        (["b", "a"], "The log", [0]),
        (["a", "b"], "The log shows that", [1]),
    ],
    ids=["all there", "a message is missing", "out of order", "shown text is missing"],
)
def test_the_comparison_notices_what_is_lost(demo, tmp_path, acknowledged, seen, lost):
    with holdfast.open_store(tmp_path).create() as session:
        session.append([holdfast.user("a"), holdfast.user("b")])
        session.append(holdfast.assistant("The log shows", stop="interrupted"))
        checks = demo.compare([{"text": text} for text in acknowledged], seen, session)
    assert [number for number, (_, good) in enumerate(checks) if not good] == lost


@pytest.mark.parametrize(("good", "code"), [(True, 0), (False, 1)])
def test_the_exit_code_is_the_verdict(demo, capsys, good, code):
    assert demo.conclude([("one thing", True), ("another", good)]) == code
    assert ("Nothing was lost." in capsys.readouterr().out) is good
