"""What an importer says about a foreign session: a few neutral items, in the order of the source.

Items are cheap values; whoever reads them (``importing``) gives them numbers and parents. A foreign
id (``id``, ``parent``, ``keep_from``, ``to``) is any text that is unique within its session; it
becomes no path and no name.

    Facts       about the session: title, workspace, model; later ones win
    Said        a message
    Spent       what one request cost
    Condensed   a compaction: a summary in the place of what came before
    Noted       a line that means nothing to us, kept whole
    Moved       the conversation goes on from somewhere else: a rewind, or the branch that counts
    OpenItem    the agent is still writing what follows

``parent`` says where a message hangs: ``FOLLOWS`` (what was said last; the default), ``None`` (it
begins a branch of its own), or a foreign id. An id that nobody has seen counts as ``FOLLOWS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.model.entry import Usage
from holdfast.model.message import Message

_LONGEST_SHOWN = 1000

FOLLOWS = ""
"""A parent: whatever was said last."""


class MetaItem(Struct, frozen=True, gc=False):
    """Facts about the session, merged field by field; ``None`` and empty values are left out.

    ``title``, ``workspace``, ``provider``, ``model``, ``endpoint`` and ``tags`` have the meaning
    they have everywhere; ``parent`` is the foreign id of the session that this one was made from,
    ``family`` what all copies of one conversation share (a request that has an id is counted once
    in a family). ``copied`` says that copies name no parent: they are found by how they begin.
    Anything else is kept as it is. ``at`` is when the session began, if it is said.
    """

    fields: dict[str, Any]
    at: str | None = None


class MessageItem(Struct, frozen=True, gc=False):
    """A message. ``also`` names other lines that it stands for, or that lead to it.

    ``own`` names the lines that are this message and no other: a compaction that keeps from one of
    them keeps this message.
    """

    message: Message
    at: str | None = None
    id: str | None = None
    parent: str | None = FOLLOWS
    also: Sequence[str] = ()
    own: Sequence[str] = ()


class UsageItem(Struct, frozen=True, gc=False):
    """What one request cost. One that names its ``request`` is counted once."""

    usage: Usage
    at: str | None = None


class SummaryItem(Struct, frozen=True, gc=False):
    """A compaction: the context goes on from ``summary`` and what is kept.

    ``keep_from`` is the first earlier message that is kept, ``None`` if none is.
    """

    summary: list[Message]
    keep_from: str | None = None
    tokens: int | None = None
    at: str | None = None
    id: str | None = None
    parent: str | None = FOLLOWS
    also: Sequence[str] = ()


class RawItem(Struct, frozen=True, gc=False):
    """A line that is kept and means nothing here; ``complete`` as events have it.

    With an ``id`` it is a link in the chain of parents: who hangs on it hangs on its parent.
    """

    name: str
    data: Any = None
    at: str | None = None
    id: str | None = None
    parent: str | None = FOLLOWS
    complete: bool | None = None


class HeadItem(Struct, frozen=True, gc=False):
    """What follows hangs on ``to``; ``None`` is the very beginning."""

    to: str | None


class OpenItem(Struct, frozen=True, gc=False):
    """The agent is still writing what follows: it may say something else the next time.

    An importer yields it only on evidence, such as a reply that has not ended or a call without a
    result. The import then stops here, unless the source has been quiet for a while.
    """


Item = MetaItem | MessageItem | UsageItem | SummaryItem | RawItem | HeadItem | OpenItem


class Source(Struct, frozen=True):
    """One foreign session: where it is, and what tells whether it has changed.

    ``id`` is what the agent itself calls it, or whatever else stays the same as long as it is the
    same session. ``size_bytes`` and ``modified_ns`` are those of all its files together.
    ``detail`` is the importer's own: what it needs to find the session within ``path``. ``others``
    are the files beside ``path`` that are part of it. ``local``: the id means something in its own
    folder only, and elsewhere it may be another session's (``local_to_folder``).
    """

    agent: str
    id: str
    path: str
    size_bytes: int
    modified_ns: int
    detail: dict[str, Any] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    local: bool = False

    @property
    def shown(self) -> str:
        """The agent and the path, for people."""
        return f"{self.agent}: {self.path}"[:_LONGEST_SHOWN]


def local_to_folder(source: Source) -> Source:
    """Return the same source, its id one that only its own folder gives a meaning to."""
    return replace(source, local=True)
