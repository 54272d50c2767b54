"""What stands in a journal before the first entry of an opening, and before entries after damage.

A new journal begins with its header and the facts known by then; an older one that is taken up
again with a line that says who writes. Damage that was met is noted once, in a gap line before the
next entry: whoever asks for an entry to be queued has this queued first, as long as it is due.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from holdfast.model import entry as bodies
from holdfast.model.codec import encode_body, type_of
from holdfast.model.entry import Body, Header, Meta
from holdfast.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.journal.damage import Damage
    from holdfast.journal.ticket import Ticket
    from holdfast.journal.writer import GroupCommitter
    from holdfast.model.entry import DamagePlace

_MOST_GAPS_AT_ONCE = 100


class Preamble:
    """What is due before the next entry: all of it until it is ``given``, then ``unnoted`` damage.

    ``noted`` says which damage the journal notes already.
    """

    def __init__(
        self,
        writer: GroupCommitter,
        header: Header,
        first_meta: Callable[[], dict[str, Any]] | None,
        noted: Iterable[DamagePlace],
    ) -> None:
        self._writer = writer
        self._header = header
        self._first_meta = first_meta
        self.given = False
        self._first: list[Ticket] = []  # what makes a session, or says who writes to it
        self.unnoted: list[Damage] = []
        self._noted = set(noted)

    def note(self, damage: Sequence[Damage]) -> None:
        """Remember damage that was met; the next append notes it in the journal."""
        with self._writer.mutex:
            for piece in damage:
                if piece.place not in self._noted:
                    self._noted.add(piece.place)
                    self.unnoted.append(piece)

    def forget_damage(self) -> None:
        """Know of no damage: the journal was rewritten. The caller holds the mutex."""
        self.unnoted, self._noted = [], set()

    def join(self, damage: Sequence[Damage]) -> None:
        """Say who writes, instead of making the session: another process has made it.

        The facts that were given for a new one go: those of the session count. The caller holds the
        mutex.
        """
        self._writer.withdraw(self._first)
        if self._first_meta is not None:
            self._first_meta().clear()
        body = _writer_info()
        self._writer.enqueue_first([(type_of(body), body, encode_body(body)[0])]).seen = True
        self._first = []
        self.note(damage)

    def enqueue(self) -> None:
        """Queue what is due. The caller holds the mutex.

        Gaps come first: where the last line has no readable sum, they anchor the chain anew.
        """
        now, later = self.unnoted[:_MOST_GAPS_AT_ONCE], self.unnoted[_MOST_GAPS_AT_ONCE:]
        first: list[Body] = [
            bodies.Gap(
                reason="damage",
                segment=piece.segment,
                offset=piece.offset,
                length=piece.length,
                before=piece.before,
                after=piece.after,
            )
            for piece in now
        ]
        if not self.given:
            if not self._writer.exists:
                meta = self._first_meta() if self._first_meta else {}
                first += [self._header, Meta(meta)] if meta else [self._header]
            else:
                first.append(_writer_info())
        drafts = [(type_of(body), body, data) for data, body in map(encode_body, first)]
        for draft in drafts:
            ticket = self._writer.enqueue([draft])
            ticket.seen = True
            if not self.given:
                self._first.append(ticket)
        self.given, self.unnoted = True, later


def _writer_info() -> bodies.WriterInfo:
    return bodies.WriterInfo(os.getpid(), socket.gethostname(), __version__)
