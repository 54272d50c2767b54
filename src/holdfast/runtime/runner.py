"""A runner: a process of its own that holds one session and runs its turns.

It is a fresh interpreter in its own process session, so nothing that happens to a terminal happens
to it. Clients come and go; prompts, the queue and decisions are entries of the session. It leaves
when it is idle, when the session's folder is gone, when it is asked to, and when a question waits
too long with nobody there to answer it. What requests do is in ``reception``.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import to_builtins

from holdfast.errors import DiskFull, HoldfastError
from holdfast.model.entry import Entry
from holdfast.model.message import AnyPart
from holdfast.runtime.agenda import Agenda, Job
from holdfast.runtime.assembly import Assembled
from holdfast.runtime.attention import Attention
from holdfast.runtime.control.hub import Hub
from holdfast.runtime.control.protocol import RunnerStatus, encode
from holdfast.runtime.control.seat import Client
from holdfast.runtime.equipment import Question
from holdfast.runtime.fitting import Fitting
from holdfast.runtime.limits import Limits
from holdfast.runtime.questions import Questions
from holdfast.runtime.recovery import Interrupted
from holdfast.runtime.settings import Settings
from holdfast.runtime.standing import Standing
from holdfast.runtime.stopping import Stopped
from holdfast.runtime.turn import Outcome
from holdfast.runtime.wishes import Patience, Wishes
from holdfast.store.session import Session

_LOOK_SECONDS = 1.0
_LOG = logging.getLogger("holdfast")


def patience_of(settings: Settings) -> Patience:
    """Return how long a runner stays, as it is configured."""
    return Patience(idle_seconds=settings.idle_seconds)


class Runner:
    """Runs one session. ``fitting`` has its agent, ``agenda`` what it is to do.

    ``standing`` is how things stand. ``leaving`` says why it leaves, once it does, and
    ``leaves_after_turn`` whether the turn is let end first; ``insisted`` whether it was told twice
    to end; ``short_of_room`` what it waits for with nothing else left to do.
    """

    def __init__(
        self,
        session: Session,
        assembled: Assembled,
        hub: Hub,
        rebuild: Callable[[Wishes], Assembled],
        wishes: Wishes,
        patience: Patience,
    ) -> None:
        self._session = session
        self._hub = hub
        self._patience = patience
        self.agenda = Agenda(session)
        self.questions = Questions(
            session, hub, patience.question_seconds, self.show_state, lambda: self.agenda.running
        )
        settings = assembled.configuration.settings
        self._attention = Attention(session, settings.on_attention, settings.key_variable)
        assembled.equipment.ask = self._ask
        assembled.equipment.decision_id = self.questions.entry_id
        assembled.equipment.tell = self.tell
        self.fitting = Fitting(assembled, rebuild, wishes)
        self._agent = self.fitting.agent
        self.standing = Standing(session, hub, self.fitting, self.agenda, self.questions)
        self._cancelled: str | None = None
        self.leaving: str | None = None
        self.leaves_after_turn = False
        self.insisted = False
        self.short_of_room: str | None = None
        self._place = _Place(session)
        hub.on_entry(self._place.heard)
        self._interrupted: Interrupted | None = None
        hub.on_attach(self._greet)
        hub.on_part(self._parted)

    @property
    def busy(self) -> bool:
        """Whether a turn, or a job between turns, is under way."""
        return self.standing.busy

    # Life

    async def look(self) -> None:
        """See what the last turn left; call it before the first client can come."""
        self._interrupted = await self._agent.interrupted()

    async def live(self) -> str:
        """Run until there is a reason to leave; return it.

        Nothing is waited for from the decision to the return: nobody can come in between.
        """
        watching = asyncio.ensure_future(self._watch())
        self.standing.gauge.measure()
        if self._interrupted is not None and self._interrupted.waiting:
            self.continue_turn()  # whoever comes now is asked again
        idle_since = time.monotonic()
        try:
            while self.leaving is None:
                if await self._work() or self._hub.clients or self._waits_for_room:
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since >= self._patience.idle_seconds:
                    self.leaving = "it was idle"
            return self.leaving
        finally:
            watching.cancel()
            self.standing.gauge.close()

    def leave(self, why: str, *, after_turn: bool = False) -> None:
        """Leave, cancelling a turn that runs, or when it has ended."""
        self.leaves_after_turn = after_turn and (self.leaving is None or self.leaves_after_turn)
        self.leaving = self.leaving or why
        if not after_turn:
            self.cancel(why)
        self.agenda.wake()

    def cancel(self, cause: str) -> bool:
        """End what runs, the second time without asking; tell whether anything did."""
        if self.busy:
            self._cancelled = self._cancelled or cause
            self._agent.cancel(cause)
        return self.busy

    async def _watch(self) -> None:
        """Notice that nothing can be saved any more, and trouble that nobody has met yet."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.show_state()
            if (lost := await asyncio.to_thread(self._place.lost)) is not None:
                self.tell(f"{lost}: nothing can be saved any more.")
                self.leave("the session's folder is gone")
                return
            trouble = self._session.trouble
            if trouble is not None and not self._waits_for_room:
                self.tell(str(trouble))
                self.leave("the session cannot be written any more")
                return

    @property
    def _waits_for_room(self) -> bool:
        """Whether there is trouble that passes; any other is for good."""
        return isinstance(self._session.trouble, DiskFull)

    def _parted(self, client: Client) -> None:
        """Notice that the last terminal has gone; others come and go as they like."""
        last = client.answers and not self._hub.terminals
        if last and self.fitting.settings.on_hangup == "stop":
            self.cancel("the last terminal hung up")
            self.agenda.hold_all()
            self.show_state()
        self.agenda.wake()

    def obey_signals(self) -> None:
        """Leave through the normal way when told to end; a hang-up means nothing here."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_end, signal.Signals(number).name)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _told_to_end(self, name: str) -> None:
        self.insisted = self.leaving is not None
        self.leave(name)

    # Work

    async def _work(self) -> bool:
        """Do the next thing there is to do; if there is none wait a little, and say so."""
        job = self._next()
        if job is None:
            await self.agenda.pause(min(_LOOK_SECONDS, self._patience.idle_seconds))
            return False
        self.standing.busy, self._cancelled = True, None
        self.show_state()
        try:
            await self._done(job)
        finally:
            self.standing.busy, self.agenda.running = False, None
            self.questions.turn_ended()
            self.show_state()
        return True

    def _next(self) -> Job | None:
        job = self.agenda.next_job()
        if job is None and (seq := self.agenda.next_prompt()) is not None:
            job = partial(self._prompted, seq)
        return job

    async def _done(self, job: Job) -> None:
        """Do something; whatever goes wrong is told, and is not the runner's end."""
        try:
            outcome = await job()
            code = 0
            if outcome is not None and outcome.state != "completed":
                code = 1 if outcome.error is None else outcome.error.exit_code
        except Stopped as stopped:
            outcome, code = Outcome("cancelled", str(stopped)), 1
        except HoldfastError as error:
            self.tell(str(error))
            outcome, code = Outcome("failed", str(error)), error.exit_code
        except Exception as error:  # noqa: BLE001  one turn must not take the runner down
            _LOG.exception("A turn failed")
            cause = f"The runner failed at this: {type(error).__name__}: {error}."
            self.tell(cause)
            outcome, code = Outcome("failed", cause), 1
        if outcome is not None:
            await self._ended(outcome, code)

    async def _prompted(self, seq: int) -> Outcome:
        await self._begin()
        return await self._agent.queued(seq)

    async def _begin(self) -> None:
        """See who answers; a turn that is cancelled meanwhile does not begin.

        Raises:
            Stopped: it was.
        """
        await self.fitting.renew()
        if self._cancelled is not None:  # the agent forgets what was wished before its turn
            raise Stopped(self._cancelled)
        self._interrupted = None  # the turn brings it to an end first

    async def _ended(self, outcome: Outcome, exit_code: int) -> None:
        """Tell how a turn ended, once everybody has heard all of it."""
        await self._hub.heard(self._session.state.seq)
        self._hub.broadcast(
            {
                "type": "turn",
                "queued": self.agenda.running,
                "state": outcome.state,
                "cause": outcome.cause,
                "limit": outcome.limit,
                "exit_code": exit_code,
                "text": outcome.text,
                "denied": [to_builtins(each) for each in outcome.denied],
            }
        )
        if outcome.state != "waiting":  # that was told when it was asked
            self._call_for_attention(outcome.state)
        if outcome.state != "completed":
            self.agenda.hold_all()  # nobody asked for these to be run after such an end
        if outcome.state == "waiting":
            self.leave("a question waits for an answer")

    async def _continued(self) -> Outcome:
        await self._begin()
        outcome = await self._agent.continue_turn()
        if outcome is None:
            self.tell("There is no interrupted turn to go on with.")
            return Outcome("completed")
        return outcome

    async def _compacted(self) -> None:
        try:
            self.tell((await self._agent.compact()).told)
        except Stopped as stopped:
            self.tell(f"Not compacted: {stopped}.")
        except HoldfastError as error:
            self.tell(f"Not compacted: {error}")

    async def _switched(self, wishes: Wishes, id: str) -> None:
        try:
            await self.fitting.switch(wishes, id)
        except HoldfastError as error:
            self.tell(f"The model was not changed: {error}")
        self.standing.gauge.measure()

    async def _ask(self, question: Question) -> bool | None:
        self._call_for_attention("waiting")
        return await self.questions.ask(question)

    def _call_for_attention(self, what: str) -> None:
        if (trouble := self._attention.call(what)) is not None:
            self.tell(trouble)

    # What can be asked for

    async def enqueue(self, content: Sequence[AnyPart], name: str, limits: Limits) -> int:
        """Take a prompt and run it in its turn; return its number once it is durable.

        Raises:
            UsageError: it is empty, or its limits cannot be kept.
            DiskFull: it waits for room, and is held when it has it: the same call runs it.
        """
        self.fitting.check(limits)
        with self.agenda.taking():
            seq = (await self._agent.enqueue(content, id=name, limits=limits)).seq
            if self.leaving is None:
                self.agenda.want(seq)
        self.show_state()
        return seq

    def continue_turn(self) -> None:
        """Go on with the turn that was interrupted, when what runs has ended."""
        self.agenda.do(self._continued)

    def compact(self) -> None:
        """Sum up the context, when what runs has ended."""
        self.agenda.do(self._compacted)

    async def set_model(self, wishes: Wishes, id: str) -> None:
        """Let another model go on, when what runs has ended; its entry has that id.

        Raises:
            HoldfastError: it cannot be asked from here. Nothing has changed.
        """
        await self.fitting.check_wishes(wishes)
        self.agenda.do(partial(self._switched, wishes, id))

    # What clients are told

    def _greet(self, client: Client) -> None:
        client.send(encode(self.standing.message()))
        if not self._session.recovery.clean:
            client.send(encode({"type": "recovered", "report": str(self._session.recovery)}))
        if self._interrupted is not None and not self._interrupted.waiting:
            client.send(encode({"type": "interrupted", **self._interrupted.facts()}))
        for question in self.questions.messages():
            client.send(encode(question))
        if (trouble := self._session.trouble) is not None:
            client.send(encode({"type": "note", "text": str(trouble)}))
        self.agenda.wake()

    def show_state(self) -> None:
        """Tell everybody how things stand, if that has changed."""
        self.standing.show()

    def tell(self, text: str) -> None:
        """Tell everybody something that is in no journal."""
        self._hub.broadcast({"type": "note", "text": text})
        self.show_state()  # it may be about trouble, which is in there

    def status(self) -> RunnerStatus:
        """Tell how it stands."""
        return self.standing.status()


class _Place:
    """Where a session is: its folder, or before the first entry the home."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seen: dict[Path, tuple[int, int]] = {}
        self.lost()

    def heard(self, _: Entry) -> None:
        """See which folder it is as soon as it is made: another may be there at the next look."""
        if self._session.path not in self._seen:
            self.lost()

    def lost(self) -> str | None:
        """Say that the folder is gone or is another one; blocks.

        Of one that cannot be looked at nobody knows.
        """
        born = self._session.state.seq >= 0
        folder = self._session.path if born else self._session.path.parents[2]
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
