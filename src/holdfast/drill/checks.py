"""The witness: what was on the screen, what survived, and whether anything ran twice.

It trusts nobody: it knows what the model was told to say and what commands print, has every
character that was shown before the blow, and reads what is left with the library.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from msgspec import Struct

from holdfast import open_store
from holdfast.model.message import Message, Text, ToolResult
from holdfast.model.sanitize import quoted_line

_AROUND_CHARACTERS = 30


class ShownText(Struct, frozen=True):
    """What a turn is made of: the texts of the model, and what its commands print, in order.

    ``cut`` is the text in which the blow falls; it is followed by others and never said again, or
    that would hide its loss.
    """

    texts: list[str]
    outputs: list[str]
    cut: str = ""


def survived(shown: str, now: str) -> tuple[int, list[str]]:
    """Compare what was shown with what is shown now, from the beginning, character by character.

    Returns how many characters are there again, and what is to be said about the others.
    """
    if now.startswith(shown):
        return len(shown), []
    pairs = enumerate(zip(shown, now, strict=False))
    place = next((number for number, (one, other) in pairs if one != other), len(now))
    was = quoted_line(shown[place : place + _AROUND_CHARACTERS])
    found = quoted_line(now[place : place + _AROUND_CHARACTERS])
    told = f"{len(shown):,} characters were on the screen; those after character {place:,} are lost"
    return place, [f"{told}: expected {was}, found {found}"]


def in_order(shown: list[str], now: list[str]) -> tuple[int, list[str]]:
    """Compare lines that were shown with those that there are; others may stand in between."""
    left = iter(now)
    count = 0
    for line in shown:
        if line not in left:  # takes everything up to it
            return count, [f"a line that was on the screen is lost: {quoted_line(line)}"]
        count += len(line) + 1
    return count, []


class Ran(Struct, frozen=True):
    """How often commands ran: how many did at all, and how many more than once."""

    commands: int
    twice: int
    problems: list[str]


def ran(marks: list[str], names: list[str]) -> Ran:
    """Count the marks that commands left, one when they began and one when they ended."""
    counted = Counter(marks)
    began = {name: counted[f"{name} began"] for name in names}
    problems = []
    for name, times in began.items():
        if times > 1:
            problems.append(f"the {name} command was run {times} times")
        elif not times:
            problems.append(f"the {name} command was never run")
        elif not counted[f"{name} ended"]:
            problems.append(f"the {name} command did not finish")
    counts = began.values()
    return Ran(sum(count > 0 for count in counts), sum(count > 1 for count in counts), problems)


def judge(home: Path, session_id: str, told: ShownText) -> list[str]:
    """Hold a session that came to its end against what was told; return what is wrong."""
    with open_store(home) as store:
        with store.open(session_id, mode="read") as session:
            messages = list(session.messages)
            is_open = session.state.turn_is_open
        report = store.verify(session_id)
    problems = _texts(messages, told) + _outputs(messages, told.outputs)
    if is_open:
        problems.append("the turn did not finish")
    return problems + [f"verify reports: {each.where}: {each.detail}" for each in report.problems]


def _texts(messages: list[Message], told: ShownText) -> list[str]:
    """Compare what the model said; of the text that was cut off a beginning is to be there."""
    said = [message for message in messages if message.role == "assistant"]
    whole = [message.text for message in said if message.stop != "interrupted"]
    parts = [message.text for message in said if message.stop == "interrupted"]
    problems = []
    if whole != told.texts:
        found = f"{sum(map(len, whole)):,} characters ({len(whole)})"
        given = f"{sum(map(len, told.texts)):,} ({len(told.texts)})"
        problems.append(f"the answers have {found}, and those that were given {given}")
    if parts and not told.cut:
        problems.append("an answer is incomplete that should be complete")
    elif told.cut and not (parts and told.cut.startswith("".join(parts))):
        problems.append("the saved part of the interrupted answer differs from what the model sent")
    return problems


def _outputs(messages: list[Message], told: list[str]) -> list[str]:
    """Compare what commands printed.

    What was shown of a command when its runner died is kept as a result of unknown outcome; the
    one that recovery finds comes behind it.
    """
    results: dict[str, list[ToolResult]] = {}
    for message in messages:
        for part in message.content:
            if isinstance(part, ToolResult):
                results.setdefault(part.call_id, []).append(part)
    problems = [
        f"a command is recorded as {call[-1].outcome.replace('_', ' ')}"
        for call in results.values()
        if call[-1].outcome != "completed"
    ]
    last = [_text(call[-1]) for call in results.values()]
    if last != told:
        shown = ", ".join(map(quoted_line, last)) or "nothing"
        problems.append(f"the saved output of commands differs from what they printed: {shown}")
    kept = [(_text(each), _text(call[-1])) for call in results.values() for each in call[:-1]]
    if any(not whole.startswith(part) for part, whole in kept):
        problems.append("the saved output of an interrupted command differs from what it printed")
    return problems


def _text(result: ToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, Text)).strip()
