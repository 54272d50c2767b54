"""What clients ask of a runner: each request, and what it has done.

Whatever a request leaves in the journal carries its id: one that is sent again, even to the next
runner, finds that it has been done.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import to_builtins

from holdfast.errors import DiskFull, StorageError, UsageError
from holdfast.model.entry import TREE, Entry, Meta, Queued
from holdfast.runtime import rewind
from holdfast.runtime.agent import check_said, queued_prompt
from holdfast.runtime.control import protocol
from holdfast.runtime.control.client import RunnerGone
from holdfast.runtime.control.protocol import Request, entry_id
from holdfast.runtime.limits import Limits
from holdfast.runtime.runner import Runner
from holdfast.runtime.settings import KEYS
from holdfast.runtime.tools.restore import Step
from holdfast.runtime.wishes import Wishes
from holdfast.store.session import Session

_WHILE_LEAVING = (protocol.Cancel, protocol.StatusOf, protocol.Stop, protocol.Approve)
_WITHOUT_ROOM = (protocol.StatusOf, protocol.Stop)
_LONGEST_TITLE = 1000


_NO_ROOM = "The session's runner is leaving and waits for room on the disk: {}"


class NoRoomToLeave(StorageError):
    """A runner keeps its session until the disk has room for the last of it."""

    exit_code = 75


class Reception:
    """Answers requests to one runner."""

    def __init__(self, runner: Runner, session: Session) -> None:
        self._runner = runner
        self._session = session

    async def answer(self, request: Request) -> dict[str, Any]:
        """Do what a request asks for and return the reply.

        Raises:
            HoldfastError: it cannot be done.
        """
        self._refuse_while_leaving(request)
        try:
            return await self._done(request)
        except StorageError:
            self._runner.show_state()  # everybody is to know that something is not durable
            raise

    def why_not_attach(self) -> StorageError | None:
        """Say why nobody can attach: the runner has left but for what it has no room to save.

        It is not that the runner is gone: then clients would look for the next one, in vain.
        """
        short = self._runner.short_of_room
        return None if short is None else NoRoomToLeave(_NO_ROOM.format(short))

    def _refuse_while_leaving(self, request: Request) -> None:
        runner = self._runner
        if runner.short_of_room is not None and not isinstance(request, _WITHOUT_ROOM):
            raise RunnerGone(_NO_ROOM.format(runner.short_of_room))
        if runner.leaving is None or isinstance(request, _WHILE_LEAVING):
            return
        if isinstance(trouble := self._session.trouble, DiskFull):  # its turn waits for room
            raise RunnerGone(_NO_ROOM.format(trouble))
        if isinstance(request, protocol.Submit) and runner.leaves_after_turn and runner.busy:
            return
        raise RunnerGone(f"The runner is leaving ({runner.leaving}); ask the next one.")

    async def _done(self, request: Request) -> dict[str, Any]:
        runner = self._runner
        reply: dict[str, Any] = {}
        match request:
            case protocol.Submit():
                reply = await self._submit(request)
            case protocol.EditQueue():
                reply = await self._edit_queue(request)
            case protocol.RunQueue():
                reply = {"queue": runner.agenda.want_all()}
            case protocol.ContinueTurn():
                runner.continue_turn()
            case protocol.Cancel():
                reply = {"running": runner.cancel("cancelled")}
            case protocol.Approve():
                await self._approve(request)
            case protocol.StatusOf():
                reply = {"status": to_builtins(runner.status())}
            case protocol.Stop(after_turn=after_turn):
                reply = {"running": runner.busy}
                runner.leave("it was asked to", after_turn=after_turn)
            case _:
                reply = await self._arrange(request)
        return reply

    async def _arrange(self, request: Request) -> dict[str, Any]:
        """Do what is about the session itself."""
        match request:
            case protocol.Rename(title=title):
                await self._rename(request.id, title)
                self._runner.show_state()
            case protocol.SetModel():
                return await self._set_model(request)
            case protocol.Compact():
                self._runner.compact()
                return {"after_turn": self._runner.busy}
            case protocol.Rewind():
                return await self._rewind(request)
            case protocol.HandOver():
                self._refuse_while_busy("handed over")
                self._runner.leave("another process takes over")
            case _:
                raise UsageError("This runner does not know that request.")
        return {}

    def _refuse_while_busy(self, what: str) -> None:
        if self._runner.busy or self._runner.agenda.has_jobs:
            raise UsageError(f"A turn is running: it cannot be {what} now; cancel it first.")

    async def _approve(self, request: protocol.Approve) -> None:
        try:
            await self._runner.questions.answer(request)
        except UsageError:
            if not await self._was_done(request.id):
                raise  # or it was this very answer, to another runner perhaps

    async def _was_done(self, request_id: str) -> bool:
        """Tell whether the journal has what a request leaves there."""
        return await asyncio.to_thread(_number_of, self._session, entry_id(request_id)) is not None

    # The queue

    async def _submit(self, request: protocol.Submit) -> dict[str, Any]:
        name, content = entry_id(request.id), list(request.content)
        _check_limits(request.limits)
        seq = await self._runner.enqueue(content, name, request.limits)
        if self._runner.leaving is None:
            return {"seq": seq}
        self._runner.tell("The runner leaves after this turn; the prompt is kept, and held.")
        return {"seq": seq, "held": True}

    async def _edit_queue(self, request: protocol.EditQueue) -> dict[str, Any]:
        content, name = list(request.content), entry_id(request.id)
        if content:
            check_said(content)
        if request.entry not in self._runner.agenda.waiting:
            done = await asyncio.to_thread(_number_of, self._session, name)
            if done is None:
                raise UsageError(f"The prompt {request.entry} does not wait in the queue any more.")
            return {"seq": done}
        with self._runner.agenda.editing(request.entry) as replace:
            before = await asyncio.to_thread(queued_prompt, self._session, request.entry)
            kept = {} if before is None else before.extra  # its limits
            edited = Queued(list(content), replaces=request.entry, extra=kept)
            seq = (await self._session.submit(edited, name)).seq
            replace(seq if content else None)
        self._runner.show_state()
        return {"seq": seq}

    # The session

    async def _rename(self, request_id: str, title: str) -> None:
        if len(title) > _LONGEST_TITLE:
            raise UsageError(f"A title has at most {_LONGEST_TITLE:,} characters.")
        if self._session.state.seq < 0:
            self._session.update(title=title)  # goes with the first prompt
        else:
            await self._session.submit(Meta({"title": title}), entry_id(request_id))

    async def _rewind(self, request: protocol.Rewind) -> dict[str, Any]:
        if await self._was_done(request.id):
            return {"files": []}
        self._refuse_while_busy("rewound")
        with self._runner.agenda.at_rest():  # or a turn might begin before the head has moved
            done = await asyncio.to_thread(self._rewound, request)
            await self._runner.look()
        return {"files": [to_builtins(step) for step in done]}

    def _rewound(self, request: protocol.Rewind) -> list[Step]:
        """Go back; blocks."""
        session, to = self._session, request.to
        if to is not None and not _is_in_tree(session, to):
            raise UsageError(f"There is no message or checkpoint numbered {to}.")
        planned, folder = rewind.Plan(to, []), None
        allowed = self._runner.fitting.equipment.allowed
        if request.files:
            folder = self._runner.fitting.equipment.workspace
            planned = rewind.plan(session, to, folder, allowed=allowed, overwrite=request.overwrite)
        return rewind.carry_out(
            session,
            planned,
            folder,
            allowed=allowed,
            files=request.files,
            conversation=request.conversation,
            id=entry_id(request.id),
        )

    async def _set_model(self, request: protocol.SetModel) -> dict[str, Any]:
        _check_address(request.base_url)
        before = self._runner.fitting.wishes
        wishes = Wishes(
            provider=request.provider,
            model=request.model,
            base_url=request.base_url,
            allow=before.allow,
            allow_all=before.allow_all,
            attended=True,
        )
        if not await self._was_done(request.id):
            await self._runner.set_model(wishes, entry_id(request.id))
        return {"after_turn": self._runner.busy}


def _check_limits(limits: Limits) -> None:
    for name, limit in to_builtins(limits).items():
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} has to be more than 0, or left out; it is {limit}.")


def _check_address(address: str | None) -> None:
    known = KEYS["base_url"]
    assert known.check is not None
    if address is not None and not known.check(address):
        raise UsageError(f"base_url has to be {known.wanted}.")


def _number_of(session: Session, name: str) -> int | None:
    """Return the number of the entry that was given an id, if there is one; blocks."""
    with session.follow(wait=False) as entries:
        return next((e.seq for e in entries if isinstance(e, Entry) and e.id == name), None)


def _is_in_tree(session: Session, seq: int) -> bool:
    """Tell whether the conversation has an entry of that number; blocks."""
    with session.follow(seq - 1, wait=False) as entries:
        found = next(iter(entries), None)
    return isinstance(found, Entry) and found.seq == seq and found.type in TREE
