"""What a journal line says: an envelope (number, time, parent) and a body, one struct for a type.

Bodies are pure values that anybody may make; the envelope is the journal's. ``BODIES`` is the
table of known types. A type that is not in it becomes ``Unknown`` and is kept.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from holdfast.model.message import AnyPart, BlobRef, Message, Value

FORMAT = 1
ENVELOPE = ("seq", "at", "parent", "id", "batch", "type", "sum")
"""Field names that belong to the envelope; no body may use them."""


class Continues(Value, frozen=True):
    """The last acknowledged entry of the file before: number and checksum."""

    seq: int
    sum: str


class ForkedFrom(Value, frozen=True):
    """The session a fork was made from, and the entry it was made at."""

    session: str
    seq: int | None


class Header(Value, frozen=True):
    """First line of a file.

    ``continues`` makes it a continuation. ``holds`` counts the journal files that a compaction
    merged into this one: continuation files up to that number are left-overs and do not count.
    ``chain``, in a rewritten file, is the checksum that the next line was computed from.
    """

    format: int
    session: str
    uid: str
    key: str | None = None
    forked_from: ForkedFrom | None = None
    continues: Continues | None = None
    holds: int = 1
    chain: str | None = None


class WriterInfo(Value, frozen=True):
    """Who writes from here on: goes with the first append after an opening."""

    pid: int
    host: str
    version: str


class Meta(Struct, frozen=True):
    """Facts about the session. Merged field by field: a later one wins, others stay."""

    fields: dict[str, Any]


class Tool(Value, frozen=True):
    """A tool with effects is about to run: durable before it does.

    With ``run`` it belongs to a run of durable steps (see ``holdfast.store.steps``) and to no
    branch. ``state`` is then begun or ended (the run), started or completed (its ``step``), ``key``
    is the operation key of the step and ``value`` its result; a large result is in ``blob``.
    """

    call_id: str
    name: str
    state: str
    effect: str
    process: Any = None
    run: str | None = None
    step: str | None = None
    key: str | None = None
    value: Any = None
    blob: BlobRef | None = None


class Usage(Value, frozen=True):
    """What one request cost. ``cost_usd`` is ``None`` where no price is known.

    ``request`` is the provider's own id of the request, as on the message that it led to.
    """

    input: int
    output: int
    cost_usd: float | None
    cache_read: int = 0
    cache_write: int = 0
    model: str | None = None
    request: str | None = None


class Turn(Value, frozen=True):
    """A turn started, waits, or came to an end (completed, cancelled, failed)."""

    state: str
    cause: str | None = None


class Checkpoint(Value, frozen=True):
    """The context is ``summary`` and this branch's messages from ``keep_from`` on."""

    summary: list[Message]
    keep_from: int
    tokens: int | None = None


class Head(Value, frozen=True):
    """The branch goes on from entry ``to`` (``None``: from the very beginning)."""

    to: int | None


class Queued(Value, frozen=True):
    """A prompt that waits its turn. ``replaces`` edits an earlier one; no content removes it."""

    content: list[AnyPart]
    replaces: int | None = None


class Approval(Value, frozen=True):
    """A decision about one tool call, bound to its arguments by their hash."""

    call_id: str
    arguments_sha256: str
    decision: str
    rule: str | None = None


class Label(Value, frozen=True):
    """A bookmark: ``name`` points at entry ``to``; ``None`` removes it."""

    name: str
    to: int | None


class Custom(Value, frozen=True):
    """An ``event`` line: opaque data of a viewer, tunnel, extension or framework."""

    name: str
    data: Any = None
    complete: bool | None = None


class Snapshot(Value, frozen=True):
    """The latest data of a program under a name; it replaces what the name had before.

    ``encoding`` is ``json`` (``value`` is JSON), ``base64`` (``value`` is bytes in base64) or
    ``none``: the name is dropped. A large value is in ``blob``.
    """

    name: str
    encoding: str
    value: Any = None
    blob: BlobRef | None = None


class Mark(Value, frozen=True):
    """The whole state so far, so that opening needs no line before it."""

    state: dict[str, Any]


DamagePlace = tuple[int, int, int]
"""Where a medium found damage. Only that medium knows what the numbers mean (in files: the number
of the file, offset, length); everything else compares places and does not read them."""


