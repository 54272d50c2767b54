import re

from tests.docs.markdown import ROOT


def test_the_module_map_names_every_module_and_no_other():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.partition("## Modules")[2].partition("\n## ")[0]
    named = set()
    for line in table.splitlines():
        folder = ""
        for name in re.findall(r"`([\w/]+\.py)`", line.partition(" | ")[0]):
            folder = name.rpartition("/")[0] or folder
            named.add(f"{folder}/{name.rpartition('/')[2]}".lstrip("/"))
    source = ROOT / "src" / "holdfast"
    there = {str(path.relative_to(source)) for path in source.rglob("*.py")}
    assert named == {name for name in there if not name.endswith("__init__.py")}
