"""Does the requests of clients: one method for each kind of request.

The entry that a request leaves in the journal carries the request's id. So a request that is sent
again, even to the next runner, finds that it has been done.
"""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import structs, to_builtins

from holdfast.errors import DiskFull, StorageError, UsageError
from holdfast.model.entry import Meta, Queued, in_tree
from holdfast.runtime.agent import rewind
from holdfast.runtime.agent.agent import check_said, queued_prompt
from holdfast.runtime.config.run_options import Limits, RunOptions
from holdfast.runtime.config.settings import KEYS
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.client import RunnerGone
from holdfast.runtime.protocol.messages import Reply, Request, entry_id
from holdfast.runtime.runner.runner import Runner
from holdfast.runtime.tools.undo import UndoStep
from holdfast.store.session import Session
from holdfast.store.validation import edited_tags, tags_in, valid_tag, valid_title

_WHILE_STOPPING = (protocol.Cancel, protocol.StatusOf, protocol.Stop, protocol.Approve)
_WITHOUT_ROOM = (protocol.StatusOf, protocol.Stop)
_NO_ROOM = "The session's runner is stopping and waits for free disk space: {}"


class NoRoomToLeave(StorageError):
    """A stopping runner keeps its session until the disk has room for the last entries."""

    exit_code = 75


