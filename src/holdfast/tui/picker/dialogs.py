"""The small windows of a picker: a line to type, a question, a preview, the keys."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from holdfast.tui.picker.preview import Passage

KEYS = (
    ("type", "search titles, tags and texts (all words)"),
    ("Enter", "resume; attach to a running session"),
    ("Ctrl+F", "fork: continue in a copy"),
    ("Ctrl+O", "open read-only"),
    ("Space, F3", "preview (Space: if nothing is typed, or after moving)"),
    ("Tab", "show this folder, this project, or all"),
    ("Ctrl+A", "all sessions, and back"),
    ("Ctrl+S", "sort: updated, started, cost, messages, title"),
    ("Ctrl+R", "rename"),
    ("Ctrl+T", "tag"),
    ("Ctrl+D", "delete: move to the trash"),
    ("Ctrl+Z", "restore the last deleted session"),
    ("↑ ↓ PgUp PgDn", "move; Ctrl+Home, Ctrl+End: first, last"),
    ("Ctrl+↑ Ctrl+↓", "scroll the preview"),
    ("F5", "reload"),
    ("Esc", "exit"),
)
_STYLES = {
    "title": Style(bold=True),
    "fact": Style(dim=True),
    "problem": Style(color="red"),
    "found": Style(color="yellow"),
    "user": Style(bold=True),
    "tool": Style(color="cyan"),
    "note": Style(dim=True),
}
_MARKS = {"user": "> ", "tool": "· ", "note": "  "}
_DIALOG = """
    {0} {{ align: center middle; }}
    {0} > Vertical {{
        width: 76; max-width: 100%; height: auto; max-height: 100%;
        padding: 0 1; border: round ansi_default; background: ansi_default;
    }}
    {0} Input > .input--cursor {{
        text-style: reverse; color: ansi_default; background: ansi_default;
    }}
    {0} .keys {{ text-style: dim; margin-top: 1; }}
"""


def passages_text(passages: list[Passage]) -> Text:
    """Return a preview as it is shown."""
    text = Text()
    before = ""
    for passage in passages:
        if text and not (passage.kind == before == "fact") and before != "title":
            text.append("\n")
        mark = _MARKS.get(passage.kind, "")
        said = passage.text.replace("\n", "\n" + " " * len(mark))
        text.append(f"{mark}{said}\n", _STYLES.get(passage.kind, Style.null()))
        before = passage.kind
    return text


class InputDialog(ModalScreen[str | None]):
    """Asks for a line of text; ``None`` if there is to be no change."""

    DEFAULT_CSS = _DIALOG.format("InputDialog")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "dismiss(None)", show=False)]

    def __init__(self, what: str, value: str, keys: str) -> None:
        super().__init__()
        self._what = what
        self._value = value
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Make the window."""
        with Vertical():
            yield Static(self._what, markup=False)
            yield Input(self._value, select_on_focus=False, compact=True)
            yield Static(self._keys, markup=False, classes="keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Be done."""
        self.dismiss(event.value)


class Confirmation(ModalScreen[bool]):
    """Asks for a yes; everything else is a no."""

    DEFAULT_CSS = _DIALOG.format("Confirmation")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,ctrl+d", "dismiss(True)", show=False),
        Binding("n,enter,escape,ctrl+c", "dismiss(False)", show=False),
    ]

    def __init__(self, what: str, keys: str) -> None:
        super().__init__()
        self._what = what
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Make the window."""
        with Vertical():
            yield Static(self._what, markup=False)
            yield Static(self._keys, markup=False, classes="keys")


class KeysDialog(ModalScreen[None]):
    """Says which key does what."""

    DEFAULT_CSS = _DIALOG.format("KeysDialog")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,space,question_mark,f1,q,ctrl+c", "dismiss(None)", show=False)
    ]

    def compose(self) -> ComposeResult:
        """Make the window."""
        text = Text("\n").join(
            Text.assemble((f"{key:14}", Style(bold=True)), what) for key, what in KEYS
        )
        with Vertical():
            yield Static(text)
            yield Static("Esc: back", markup=False, classes="keys")


class PreviewDialog(ModalScreen[bool]):
    """A preview on the whole screen; true if the session is to be resumed."""

    DEFAULT_CSS = """
    PreviewDialog > VerticalScroll { background: ansi_default; scrollbar-size-vertical: 1;
        scrollbar-color: ansi_bright_black; scrollbar-background: ansi_default; padding: 0 1; }
    PreviewDialog > .keys { height: 1; text-style: dim; background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,space,f3,q,ctrl+c", "dismiss(False)", show=False, priority=True),
        Binding("enter", "dismiss(True)", show=False, priority=True),
    ]

    def __init__(self, passages: list[Passage]) -> None:
        super().__init__()
        self._text = Static(passages_text(passages), markup=False)

    def compose(self) -> ComposeResult:
        """Make the screen."""
        with VerticalScroll():
            yield self._text
        yield Static("↑ ↓ move   Enter resume   Space back", markup=False, classes="keys")

    def show(self, passages: list[Passage]) -> None:
        """Show what has been read; that may be before the screen is made."""
        self._text.update(passages_text(passages))
