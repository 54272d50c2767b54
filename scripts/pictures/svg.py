"""A screen, as tmux tells it, drawn as SVG: text stays text, and nothing is loaded from elsewhere.

Colours have names there, so that a picture follows the reader's light or dark theme. Every run of
cells has its own place and length: columns stand where they stood, whatever font is there.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterator

_CELL_WIDTH, _CELL_HEIGHT, _MARGIN, _BASELINE = 8.4, 18, 14, 13
_SEQUENCE = re.compile(r"\x1b\[([0-9;:]*)m")
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_LIGHT = ("1f2328", "cf222e", "116329", "7d4e00", "0550ae", "8250df", "1b7c83", "6e7781")
_LIGHT_BRIGHT = ("57606a", "a40e26", "1a7f37", "633c01", "0969da", "a475f9", "3192aa", "8c959f")
_DARK = ("484f58", "ff7b72", "3fb950", "d29922", "58a6ff", "bc8cff", "39c5cf", "b1bac4")
_DARK_BRIGHT = ("8b949e", "ffa198", "56d364", "e3b341", "79c0ff", "d2a8ff", "56d4dd", "f0f6fc")
_STEPS = (0, 95, 135, 175, 215, 255)


@dataclass(frozen=True)
class Screen:
    """What a terminal shows: lines with their sequences, and where the cursor is, if it is."""

    lines: list[str]
    columns: int
    cursor: tuple[int, int] | None = None


@dataclass(frozen=True)
class _Look:
    """How a cell looks; a colour is a name of ours or a number of six digits."""

    ink: str = ""
    ground: str = ""
    words: frozenset[str] = frozenset()

    def coloured(self, colour: str, *, ground: bool) -> _Look:
        """Return the same in another colour."""
        return replace(self, ground=colour) if ground else replace(self, ink=colour)


@dataclass(frozen=True)
class _Cell:
    text: str
    column: int
    width: int
    look: _Look


def drawn(screen: Screen, title: str, description: str) -> str:
    """Return a screen as an SVG document."""
    rows = list(_rows(screen.lines))
    while rows and not any(cell.text.strip() or cell.look.ground for cell in rows[-1]):
        rows.pop()
    width = round(screen.columns * _CELL_WIDTH + 2 * _MARGIN)
    height = len(rows) * _CELL_HEIGHT + 2 * _MARGIN
    parts = [
        _opening(width, height),
        f'  <title id="title">{escape(title)}</title>',
        f'  <desc id="description">{escape(description)}</desc>',
        _style(),
        f'  <rect class="ground" x="0.5" y="0.5" rx="10"{_size(width - 1, height - 1)}/>',
    ]
    for number, row in enumerate(rows):
        parts += _row(row, number)
    if screen.cursor is not None and screen.cursor[1] < len(rows):
        column, row_number = screen.cursor
        parts.append(f'  <rect class="cursor"{_place(column, row_number, 1)}/>')
    return "\n".join([*parts, "</svg>", ""])


def _opening(width: int, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f'{_size(width, height)} role="img" aria-labelledby="title description"'
        " font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono',"
        ' monospace" font-size="14">'
    )


def _size(width: int, height: int) -> str:
    return f' width="{width}" height="{height}"'


def _style() -> str:
    def rules(normal: tuple[str, ...], bright: tuple[str, ...], text: str, ground: str) -> str:
        colours = dict(zip(_NAMES, normal, strict=True))
        colours |= {f"bright-{name}": each for name, each in zip(_NAMES, bright, strict=True)}
        lines = [f".{name} {{ fill: #{each}; }}" for name, each in colours.items()]
        lines += [f"text {{ fill: #{text}; }}", f".ink {{ fill: #{text}; }}"]
        lines += [
            f".ground {{ fill: #{ground}; stroke: #8b949e; }}",
            f".paper {{ fill: #{ground}; }}",
        ]
        return "\n".join(f"      {line}" for line in sorted(lines, key=lambda line: line[0] == "."))

    light = rules(_LIGHT, _LIGHT_BRIGHT, "1f2328", "ffffff")
    dark = rules(_DARK, _DARK_BRIGHT, "e6edf3", "0d1117")
    return (
        f"  <style>\n    text {{ white-space: pre; }}\n{light}\n"
        "      .bold { font-weight: 600; }\n      .italic { font-style: italic; }\n"
        "      .underlined { text-decoration: underline; }\n      .dim { opacity: 0.65; }\n"
        "      .cursor { fill: none; stroke: #8b949e; }\n"
        f"    @media (prefers-color-scheme: dark) {{\n{dark}\n    }}\n  </style>"
    )


def _row(row: list[_Cell], number: int) -> Iterator[str]:
    for ground, cells in groupby(row, key=lambda cell: cell.look.ground):
        run = list(cells)
        if ground:
            width = run[-1].column + run[-1].width - run[0].column
            yield f"  <rect{_colour(ground)}{_place(run[0].column, number, width)}/>"
    for (look, _), cells in groupby(row, key=lambda cell: (cell.look, _kind(cell))):
        run = list(cells)
        text = "".join(cell.text for cell in run)
        if text.strip():
            yield _text(text, run, look, number)


def _kind(cell: _Cell) -> object:
    """Tell apart what may come from different fonts, and words with wide gaps between them."""
    return cell.text if not cell.text.isascii() else cell.text == " "


def _text(text: str, run: list[_Cell], look: _Look, number: int) -> str:
    width = run[-1].column + run[-1].width - run[0].column
    x = _MARGIN + run[0].column * _CELL_WIDTH
    y = _MARGIN + number * _CELL_HEIGHT + _BASELINE
    names = sorted(look.words)
    if look.ink and not look.ink[0].isdigit():
        names.append(look.ink)
    colour = f' style="fill: #{look.ink[1:]}"' if look.ink[:1] == "0" else ""
    classes = f" class={quoteattr(' '.join(names))}" if names else ""
    return (
        f'  <text x="{x:.1f}" y="{y}" textLength="{width * _CELL_WIDTH:.1f}"'
        f' lengthAdjust="spacingAndGlyphs"{classes}{colour}>{escape(text)}</text>'
    )


def _place(column: int, row: int, width: int) -> str:
    x = _MARGIN + column * _CELL_WIDTH
    y = _MARGIN + row * _CELL_HEIGHT
    return f' x="{x:.1f}" y="{y}" width="{width * _CELL_WIDTH:.1f}" height="{_CELL_HEIGHT}"'


def _colour(name: str) -> str:
    return f' fill="#{name[1:]}"' if name[0] == "0" else f' class="{name}"'


# What tmux tells


def _rows(lines: list[str]) -> Iterator[list[_Cell]]:
    look = _Look()
    for line in lines:
        cells: list[_Cell] = []
        column = position = 0
        for found in [*_SEQUENCE.finditer(line), None]:
            end = len(line) if found is None else found.start()
            for character in line[position:end]:
                width = _width(character)
                if width == 0 and cells:
                    cells[-1] = replace(cells[-1], text=cells[-1].text + character)
                else:
                    cells.append(_Cell(character, column, width, _shown(look)))
                    column += width
            if found is not None:
                look = _changed(look, found[1])
                position = found.end()
        yield cells


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _shown(look: _Look) -> _Look:
    """Return how a cell looks once what is reversed is."""
    if "reversed" not in look.words:
        return look
    words = look.words - {"reversed"}
    return _Look(look.ground or "paper", look.ink or "ink", words)


_WORDS = {1: "bold", 2: "dim", 3: "italic", 4: "underlined", 7: "reversed"}
_ENDS = {22: {"bold", "dim"}, 23: {"italic"}, 24: {"underlined"}, 27: {"reversed"}}


def _changed(look: _Look, codes: str) -> _Look:
    numbers = [int(each or 0) for each in re.split("[;:]", codes)]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            look = _Look()
        elif code in _WORDS:
            look = replace(look, words=look.words | {_WORDS[code]})
        elif code in _ENDS:
            look = replace(look, words=look.words - _ENDS[code])
        elif code in (38, 48):
            look = look.coloured(_of_many(numbers), ground=code == 48)
        elif code in (39, 49):
            look = look.coloured("", ground=code == 49)
        else:
            look = _named(look, code)
    return look


def _named(look: _Look, code: int) -> _Look:
    for first, prefix in ((30, ""), (40, ""), (90, "bright-"), (100, "bright-")):
        if first <= code < first + len(_NAMES):
            return look.coloured(prefix + _NAMES[code - first], ground=first in (40, 100))
    return look


def _of_many(numbers: list[int]) -> str:
    """Return one of 256 or of all colours; those of the table beyond 16 as a number after ``0``."""
    if numbers.pop(0) == 2:
        red, green, blue = (numbers.pop(0) for _ in range(3))
        return f"0{red:02x}{green:02x}{blue:02x}"
    number = numbers.pop(0)
    if number < 16:
        return ("" if number < 8 else "bright-") + _NAMES[number % 8]
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return f"0{grey:02x}{grey:02x}{grey:02x}"
    number -= 16
    red, green, blue = (_STEPS[number // step % 6] for step in (36, 6, 1))
    return f"0{red:02x}{green:02x}{blue:02x}"
