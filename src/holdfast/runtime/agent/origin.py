"""What the origin of a session means for where it works, and what the user is told about it.

Small, because every chat loads it before its first paint. What is refused is in ``foreign``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.model.sanitize import for_terminal, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.store.session import Session
    from holdfast.store.types import Provenance

_LONGEST = 200
_BLANKS = re.compile(r"\s{9,}")
_LINE_END = re.compile(r"[\r\n]+")


def recorded_workspace(session: Session) -> str | None:
    """Return the folder that a session says it is about, ``None`` if it may not choose one."""
    recorded = session.meta.get("workspace")
    if not isinstance(recorded, str) or session.provenance().any_foreign:
        return None
    return recorded


def source_of(provenance: Provenance) -> str:
    """Return how a session got here, as the end of a sentence that a terminal can show."""
    return short(provenance.source)


def notice(session: Session, folder: Path | str, *, in_chat: bool = False) -> str | None:
    """Return what to tell the user of a session from elsewhere, ``None`` if it is ours."""
    provenance = session.provenance()
    if not provenance.any_foreign:
        return None
    return (
        f"This session came from elsewhere ({source_of(provenance)}): working in "
        f"{short(str(folder))}. Nothing in it runs here before you accept it. Accept it with: "
        f"{'/trust' if in_chat else f'holdfast trust {session.id}'}"
    )


def short(text: str, longest: int = _LONGEST) -> str:
    """Return the beginning of a text that others wrote, safe on one line of a terminal."""
    looked_at = text[: 4 * longest]
    line = one_line(for_terminal(looked_at))
    is_all = len(looked_at) == len(text) and len(line) <= longest
    return line if is_all else f"{line[:longest]}…"


def spelled(text: str, longest: int) -> str:
    """Return a command or a prompt of others on one line, so that nothing in it hides.

    Unlike in text to read, escape sequences are not taken out (a shell would still run what is
    inside them) and line ends are shown. If something is left out, it says how much.
    """
    shown = one_line(_LINE_END.sub(" ⏎ ", text[:longest].strip()))
    shown = _BLANKS.sub(lambda found: f" [{len(found[0])} blanks] ", shown)
    left = len(text) - longest
    return shown if left <= 0 else f"{shown}… ({left:,} more characters)"
