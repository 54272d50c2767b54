"""Sequences of our own for the terminal: notices, and text for its clipboard; through tmux too."""

from __future__ import annotations

import base64
import os

from holdfast.model.sanitize import for_terminal

_MOST_COPIED_BYTES = 100_000  # what terminals take


def notice(text: str) -> str:
    """Return a bell, and a notice for terminals that show such (OSC 9)."""
    return "\a" + _through(f"\x1b]9;{_plain(text)}\x07")


def copied(text: str) -> str | None:
    """Return what puts a text into the terminal's clipboard (OSC 52); ``None`` if it is too long.

    The terminal does it, so it works over SSH.
    """
    data = text.encode("utf-8", "replace")
    if len(data) > _MOST_COPIED_BYTES:
        return None
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    # tmux takes it itself (set-clipboard), or lets it through (allow-passthrough), or neither.
    return sequence + _through(sequence) if os.environ.get("TMUX") else _through(sequence)


def _plain(text: str) -> str:
    return for_terminal(text).replace("\n", " ")


def _through(sequence: str) -> str:
    """Return a sequence as tmux and screen let it through to the terminal they are in."""
    if os.environ.get("TMUX"):
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if os.environ.get("STY"):
        return f"\x1bP{sequence}\x1b\\"
    return sequence
