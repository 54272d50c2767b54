"""Just enough Markdown to check the project's own documents."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|<img[^>]* src=\"([^\"]+)\"")


def documents():
    """Return every document of the project."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return sorted(found)


def blocks(path, language):
    """Return the fenced blocks of a language, each with the number of its first line."""
    text = path.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, found.start(2)) + 1, found[2])
        for found in _FENCE.finditer(text)
        if found[1] == language
    ]


def prose(path):
    """Return a document without its fenced blocks."""
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


def links(path):
    """Return the targets of all links and images."""
    without_code = re.sub(r"`[^`\n]*`", "", prose(path))
    return [first or second for first, second in _LINK.findall(without_code)]


def anchors(path):
    """Return the anchors that headings get."""
    names: list[str] = []
    for heading in _HEADING.findall(prose(path)):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        name = words.replace(" ", "-")
        names.append(f"{name}-{names.count(name)}" if name in names else name)
    return names
