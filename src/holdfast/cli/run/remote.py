"""``holdfast -p`` for a session that has a runner: as a client of the runner."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Literal

from holdfast.cli.run.detach import check_changeable, check_limits, switch_model
from holdfast.cli.run.options import Options
from holdfast.cli.run.output import Output, note
from holdfast.cli.run.result import Ending
from holdfast.cli.run.select_session import target_session
from holdfast.cli.run.signals import Signals
from holdfast.errors import HoldfastError, ProviderError
from holdfast.keeper.runners import connect_runner
from holdfast.keeper.workspaces import newest_session, working_folder
from holdfast.model.message import Text
from holdfast.runtime.agent.tool_calls import Denied
from holdfast.runtime.agent.turn import Outcome
from holdfast.runtime.protocol.client import Refused, RunnerGone, new_request_id
from holdfast.runtime.protocol.messages import (
    Approve,
    Cancel,
    Compact,
    ContinueTurn,
    EditQueue,
    EntryEvent,
    Notice,
    QuestionAsked,
    Rename,
    RunnerExited,
    RunnerStatus,
    RunQueue,
    StateChanged,
    StatusOf,
    Submit,
    TurnEnded,
)
from holdfast.runtime.protocol.reconnect import ClientEvent, Disconnected, ReconnectingClient
from holdfast.runtime.providers.catalog import Choice
from holdfast.store.store import Store
from holdfast.version import __version__

_Stage = Literal["nothing", "queued", "begun"]  # of what was asked for: is there any to cancel?
_RUNS_ELSEWHERE = "the model of the running session"


def live_runner(store: Store, options: Options) -> str | None:
    """Return the session to continue, if it has a runner.

    Raises:
        RunnerSilent: the runner does not answer.
    """
    session_id = target_session(store, options)

    async def probe() -> str | None:
        if session_id is None:
            return None
        try:
            connection = await connect_runner(store, session_id)
        except RunnerGone:
            return None
        await connection.close()
        return session_id

    return asyncio.run(probe())


def ask_runner(store: Store, session_id: str, options: Options, text: str, signals: Signals) -> int:
    """Send the requests to the session's runner and show the events; return the exit code."""
    check_changeable(session_id, options)
    check_limits(session_id, options)
    if options.latest:
        for told in newest_session(store, working_folder(options.workspace)).notes:
            note(told)
    return asyncio.run(_Client(store, session_id, options, signals).whole(text))


