import tomllib
from pathlib import Path

import holdfast


def test_the_version_in_the_code_is_the_version_of_the_package():
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    assert holdfast.__version__ == project["version"]
