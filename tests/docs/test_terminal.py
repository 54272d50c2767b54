"""What the page on the terminal says about commands, keys and pictures."""

import re

import pytest

from holdfast.tui.chat.commands import COMMANDS
from holdfast.tui.chat.key_bindings import HELP
from holdfast.tui.picker.dialogs import KEYS
from tests.docs.markdown import ROOT, links

PAGE = ROOT / "docs" / "terminal.md"
PICTURES = ("chat", "picker", "recovery", "tree")


def _rows(heading):
    """Return the cells of the table below a heading."""
    text = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    return [
        tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        for line in lines
    ]


def test_the_table_of_commands_has_each_with_its_names_and_what_it_does():
    written = [
        (
            ", ".join(f"`{name}`" for name in (command.name, *command.aliases)),
            command.about,
            f"`{command.headless}`" if command.headless else "–",
        )
        for command in COMMANDS
    ]
    assert _rows("Commands") == written


def test_the_tables_of_keys_are_what_help_shows():
    assert _rows("Keys") == list(HELP)
    assert _rows("Resuming, and the picker") == list(KEYS)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_shown_described_and_load_nothing(name):
    assert f"images/{name}.svg" in links(PAGE)
    picture = (ROOT / "docs" / "images" / f"{name}.svg").read_text("utf-8")
    assert "<title " in picture
    assert "<desc " in picture
    addresses = set(re.findall(r"https?://[^\"' ]+", picture))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.search(r"@import|<image|<script|url\(", picture)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_of_nobodys_machine(name):
    picture = (ROOT / "docs" / "images" / f"{name}.svg").read_text("utf-8")
    assert not re.search(r"/tmp|/root|/work|/var|/private", picture)
