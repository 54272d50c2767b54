"""From entries to what is searched and counted: one document a message or title, and activity.

A ``DocumentReader`` reads a journal in order and remembers what later entries need: the model that
answers, and which call is for which tool. What it remembers is small and can be stored, so that
reading continues where it ended.

What of a message can be searched, and how text is compared.

Texts are compared *folded*: regardless of case, and of accents on Latin letters. For the index they
are *spaced* as well: scripts that are written without blanks (Chinese, Japanese, Thai …) are taken
apart into single characters, so that a phrase of them is found wherever it stands.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field, structs

from holdfast.model.entry import Entry, Header, Mark, Meta, Turn, Usage
from holdfast.model.message import Message, Text, Thinking, ToolCall, ToolResult
from holdfast.store.write.blob_refs import put_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.model.state import State
    from holdfast.store.backend import BlobSource

TITLE = "title"
"""The role of a document that is a session's title."""

_MOST_CALLS = 256
_ID_TIME = re.compile("([0-9]{4})([0-9]{2})([0-9]{2})-([0-9]{2})([0-9]{2})([0-9]{2})-")
_MINUTES = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}")


class Document(Struct, frozen=True):
    """What can be found in one entry."""

    seq: int
    at: str
    role: str
    pieces: list[Piece]
    model: str | None = None

    @property
    def tools(self) -> set[str]:
        """The tools that it calls, or that answer in it."""
        return {piece.tool for piece in self.pieces if piece.tool}

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(piece.text for piece in self.pieces)


class Memory(Struct, omit_defaults=True):
    """What a reader remembers. ``first`` and ``last`` are the earliest and the latest time.

    ``forked`` is when the session was made as a copy of another, empty if it was not.
    """

    seq: int = -1
    model: str | None = None
    calls: dict[str, str] = field(default_factory=dict)
    first: str = ""
    last: str = ""
    forked: str = ""


class DocumentReader:
    """Takes the entries of one session, in order."""

    def __init__(self, blobs: BlobSource, memory: Memory | None = None) -> None:
        self._blobs = blobs
        self.memory = Memory() if memory is None else memory

    def take(self, entry: Entry, *, look: bool = True) -> Document | None:
        """Return what can be found in an entry.

        Without ``look`` only what later entries need is taken note of.
        """
        memory, body = self.memory, entry.body
        memory.seq = entry.seq
        if isinstance(body, Meta):
            self._learn(body.fields)
        elif isinstance(body, Mark):
            self._learn(body.state.get("meta"))
        found = document(entry, self._blobs, memory.calls.get, memory.model) if look else None
        if isinstance(body, Message):
            self._remember(body)
        if found is not None:
            memory.first = min(memory.first or entry.at, entry.at)
            memory.last = max(memory.last, entry.at)
        return found

    def _learn(self, facts: Any) -> None:
        model = facts.get("model") if isinstance(facts, dict) else None
        if isinstance(model, str):
            self.memory.model = model

    def _remember(self, message: Message) -> None:
        """Take note of calls, and of those that are answered."""
        calls = self.memory.calls
        for part in message.content:
            if isinstance(part, ToolCall):
                calls[part.id] = part.name
                if len(calls) > _MOST_CALLS:
                    del calls[next(iter(calls))]
            elif isinstance(part, ToolResult):
                calls.pop(part.call_id, None)


def document(
    entry: Entry, blobs: BlobSource, tool_of: Callable[[str], str | None], model: str | None
) -> Document | None:
    """Return what can be found in an entry, if anything."""
    body = entry.body
    if isinstance(body, Message):
        pieces = [piece for piece in pieces_of(body, blobs, tool_of) if piece.text]
        found = Document(entry.seq, entry.at, body.role, pieces, body.model or model)
        return found if pieces else None
    title = body.fields.get("title") if isinstance(body, Meta) else None
    if isinstance(title, str) and title:
        return Document(entry.seq, entry.at, TITLE, [Piece(TITLE, title)], model)
    return None


class Activity(Struct):
    """What happened in a session within a quarter of an hour that begins ``at``.

    Requests are counted by model; prompts, messages and turns have none. ``unpriced`` counts
    requests whose cost is not known. An ``at`` that is empty stands for a time that nobody knows.
    The messages that a fork was made with are those of the session that it came from.
    """

    session: str
    at: str
    model: str | None = None
    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    messages: int = 0
    prompts: int = 0
    turns: int = 0
    agent: str = ""
    workspace: str | None = None
    project: str | None = None


COUNTS = (
    "requests",
    "input",
    "output",
    "cache_read",
    "cache_write",
    "cost_usd",
    "unpriced",
    "messages",
    "prompts",
    "turns",
)
"""The fields of an activity that are added up."""


