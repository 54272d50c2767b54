"""The module table in ARCHITECTURE.md is what the modules say of themselves."""

import ast
import subprocess
import sys

import pytest

from tests.docs.markdown import ROOT

SOURCE = ROOT / "src" / "holdfast"


def test_the_module_table_is_current():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "module_table.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_it_owns(path):
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))
