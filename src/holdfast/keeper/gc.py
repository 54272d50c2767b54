"""Plan a clean-up of sessions, trash and unused blobs, and carry it out step by step.

A session may be continued between the plan and its execution, so each step checks again. Steps that
fail are reported and do not stop the others.
"""

from __future__ import annotations

import sys
from datetime import datetime

from msgspec import Struct, field

from holdfast.errors import DamagedJournal, HoldfastError, SessionLocked, SessionNotFound
from holdfast.store.store import Store
from holdfast.store.types import DAMAGED, RUNNING, Deleted, Leftovers, Summary, stamp


class GcRules(Struct, frozen=True):
    """Conditions for removing a session; all that are given must hold."""

    older_than: datetime | None = None
    keep_last: int | None = None
    max_size: int | None = None

    @property
    def given(self) -> bool:
        """Whether there is any rule."""
        return self != GcRules()


class GcPlan(Struct):
    """What would be removed, with sizes, and what is skipped, with the reason.

    With ``compress`` sessions are compressed instead; after ``carry_out`` their sizes are the space
    gained. ``rest`` is what a crash left of permanent deletions. ``code`` is the exit code: not 0
    if something could not be done.
    """

    compress: bool = False
    sessions: list[tuple[Summary, int]] = field(default_factory=list)
    trash: list[tuple[Deleted, int]] = field(default_factory=list)
    rest: Leftovers = Leftovers()
    blobs: list[tuple[str, int, int]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    code: int = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.sessions or self.trash or self.rest.count or self.blobs)

    @property
    def sessions_bytes(self) -> int:
        """The size of the sessions, or the space that compressing them gained."""
        return sum(size_bytes for _, size_bytes in self.sessions)

    @property
    def gone_bytes(self) -> int:
        """The size of everything that is removed permanently."""
        whole = sum(size_bytes for _, size_bytes in self.trash) + self.rest.size_bytes
        return whole + sum(size_bytes for _, _, size_bytes in self.blobs)

    def skip(self, session_id: str, reason: str, code: int = 0) -> None:
        """Record that a session is skipped."""
        self.skipped.append((session_id, reason))
        self.code = max(self.code, code)

    def fail(self, session_id: str, error: HoldfastError) -> None:
        """Record that a session is skipped because of an error."""
        if isinstance(error, SessionLocked):
            self.skip(session_id, f"it is being written by {error.holder}", error.exit_code)
        else:
            self.skip(session_id, str(error), error.exit_code)


def plan_sessions(store: Store, rules: GcRules, plan: GcPlan) -> None:
    """Add the sessions that all rules select."""
    summaries = store.list()
    old = summaries[rules.keep_last or 0 :]
    if rules.older_than is not None:
        limit = stamp(rules.older_than)
        old = [each for each in old if each.updated < limit]
    spare = sys.maxsize
    sizes: dict[str, int] = {}
    if rules.max_size is not None:
        sizes = {each.id: _size(store, each) for each in summaries}
        spare = sum(sizes.values()) - rules.max_size
    for summary in reversed(old):
        if spare <= 0:
            break
        if _is_free(store, summary, plan):
            taken = sizes[summary.id] if sizes else _size(store, summary)
            plan.sessions.append((summary, taken))
            spare -= taken


def _size(store: Store, summary: Summary) -> int:
    try:
        return store.size_bytes(summary.id)
    except SessionNotFound:  # deleted a moment ago
        return 0


def _is_free(store: Store, summary: Summary, plan: GcPlan) -> bool:
    """Return whether a session can be removed or compressed now; record the reason if not."""
    if summary.state == DAMAGED:
        plan.skip(summary.id, "it is damaged")
        return False
    try:
        holder = store.holder(summary.id)
        if holder is not None or summary.state == RUNNING:
            who = "it is running" if holder is None else f"it is being written by {holder}"
            plan.skip(summary.id, who, SessionLocked.exit_code)
            return False
        return not (plan.compress and store.is_compressed(summary.id))
    except SessionNotFound:  # deleted a moment ago
        return False
    except HoldfastError as error:
        plan.fail(summary.id, error)
        return False


def plan_trash(store: Store, before: datetime, plan: GcPlan) -> None:
    """Add sessions deleted before a time, and remains of interrupted permanent deletions."""
    limit = stamp(before)
    plan.trash = [(gone, store.size_bytes(gone)) for gone in store.deleted() if gone.at < limit]
    plan.rest = store.half_erased()


def plan_blobs(store: Store, plan: GcPlan) -> None:
    """Add blobs that no entry names, of sessions that are not removed."""
    leaving = set() if plan.compress else {summary.id for summary, _ in plan.sessions}
    for session_id in sorted(store.ids() - leaving):
        found = _leftovers(store, session_id, plan, remove=False)
        if found.count:
            plan.blobs.append((session_id, found.count, found.size_bytes))


def _leftovers(store: Store, session_id: str, plan: GcPlan, *, remove: bool) -> Leftovers:
    try:
        found = store.leftovers(session_id, remove=remove)
    except DamagedJournal as error:
        plan.skip(session_id, str(error))
    except HoldfastError as error:
        plan.fail(session_id, error)
    else:
        if found.kept is not None:
            plan.skip(session_id, found.kept)
        return found
    return Leftovers()


def carry_out(store: Store, plan: GcPlan) -> None:
    """Carry a plan out; afterwards ``plan`` says what was done."""
    moved = []
    for summary, taken in plan.sessions:
        try:
            if not _is_as_it_was(store, summary):
                reason = "it was continued in the meantime"
                plan.skip(summary.id, reason, SessionLocked.exit_code)
            elif plan.compress:
                done = store.compress(summary.id)
                moved.append((summary, done.before_bytes - done.after_bytes))
            else:
                store.delete(summary.id)
                moved.append((summary, taken))
        except SessionNotFound:
            plan.skip(summary.id, "it was already deleted")
        except HoldfastError as error:
            plan.fail(summary.id, error)
    plan.sessions = moved
    _empty_trash(store, plan)
    freed = [(each, _leftovers(store, each, plan, remove=True)) for each, _, _ in plan.blobs]
    plan.blobs = [(each, found.count, found.size_bytes) for each, found in freed if found.count]


def _is_as_it_was(store: Store, summary: Summary) -> bool:
    """Return whether a session is unchanged since the plan was made."""
    with store.open(summary.id, mode="read") as session:
        return session.state.updated == summary.updated


def _empty_trash(store: Store, plan: GcPlan) -> None:
    rest, plan.rest = plan.rest, Leftovers()
    if rest.count:
        try:
            plan.rest = store.half_erased(remove=True)
        except HoldfastError as error:
            plan.fail("the trash", error)
    erased = []
    for gone, taken in plan.trash:
        try:
            store.erase(gone)
            erased.append((gone, taken))
        except HoldfastError as error:
            plan.fail(gone.id, error)
    plan.trash = erased
