"""What was accepted before, so that a call that is made again writes nothing twice.

By the id that a caller gave: every id in the journal, in its archives and in the queue is known,
read when the first one is asked for. Without an id: by the very drafts of calls that were told that
the disk is full, whose entries still wait or were written since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.journal.ticket import Draft, Ticket

if TYPE_CHECKING:
    from holdfast.journal.writer import GroupCommitter
    from holdfast.store.backend import LogWriter


class AppendIds:
    """What one session has accepted. The caller of every method holds the writer's mutex."""

    def __init__(self, writer: GroupCommitter, log_writer: LogWriter) -> None:
        self._writer = writer
        self._log_writer = log_writer
        self._ids: dict[str, Ticket] | None = None
        self.refused: list[Ticket] = []
        """Whose callers were told that the disk is full."""

    def find(self, drafts: list[Draft], id: str | None, *, resumable: bool) -> Ticket | None:
        """Return the ticket of the same entries, if they were accepted before."""
        if (
            id is not None
        ):  # another call than one without it, whose entries nobody could find by it
            return self._known_ids().get(id)
        return self._refused_twin(drafts) if resumable and self.refused else None

    def enqueue(self, drafts: list[Draft], id: str, payloads: list[bytes]) -> Ticket:
        """Queue a batch, and remember it by its id."""
        known = self._known_ids()
        try:
            known[id] = ticket = self._writer.enqueue(drafts, id, payloads)
        except BaseException:  # an interrupt: it may be queued and not noted
            self._ids = None
            raise
        return ticket

    def refuse(self, ticket: Ticket, id: str | None) -> None:
        """Remember whose caller is told that the disk is full; one with an id is known by that."""
        if id is None and ticket not in self.refused:
            self.refused.append(ticket)

    def forget_ids(self) -> None:
        """Have the ids read again when one is asked for: the journal was rewritten."""
        self._ids = None

    def _known_ids(self) -> dict[str, Ticket]:
        if self._ids is None:
            known: dict[str, Ticket] = {}
            with self._log_writer.errors("cannot be read"):
                log = self._log_writer.log()
                for entry in () if log is None else log.entries_with_id():
                    known[entry.id or ""] = Ticket(None, [], entries=[entry])
            waiting = {ticket.id: ticket for ticket in self._writer.unpublished if ticket.id}
            self._ids = known | waiting  # complete, or not at all
        return self._ids

    def _refused_twin(self, drafts: list[Draft]) -> Ticket | None:
        """Return the ticket of a call that got ``DiskFull``, if this is the same call again.

        Its entries have numbers and will be written, or were a moment ago; a retry that queued
        them once more would write them twice.
        """
        for ticket in self.refused:
            if ticket.drafts == drafts:
                self.refused.remove(ticket)
                return ticket
        # The callers went on to something else: what is durable by now is not tried again.
        self.refused = [ticket for ticket in self.refused if not ticket.done]
        return None