class Tally:
    """Adds up what happened in one session; ``memory`` is what is known of its beginning."""

    def __init__(self, session: str, memory: Memory | None = None) -> None:
        self._session = session
        self._memory = Memory() if memory is None else memory
        self._found: dict[tuple[str, str | None], Activity] = {}

    @property
    def activities(self) -> list[Activity]:
        """What was found, in order."""
        return list(self._found.values())

    def clear(self) -> None:
        """Begin anew."""
        self._found.clear()

    def take(self, entry: Entry) -> None:
        """Count an entry."""
        body = entry.body
        if isinstance(body, Usage):
            known = body.cost_usd is not None
            self.add(
                entry.at,
                body.model or "",
                requests=1,
                input=body.input,
                output=body.output,
                cache_read=body.cache_read,
                cache_write=body.cache_write,
                cost_usd=body.cost_usd or 0.0,
                unpriced=0 if known else 1,
            )
        elif isinstance(body, Message):
            if not self._memory.forked or entry.at > self._memory.forked:  # else it was copied
                self.add(entry.at, None, messages=1, prompts=int(body.role == "user"))
        elif isinstance(body, Turn):
            if body.state == "started":
                self.add(entry.at, None, turns=1)
        elif isinstance(body, Header) and body.forked_from is not None:
            self._memory.forked = _forked_at(entry.at, self._session)
            self.add(self._memory.forked, None)  # there is a session, whatever comes of it

    def add(self, at: str, model: str | None, **counts: float) -> None:
        """Add to what happened at a time."""
        key = quarter_of(at), model
        activity = self._found.get(key)
        if activity is None:
            activity = self._found[key] = Activity(self._session, *key)
        for name, count in counts.items():
            setattr(activity, name, getattr(activity, name) + count)

    def even_out(self, state: State, counted: Callable[[str | None], dict[str, float]]) -> None:
        """Count what a compaction has left out of a journal as of when the session began.

        ``counted`` tells what was counted for a model; for none, that of no model.
        """
        for model, totals in state.totals.models.items():
            known = counted(model)
            if totals.requests > known.get("requests", 0):
                self.add(
                    state.started,
                    model,
                    **{
                        name: max(total - known.get(name, 0), 0)
                        for name, total in structs.asdict(totals).items()
                    },
                )
        messages = state.messages - counted(None).get("messages", 0)
        # Of a fork nobody knows which of those that are left out were copied.
        if messages > 0 and not self._memory.forked:
            self.add(state.started, None, messages=messages)

    def counted(self, model: str | None) -> dict[str, float]:
        """Return what was counted for a model, at any time."""
        found = [each for each in self._found.values() if each.model == model]
        return {name: sum(getattr(each, name) for each in found) for name in COUNTS}


def _forked_at(header: str, session_id: str) -> str:
    """Return the time until which the messages of a fork were copied.

    Its header has it, unless a compaction has written that anew; the id has at least the second.
    """
    found = _ID_TIME.match(session_id)
    if found is None:
        return header
    year, month, day, hour, minute, second = found.groups()
    return min(header, f"{year}-{month}-{day}T{hour}:{minute}:{second}.999Z")


def quarter_of(at: str) -> str:
    """Return when the quarter of an hour began: whatever the time zone, it is within one day."""
    if not _MINUTES.match(at):
        return ""
    return f"{at[:14]}{int(at[14:16]) // 15 * 15:02d}"


MOST_CHARACTERS = 4 * 1024 * 1024
"""No more of a single text is searched."""

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
"""Scripts without blanks between words, as the inside of a set in a regular expression."""

_UNSPACED = re.compile(f"[{UNSPACED}]")
_ACCENTED = re.compile("[\u00c0-\u024f\u0300-\u036f\u1e00-\u1eff]")


class Piece(NamedTuple):
    """One text of a message. ``kind`` is text, thinking, tool_call, tool_result or title."""

    kind: str
    text: str
    tool: str | None = None


def fold_case(text: str) -> str:
    """Return a text as it is compared."""
    text = text.casefold()
    return text if text.isascii() else _ACCENTED.sub(_plain, text)


def _plain(found: re.Match[str]) -> str:
    return _without_accents(found[0])


@lru_cache(maxsize=1024)
def _without_accents(letter: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFD", letter) if each < "\u0300")


def split_cjk(text: str) -> str:
    """Return a folded text as the index takes it."""
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


def pieces_of(
    message: Message, blobs: BlobSource, tool_of: Callable[[str], str | None]
) -> Iterator[Piece]:
    """Yield the texts of a message; ``tool_of`` tells which tool a call was for."""
    for part in message.content:
        if isinstance(part, Text | Thinking):
            yield Piece(str(part.__struct_config__.tag), _text(part, blobs))
        elif isinstance(part, ToolCall):
            given = "\n".join(_strings(_whole(part, blobs).arguments))
            text = f"{part.name}\n{given}{part.partial or ''}"
            yield Piece("tool_call", text[:MOST_CHARACTERS], part.name)
        elif isinstance(part, ToolResult):
            inner = (each for each in part.content if isinstance(each, Text | Thinking))
            text = "\n".join(_text(each, blobs) for each in inner)
            yield Piece("tool_result", text[:MOST_CHARACTERS], tool_of(part.call_id))


def _text(part: Text | Thinking, blobs: BlobSource) -> str:
    whole = _whole(part, blobs)
    text = whole.text or (whole.blob.preview if whole.blob is not None else "")
    return str(text[:MOST_CHARACTERS])


def _whole(part: Any, blobs: BlobSource) -> Any:
    """Return a part with its payload, unless that is too large to be searched, or is lost."""
    if part.blob is None or part.blob.size_bytes > MOST_CHARACTERS:
        return part
    return put_back(Message(role="", content=[part]), blobs).content[0]


def _strings(value: Any) -> Iterable[str]:
    """Yield what is said in JSON data, keys included; nested however deep."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            for key, item in reversed(each.items()):
                waiting += (item, key)
        elif isinstance(each, list):
            waiting += reversed(each)
        elif isinstance(each, str | int | float):
            yield str(each)
