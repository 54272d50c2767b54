"""What ``holdfast gc`` would do, and doing it: each step for itself, and what was not done is said.

Nothing is relied on for long: what was planned may have been taken up again while somebody thought
about the question.
"""

from __future__ import annotations

import sys
from datetime import datetime

from msgspec import Struct, field

from holdfast.errors import DamagedJournal, HoldfastError, SessionLocked, SessionNotFound
from holdfast.journal.files import Files
from holdfast.journal.lock import probe
from holdfast.store.contract import DAMAGED, RUNNING, Deleted, Leftovers, Summary, stamp
from holdfast.store.local import LocalStore
from holdfast.store.refusals import os_errors


class Rules(Struct, frozen=True):
    """Which sessions may go: those that every rule lets go."""

    older_than: datetime | None = None
    keep_last: int | None = None
    max_size: int | None = None

    @property
    def given(self) -> bool:
        """Whether there is any rule."""
        return self != Rules()


class Plan(Struct):
    """What would go, with sizes; and what is left alone, with the reason.

    With ``compress`` sessions do not go: they are to take less room. Once that is done, the sizes
    are what was gained. ``rest`` is what a crash left of sessions that were removed for good.
    ``code`` is what to exit with: something was to be done and could not.
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
        """Whether there is nothing to be done."""
        return not (self.sessions or self.trash or self.rest.count or self.blobs)

    @property
    def sessions_bytes(self) -> int:
        """The size of the sessions, or what compressing them gained."""
        return sum(size_bytes for _, size_bytes in self.sessions)

    @property
    def gone_bytes(self) -> int:
        """The size of all that goes for good."""
        whole = sum(size_bytes for _, size_bytes in self.trash) + self.rest.size_bytes
        return whole + sum(size_bytes for _, _, size_bytes in self.blobs)

    def skip(self, session_id: str, reason: str, code: int = 0) -> None:
        """Leave something alone."""
        self.skipped.append((session_id, reason))
        self.code = max(self.code, code)

    def fail(self, session_id: str, error: HoldfastError) -> None:
        """Leave something alone that could not be done."""
        if isinstance(error, SessionLocked):
            self.skip(session_id, f"it is being written by {error.holder}", error.exit_code)
        else:
            self.skip(session_id, str(error), error.exit_code)


def plan_sessions(store: LocalStore, rules: Rules, plan: Plan) -> None:
    """Choose the sessions that every rule lets go."""
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


def _size(store: LocalStore, summary: Summary) -> int:
    try:
        return store.size_bytes(summary.id)
    except SessionNotFound:  # deleted a moment ago
        return 0


def _is_free(store: LocalStore, summary: Summary, plan: Plan) -> bool:
    """Tell whether there is something to do that nothing but the rules prevents; note what does."""
    if summary.state == DAMAGED:
        plan.skip(summary.id, "it is damaged")
        return False
    try:
        folder = store.find(summary.id)
        with os_errors(f"{folder} cannot be looked at", folder):
            holder = probe(Files(), folder)
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


def plan_trash(store: LocalStore, before: datetime, plan: Plan) -> None:
    """Choose what was deleted before a time, and what a crash left of such."""
    limit = stamp(before)
    plan.trash = [(gone, store.size_bytes(gone)) for gone in store.deleted() if gone.at < limit]
    plan.rest = store.half_erased()


def plan_blobs(store: LocalStore, plan: Plan) -> None:
    """Choose the files that no entry names, of sessions that stay."""
    leaving = set() if plan.compress else {summary.id for summary, _ in plan.sessions}
    for session_id in sorted(store.ids() - leaving):
        found = _leftovers(store, session_id, plan, remove=False)
        if found.count:
            plan.blobs.append((session_id, found.count, found.size_bytes))


def _leftovers(store: LocalStore, session_id: str, plan: Plan, *, remove: bool) -> Leftovers:
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


def carry_out(store: LocalStore, plan: Plan) -> None:
    """Do it. ``plan`` is then what was done."""
    moved = []
    for summary, taken in plan.sessions:
        try:
            if not _is_as_it_was(store, summary):
                reason = "it was gone on with meanwhile"
                plan.skip(summary.id, reason, SessionLocked.exit_code)
            elif plan.compress:
                done = store.compress(summary.id)
                moved.append((summary, done.before_bytes - done.after_bytes))
            else:
                store.delete(summary.id)
                moved.append((summary, taken))
        except SessionNotFound:
            plan.skip(summary.id, "it is gone already: somebody else has deleted it")
        except HoldfastError as error:
            plan.fail(summary.id, error)
    plan.sessions = moved
    _empty_trash(store, plan)
    freed = [(each, _leftovers(store, each, plan, remove=True)) for each, _, _ in plan.blobs]
    plan.blobs = [(each, found.count, found.size_bytes) for each, found in freed if found.count]


def _is_as_it_was(store: LocalStore, summary: Summary) -> bool:
    """Tell whether nothing was added to a session since the rules were applied to it."""
    with store.open(summary.id, mode="read") as session:
        return session.state.updated == summary.updated


def _empty_trash(store: LocalStore, plan: Plan) -> None:
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
