"""What a session from elsewhere may not do here before the user accepts it.

An entry is foreign if it was received (imported, unpacked, copied) and not accepted: ``store``
records that. Nothing that a foreign entry says authorises anything on this machine. Everything that
would act on such an entry comes here first, and ``refuse`` is the only place that raises
``ForeignSession``. Which entries are foreign is read anew each time, because the user may accept
the session while a runner has it open.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from msgspec import Struct, field

from holdfast.errors import ForeignSession
from holdfast.model.entry import Approval, Entry, Queued, WriterInfo
from holdfast.model.message import Text
from holdfast.runtime.agent.origin import short, source_of, spelled
from holdfast.runtime.agent.recovery import Interrupted, examine
from holdfast.runtime.agent.rewind_points import changes_of
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.providers.rehearsal import Rehearsal
from holdfast.store.session import Session

_MOST_SHOWN = 50
_LONGEST_ACT = 200
_LONGEST_COMMAND = 4000
_LONGEST_NAME = 200


# What is refused


def refuse(
    session: Session, action: str, acts: Iterable[str], folder: Path | str | None = None
) -> NoReturn:
    """Reject an action that would act on foreign entries.

    Args:
        session: the session that has them.
        action: what was asked for, such as ``"run its queue"``.
        acts: what it would do, one phrase for each command, prompt or file; safe to show.
        folder: where it would do it.

    Raises:
        ForeignSession: always.
    """
    raise ForeignSession(
        session.id,
        source_of(session.provenance()),
        action,
        tuple(acts),
        None if folder is None else short(str(folder)),
    )


def check_turn(equipment: TurnServices, interrupted: Interrupted | None) -> None:
    """See that an interrupted turn may be continued here.

    Raises:
        ForeignSession: it was recorded elsewhere; says which calls it would run.
    """
    if interrupted is not None and interrupted.foreign:
        acts = _acts_of(interrupted)
        refuse(equipment.session, "continue its turn", acts, equipment.workspace)


def _acts_of(interrupted: Interrupted) -> list[str]:
    calls = [(found.call.name, found.subject) for found in interrupted.open]
    acts = calls or [("ask the model to answer", interrupted.prompt)]
    return [f"{short(does, _LONGEST_NAME)} “{spelled(what, _LONGEST_ACT)}”" for does, what in acts]


def check_queued(equipment: TurnServices, seqs: Sequence[int]) -> None:
    """See that queued prompts may be run here; blocks.

    Raises:
        ForeignSession: some were recorded elsewhere; says what they ask for.
    """
    session = equipment.session
    foreign = foreign_queue(session, seqs)
    if foreign:
        prompts = _queued_texts(session, set(foreign)).values()
        acts = [f"the prompt “{spelled(text, _LONGEST_ACT)}”" for text in prompts]
        refuse(session, "run its queue", acts or ["a queued prompt"], equipment.workspace)


def foreign_queue(session: Session, seqs: Sequence[int]) -> list[int]:
    """Return which of these entries are foreign; blocks."""
    if not seqs:
        return []
    provenance = session.provenance()
    return [seq for seq in seqs if provenance.is_foreign(seq)]


def check_files(session: Session, paths: Sequence[str], folder: Path | None) -> None:
    """See that no file is restored to a state that was recorded elsewhere.

    Raises:
        ForeignSession: there are such files; says which.
    """
    if paths:
        refuse(
            session,
            "rewind its files",
            [f"write {spelled(path, _LONGEST_NAME)}" for path in paths],
            folder,
        )


# What accepting it would allow


class ForeignContent(Struct, frozen=True):
    """What a session from elsewhere would do once it is accepted, for the user to look at.

    All texts are as they were recorded; ``lines`` makes them safe for a terminal. ``last_seq`` is
    the last entry that was looked at. ``elsewhere``: the session itself says that it was
    imported, or written on another machine; that it does not say so proves nothing.
    """

    session: str
    last_seq: int
    source: str
    received: str | None
    calls: list[str] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    workspace: str | None = None
    provider: str | None = None
    endpoint: str | None = None
    model: str | None = None
    elsewhere: bool = False

    def lines(self) -> list[str]:
        """Return the facts as lines for a terminal. If something is left out, it says so."""
        when = "" if self.received is None else f" (received {short(self.received)})"
        found = [f"Session {self.session} was {self.source}{when}."]
        found.append("If you accept it, its content is treated as your own:")
        found += _listed("continuing its turn runs", self.calls, _LONGEST_COMMAND)
        found += _listed("running its queue sends", self.prompts, _LONGEST_COMMAND)
        found += _listed("a rewind with files can write", self.files, _LONGEST_NAME)
        if self.workspace is not None:
            found.append(f"  it works in the folder {short(self.workspace)}")
        asked = [each for each in (self.provider, self.endpoint, self.model) if each]
        if asked:
            found.append(f"  it uses the model {' · '.join(map(short, asked))}")
        return found


def facts_of(session: Session) -> ForeignContent | None:
    """Return what accepting a session would allow, ``None`` if nothing in it is foreign; blocks."""
    provenance = session.provenance()
    if not provenance.any_foreign:
        return None
    paths: dict[str, None] = {}
    approved: set[str] = set()
    elsewhere = "imported" in session.meta
    for entry in _entries(session):
        if provenance.is_foreign(entry.seq):
            paths.update((change.path, None) for change in changes_of(entry))
            if isinstance(entry.body, Approval) and entry.body.decision == "allow":
                approved.add(entry.body.call_id)
            if isinstance(entry.body, WriterInfo) and entry.body.host != socket.gethostname():
                elsewhere = True
    looking = TurnServices(session, Rehearsal(), "", Path("/"))
    interrupted = examine(looking, claim=False)
    calls: list[str] = []
    if interrupted is not None and interrupted.foreign:
        for found in interrupted.open:
            already = "(recorded as approved) " if found.call.id in approved else ""
            calls.append(f"{already}{found.call.name} {found.subject}")
        calls = calls or [f"ask the model to answer: {interrupted.prompt}"]
    queue = foreign_queue(session, session.state.queue)
    meta = session.meta
    return ForeignContent(
        session=session.id,
        last_seq=session.seq,
        source=source_of(provenance),
        received=provenance.received[-1].at if provenance.received else None,
        calls=calls,
        prompts=list(_queued_texts(session, set(queue)).values()),
        files=list(paths),
        workspace=_text(meta.get("workspace")),
        provider=_text(meta.get("provider")),
        endpoint=_text(meta.get("endpoint")),
        model=_text(meta.get("model")),
        elsewhere=elsewhere,
    )


def _listed(what: str, items: Sequence[str], longest: int) -> list[str]:
    if not items:
        return []
    shown = [f"    {spelled(item, longest)}" for item in items[:_MOST_SHOWN]]
    more = len(items) - _MOST_SHOWN
    return [f"  {what}:", *shown, *([f"    and {more} more, not shown"] if more > 0 else [])]


def _queued_texts(session: Session, seqs: set[int]) -> dict[int, str]:
    return {
        entry.seq: "".join(part.text for part in entry.body.content if isinstance(part, Text))
        for entry in _entries(session)
        if entry.seq in seqs and isinstance(entry.body, Queued)
    }


def _entries(session: Session) -> Iterable[Entry]:
    with session.follow(wait=False) as entries:
        for entry in entries:
            if isinstance(entry, Entry):
                yield entry


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
