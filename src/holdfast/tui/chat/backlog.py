"""The end of a conversation, about a screenful: what is painted when somebody comes back."""

from __future__ import annotations

from typing import Any

from holdfast.model.codec import shown
from holdfast.store.session import Session

_MOST_ENTRIES = 200
_FENCE = "```"


def tail(session: Session, rows: int) -> list[dict[str, Any]]:
    """Return the last entries of the conversation, oldest first; of a long text its end.

    Read from the disk as far as needed: it does not matter how long the session is.
    """
    found: list[dict[str, Any]] = []
    lines = 0
    for entry in session.branch():
        begun = bool(found) and found[-1].get("role") != "tool"  # a result comes with its call
        if len(found) >= _MOST_ENTRIES or (begun and lines >= rows):
            break
        plain = shown(entry)
        if plain["type"] == "message" and plain["role"] != "system":
            plain["content"] = [_shortened(part, session, rows) for part in plain["content"]]
            lines += 2 + sum(_lines(part) for part in plain["content"])
        found.append(plain)
    return found[::-1]


def _lines(part: dict[str, Any]) -> int:
    """Return how many lines a part takes, but for the first."""
    text = part.get("text")
    nested = part.get("content") if part.get("type") == "tool_result" else ()
    return (text.count("\n") if isinstance(text, str) else 0) + sum(map(_lines, nested or ()))


def _shortened(part: dict[str, Any], session: Session, rows: int) -> dict[str, Any]:
    """Return a part with no more text than a screen shows, also where that is kept in a blob."""
    if part.get("type") == "tool_result":
        return {**part, "content": [_shortened(each, session, rows) for each in part["content"]]}
    text = part.get("text")
    if part.get("type") in ("text", "thinking") and part.get("blob"):
        data = session.blob(part["blob"]["sha256"])
        text = part["blob"].get("preview", "") if data is None else data.decode("utf-8", "replace")
        part = {key: held for key, held in part.items() if key != "blob"} | {"text": text}
    if not isinstance(text, str) or text.count("\n") <= 2 * rows:
        return part
    lines = text.rstrip("\n").split("\n")
    kept = lines[-rows:]
    hidden = len(lines) - len(kept)
    if sum(line.lstrip().startswith(_FENCE) for line in kept) % 2:  # it begins within code
        kept.insert(0, _FENCE)
    return {**part, "text": "\n".join([f"… {hidden} earlier lines", "", *kept])}