class RequestRouter:
    """Does the requests to one runner."""

    def __init__(self, runner: Runner, session: Session) -> None:
        self._runner = runner
        self._session = session
        self._tagging = asyncio.Lock()

    async def answer(self, request: Request) -> Reply:
        """Do a request and return its reply.

        Raises:
            HoldfastError: it cannot be done; says why.
        """
        self._refuse_while_stopping(request)
        try:
            return await self._done(request)
        except StorageError:
            self._runner.show_state()  # clients have to know that something is not durable
            raise

    def why_not_attach(self) -> StorageError | None:
        """Return why no client can attach: the runner only waits for room to save the last entries.

        This is not ``RunnerGone``: clients would look for the next runner, in vain.
        """
        short = self._runner.waiting_for_disk
        return None if short is None else NoRoomToLeave(_NO_ROOM.format(short))

    def _refuse_while_stopping(self, request: Request) -> None:
        runner = self._runner
        if runner.waiting_for_disk is not None and not isinstance(request, _WITHOUT_ROOM):
            raise RunnerGone(_NO_ROOM.format(runner.waiting_for_disk))
        if runner.stopping is None or isinstance(request, _WHILE_STOPPING):
            return
        if isinstance(trouble := self._session.trouble, DiskFull):  # its turn waits for room
            raise RunnerGone(_NO_ROOM.format(trouble))
        if isinstance(request, protocol.Submit) and runner.stops_after_turn and runner.busy:
            return
        raise RunnerGone(f"The runner is stopping ({runner.stopping}). Try again.")

    async def _done(self, request: Request) -> Reply:
        runner = self._runner
        reply = Reply()
        match request:
            case protocol.Submit():
                reply = await self._submit(request)
            case protocol.EditQueue():
                reply = await self._edit_queue(request)
            case protocol.RunQueue():
                await runner.check_queue()
                reply = protocol.QueueReleased(queue=runner.queue.want_all())
            case protocol.ContinueTurn():
                await runner.check_continue()
                runner.continue_turn()
            case protocol.Cancel():
                reply = protocol.TurnRunning(running=runner.cancel("cancelled"))
            case protocol.Approve():
                await self._approve(request)
            case protocol.StatusOf():
                reply = protocol.StatusReply(status=runner.status())
            case protocol.Stop(after_turn=after_turn):
                reply = protocol.TurnRunning(running=runner.busy)
                runner.stop("it was told to stop", after_turn=after_turn)
            case _:
                reply = await self._arrange(request)
        return reply

    async def _arrange(self, request: Request) -> Reply:
        """Do a request about the session itself."""
        match request:
            case protocol.Rename(title=title):
                await self._rename(request.id, title)
                self._runner.show_state()
            case protocol.EditTags():
                return protocol.TagsEdited(tags=await self._edit_tags(request))
            case protocol.SetModel():
                return await self._set_model(request)
            case protocol.Compact():
                self._runner.compact()
                return protocol.Scheduled(after_turn=self._runner.busy)
            case protocol.Rewind():
                return await self._rewind(request)
            case protocol.HandOver():
                self._refuse_while_busy("handed over")
                self._runner.stop("another process continues the session")
            case _:
                raise UsageError("This runner does not know that request.")
        return Reply()

    def _refuse_while_busy(self, what: str) -> None:
        if self._runner.busy or self._runner.queue.has_jobs:
            raise UsageError(
                f"A turn is running, so the session cannot be {what} now. Cancel the turn first."
            )

    async def _approve(self, request: protocol.Approve) -> None:
        try:
            await self._runner.approvals.answer(request)
        except UsageError:
            if not await self._was_done(request.id):
                raise  # or this very answer was recorded before, perhaps by another runner

    async def _was_done(self, request_id: str) -> bool:
        """Tell whether the journal has the entry of a request."""
        return await asyncio.to_thread(_number_of, self._session, entry_id(request_id)) is not None

    # The queue

    async def _submit(self, request: protocol.Submit) -> protocol.PromptQueued:
        name, content = entry_id(request.id), list(request.content)
        _check_limits(request.limits)
        seq = await self._runner.enqueue(content, name, request.limits)
        if self._runner.stopping is None:
            return protocol.PromptQueued(seq=seq)
        self._runner.notify("The runner stops after this turn. The prompt is saved, and on hold.")
        return protocol.PromptQueued(seq=seq, held=True)

    async def _edit_queue(self, request: protocol.EditQueue) -> protocol.PromptQueued:
        content, name = list(request.content), entry_id(request.id)
        if content:
            check_said(content)
        if request.entry not in self._runner.queue.waiting:
            done = await asyncio.to_thread(_number_of, self._session, name)
            if done is None:
                raise UsageError(f"Prompt {request.entry} is no longer in the queue.")
            return protocol.PromptQueued(seq=done)
        with self._runner.queue.editing(request.entry) as replace:
            kept = await asyncio.to_thread(self._limits_of, request.entry)
            edited = Queued(list(content), replaces=request.entry, extra=kept)
            seq = (await self._session.submit(edited, name)).seq
            replace(seq if content else None)
        self._runner.show_state()
        return protocol.PromptQueued(seq=seq)

    def _limits_of(self, seq: int) -> dict[str, Any]:
        """Return the recorded limits of a queued prompt, none if it is foreign; blocks."""
        before = queued_prompt(self._session, seq)
        is_ours = not self._session.provenance().is_foreign(seq)
        return before.extra if before is not None and is_ours else {}

    # The session

    async def _rename(self, request_id: str, title: str) -> None:
        title = valid_title(title, optional=True)
        if self._session.seq < 0:
            self._session.update(title=title)  # recorded with the first prompt
        else:
            await self._session.submit(Meta({"title": title}), entry_id(request_id))

    async def _edit_tags(self, request: protocol.EditTags) -> list[str]:
        added = [valid_tag(tag) for tag in request.add]
        async with self._tagging:  # or two edits at once would both start from the same tags
            if await self._was_done(request.id):
                return tags_in(self._session.meta)
            before = tags_in(self._session.meta)
            after = edited_tags(before, added, request.remove, replace=request.replace)
            if after == before:
                return after
            if self._session.seq < 0:
                self._session.update(tags=after)  # written with the first prompt
            else:
                await self._session.submit(Meta({"tags": after}), entry_id(request.id))
            return after

    async def _rewind(self, request: protocol.Rewind) -> protocol.Rewound:
        if await self._was_done(request.id):
            return protocol.Rewound()
        self._refuse_while_busy("rewound")
        with self._runner.queue.at_rest():  # no turn may start before the head has moved
            done = await asyncio.to_thread(self._rewound, request)
            await self._runner.load_interrupted_turn()
        if isinstance(done, rewind.RewindPlan):
            return protocol.Rewound(autorun=done.autorun)
        return protocol.Rewound(
            files=[protocol.RestoredFile(**structs.asdict(step)) for step in done]
        )

    def _rewound(self, request: protocol.Rewind) -> list[UndoStep] | rewind.RewindPlan:
        """Rewind; blocks. Return only the plan if the client has to be asked about it first."""
        session, to = self._session, request.to
        if to is not None and not _is_in_tree(session, to):
            raise UsageError(f"There is no message or checkpoint numbered {to}.")
        planned, folder = rewind.RewindPlan(to, []), None
        allowed = self._runner.active_model.equipment.allowed
        if request.files:
            folder = self._runner.active_model.equipment.workspace
            planned = rewind.plan(
                session,
                to,
                folder,
                allowed=allowed,
                overwrite=request.overwrite,
                autorun=bool(request.autorun),
            )
            if request.autorun is None and planned.autorun:
                return planned
        return rewind.carry_out(
            session,
            planned,
            folder,
            allowed=allowed,
            files=request.files,
            conversation=request.conversation,
            autorun=bool(request.autorun),
            id=entry_id(request.id),
        )

    async def _set_model(self, request: protocol.SetModel) -> protocol.Scheduled:
        _check_address(request.base_url)
        before = self._runner.active_model.wishes
        wishes = RunOptions(
            provider=request.provider,
            model=request.model,
            base_url=request.base_url,
            allow=before.allow,
            allow_all=before.allow_all,
            attended=True,
        )
        if not await self._was_done(request.id):
            await self._runner.set_model(wishes, entry_id(request.id))
        return protocol.Scheduled(after_turn=self._runner.busy)


def _check_limits(limits: Limits) -> None:
    for name, limit in to_builtins(limits).items():
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} must be more than 0, or left out; it is {limit}.")


def _check_address(address: str | None) -> None:
    known = KEYS["base_url"]
    assert known.check is not None
    if address is not None and not known.check(address):
        raise UsageError(f"base_url must be {known.wanted}.")


def _number_of(session: Session, name: str) -> int | None:
    """Return the number of the entry that was given an id, if there is one; blocks."""
    found = session.entry(name)
    return None if found is None else found.seq


def _is_in_tree(session: Session, seq: int) -> bool:
    """Tell whether the conversation has an entry of that number; blocks."""
    found = session.entry(seq)
    return found is not None and in_tree(found.type, found.body)
