"""``holdfast -p`` where a runner is at work: as its client."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from typing import Any, Literal

from holdfast.cli.handover import check_changeable, check_limits, switch_model
from holdfast.cli.options import Options
from holdfast.cli.output import Output, note
from holdfast.cli.result import Ending
from holdfast.cli.runners import rests, running
from holdfast.cli.sessions import meant_session
from holdfast.cli.signals import Signals
from holdfast.errors import HoldfastError, ProviderError
from holdfast.model.message import Text
from holdfast.runtime.control.client import Connection, Refused, RunnerGone, new_request_id
from holdfast.runtime.control.protocol import (
    Approve,
    Attach,
    Cancel,
    Compact,
    ContinueTurn,
    EditQueue,
    Rename,
    RunQueue,
    StatusOf,
    Submit,
)
from holdfast.runtime.providers.catalog import Choice
from holdfast.runtime.round import Denied
from holdfast.runtime.turn import Outcome
from holdfast.store.local import LocalStore
from holdfast.version import __version__

_Stage = Literal["nothing", "queued", "begun"]  # of what was asked for: is there any to cancel?
_RUNS_ELSEWHERE = "asked of the runner that has the session"


def live_runner(store: LocalStore, options: Options) -> str | None:
    """Return the session that is meant, if it has a runner.

    Raises:
        RunnerSilent: it has one that does not answer.
    """
    session_id = meant_session(store, options)

    async def probe() -> str | None:
        if session_id is None:
            return None
        try:
            connection = await running(store, session_id)
        except RunnerGone:
            return None
        await connection.close()
        return session_id

    return asyncio.run(probe())


def ask_runner(
    store: LocalStore, session_id: str, options: Options, text: str, signals: Signals
) -> int:
    """Have the session's runner do what was asked, and show it; return the exit code."""
    check_changeable(session_id, options)
    check_limits(session_id, options)
    return asyncio.run(_Client(store, session_id, options, signals).whole(text))