class _Client:
    """One run in another process."""

    def __init__(self, store: Store, session_id: str, options: Options, signals: Signals) -> None:
        self._store = store
        self._id = session_id
        self._options = options
        self._signals = signals
        self._outcomes: list[Outcome] = []
        self._client: ReconnectingClient | None = None
        self._stage: _Stage = "nothing"
        self._waiting: int | None = None  # our prompt, while it is not run yet
        self._told = False  # to end
        self._cancelling = asyncio.Lock()
        self._began = time.monotonic()

    async def whole(self, text: str) -> int:
        """Run from the first line to the last; return the exit code."""
        loop = asyncio.get_running_loop()
        written = asyncio.Event()
        self._output = Output(
            self._options.output_format,
            failed=lambda: loop.call_soon_threadsafe(
                self._ended, "the reader of the output has gone"
            ),
            closed=lambda: loop.call_soon_threadsafe(written.set),
        )
        self._signals.told = lambda name: loop.call_soon_threadsafe(self._ended, name)
        self._signals.raises = False
        connection = await connect_runner(self._store, self._id, os.environ)
        status = (await connection.request(StatusOf(id=new_request_id()))).status
        # How a turn ended is not in every entry: a client that lost its runner cannot go on.
        client = ReconnectingClient.over(connection, after=status.seq, live=False)
        self._client = client
        with self._store.open(self._id, mode="read") as session:
            before, provider = session.totals, str(session.meta.get("provider"))
        choice = Choice(provider, status.model, _RUNS_ELSEWHERE)
        self._introduce(choice, status)
        failure: HoldfastError | None = None
        try:
            await self._work(client, text)
        except HoldfastError as error:
            failure = error
        await client.close()
        ending = Ending(
            outcomes=self._outcomes,
            failure=failure,
            caught=self._signals.first,
            output_trouble=self._output.trouble,
        )
        with self._store.open(self._id, mode="read") as session:
            seconds = time.monotonic() - self._began
            self._output.result(ending.result(session, choice, before, seconds, kept=True))
        self._output.close()
        await written.wait()
        self._signals.told = None
        return ending.exit_code

    def _introduce(self, choice: Choice, status: RunnerStatus) -> None:
        self._output.session(
            {
                "session_id": self._id,
                "resumed": True,
                "provider": choice.provider,
                "model": choice.model,
                "why": choice.reason,
                "workspace": status.workspace,
                "runner": status.pid,
                "version": __version__,
            }
        )

    def _ended(self, _: str) -> None:
        """Cancel what this run asked for; the runner continues with other work."""
        self._told = True
        if self._client is not None and self._stage != "nothing":
            self._start_to_cancel(self._client)

    def _start_to_cancel(self, client: ReconnectingClient) -> None:
        _running.add(cancelling := asyncio.ensure_future(self._cancel(client)))
        cancelling.add_done_callback(_running.discard)

    async def _cancel(self, client: ReconnectingClient) -> None:
        try:
            async with self._cancelling:
                if self._stage == "begun":
                    await client.request(Cancel(id=new_request_id()))
                elif self._stage == "queued":  # what runs now is somebody else's
                    await self._take_back(client)
        except HoldfastError as error:
            note(str(error))

    async def _take_back(self, client: ReconnectingClient) -> None:
        """Remove our prompt from the queue; if it is just starting, it is cancelled once it has."""
        assert self._waiting is not None
        try:
            await client.request(EditQueue(id=new_request_id(), entry=self._waiting))
        except Refused:
            return
        self._stage = "nothing"
        self._outcomes.append(Outcome("cancelled", "before it started"))
        await client.close()

    async def _work(self, client: ReconnectingClient, text: str) -> None:
        options = self._options
        if options.title is not None:
            await client.request(Rename(id=new_request_id(), title=options.title))
        await switch_model(client, options)
        await client.attach()
        if options.compact and self._goes_on:
            await client.request(Compact(id=new_request_id()))
            if not (text or options.continue_turn or options.run_queue):  # or it comes before them
                self._stage = "begun"
                await self._until_idle(client)
        if options.continue_turn and self._goes_on:
            await client.request(ContinueTurn(id=new_request_id()))
            await self._until_ended(client, None)
        if text and self._goes_on:
            await self._prompt(client, text)
        if options.run_queue and self._goes_on:
            for queued in (await client.request(RunQueue(id=new_request_id()))).queue:
                await self._until_ended(client, queued)

    async def _prompt(self, client: ReconnectingClient, text: str) -> None:
        """Have a prompt run. Whoever is told to end meanwhile takes it back, once it has a number.

        How others' turns ended before it was taken is no concern of it.
        """
        submit = Submit(id=new_request_id(), content=[Text(text=text)], limits=self._options.limits)
        answer = await client.ask(submit)
        seq = answer.reply.seq
        self._stage, self._waiting = "queued", seq
        if self._told:
            await self._cancel(client)
        await self._until_ended(client, seq, answer.events_before)

    @property
    def _goes_on(self) -> bool:
        return (
            not self._told
            and self._signals.first is None
            and all(outcome.state == "completed" for outcome in self._outcomes)
        )

    async def _until_ended(
        self,
        client: ReconnectingClient,
        queued: int | None,
        events_before: int = 0,
    ) -> None:
        """Show what happens until the turn of a prompt has ended, or cannot begin.

        After a turn that was not completed prompts are held. Whether ours is one of them is not
        certain if that came before the reply to it: then it is, if nothing runs and it still waits.
        """
        if self._waiting is None:
            self._stage = "begun"
        doubt: Outcome | None = None
        quiet: int | None = None  # so many events tell all that was before nothing ran any more
        async for event in client:
            await self._show(client, event, queued)
            match event:
                case Disconnected():
                    break
                case TurnEnded() if event.queued == queued:
                    return self._over(_outcome(event))
                case TurnEnded() if event.state != "completed" and queued is not None:
                    doubt = _outcome(event)
                    quiet = 0 if client.taken > events_before else None
                case StateChanged(at_rest=True) if doubt is not None and queued in event.queue:
                    quiet = await client.idle_after()
            if doubt is not None and quiet is not None and client.taken >= quiet:
                return self._over(doubt)
        if self._outcomes and self._outcomes[-1].state == "cancelled":
            return None  # our own doing
        raise RunnerGone(
            "The runner has stopped. Continue the turn with: "
            f"holdfast -r {self._id} -p --continue-turn"
        )

    async def _show(
        self, client: ReconnectingClient, event: ClientEvent, queued: int | None
    ) -> None:
        """Show an event; deny approvals that our turn asks for."""
        self._print(event)
        match event:
            case EntryEvent():
                if self._waiting is not None and event.fields.get("queued") == self._waiting:
                    self._stage, self._waiting = "begun", None
                    if self._told:
                        self._start_to_cancel(client)
            case QuestionAsked() if event.queued == queued:  # others are not ours to answer
                await self._refuse(client, event)

    def _print(self, event: ClientEvent) -> None:
        match event:
            case EntryEvent():
                self._output.line(event.line)
            case Notice(text=text):
                self._output.note(text)

    def _over(self, outcome: Outcome) -> None:
        self._stage, self._waiting = "nothing", None
        self._outcomes.append(outcome)

    async def _until_idle(self, client: ReconnectingClient) -> None:
        """Show events until the runner is idle, including those sent before."""
        async for event in client.until_idle():
            if isinstance(event, Disconnected | RunnerExited):
                raise RunnerGone("The runner stopped before the context was compacted. Try again.")
            self._print(event)

    async def _refuse(self, client: ReconnectingClient, question: QuestionAsked) -> None:
        """Deny an approval: a run without a screen never waits for one."""
        answer = Approve(
            id=new_request_id(),
            call_id=question.call_id,
            arguments_sha256=question.arguments_sha256,
            allow=False,
        )
        try:
            await client.request(answer)
        except HoldfastError as error:  # somebody was faster
            note(str(error))


def _outcome(event: TurnEnded) -> Outcome:
    error = None
    if event.state == "failed":
        error = ProviderError(event.cause or "the turn failed", retryable=False)
        error.exit_code = event.exit_code
    denied = [Denied(each.tool, each.subject, each.rule) for each in event.denied]
    return Outcome(event.state, event.cause, event.limit, error, denied=denied, text=event.text)


_running: set[asyncio.Task[None]] = set()  # the loop itself does not hold them
