"""Text that others wrote, in the words of a screen."""

from __future__ import annotations

from holdfast.model.terminal import for_terminal

__all__ = ["for_terminal", "on_one_line"]


def on_one_line(text: str, longest: int = 80) -> str:
    """Return the beginning of a text in quotes, on one line: it cannot pass for lines of ours."""
    line = " ".join(text[: 4 * longest].split())
    return f"“{for_terminal(line if len(line) <= longest else line[:longest] + '…')}”"
