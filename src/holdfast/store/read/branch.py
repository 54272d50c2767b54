"""The current branch: messages and checkpoints from the head back towards the root.

Every tree entry names its parent, so the branch is a walk. The journal is read backwards in
blocks, and only as far as somebody needs: to the effective checkpoint for the context, to the root
for the whole conversation. A parent that cannot be read (damaged, or left out by a compaction)
resolves to the nearest earlier message or checkpoint that can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from holdfast.model.entry import Checkpoint, Entry, Head, in_tree, is_erased
from holdfast.model.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.journal.damage import Damage
    from holdfast.store.backend import Log


# Without its checkpoint a branch would get the whole history back into its context.
_STAND_INS = frozenset({Message, Checkpoint})


def walk(journal: Log, head: int | None, noticed: list[Damage]) -> Iterator[Entry]:
    """Yield the branch's entries from ``head`` to the root, newest first.

    Damage met on the way is added to ``noticed``.
    """
    if head is None:
        return
    wanted: int | None = head
    lost = False  # the wanted entry cannot be read: the nearest earlier one stands in
    jumped = True
    blocks = journal.blocks_backward(wanted)
    while wanted is not None and (block := next(blocks, None)) is not None:
        entries = [record for record in block.records if isinstance(record, Entry)]
        if entries and entries[0].seq > wanted and not jumped:
            blocks, jumped = journal.blocks_backward(wanted), True
            continue
        jumped = False
        noticed += [record for record in block.records if not isinstance(record, Entry)]
        for entry in reversed(entries):
            seq = entry.seq
            if seq > wanted:
                continue  # of another branch, or of none
            if seq < wanted:
                lost = True
            stands = type(entry.body) in _STAND_INS or (
                not lost and in_tree(entry.type, entry.body)
            )
            if stands or (not lost and is_erased(entry)):
                if stands:
                    yield entry
                wanted = entry.parent
                if wanted is None:
                    return
                lost = not 0 <= wanted < seq  # no parent field, or one that lies
                if lost:
                    wanted = seq - 1
            else:
                lost = True


class ConcurrentAppends:
    """What happens to a branch while somebody reads it from the disk."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """What became durable."""
        self.forgotten = False
        """Whether it may be another branch by now, or in another file."""


class Branch:
    """The part of the current branch that has been asked for, kept in step with appends."""

    def __init__(self) -> None:
        self._items: list[tuple[int, Message | Checkpoint]] | None = None
        self._whole = False
        self._watched: list[ref[ConcurrentAppends]] = []  # weakly: a reader may be interrupted
        self.is_idle = True
        """Whether nothing was read and nobody is reading: then appends need not be told."""
        self.virtual: list[Message] = []
        """Messages that a read-only view shows and nobody has written."""

    def forget(self) -> None:
        """Drop everything; it will be read again when asked for."""
        self._items, self._whole = None, False
        for meanwhile in self._readers():
            meanwhile.forgotten = True

    def watch(self) -> ConcurrentAppends:
        """Return what will have happened to the branch until ``install``, from now on."""
        meanwhile = ConcurrentAppends()
        self.is_idle = False
        self._watched = [ref(each) for each in (*self._readers(), meanwhile)]
        return meanwhile

    def _readers(self) -> list[ConcurrentAppends]:
        return [reader for each in self._watched if (reader := each()) is not None]

    def install(self, read: Branch, meanwhile: ConcurrentAppends) -> bool:
        """Take over what was read, and what happened meanwhile; tell whether that was possible.

        It was not if the head was moved, or the journal rewritten: then it has to be read again.
        """
        read.extend(meanwhile.entries, free=False)  # or what was asked for may be gone
        if meanwhile.forgotten or read._items is None:
            return False
        if not self.has(whole=read._whole):  # else another reader was first
            self.is_idle = False
            self._items, self._whole = read._items, read._whole
        return True

    def extend(self, entries: list[Entry], *, free: bool = True) -> None:
        """Follow durable entries; with ``free`` drop what a checkpoint covers.

        It is read again when somebody asks for the whole branch.
        """
        if self._watched:
            readers = self._readers()
            if not readers:
                self._watched = []
            for meanwhile in readers:
                meanwhile.entries += entries
        if self._items is None:
            self.is_idle = not self._watched
            return
        for entry in entries:
            if isinstance(entry.body, Head):
                self.forget()
                return
            if isinstance(entry.body, Message | Checkpoint):
                self._items.append((entry.seq, entry.body))
            if free and isinstance(entry.body, Checkpoint):
                kept = entry.body.keep_from
                before = len(self._items)
                self._items = [item for item in self._items if item[0] >= kept]
                self._whole = self._whole and len(self._items) == before

    def has(self, *, whole: bool) -> bool:
        """Tell whether all that is asked for was read: the branch, or what the context needs."""
        return self._items is not None and (self._whole or not whole)

    def load(self, journal: Log, head: int | None, noticed: list[Damage], *, whole: bool) -> None:
        """Read what is missing: all of the branch, or as much as the context needs."""
        if self.has(whole=whole):
            return
        items: list[tuple[int, Message | Checkpoint]] = []
        keep_from: int | None = None
        for entry in walk(journal, head, noticed):
            if keep_from is not None and entry.seq < keep_from and not whole:
                break
            body = entry.body
            if isinstance(body, Message):
                items.append((entry.seq, body))
            elif isinstance(body, Checkpoint):
                items.append((entry.seq, body))
                keep_from = body.keep_from if keep_from is None else keep_from
        else:
            whole = True
        items.reverse()
        self.is_idle = False
        self._items, self._whole = items, whole

    def copy(self) -> Branch:
        """Return a copy that later appends do not change."""
        other = Branch()
        other._items = None if self._items is None else list(self._items)
        other._whole = self._whole
        other.virtual = self.virtual
        return other

    @property
    def numbered(self) -> list[tuple[int, Message]]:
        """The branch's messages that are written, with their numbers, oldest first."""
        return [(seq, body) for seq, body in self._items or [] if isinstance(body, Message)]

    @property
    def messages(self) -> list[Message]:
        """The branch's messages, oldest first."""
        return [body for _, body in self._items or [] if isinstance(body, Message)] + self.virtual

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint that counts: the last one on this branch."""
        for _, body in reversed(self._items or []):
            if isinstance(body, Checkpoint):
                return body
        return None

    @property
    def context(self) -> list[Message]:
        """What a provider gets: the summary, then the messages that it does not cover."""
        checkpoint = self.checkpoint
        if checkpoint is None:
            return self.messages
        kept = [message for seq, message in self.numbered if seq >= checkpoint.keep_from]
        return [*checkpoint.summary, *kept, *self.virtual]

    def keep_from(self, upto: int, keep_last: int) -> int:
        """Return where the context begins after a checkpoint that covers messages up to ``upto``.

        It keeps the last ``keep_last`` of them. Nothing that an earlier checkpoint covers comes
        back.
        """
        previous = self.checkpoint
        lowest = previous.keep_from if previous is not None else 0
        covered = [seq for seq, _ in self.numbered if lowest <= seq <= upto]
        if keep_last and covered:
            return covered[-keep_last] if keep_last <= len(covered) else covered[0]
        return max(lowest, upto + 1)