class _Client:
    """One run that another process does."""

    def __init__(
        self, store: LocalStore, session_id: str, options: Options, signals: Signals
    ) -> None:
        self._store = store
        self._id = session_id
        self._options = options
        self._signals = signals
        self._outcomes: list[Outcome] = []
        self._connection: Connection | None = None
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
            failed=lambda: loop.call_soon_threadsafe(self._ended, "nobody reads the output"),
            closed=lambda: loop.call_soon_threadsafe(written.set),
        )
        self._signals.told = lambda name: loop.call_soon_threadsafe(self._ended, name)
        self._signals.raises = False
        connection = await running(self._store, self._id, os.environ)
        self._connection = connection
        status = (await connection.request(StatusOf(id=new_request_id())))["status"]
        with self._store.open(self._id, mode="read") as session:
            before, provider = session.totals, str(session.meta.get("provider"))
        choice = Choice(provider, status["model"], _RUNS_ELSEWHERE)
        self._introduce(choice, status)
        failure: HoldfastError | None = None
        try:
            await self._work(connection, text, status["seq"])
        except HoldfastError as error:
            failure = error
        await connection.close()
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

    def _introduce(self, choice: Choice, status: dict[str, Any]) -> None:
        self._output.session(
            {
                "session_id": self._id,
                "resumed": True,
                "provider": choice.provider,
                "model": choice.model,
                "why": choice.reason,
                "workspace": status["workspace"],
                "runner": status["pid"],
                "version": __version__,
            }
        )

    def _ended(self, _: str) -> None:
        """Have what was asked for here cancelled, and nothing else; the runner lives on."""
        self._told = True
        if self._connection is not None and self._stage != "nothing":
            self._start_to_cancel(self._connection)

    def _start_to_cancel(self, connection: Connection) -> None:
        _running.add(cancelling := asyncio.ensure_future(self._cancel(connection)))
        cancelling.add_done_callback(_running.discard)

    async def _cancel(self, connection: Connection) -> None:
        try:
            async with self._cancelling:
                if self._stage == "begun":
                    await connection.request(Cancel(id=new_request_id()))
                elif self._stage == "queued":  # what runs now is somebody else's
                    await self._take_back(connection)
        except HoldfastError as error:
            note(str(error))

    async def _take_back(self, connection: Connection) -> None:
        """Take our prompt out of the queue; one that is just beginning is cancelled when it has."""
        assert self._waiting is not None
        try:
            await connection.request(EditQueue(id=new_request_id(), entry=self._waiting))
        except Refused:
            return
        self._stage = "nothing"
        self._outcomes.append(Outcome("cancelled", "it had not begun"))
        await connection.close()

    async def _work(self, connection: Connection, text: str, after: int) -> None:
        options = self._options
        if options.name is not None:
            await connection.request(Rename(id=new_request_id(), title=options.name))
        await switch_model(connection, options)
        attach = Attach(id=new_request_id(), after=after, live=False, answers=False)
        await connection.request(attach)
        events = connection.events()
        if options.compact and self._goes_on:
            await connection.request(Compact(id=new_request_id()))
            if not (text or options.continue_turn or options.run_queue):  # or it comes before them
                self._stage = "begun"
                await self._until_idle(connection, events)
        if options.continue_turn and self._goes_on:
            await connection.request(ContinueTurn(id=new_request_id()))
            await self._until_ended(connection, events, None)
        if text and self._goes_on:
            await self._prompt(connection, events, text)
        if options.run_queue and self._goes_on:
            for queued in (await connection.request(RunQueue(id=new_request_id())))["queue"]:
                await self._until_ended(connection, events, queued)

    async def _prompt(
        self, connection: Connection, events: AsyncIterator[dict[str, Any]], text: str
    ) -> None:
        """Have a prompt run. Whoever is told to end meanwhile takes it back, once it has a number.

        How others' turns ended before it was taken is no concern of it.
        """
        submit = Submit(id=new_request_id(), content=[Text(text=text)], limits=self._options.limits)
        reply = await connection.request(submit)
        self._stage, self._waiting = "queued", reply["seq"]
        if self._told:
            await self._cancel(connection)
        await self._until_ended(connection, events, reply["seq"], reply["events_before"])

    @property
    def _goes_on(self) -> bool:
        return (
            not self._told
            and self._signals.first is None
            and all(outcome.state == "completed" for outcome in self._outcomes)
        )

    async def _until_ended(
        self,
        connection: Connection,
        events: AsyncIterator[dict[str, Any]],
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
        async for event in events:
            await self._show(connection, event, queued)
            if event["type"] == "bye":
                break
            if event["type"] == "turn" and event["queued"] == queued:
                return self._over(_outcome(event))
            if _holds_others(event) and queued is not None:
                doubt = _outcome(event)
                quiet = 0 if connection.taken > events_before else None
            elif doubt is not None and rests(event) and queued in event["queue"]:
                quiet = await _quiet(connection)
            if doubt is not None and quiet is not None and connection.taken >= quiet:
                return self._over(doubt)
        if self._outcomes and self._outcomes[-1].state == "cancelled":
            return None  # our own doing
        raise RunnerGone(
            f"The runner has left; how far it came: holdfast -r {self._id} -p --continue-turn."
        )

    async def _show(
        self, connection: Connection, event: dict[str, Any], queued: int | None
    ) -> None:
        """Show what happens; what our turn asks is refused."""
        match event["type"]:
            case "entry":
                self._output.line(event["line"])
                if self._waiting is not None and event["entry"].get("queued") == self._waiting:
                    self._stage, self._waiting = "begun", None
                    if self._told:
                        self._start_to_cancel(connection)
            case "note":
                self._output.note(event["text"])
            case "question" if event["queued"] == queued:  # others are not ours to answer
                await self._refuse(connection, event)

    def _over(self, outcome: Outcome) -> None:
        self._stage, self._waiting = "nothing", None
        self._outcomes.append(outcome)

    async def _until_idle(
        self, connection: Connection, events: AsyncIterator[dict[str, Any]]
    ) -> None:
        """Show what happens until nothing runs, and what had happened by then."""
        quiet = await _quiet(connection)
        while quiet is None or connection.taken < quiet:
            event = await anext(events, None)
            if event is None:
                raise RunnerGone("The runner has left before the context was summed up.")
            if event["type"] == "entry":
                self._output.line(event["line"])
            elif event["type"] == "note":
                self._output.note(event["text"])
            if rests(event):
                quiet = await _quiet(connection)

    async def _refuse(self, connection: Connection, question: dict[str, Any]) -> None:
        """Deny what is asked: a run without a screen never waits for an approval."""
        answer = Approve(
            id=new_request_id(),
            call_id=question["call_id"],
            arguments_sha256=question["arguments_sha256"],
            allow=False,
        )
        try:
            await connection.request(answer)
        except HoldfastError as error:  # somebody was faster
            note(str(error))


def _holds_others(event: dict[str, Any]) -> bool:
    return bool(event["type"] == "turn" and event["state"] != "completed")


async def _quiet(connection: Connection) -> int | None:
    """Return how many events had come when nothing ran, ``None`` if something does.

    Raises:
        HoldfastError: there is no answer.
    """
    reply = await connection.request(StatusOf(id=new_request_id()))
    return int(reply["events_before"]) if reply["status"]["state"] == "idle" else None


def _outcome(event: dict[str, Any]) -> Outcome:
    error = None
    if event["state"] == "failed":
        error = ProviderError(event["cause"] or "it failed", retryable=False)
        error.exit_code = event["exit_code"]
    return Outcome(
        event["state"],
        event["cause"],
        event["limit"],
        error,
        denied=[Denied(each["tool"], each["subject"], each["rule"]) for each in event["denied"]],
        text=event["text"],
    )


_running: set[asyncio.Task[None]] = set()  # the loop itself does not hold them
