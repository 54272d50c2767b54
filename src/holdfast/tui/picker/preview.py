"""What a picker shows of one session: facts, how it began, and how it ended.

Only the end of the conversation is read, however long it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.model.message import Message, Text, ToolCall, ToolResult
from holdfast.model.sanitize import for_terminal
from holdfast.store.session import Session
from holdfast.store.store import Store
from holdfast.store.types import Hit
from holdfast.tui.picker.loader import BackgroundTask
from holdfast.tui.picker.model import WORDS, PickerRow, one_line
from holdfast.tui.picker.table import cost, moment, said_tags, short_path

_MOST_MESSAGES = 30
_MOST_ENTRIES = 300
_MOST_LINES = 16
_MOST_CHARACTERS = 1600
_RESULT_LINES = 4
_LONGEST_CALL = 160


class Passage(Struct, frozen=True):
    """A piece of text and what it is: title, fact, problem, found, user, answer, tool or note."""

    kind: str
    text: str


class Preview(Struct, frozen=True):
    """What there is to show of a session."""

    session: str
    passages: list[Passage]


def preview(store: Store, row: PickerRow, hit: Hit | None) -> Callable[[BackgroundTask], None]:
    """Return the work of reading a preview."""

    def do(work: BackgroundTask) -> None:
        passages = facts(row, hit)
        if not row.unreadable:
            try:
                with store.open(row.id, mode="read") as session:
                    passages += conversation(session, row, work)
            except HoldfastError as error:
                passages.append(Passage("problem", for_terminal(str(error))))
        work.tell(Preview(row.id, passages))

    return do


def facts(row: PickerRow, hit: Hit | None) -> list[Passage]:
    """Return what is known of a session without reading it."""
    summary = row.summary
    passages = [Passage("title", row.title)]
    said = [WORDS.get(row.standing, row.standing), said_tags(row)]
    passages += [Passage("fact", "  ".join(each for each in said if each))] if any(said) else []
    model = "/".join(each for each in (summary.provider, summary.model) if each)
    price = cost(summary.cost_usd, summary.totals.unpriced)
    counted = f"{summary.messages:,} message{'' if summary.messages == 1 else 's'}"
    lines = [
        short_path(summary.workspace),
        " · ".join(each for each in (one_line(model), counted, price) if each),
        f"{moment(summary.started)} – {moment(summary.updated)}" if summary.started else "",
        summary.id,
    ]
    passages += [Passage("fact", line) for line in lines if line]
    if summary.problem:
        passages.append(Passage("problem", one_line(summary.problem)))
    if hit is not None:
        passages.append(Passage("found", f"{hit.role}: …{one_line(hit.snippet)}…"))
    return passages


def conversation(session: Session, row: PickerRow, work: BackgroundTask) -> list[Passage]:
    """Return how a conversation began and how it ended."""
    last: list[Message] = list(reversed(session.recovery.interrupted))
    reached_beginning = True
    for number, entry in enumerate(session.branch()):
        work.check()
        if number >= _MOST_ENTRIES or len(last) >= _MOST_MESSAGES:
            reached_beginning = False
            break
        if isinstance(entry.body, Message) and entry.body.role != "system":
            last.append(entry.body)
    passages: list[Passage] = []
    if not reached_beginning and row.summary.first_text:
        passages.append(Passage("user", _short(row.summary.first_text)))
        passages.append(Passage("note", "…"))
    for message in reversed(last):
        passages += _passages(message)
    return passages


def _passages(message: Message) -> Iterator[Passage]:
    kind = "user" if message.role == "user" else "answer"
    for part in message.content:
        match part:
            case Text():
                text = _short(part.text or (part.blob.preview if part.blob else ""))
                if text.strip():
                    yield Passage(kind, text)
            case ToolCall():
                given = part.arguments if isinstance(part.arguments, dict) else {}
                words = " ".join(str(value)[:_LONGEST_CALL] for value in given.values())
                yield Passage("tool", f"{one_line(part.name)} {one_line(words)[:_LONGEST_CALL]}")
            case ToolResult():
                texts = "".join(each.text for each in part.content if isinstance(each, Text))
                if text := _short(texts, _RESULT_LINES):
                    yield Passage("note", text)
                if part.outcome != "completed":
                    yield Passage("note", part.outcome.replace("_", " "))
    if message.stop == "interrupted":
        yield Passage("problem", "interrupted here")


def _short(text: str, most_lines: int = _MOST_LINES) -> str:
    """Return the beginning of a text, made harmless."""
    begun = for_terminal(text[:_MOST_CHARACTERS]).strip("\n").expandtabs(4)
    lines = begun.split("\n")
    whole = len(text) <= _MOST_CHARACTERS and len(lines) <= most_lines
    return "\n".join(lines[:most_lines]) + ("" if whole else " …")