class Gap(Value, frozen=True):
    """Lines lost to damage or left out by a rewrite.

    ``reason`` is damage (noted where writing went on; ``segment``, ``offset`` and ``length`` say
    where it is), omission (in a rewritten file, in the place of the lines left out) or erased (the
    same for an entry whose content was removed for good; number and parent are its own). ``before``
    and ``after`` are the sequence numbers around the hole. ``chain``, where given, is the checksum
    that the next line was computed from, empty if it is not known.
    """

    reason: str
    segment: int
    offset: int
    length: int
    before: int | None
    after: int | None
    chain: str | None = None

    @property
    def place(self) -> DamagePlace:
        """Where the damage is, for the medium that found it."""
        return self.segment, self.offset, self.length


class Unknown(Struct, frozen=True):
    """A line of a type that this version does not know, or cannot take apart; kept whole.

    ``fields`` is ``None`` where the line could not even be decoded (nested too deep); then only
    the bytes are kept.
    """

    type: str
    fields: dict[str, Any] | None

    @property
    def must(self) -> bool:
        """Whether a reader that does not understand this line must not write after it."""
        return self.fields is not None and self.fields.get("must") is True


Body = (
    Header
    | WriterInfo
    | Meta
    | Message
    | Tool
    | Usage
    | Turn
    | Checkpoint
    | Head
    | Queued
    | Approval
    | Label
    | Custom
    | Snapshot
    | Mark
    | Gap
    | Unknown
)

BODIES: dict[str, type[Struct]] = {
    "header": Header,
    "writer": WriterInfo,
    "meta": Meta,
    "message": Message,
    "tool": Tool,
    "usage": Usage,
    "turn": Turn,
    "checkpoint": Checkpoint,
    "head": Head,
    "queued": Queued,
    "approval": Approval,
    "label": Label,
    "event": Custom,
    "snapshot": Snapshot,
    "mark": Mark,
    "gap": Gap,
}
TYPES: dict[type[Struct], str] = {struct: name for name, struct in BODIES.items()}

TREE = frozenset({"message", "checkpoint", "tool", "turn", "approval"})
"""Types that have a parent and move the head; but for the steps of a run, see ``in_tree``."""

ERASED = "erased"
"""The reason of a gap that stands for an entry whose content was removed for good."""

LARGEST_SEQ = 10**15 - 1
"""The last number that an entry may have. A line with a larger one is not read."""

NO_PARENT_FIELD = -1
"""``Entry.parent`` of a line without the field; such a line hangs on the nearest one before it."""

Status = Literal["ok", "edited", "unverified"]


class Entry(Struct, gc=False):
    """One durable line of a journal. Treated as immutable by all but the writer that places it.

    ``status`` is ``edited`` if the line's checksum does not fit, ``unverified`` if that could not
    be told because the line before it is damaged. ``line`` has the exact bytes without newline.
    """

    seq: int
    at: str
    type: str
    body: Body
    parent: int | None = NO_PARENT_FIELD
    id: str | None = None
    batch: tuple[int, int] | None = None
    status: Status = "ok"
    line: bytes = b""
    offset: int = 0
    segment: int = 0
    """Number of the file, and byte at which the line starts; 0 if it is in no file."""

    @property
    def position(self) -> Position:
        """Where the entry is."""
        return Position(self.seq, self.offset, self.segment) if self.segment else Position(self.seq)

    @property
    def sum(self) -> bytes:
        """The checksum stored at the end of the line."""
        return self.line[-10:-2]


class Position(Struct, frozen=True, gc=False, eq=False):
    """Where a durable entry is: its number.

    In a store of files also the byte at which it starts, and the number of the file. ``known``
    tells that the call which returned it wrote nothing, because the entry was there already. Two
    positions of the same entry are equal, whatever ``known`` says.
    """

    seq: int
    offset: int | None = None
    segment: int | None = None
    known: bool = False

    def __eq__(self, other: object) -> bool:
        """Tell whether it is the position of the same entry."""
        if not isinstance(other, Position):
            return NotImplemented
        return (self.seq, self.offset, self.segment) == (other.seq, other.offset, other.segment)

    def __hash__(self) -> int:
        """Return the hash of what is compared."""
        return hash((self.seq, self.offset, self.segment))


def is_erased(entry: Entry) -> bool:
    """Tell whether a line stands for an entry whose content was removed for good."""
    return isinstance(entry.body, Gap) and entry.body.reason == ERASED


def in_tree(type_name: str, body: Body) -> bool:
    """Tell whether an entry has a parent and moves the head; the steps of a run do not."""
    return type_name in TREE and not (type(body) is Tool and body.run is not None)


def is_undecoded(entry: Entry) -> bool:
    """Tell whether a line was too deep, or had too many values, to be taken apart."""
    return isinstance(entry.body, Unknown) and entry.body.fields is None
