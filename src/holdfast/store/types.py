"""The values that a store hands out, the same on every medium."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct, field, msgpack

from holdfast.errors import UsageError
from holdfast.model.state import Totals

if TYPE_CHECKING:  # a list of sessions needs none of it
    from holdfast.journal.damage import Damage
    from holdfast.model.message import Message
    from holdfast.model.state import State
    from holdfast.store.local.repair import SetAside

CLEAN, RUNNING, INTERRUPTED, DAMAGED = "clean", "running", "interrupted", "damaged"
MIGRATED, LEFT = "migrated", "left"
_MOST_SOURCE_CHARACTERS = 1000
_MOST_FACT_BYTES = 1024
_MOST_FACTS_BYTES = 8 * 1024
_DEEPEST_FACT = 8
_WITH_A_FIELD = frozenset({"workspace", "project", "title", "provider", "model", "tags"})
_EDGES = (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))


def stamp(moment: datetime) -> str:
    """Return a time as it stands in entries and summaries, so that both compare as text."""
    if not isinstance(moment, datetime):
        raise UsageError(f"{moment!r} is not a point in time: give a datetime.")
    try:
        there = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        # It is so near an edge of time that in UTC it is beyond; or its zone is none.
        edges = [edge for edge in _EDGES if edge.year == moment.year]
        if not edges:
            raise UsageError(f"{moment!r} is not a point in time: its zone is wrong.") from None
        there = edges[0]
    # Not strftime, which writes a year before 1000 with fewer digits.
    return there.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _small_facts(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that a summary has no field for, as far as they are small."""
    room = _MOST_FACTS_BYTES
    small: dict[str, Any] = {}
    for name, value in meta.items():
        if name in _WITH_A_FIELD or not _is_flat(value, _DEEPEST_FACT):
            continue
        try:
            size_bytes = len(msgpack.encode((name, value)))
        except (UnicodeEncodeError, OverflowError):  # half a character; more than 64 bits
            continue
        if size_bytes <= min(room, _MOST_FACT_BYTES):
            room -= size_bytes
            small[name] = value
    return small


def _is_flat(value: Any, depth: int) -> bool:
    """Tell whether lists and dicts are nested at most ``depth`` deep, with plain values in them."""
    if not isinstance(value, (list, dict)):
        return not isinstance(value, Raw)  # a number that Python cannot hold
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_flat(each, depth - 1) for each in inner)


def sort_time(at: str) -> str:
    """Return the time to sort by: one in the future counts as now."""
    return min(at, stamp(datetime.now(UTC)))


