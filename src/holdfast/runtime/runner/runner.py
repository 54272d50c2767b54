"""A runner: holds one session and runs its turns.

It is usually a process of its own, in its own process session, so closing a terminal does not
affect it. Clients come and go; prompts, the queue and decisions are entries of the session. It
stops when it is idle, when the session's folder is gone, when a client asks for it, and when a
question waits too long without a terminal. What requests do is in ``requests.py``.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from holdfast.errors import DiskFull, HoldfastError
from holdfast.model.entry import Entry
from holdfast.model.message import AnyPart
from holdfast.runtime.agent.build import BuiltAgent
from holdfast.runtime.agent.cancellation import Stopped
from holdfast.runtime.agent.recovery import Interrupted
from holdfast.runtime.agent.services import Question
from holdfast.runtime.agent.turn import Outcome
from holdfast.runtime.config.run_options import Limits, RunOptions
from holdfast.runtime.config.settings import Settings
from holdfast.runtime.protocol.broadcast import Broadcaster
from holdfast.runtime.protocol.messages import (
    DeniedCall,
    InterruptedCall,
    Notice,
    RunnerStatus,
    SessionRepaired,
    TurnEnded,
    TurnInterrupted,
    encode,
)
from holdfast.runtime.protocol.subscriber import Subscriber
from holdfast.runtime.runner.approvals import PendingApprovals
from holdfast.runtime.runner.launch_options import IdleTimeouts
from holdfast.runtime.runner.model_switch import ActiveModel
from holdfast.runtime.runner.notify import Attention
from holdfast.runtime.runner.queue import Job, PromptQueue
from holdfast.runtime.runner.status import RunnerState
from holdfast.store.session import Session

_LOOK_SECONDS = 1.0
_LOG = logging.getLogger("holdfast")


def patience_of(settings: Settings) -> IdleTimeouts:
    """Return how long a runner stays idle, as configured."""
    return IdleTimeouts(idle_seconds=settings.idle_seconds)


class Runner:
    """Runs one session. ``active_model`` has its agent, ``queue`` what it does next.

    ``state`` is sent to clients. ``stopping`` says why the runner stops, once it does, and
    ``stops_after_turn`` whether the turn may end first. ``force``: it was told twice to stop.
    ``waiting_for_disk``: why the session cannot be closed, when nothing else is left to do.
    """

    def __init__(
        self,
        session: Session,
        assembled: BuiltAgent,
        broadcaster: Broadcaster,
        rebuild: Callable[[RunOptions], BuiltAgent],
        wishes: RunOptions,
        patience: IdleTimeouts,
    ) -> None:
        self._session = session
        self._broadcaster = broadcaster
        self._patience = patience
        self.queue = PromptQueue(session)
        self.approvals = PendingApprovals(
            session,
            broadcaster,
            patience.question_seconds,
            self.show_state,
            lambda: self.queue.running,
        )
        settings = assembled.configuration.settings
        self._attention = Attention(
            session,
            settings.on_attention,
            (assembled.equipment.workspace, *assembled.equipment.allowed),
        )
        assembled.equipment.ask = self._ask
        assembled.equipment.decision_id = self.approvals.entry_id
        assembled.equipment.tell = self.notify
        self.active_model = ActiveModel(assembled, rebuild, wishes)
        self._agent = self.active_model.agent
        self.state = RunnerState(
            session, broadcaster, self.active_model, self.queue, self.approvals
        )
        self._cancelled: str | None = None
        self.stopping: str | None = None
        self.stops_after_turn = False
        self.force = False
        self.waiting_for_disk: str | None = None
        self._folder = _FolderWatch(session)
        broadcaster.on_entry(self._folder.on_entry)
        self._interrupted: Interrupted | None = None
        broadcaster.on_attach(self._send_state)
        broadcaster.on_disconnect(self._disconnected)

    @property
    def busy(self) -> bool:
        """Whether a turn, or a job between turns, is under way."""
        return self.state.busy

    # Life

    async def load_interrupted_turn(self) -> None:
        """Read what an interrupted turn left; call it before the first client connects."""
        self._interrupted = await self._agent.interrupted()

    async def run(self) -> str:
        """Run until there is a reason to stop; return it.

        Nothing is awaited between the decision and the return, so no request comes in between.
        """
        watching = asyncio.ensure_future(self._watch())
        self.state.context.measure()
        left = self._interrupted
        if left is not None and left.waiting and not left.foreign:
            self.continue_turn()  # clients that attach now are asked again
        idle_since = time.monotonic()
        try:
            while self.stopping is None:
                if await self._work() or self._broadcaster.clients or self._waits_for_room:
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since >= self._patience.idle_seconds:
                    self.stopping = "it was idle"
            return self.stopping
        finally:
            watching.cancel()
            self.state.context.close()

    def stop(self, why: str, *, after_turn: bool = False) -> None:
        """Stop: cancel a running turn, or let it end first."""
        self.stops_after_turn = after_turn and (self.stopping is None or self.stops_after_turn)
        self.stopping = self.stopping or why
        if not after_turn:
            self.cancel(why)
        self.queue.wake()

    def cancel(self, cause: str) -> bool:
        """Cancel what runs, the second time by force; tell whether anything ran."""
        if self.busy:
            self._cancelled = self._cancelled or cause
            self._agent.cancel(cause)
        return self.busy

    async def _watch(self) -> None:
        """Stop if nothing can be saved any more; send the state if there is new trouble."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.show_state()
            if (lost := await asyncio.to_thread(self._folder.lost)) is not None:
                self.notify(f"{lost}. Nothing more can be saved.")
                self.stop("the session's folder is gone")
                return
            trouble = self._session.trouble
            if trouble is not None and not self._waits_for_room:
                self.notify(str(trouble))
                self.stop("the session cannot be written any more")
                return

    @property
    def _waits_for_room(self) -> bool:
        """Whether the disk is full, which may pass; any other trouble is permanent."""
        return isinstance(self._session.trouble, DiskFull)

    def _disconnected(self, client: Subscriber) -> None:
        """Apply ``on_hangup`` when the last terminal is gone; other clients do not matter."""
        last = client.answers and not self._broadcaster.terminals
        if last and self.active_model.settings.on_hangup == "stop":
            self.cancel("the last terminal was closed")
            self.queue.hold_all()
            self.show_state()
        self.queue.wake()

    def obey_signals(self) -> None:
        """Stop in order on SIGTERM and SIGINT; ignore SIGHUP."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_end, signal.Signals(number).name)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _told_to_end(self, name: str) -> None:
        self.force = self.stopping is not None
        self.stop(name)

    # Work

    async def _work(self) -> bool:
        """Do the next job or prompt; if there is none, wait a little and return ``False``."""
        job = self._next()
        if job is None:
            await self.queue.pause(min(_LOOK_SECONDS, self._patience.idle_seconds))
            return False
        self.state.busy, self._cancelled = True, None
        self.show_state()
        try:
            await self._done(job)
        finally:
            self.state.busy, self.queue.running = False, None
            self.approvals.turn_ended()
            self.show_state()
        return True

    def _next(self) -> Job | None:
        job = self.queue.next_job()
        if job is None and (seq := self.queue.next_prompt()) is not None:
            job = partial(self._prompted, seq)
        return job

    async def _done(self, job: Job) -> None:
        """Do a job; a failure is sent to clients and does not end the runner."""
        try:
            outcome = await job()
            code = 0
            if outcome is not None and outcome.state != "completed":
                code = 1 if outcome.error is None else outcome.error.exit_code
        except Stopped as stopped:
            outcome, code = Outcome("cancelled", str(stopped)), 1
        except HoldfastError as error:
            self.notify(str(error))
            outcome, code = Outcome("failed", str(error)), error.exit_code
        except Exception as error:  # noqa: BLE001  one turn must not take the runner down
            _LOG.exception("A turn failed")
            cause = f"Internal error in the runner: {type(error).__name__}: {error}."
            self.notify(cause)
            outcome, code = Outcome("failed", cause), 1
        if outcome is not None:
            await self._ended(outcome, code)

    async def _prompted(self, seq: int) -> Outcome:
        await self._begin()
        return await self._agent.queued(seq)

    async def _begin(self) -> None:
        """Renew the model; do not start a turn that was cancelled meanwhile.

        Raises:
            Stopped: it was cancelled.
        """
        await self.active_model.renew()
        if self._cancelled is not None:  # the agent forgets a cancel from before its turn
            raise Stopped(self._cancelled)
        self._interrupted = None  # the new turn ends it first

    async def _ended(self, outcome: Outcome, exit_code: int) -> None:
        """Send how a turn ended, after all of its entries."""
        await self._broadcaster.wait_until_sent(self._session.seq)
        self._broadcaster.broadcast(
            TurnEnded(
                queued=self.queue.running,
                state=outcome.state,
                cause=outcome.cause,
                limit=outcome.limit,
                exit_code=exit_code,
                text=outcome.text,
                denied=[
                    DeniedCall(tool=each.tool, subject=each.subject, rule=each.rule)
                    for each in outcome.denied
                ],
            )
        )
        if outcome.state != "waiting":  # the question has called already
            self._call_for_attention(outcome.state)
        if outcome.state != "completed":
            self.queue.hold_all()  # after such an end prompts run only on request
        if outcome.state == "waiting":
            self.stop("a question is waiting for an answer")

    async def _continued(self) -> Outcome:
        await self._begin()
        outcome = await self._agent.continue_turn()
        if outcome is None:
            self.notify("There is no interrupted turn to continue.")
            return Outcome("completed")
        return outcome

    async def _compacted(self) -> None:
        try:
            self.notify((await self._agent.compact()).told)
        except Stopped as stopped:
            self.notify(f"Not compacted: {stopped}.")
        except HoldfastError as error:
            self.notify(f"Not compacted: {error}")

    async def _switched(self, wishes: RunOptions, id: str) -> None:
        try:
            await self.active_model.switch(wishes, id)
        except HoldfastError as error:
            self.notify(f"The model was not changed: {error}")
        self.state.context.measure()

    async def _ask(self, question: Question) -> bool | None:
        self._call_for_attention("waiting")
        return await self.approvals.ask(question)

    def _call_for_attention(self, what: str) -> None:
        if (trouble := self._attention.call(what)) is not None:
            self.notify(trouble)

    # Requests

    async def enqueue(self, content: Sequence[AnyPart], name: str, limits: Limits) -> int:
        """Queue a prompt and run it in its turn; return its number once it is durable.

        Raises:
            UsageError: it is empty, or its limits cannot be kept.
            DiskFull: it becomes durable when there is room, and is held; the same call runs it.
        """
        self.active_model.check(limits)
        with self.queue.taking():
            seq = (await self._agent.enqueue(content, id=name, limits=limits)).seq
            if self.stopping is None:
                self.queue.want(seq)
        self.show_state()
        return seq

    async def check_continue(self) -> None:
        """Check that the interrupted turn may be continued.

        Raises:
            ForeignSession: it was recorded elsewhere and not accepted.
        """
        await self._agent.check_continue()

    async def check_queue(self) -> None:
        """Check that held prompts may be run; raises as ``check_continue``."""
        await self._agent.check_queue()

    def continue_turn(self) -> None:
        """Continue the interrupted turn, after the running one."""
        self.queue.do(self._continued)

    def compact(self) -> None:
        """Compact the context, after the running turn."""
        self.queue.do(self._compacted)

    async def set_model(self, wishes: RunOptions, id: str) -> None:
        """Switch to another model, after the running turn; its entry gets this id.

        Raises:
            HoldfastError: it cannot be used from here. Nothing has changed.
        """
        await self.active_model.check_wishes(wishes)
        self.queue.do(partial(self._switched, wishes, id))

    # Events

    def _send_state(self, client: Subscriber) -> None:
        client.send(encode(self.state.event()))
        if not self._session.recovery.clean:
            client.send(encode(SessionRepaired(report=str(self._session.recovery))))
        left = self._interrupted
        if left is not None and (left.foreign or not left.waiting):
            client.send(encode(_interrupted(left)))
        for question in self.approvals.events():
            client.send(encode(question))
        if (trouble := self._session.trouble) is not None:
            client.send(encode(Notice(text=str(trouble))))
        self.queue.wake()

    def show_state(self) -> None:
        """Send the state to all clients, if it has changed."""
        self.state.show()

    def notify(self, text: str) -> None:
        """Send a sentence to all clients; it is in no journal."""
        self._broadcaster.broadcast(Notice(text=text))
        self.show_state()  # the sentence may be about trouble, which is in the state

    def status(self) -> RunnerStatus:
        """Return the status of the runner."""
        return self.state.status()


def _interrupted(turn: Interrupted) -> TurnInterrupted:
    facts = turn.facts()
    calls = [InterruptedCall(**call) for call in facts["calls"]]
    return TurnInterrupted(report=facts["report"], calls=calls, foreign=turn.foreign)


class _FolderWatch:
    """Watches the folder of a session; before the first entry, the home.

    A session that is not in a folder cannot be lost this way.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._path = session.folder
        self._seen: dict[Path, tuple[int, int]] = {}
        self.lost()

    def on_entry(self, _: Entry) -> None:
        """Remember the folder as soon as it is made: it may be replaced before the next look."""
        if self._path is not None and self._path not in self._seen:
            self.lost()

    def lost(self) -> str | None:
        """Return a sentence if the folder is gone or was replaced, else ``None``; blocks.

        Return ``None`` if stat fails for another reason.
        """
        if self._path is None:
            return None
        folder = self._path if self._session.seq >= 0 else self._path.parents[2]
        try:
            status = folder.stat()
        except (FileNotFoundError, NotADirectoryError):
            return f"{folder} is gone"
        except OSError:
            return None
        found = (status.st_dev, status.st_ino)
        if self._seen.setdefault(folder, found) != found:
            return f"{folder} was replaced by another folder"
        return None
