"""The status line: session, model, context, cost, and above all whether everything is saved."""

from __future__ import annotations

from msgspec import Struct
from prompt_toolkit.utils import get_cwidth

from holdfast.model.sanitize import for_terminal
from holdfast.runtime.protocol.messages import StateChanged

_TITLE_WIDTH = 28
_MODEL_WIDTH = 28
STARTING = "starting …"
_BETWEEN = " · "
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Status(Struct):
    """How things stand, as the runner tells it.

    ``lost`` says why nobody is connected; before the first connection that is no news.
    """

    title: str = ""
    model: str = ""
    state: str = "idle"
    context_tokens: int | None = None
    context_window: int | None = None
    cost_usd: float | None = 0.0
    queue: int = 0
    held: bool = False
    seq: int = -1
    trouble: str | None = None
    lost: str | None = STARTING
    read_only: bool = False
    silent: bool = False
    foreign: bool = False

    def update(self, event: StateChanged) -> None:
        """Take over the runner's state."""
        self.state = event.state
        self.model = event.model or self.model
        self.queue = len(event.queue)
        self.held = event.held
        self.title = event.title or self.title
        self.trouble = event.trouble
        self.foreign = event.foreign
        self.context_tokens = event.context_tokens
        self.context_window = event.context_window
        self.cost_usd = event.cost_usd
        self.seq = max(self.seq, event.seq)

    @property
    def safe(self) -> bool:
        """Whether all that was said is durable."""
        return self.trouble is None and self.lost is None

    def parts(self, columns: int = 80, tick: int = 0) -> list[tuple[str, str]]:
        """Return the line as pairs of a style's name and a text.

        Whether everything is saved is always there; what does not fit before it is left out.
        """
        mark = "foreign" if self.foreign else ""
        left = [mark, _short(self.title, _TITLE_WIDTH), _short(self.model, _MODEL_WIDTH)]
        if self.context_tokens is not None and self.context_window:
            left.append(f"context {round(100 * self.context_tokens / self.context_window)}%")
        left.append("$?" if self.cost_usd is None else f"${self.cost_usd:.4f}")
        if self.queue:
            left.append(f"{self.queue} {'held' if self.held else 'queued'}")
        if self.state == "running":
            left.insert(0, _SPINNER[tick % len(_SPINNER)])
        elif self.state == "waiting":
            left.insert(0, "?")
        saved = self._saved()
        room = columns - get_cwidth(saved[1]) - len(_BETWEEN)
        told = ""
        for part in filter(None, left):
            longer = f"{told}{_BETWEEN}{part}" if told else part
            if get_cwidth(longer) <= room:
                told = longer
        return [("dim", told + _BETWEEN), saved] if told else [saved]

    def _saved(self) -> tuple[str, str]:
        if self.trouble is not None:
            return "warning", f"! NOT SAVED: {for_terminal(self.trouble)}"
        if self.read_only:
            return "dim", f"read-only · seq {max(self.seq, 0)}"
        if self.silent:
            return "warning", "! the runner does not answer"
        if self.lost == STARTING:
            return "dim", STARTING
        if self.lost is not None:
            return "warning", f"! not connected: {for_terminal(self.lost)}"
        return "saved", "saved ✓" + (f" seq {self.seq}" if self.seq >= 0 else "")


def _short(text: str, width: int) -> str:
    text = " ".join(for_terminal(text).split())
    return text if len(text) <= width else f"{text[: width - 1]}…"
