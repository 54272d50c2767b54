"""What is shown for good: finished blocks as lines for a terminal, coloured if that is wanted.

Everything that models, tools and people wrote passes through ``for_terminal`` here. Libraries that
draw are loaded when the first block is: a prompt must not wait for them.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from io import StringIO
from typing import TYPE_CHECKING, Any

from holdfast.model.sanitize import for_terminal
from holdfast.runtime.protocol.messages import QuestionAsked

if TYPE_CHECKING:
    from rich.console import RenderableType

_LONGEST, _MOST_LINES = 20_000, 400  # nothing moves while more is drawn
_NOT_PARSED = ["image", "reference", "autolink", "entity"]
# Before what a line says: marks and numbers, and the language of code.
_MARKS = re.compile(r"^(?:[ \t>*+-]|\d{1,9}[.)](?=\s))*(?:(?:`{3,}|~{3,})[ \t]*\S*)?", re.MULTILINE)
_MARKDOWN_SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")  # those of our own


def is_short_enough(text: str) -> bool:
    """Tell whether a text can be drawn in a moment."""
    return len(text) <= _LONGEST and text.count("\n") < _MOST_LINES


def document(text: str) -> RenderableType:
    """Return Markdown to draw, with all that was written in it.

    Left to itself, rich shows nothing of what looks like HTML, such as ``<name>``, of where an
    image is, and of links that are defined apart. Entities stay as they are written: what they
    stand for would not have been made harmless.
    """
    from markdown_it import MarkdownIt  # noqa: PLC0415  slow to import, needed late
    from rich.markdown import Markdown  # noqa: PLC0415  as above

    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    document = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    document.parsed = parser.disable(_NOT_PARSED).parse(text)
    return document


def has_all(drawn: str, text: str) -> bool:
    """Tell whether all letters and digits of a text were drawn, but the numbers of lists.

    What is nested too deep is left out, and so are cells that have no column or no room.
    """
    seen = Counter(_MARKDOWN_SEQUENCE.sub("", drawn))
    wanted = Counter(_MARKS.sub("", text))
    cut = seen["…"] > wanted["…"]
    return not cut and all(seen[each] >= wanted[each] for each in wanted if each.isalnum())


if TYPE_CHECKING:
    from rich.console import Console, RenderableType

MOST_OUTPUT_LINES = 6
_MOST_DIFF_LINES = 40
_MOST_SUBJECT = 200
_LONGEST_LINE = 20_000
_MOST_FOLDED_ROWS = 2
_UNFOLDS = " (Ctrl+O)"
_THEME = {"markdown.code": "cyan", "markdown.code_block": "cyan"}  # not on black: some have white
_PERHAPS_UNSEEN = re.compile("[\x00-\x09\x0b-\x1f]|[^\x20-\x7e\n]")
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}  # categories of characters
_BLANK_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
_LONGEST_ASKED = 50_000
_SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")  # those of our own


class Renderer:
    """Makes lines of text, each block ended by a line feed."""

    def __init__(self, width: int, *, colour: bool) -> None:
        self.width = width
        self._colour = colour
        self._console: Console | None = None

    def markdown(self, text: str) -> str:
        """Return a block of Markdown; as it was written where drawing it would leave out any."""
        text = for_terminal(text).strip("\n")
        if not text.strip():
            return ""
        if is_short_enough(text):
            drawn = self._drawn(document(text))
            if has_all(drawn, text):
                return drawn
        return f"{text}\n"

    def prompt(self, text: str, attached: list[str]) -> str:
        """Return what a user said."""
        lines = for_terminal(text).rstrip("\n").split("\n")
        lines += [f"[{for_terminal(name)}]" for name in attached]
        return self.styled("\n".join(f"> {line}" for line in lines), "bold")

    def call(self, name: str, arguments: Any) -> str:
        """Return the line of a call."""
        line = f"● {for_terminal(name)} {subject(arguments)}".rstrip()
        return self.styled(line, "cyan")

    def output(self, text: str, outcome: str, *, folded: bool = True) -> str:
        """Return what a tool wrote, folded to its last lines."""
        lines = for_terminal(text).rstrip("\n").split("\n")
        if lines == [""]:
            lines = []
        hidden = max(len(lines) - MOST_OUTPUT_LINES, 0) if folded else 0
        cut = self._in_few_rows if folded else _cut
        shown = [f"  │ {cut(line)}" for line in lines[hidden:]]
        if hidden:
            shown.insert(0, f"  │ … {hidden} more lines{_UNFOLDS}")
        if outcome != "completed":
            shown.append(f"  ╰ {for_terminal(outcome)}")
        return self.styled("\n".join(shown), "dim") if shown else ""

    def _in_few_rows(self, line: str) -> str:
        """Return a line, of a long one the beginning, and how much was left out."""
        room = max(self.width - 4, 1)
        rows = wrapped(line[: (_MOST_FOLDED_ROWS + 1) * room], room)
        if len(rows) <= _MOST_FOLDED_ROWS:
            return line
        kept = sum(map(len, rows[:_MOST_FOLDED_ROWS])) - len(_left_out(len(line), _UNFOLDS))
        return _cut(line, max(kept, 1), _UNFOLDS)

    def thought(self, text: str, *, folded: bool = True) -> str:
        """Return what a model thought: one line, unless it is unfolded."""
        if folded:
            words = len(text.split())
            return self.styled(f"✻ thought · {words} words (Ctrl+O)", "dim italic")
        return self.styled(f"✻ {for_terminal(text).strip()}", "dim italic")

    def change(self, path: str, before: bytes | None, after: bytes) -> str:
        """Return what became of a file, as a diff."""
        old, new = (_lines(data or b"") for data in (before, after))
        if old is None or new is None:
            return self.styled(f"  {for_terminal(path)}: not text", "dim")
        diff = list(difflib.unified_diff(old, new, n=2, lineterm=""))[2:]
        added = sum(line.startswith("+") for line in diff)
        removed = sum(line.startswith("-") for line in diff)
        told = "new" if before is None else f"+{added} -{removed}"
        shown = [self.styled(f"  {for_terminal(path)}  {told}", "dim")]
        styles = {"+": "green", "-": "red", "@": "dim"}
        for line in diff[:_MOST_DIFF_LINES]:
            text = f"  {_cut(for_terminal(line))}"
            shown.append(self.styled(text, styles.get(line[:1], "")))
        if len(diff) > _MOST_DIFF_LINES:
            shown.append(self.styled(f"  … {len(diff) - _MOST_DIFF_LINES} more lines", "dim"))
        return "".join(shown)

    def note(self, text: str) -> str:
        """Return a line of our own."""
        return self.styled(f"· {for_terminal(text)}", "dim")

    def warning(self, text: str) -> str:
        """Return a line that must not be overlooked."""
        return self.styled(f"! {for_terminal(text)}", "bold yellow")

    def styled(self, text: str, style: str) -> str:
        """Return text of ours, or text made harmless, in a style; ended by a line feed."""
        if not self._colour or not style:
            return f"{text}\n"
        return f"\x1b[{_codes(style)}m{text}\x1b[0m\n"

    def panel(self, title: str, lines: list[str]) -> str:
        """Return some lines with a line beside them, so that they are seen as one thing."""
        shown = [f"╭ {for_terminal(title)}", *(f"│ {for_terminal(line)}" for line in lines), "╰"]
        return self.styled("\n".join(shown), "yellow")

    def drawn(self, renderable: RenderableType) -> str:
        """Return anything that rich can draw; its text must be harmless already."""
        return self._drawn(renderable)

    def _drawn(self, renderable: RenderableType) -> str:
        from rich.console import Console  # noqa: PLC0415  slow to import, needed late
        from rich.theme import Theme  # noqa: PLC0415  as above

        if self._console is None:
            self._console = Console(
                file=StringIO(),
                width=self.width,
                force_terminal=self._colour,
                color_system="256" if self._colour else None,
                no_color=not self._colour,
                highlight=False,
                legacy_windows=False,
                emoji=False,
                theme=Theme(_THEME),
            )
        out = self._console.file = StringIO()
        self._console.print(renderable)
        lines = [line.rstrip() for line in out.getvalue().split("\n")]
        while lines and not _SEQUENCE.sub("", lines[0]).strip():
            lines.pop(0)
        while lines and not _SEQUENCE.sub("", lines[-1]).strip():
            lines.pop()
        return "".join(f"{line}\n" for line in lines)


_STYLES = {"bold": 1, "dim": 2, "italic": 3, "red": 31, "green": 32, "yellow": 33, "cyan": 36}


def _codes(style: str) -> str:
    return ";".join(str(_STYLES[word]) for word in style.split())


def subject(arguments: Any) -> str:
    """Return what a call is about, on one line: the first of its arguments, mostly."""
    if not isinstance(arguments, dict):
        return ""
    line = " ".join(" ".join(str(value) for value in arguments.values())[:2000].split())
    return for_terminal(line if len(line) <= _MOST_SUBJECT else f"{line[:_MOST_SUBJECT]}…")


def exactly(text: str) -> str:
    """Return text with all that is not seen spelled out: nothing that is decided on may hide."""
    return _PERHAPS_UNSEEN.sub(lambda found: _seen(found[0]), text)


def _seen(character: str) -> str:
    if unicodedata.category(character) not in _UNSEEN and character not in _BLANK_LETTERS:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def question_of(asked: QuestionAsked) -> str:
    """Return what is asked before a call, exactly: also what would be written, not only where."""
    text = f"? {exactly(asked.tool)} wants: {exactly(asked.subject)}"
    match asked.tool, asked.arguments:
        case "write", {"content": str(content)}:
            return f"{text}\n{_marked('+', content)}"
        case "edit", {"old": str(old), "new": str(new), **others}:
            everywhere = "\n(everywhere in it)" if others.get("replace_all") else ""
            return f"{text}\n{_marked('-', old)}\n{_marked('+', new)}{everywhere}"
    return text


def _marked(mark: str, text: str) -> str:
    """Return lines behind a mark, tabs as arrows; of a very long text both ends."""
    if (hidden := len(text) - _LONGEST_ASKED) > 0:
        half = _LONGEST_ASKED // 2
        text = f"{text[:half]}\n{_left_out(hidden).strip()} …\n{text[-half:]}"
    lines = exactly(text.removesuffix("\n").replace("\t", "⇥   ")).split("\n")
    return "\n".join(f"{mark} {line}" for line in lines)


def _cut(line: str, longest: int = _LONGEST_LINE, how_to_see: str = "") -> str:
    """Return a line, of one that is too long the beginning and how much was left out."""
    if len(line) <= longest:
        return line
    return line[:longest] + _left_out(len(line) - longest, how_to_see)


def _left_out(characters: int, how_to_see: str = "") -> str:
    return f" … {characters:,} more characters{how_to_see}"


def wrapped(line: str, columns: int) -> list[str]:
    """Return the rows that a line takes on a screen."""
    from prompt_toolkit.utils import get_cwidth  # noqa: PLC0415  not everybody draws

    rows, used, begin = [], 0, 0
    for index, character in enumerate(line):
        width = get_cwidth(character)
        if used + width > columns and index > begin:
            rows.append(line[begin:index])
            begin, used = index, 0
        used += width
    return [*rows, line[begin:]]


def _lines(data: bytes) -> list[str] | None:
    try:
        return data.decode().splitlines()
    except UnicodeDecodeError:
        return None