class Summary(Struct, frozen=True, omit_defaults=True):
    """What a list shows of a session.

    ``messages`` counts all that were recorded, branches included. ``state`` is clean, running (a
    writer holds it in mid-turn), interrupted (a turn or stream began and did not end) or damaged
    (``problem`` says how; ``updated`` is then the time of the file if no entry could be read).
    ``foreign``: it has entries that were received from elsewhere and not accepted. ``meta`` has the
    facts that no other field shows, as far as they are small: at most 1 KiB each and 8 KiB in all
    (as MessagePack), nested at most 8 deep. ``session.meta`` has all of them.
    """

    id: str
    state: str = CLEAN
    key: str | None = None
    workspace: str | None = None
    project: str | None = None
    title: str | None = None
    first_text: str | None = None
    provider: str | None = None
    model: str | None = None
    tags: list[str] = field(default_factory=list)
    messages: int = 0
    totals: Totals = field(default_factory=Totals)
    started: str = ""
    updated: str = ""
    size_bytes: int = 0
    problem: str | None = None
    foreign: bool = False
    meta: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, session_id: str, state: State, key: str | None, size_bytes: int) -> Summary:
        """Return what a list shows of a session in this state."""
        meta = state.meta

        def text(name: str) -> str | None:
            value = meta.get(name)
            return value if isinstance(value, str) else None

        tags = meta.get("tags")
        return cls(
            session_id,
            CLEAN,
            key,
            text("workspace"),
            text("project"),
            state.title,
            state.first_text,
            text("provider"),
            text("model"),
            [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else [],
            state.messages,
            state.totals,
            state.started,
            state.updated,
            size_bytes,
            meta=_small_facts(meta),
        )

    @property
    def cost_usd(self) -> float:
        """What the requests cost whose price was known."""
        return self.totals.cost_usd

    @property
    def message_count(self) -> int:
        """The same as ``messages``."""
        return self.messages


class Page(Struct, frozen=True):
    """Part of a list, and what is not in it.

    ``fitting`` counts the sessions that all conditions let through, whatever the limit; ``placed``
    those of the folder or project, at any time; ``total`` all there are.
    """

    sessions: list[Summary]
    fitting: int
    placed: int
    total: int


class Deleted(Struct, frozen=True):
    """A session in the trash: where it is, and when it was deleted."""

    id: str
    path: str
    at: str


class Leftovers(Struct, frozen=True):
    """Blobs of a session that nothing names: how many, and how large. ``kept`` says why not."""

    count: int = 0
    size_bytes: int = 0
    kept: str | None = None


class Recovery(Struct, frozen=True):
    """What opening a session found and did.

    ``set_aside`` was cut off the end and kept; ``damage`` stays where it is; ``interrupted`` are
    the messages made from streams that nobody finished. ``edited`` and ``unverified`` count lines,
    among those that were read, whose checksum does not fit or could not be checked.
    """

    set_aside: list[SetAside] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    interrupted: list[Message] = field(default_factory=list)
    edited: int = 0
    unverified: int = 0
    newline_added: bool = False
    files: int = 1

    @property
    def clean(self) -> bool:
        """Whether there was nothing to report."""
        return self == Recovery()

    def __str__(self) -> str:
        """Return one clause per finding, or ``nothing to recover``."""
        said = [
            f"{piece.size_bytes} bytes at offset {piece.offset} ({piece.reason}) were "
            f"moved to {piece.path}"
            for piece in self.set_aside
        ]
        said += [
            f"{piece.length} bytes at offset {piece.offset} are damaged ({piece.kind}); not changed"
            for piece in self.damage
        ]
        if self.interrupted:
            count = len(self.interrupted)
            said.append(
                "a partial answer was saved as a message"
                if count == 1
                else f"{count} partial answers were saved as messages"
            )
        if self.edited:
            said.append(f"{self.edited} line(s) were changed after they were written")
        if self.unverified:
            said.append(f"{self.unverified} line(s) could not be verified")
        if self.newline_added:
            said.append("the last line had no newline; it was kept")
        if self.files > 1:
            said.append(
                f"the journal continues in {self.files} files because a write failed earlier"
            )
        return "; ".join(said) or "nothing to recover"


# Where entries came from

ARCHIVE, IMPORT, COPY = "archive", "import", "copy"
"""Ways in which a session is received; ``COPY``: its folder was put here, nobody recorded how."""

Span = tuple[int, int | None]
"""First and last sequence number of received entries; ``None``: all that follow."""


class Receipt(Struct, frozen=True):
    """One event of receiving: how, from where (an agent and a path), when."""

    kind: str
    source: str
    at: str

    @classmethod
    def now(cls, kind: str, source: str) -> Receipt:
        """Return a receipt of this moment.

        The source is cut, and bytes of a file name that are not UTF-8 are spelled out: a record
        that is too large, or that cannot be encoded, would make the whole session foreign.
        """
        plain = source[:_MOST_SOURCE_CHARACTERS].encode("utf-8", "backslashreplace").decode()
        return cls(kind, plain, stamp(datetime.now(UTC)))


class Provenance(Struct, frozen=True):
    """Which entries of a session are foreign and not accepted, and how they were received.

    ``recorded`` is false if no valid record exists: then everything counts as foreign.
    """

    foreign: list[Span] = field(default_factory=list)
    received: list[Receipt] = field(default_factory=list)
    recorded: bool = True

    def is_foreign(self, seq: int) -> bool:
        """Tell whether an entry was received and not accepted."""
        return any(first <= seq and (last is None or seq <= last) for first, last in self.foreign)

    @property
    def any_foreign(self) -> bool:
        """Whether any entry is foreign."""
        return bool(self.foreign)

    @property
    def source(self) -> str:
        """How the session got here, as the end of a sentence."""
        for receipt in reversed(self.received):
            if receipt.kind == ARCHIVE:
                return f"unpacked from the archive {receipt.source}"
            if receipt.kind == IMPORT:
                return f"imported from {receipt.source}"
        return "copied here, or written before Holdfast recorded where sessions come from"


class Problem(Struct, frozen=True):
    """One thing that is wrong with a session on disk."""

    kind: str
    where: str
    detail: str


class Report(Struct, frozen=True):
    """What a verification found. Nothing was changed. ``more`` problems were counted only."""

    id: str
    entries: int
    messages: int
    size_bytes: int
    files: int
    problems: list[Problem] = field(default_factory=list)
    more: int = 0

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written."""
        return not self.problems


class Compaction(Struct, frozen=True):
    """What a compaction did: sizes before and after, lines left out, where the old file is."""

    before_bytes: int
    after_bytes: int
    lines_left_out: int
    archive: str


class Tombstone(Struct, frozen=True, omit_defaults=True):
    """A record that a session was erased, or with ``seq`` one entry of it.

    ``uid`` tells it from a later session of the same key. ``sum`` is the checksum that the
    entry's line had.
    """

    session: str
    uid: str
    at: str
    key: str | None = None
    seq: int | None = None
    sum: str | None = None


class Erased(Struct, frozen=True):
    """What was erased: a session, or with ``seq`` one entry of it.

    ``also`` are the sessions in which copies of it were erased too. ``copies`` are those that still
    have a copy: forks, and for an entry also the session that this one was forked from.
    """

    session: str
    seq: int | None = None
    also: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)


class ForkOptions(Struct, frozen=True):
    """What a fork is made of: the last entry of the branch, its key, and whether events go along.

    ``at`` is ``None`` for an empty branch.
    """

    at: int | None
    key: str | None = None
    events: bool = False


class Compression(Struct, frozen=True):
    """The size of a session's journal before and after it was compressed, or unpacked."""

    before_bytes: int
    after_bytes: int


class Migrated(Struct, frozen=True, omit_defaults=True):
    """What became of one session of a legacy store, or of a file that is none.

    ``action`` is migrated, or left: then ``reason`` says why, and nothing was renamed. ``renamed``
    are the new names of its files. ``problems`` are lines that could not be taken over. With
    ``damaged`` it needs somebody's attention.
    """

    path: str
    action: str
    agent: str | None = None
    session: str | None = None
    reason: str | None = None
    messages: int = 0
    renamed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    damaged: bool = False


class Migration(Struct, frozen=True):
    """What a migration did, or would do."""

    path: str
    sources: list[Migrated] = field(default_factory=list)
    dry_run: bool = False

    @property
    def migrated(self) -> list[Migrated]:
        """The sessions that are in this store now."""
        return [each for each in self.sources if each.action == MIGRATED]

    @property
    def left(self) -> list[Migrated]:
        """What stays where it was."""
        return [each for each in self.sources if each.action == LEFT]


class Hit(Struct, frozen=True):
    """A message, or a title, that has the words: which one, and what stands around the first.

    ``highlights`` are the places of the words in ``snippet``. ``kind`` tells where they are: text,
    thinking, tool_call, tool_result or title; ``tool`` and ``model`` tell whose. ``depth`` is 0 for
    whole words, 1 if one is the beginning of a word, 2 if it is inside of one. ``rank`` is higher
    for what is more about them. ``title``, ``workspace`` and ``agent`` are the session's.
    """

    session: str
    seq: int
    role: str
    at: str
    snippet: str
    highlights: list[tuple[int, int]] = field(default_factory=list)
    kind: str = "text"
    tool: str | None = None
    model: str | None = None
    title: str | None = None
    workspace: str | None = None
    agent: str = ""
    depth: int = 0
    rank: float = 0.0
