"""What the page on configuration says about each setting."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from holdfast.runtime.config.load import load
from holdfast.runtime.config.settings import KEYS, Settings
from tests.docs.markdown import ROOT, blocks

PAGE = ROOT / "docs" / "configuration.md"
_ROW = re.compile(r"^\| `(\w+)` \| .* \| (?:`(.*)`|–) \| (.*) \|$", re.MULTILINE)
_WHO = {
    "yes": "any",
    "if trusted": "trusted",
    "stricter; wider if trusted": "stricter",
    "no": "user",
}


def test_the_table_has_every_setting_its_default_and_who_may_set_it():
    text = PAGE.read_text("utf-8").partition("## Settings")[2].partition("\n## ")[0]
    rows = {name: (default, who) for name, default, who in _ROW.findall(text)}
    plain = json.loads(msgspec.json.encode(Settings()))
    assert list(rows) == list(KEYS)
    for name, (default, who) in rows.items():
        assert json.loads(default or "null") == plain[name], name
        assert _WHO[who] == KEYS[name].who, name


@pytest.mark.parametrize(("line", "example"), blocks(PAGE, "toml"))
def test_examples_can_be_loaded(line, example, tmp_path):
    (tmp_path / "config.toml").write_text(example)
    environment = {"HOLDFAST_CONFIG": str(tmp_path), "HOME": str(tmp_path)}
    found = load(Path(tmp_path), environment=environment, home=tmp_path / "home")
    assert found.settings != Settings(), line
