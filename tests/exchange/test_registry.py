"""Which importers there are: built in, and registered by other packages."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.exchange import importers
from holdfast.exchange import plugins as registry
from holdfast.exchange.importing.source_files import SourceReader


class Invented:
    """An importer of another package."""

    name = "invented"
    title = "Invented"

    def found(self, home, environment):
        return [home / "invented", home / "nowhere"]

    def sniff(self, path, reading):
        return path.name == "mine.txt"

    def sessions(self, path, reading):
        return iter([])

    def read(self, source, reading):
        return iter([])


class FakePoint:
    """An entry point."""

    def __init__(self, name, made):
        self.name = name
        self.value = f"package:{name}"
        self._made = made

    def load(self):
        if self._made is None:
            raise ImportError("no module of that name")
        return self._made


@pytest.fixture
def registered(monkeypatch):
    points = [
        FakePoint("invented", Invented),
        FakePoint("broken", None),
        FakePoint("codex", Invented),
    ]

    def entry_points(*, group):
        assert group == "holdfast.importers"
        return points

    monkeypatch.setattr(registry, "entry_points", entry_points)


def test_built_in_importers_load_one_by_one():
    for name in importers.BUILT_IN:
        assert importers.importer(name).name == name


def test_a_registered_importer_is_one_of_them(registered):
    assert importers.names() == [*importers.BUILT_IN, "broken", "invented"]
    assert importers.importer("invented").title == "Invented"


def test_a_built_in_name_cannot_be_taken(registered):
    assert importers.importer("codex").title == "Codex"


def test_one_that_cannot_be_loaded_keeps_nobody_from_the_others(registered, tmp_path, caplog):
    (tmp_path / "invented").mkdir()
    (tmp_path / "mine.txt").write_text("")
    assert [one.name for one, _ in importers.installed(tmp_path, {})] == ["invented"]
    found = importers.recognised(tmp_path / "mine.txt", SourceReader())
    assert found is not None
    assert found.name == "invented"
    assert "cannot be loaded" in caplog.text


def test_one_that_cannot_be_loaded_says_so(registered):
    with pytest.raises(holdfast.UsageError, match=r"'broken' .* cannot be loaded"):
        importers.importer("broken")


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(holdfast.UsageError, match="Did you mean codex"):
        importers.importer("codx")


def test_what_is_installed_is_what_is_there(tmp_path):
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "sessions").mkdir(parents=True)
    found = importers.installed(tmp_path, {"CODEX_HOME": str(elsewhere)})
    assert [(one.name, place) for one, place in found] == [
        ("claude-code", tmp_path / ".claude" / "projects"),
        ("codex", elsewhere / "sessions"),
    ]


def test_what_nobody_knows_is_recognised_as_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    assert importers.recognised(tmp_path / "a.txt", SourceReader()) is None
    assert importers.recognised(Path("/nowhere/at/all"), SourceReader()) is None
