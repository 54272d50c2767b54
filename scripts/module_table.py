"""Writes the module table of ``ARCHITECTURE.md`` from the docstrings of the modules.

python scripts/module_table.py           write it
python scripts/module_table.py --check   exit 1 if it is not current
"""  # noqa: INP001  a script, never installed

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
SOURCE = ROOT / "src" / "holdfast"
BEGIN = "<!-- from here on written by scripts/module_table.py -->\n"
END = "<!-- to here -->\n"


def table() -> Iterator[str]:
    """Yield the lines of the table: each folder with what it is for, then its modules."""
    yield from ("| module in `src/holdfast/` | what it owns |", "|---|---|")
    folders = sorted({path.parent for path in SOURCE.rglob("*.py")}, key=_in_order)
    for folder in folders:
        name = folder.relative_to(SOURCE).as_posix()
        if name != ".":
            yield f"| **`{name}/`** | **{_summary(folder / '__init__.py')}** |"
        for path in sorted(folder.glob("*.py")):
            if path.name != "__init__.py":
                yield f"| `{path.relative_to(SOURCE).as_posix()}` | {_summary(path)} |"


def _in_order(folder: Path) -> tuple[int, str]:
    order = "errors model journal store exchange runtime keeper drill server adapters tui cli"
    name = folder.relative_to(SOURCE).as_posix()
    first = name.partition("/")[0]
    return (order.split().index(first) if first in order.split() else -1, name)


def _summary(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence = paragraph.partition(". ")[0].rstrip(".")
    return sentence.replace("``", "`").replace("|", "\\|")


def page(text: str) -> str:
    """Return the page with the current table."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE} has no place for the table: two comments mark it.")
    return f"{before}{BEGIN}\n" + "\n".join(table()) + f"\n\n{END}{after}"


def main() -> None:
    """Write the page, or check it."""
    text = PAGE.read_text(encoding="utf-8")
    current = page(text)
    if "--check" in sys.argv[1:]:
        if text != current:
            sys.exit("ARCHITECTURE.md is not current: run python scripts/module_table.py")
    elif text != current:
        PAGE.write_text(current, encoding="utf-8")


if __name__ == "__main__":
    main()
