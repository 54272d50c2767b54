"""What an export is made from: one branch of a session, read once from its beginning, in a stream.

The branch is walked backwards first, for the numbers of its messages alone; then all entries are
read forwards. So memory does not grow with a session, but for eight bytes a message. Detail and
redaction are applied here, before any format sees a message: none can forget them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.exchange.exporting.depth import EVERYTHING, abridged, check_depth, selected
from holdfast.exchange.importing.json_fields import parse_time
from holdfast.exchange.redaction.local_paths import drop_local_meta
from holdfast.exchange.redaction.messages import redact_message
from holdfast.exchange.redaction.redactor import Redactor
from holdfast.model.entry import Checkpoint, Entry, Usage
from holdfast.model.message import Message, ToolCall, ToolResult

if TYPE_CHECKING:
    from holdfast.model.state import State
    from holdfast.store.session import Session

_KINDS = ("message", "checkpoint")
_NO_TIME = "1970-01-01T00:00:00.000Z"


class ExportOptions(Struct, frozen=True):
    """What an export shows.

    ``depth`` is how much (see ``detail``); ``redactor`` takes secrets out and remembers what it
    found; ``strip_workspace`` leaves out the facts that say where on a machine the session was.
    """

    depth: str = EVERYTHING
    redactor: Redactor | None = None
    strip_workspace: bool = False


class Line(Struct, frozen=True, gc=False):
    """A message of the branch, and what the request that led to it cost.

    ``seq`` is ``None`` for text that was being streamed and that nobody has finished.
    """

    message: Message
    at: str
    seq: int | None = None
    usage: Usage | None = None


class Condensation(Struct, frozen=True, gc=False):
    """A compaction: from here on the context is ``summary`` and what follows ``keep_from``."""

    summary: list[Message]
    keep_from: int
    seq: int
    at: str
    tokens: int | None = None


Item = Line | Condensation


def _without_results(line: Line, calls: set[str]) -> Line | None:
    """Return a line without the results of calls; ``None`` if nothing is left of it."""
    message = line.message
    left = [p for p in message.content if not isinstance(p, ToolResult) or p.call_id not in calls]
    if len(left) == len(message.content):
        return line
    if not left:
        return None
    shown = msgspec.structs.replace(message, content=left)
    return msgspec.structs.replace(line, message=shown)


class Transcript:
    """The current branch of a session, as the options want it shown."""

    def __init__(self, session: Session, options: ExportOptions | None = None) -> None:
        """Take a session that is open, for reading or for writing.

        Raises:
            UsageError: it has no entry yet, or an option is wrong.
        """
        self.options = options or ExportOptions()
        check_depth(self.options.depth)
        if session.state.seq < 0:
            raise UsageError(f"Session {session.id} has no entries yet: nothing to export.")
        self.id = session.id
        self.session = session
        self.state: State = session.state
        self.started = parse_time(session.state.started) or _NO_TIME
        """When it began; whatever the journal says, it is a time."""
        self.updated = parse_time(session.state.updated) or self.started
        self._interrupted = list(session.recovery.interrupted) if session.read_only else []
        self.meta = self._shown_facts(session.meta)
        first = self.state.first_text
        self.title: str | None = self.fact("title") or (
            self._clean_text(first, "title") if first else None
        )
        """The title that was given, else the first user text."""

    def fact(self, name: str) -> str:
        """Return a fact if it is text, else nothing."""
        value = self.meta.get(name)
        return value if isinstance(value, str) else ""

    def _shown_facts(self, meta: dict[str, Any]) -> dict[str, Any]:
        if self.options.strip_workspace:
            meta = drop_local_meta(meta)
        if self.options.redactor is not None:
            meta = self.options.redactor.value(meta, "facts")
        return meta

    def _clean_text(self, text: str, where: str) -> str:
        redactor = self.options.redactor
        return text if redactor is None else redactor.text(text, where)

    def items(self, *, condensed: bool = True) -> Iterator[Item]:
        """Yield messages, and if ``condensed`` compactions, in the order of the journal."""
        yield from self._read(condensed=condensed)
        for message in self._interrupted:
            shown = self._shown(message, "the interrupted reply")
            if shown is not None:
                yield Line(shown, self.updated)

    def messages(self) -> Iterator[Message]:
        """Yield the messages alone."""
        for line in self.lines():
            yield line.message

    def lines(self) -> Iterator[Line]:
        """Yield the messages with what belongs to them."""
        for item in self.items(condensed=False):
            assert isinstance(item, Line)
            yield item

    def as_seen(self) -> Iterator[Item]:
        """Yield messages, and the compaction that counts where the model sees its summary.

        That is before the first message that is kept, which may be long before the compaction was
        made: agents that cannot keep messages from before a summary get the same context.
        """
        kept = self.session.entries(branch=True, types=["checkpoint"], reverse=True)
        last = next((each for each in kept if isinstance(each.body, Checkpoint)), None)
        waiting = None if last is None else self._condensation(last)
        cut: set[str] = set()  # calls before the summary: an API rejects results without them
        for line in self.lines():
            if waiting is not None and (line.seq is None or line.seq >= waiting.keep_from):
                yield waiting
                waiting = None
            calls = {part.id for part in line.message.content if isinstance(part, ToolCall)}
            if waiting is not None:
                cut |= calls
                yield line
                continue
            cut -= calls
            shown = _without_results(line, cut)
            if shown is not None:
                yield shown
        if waiting is not None:
            yield waiting

    def _read(self, *, condensed: bool) -> Iterator[Item]:
        held: Line | None = None
        backward = self.session.entries(branch=True, types=_KINDS, reverse=True)
        numbers = array("q", (entry.seq for entry in backward))
        for entry in self.session.entries(types=(*_KINDS, "usage")):
            body = entry.body
            if isinstance(body, Usage):
                if held is not None and held.usage is None and held.message.role == "assistant":
                    held = msgspec.structs.replace(held, usage=body)
                continue
            if held is not None:
                yield held
                held = None
            if numbers and entry.seq == numbers[-1]:
                numbers.pop()
                if isinstance(body, Message):
                    shown = self._shown(body, f"entry {entry.seq}")
                    held = None if shown is None else Line(shown, entry.at, entry.seq)
                elif condensed and isinstance(body, Checkpoint):
                    yield self._condensation(entry)
        if held is not None:
            yield held

    def _condensation(self, entry: Entry) -> Condensation:
        body = entry.body
        assert isinstance(body, Checkpoint)
        shown = [self._shown(message, f"entry {entry.seq}") for message in body.summary]
        summary = [message for message in shown if message is not None]
        return Condensation(summary, body.keep_from, entry.seq, entry.at, body.tokens)

    def _shown(self, message: Message, where: str) -> Message | None:
        depth, redactor = self.options.depth, self.options.redactor
        shown = selected(message, depth)
        if shown is None:
            return None
        shown = self.session.with_blobs(shown)
        if redactor is not None:
            shown = redact_message(shown, redactor, where)
        return abridged(shown, depth)  # last: half a secret would not be found
