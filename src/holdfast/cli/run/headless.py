"""``holdfast -p`` in this process: read prompts, write answers, return an exit code."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from holdfast import open_store
from holdfast.cli.run.options import Options
from holdfast.cli.run.output import Output, note
from holdfast.cli.run.result import Ending
from holdfast.cli.run.select_session import accept_first, ask_first, session_for
from holdfast.cli.run.signals import Signals
from holdfast.cli.run.stdin import arriving_prompts, whole_prompt
from holdfast.errors import HoldfastError, UsageError
from holdfast.keeper.preflight import assemble_for, check_answerable
from holdfast.keeper.workspaces import ephemeral_store
from holdfast.model.message import Text
from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.build import BuiltAgent
from holdfast.runtime.agent.cancellation import Stopped
from holdfast.runtime.agent.recovery import left_running
from holdfast.runtime.agent.turn import Outcome
from holdfast.runtime.protocol.socket_path import run_folder
from holdfast.store.session import Session
from holdfast.store.store import Store
from holdfast.version import __version__

T = TypeVar("T")
_LAST_WORDS_SECONDS = 2.0  # for a reader who has stopped reading, once the run is to end


def run(options: Options) -> int:
    """Run what the options ask for; return the exit code.

    Raises:
        HoldfastError: it could not start, or the session can no longer be written.
    """
    options.check()
    text = options.prompt
    if not options.streams_in and (options.needs_prompt or text):
        text = whole_prompt(options.prompt)
        if not text.strip() and options.needs_prompt:
            raise UsageError("The prompt is empty. Use holdfast -p PROMPT, or pipe it in.")
    with ExitStack() as stack:
        signals = stack.enter_context(Signals())  # first, so that it outlasts what is removed
        store = stack.enter_context(ephemeral_store()) if options.ephemeral else open_store()
        if (told := accept_first(store, options)) is not None:
            note(told)
        ask_first(store, options)
        detach = options.detach
        if detach and os.getpid() == 1:
            note("this is the first process of a container, so turns run in the foreground")
            detach = False
        if detach:
            from holdfast.cli.run.detach import hand_over  # noqa: PLC0415  others need not pay for it

            return hand_over(store, options, text)
        if _may_have_runner(store, options):
            from holdfast.cli.run import remote  # noqa: PLC0415  as above

            if (runs := remote.live_runner(store, options)) is not None:
                return remote.ask_runner(store, runs, options, text, signals)
        found = session_for(store, options)
        stack.callback(_let_go, found.session)
        for told in found.told:
            note(told)
        assembled = assemble_for(
            found.session, found.workspace, options.wishes, options.limits, text
        )
        if options.fork:
            assembled.equipment.session = found.session.fork()
            stack.callback(_let_go, assembled.equipment.session)
        facts = {"workspace": str(found.workspace)} if found.moved else {}
        if options.title is not None:
            facts["title"] = options.title
        this = _Run(options, assembled, signals, facts, resumed=not found.is_new)
        return asyncio.run(this.whole(text))


def _may_have_runner(store: Store, options: Options) -> bool:
    """Return whether the session may have a runner."""
    return options.goes_on and not options.fork and run_folder(store.local_folder).is_dir()


def _let_go(session: Session) -> None:
    """Close a session; the run has already reported what could not be written."""
    with suppress(HoldfastError):
        session.close()


class _Run:
    """One run: the agent, its output, and the signals that end it."""

    def __init__(
        self,
        options: Options,
        assembled: BuiltAgent,
        signals: Signals,
        facts: dict[str, Any],
        *,
        resumed: bool,
    ) -> None:
        self._options = options
        self._assembled = assembled
        self._signals = signals
        self._facts = facts
        self._resumed = resumed
        self._session = assembled.equipment.session
        self._before = self._session.totals
        self._began = time.monotonic()
        self._agent = Agent(assembled.equipment, options.limits)
        self._outcomes: list[Outcome] = []

    async def whole(self, text: str) -> int:
        """Run from the first line to the last; return the exit code."""
        self._ended, self._written = asyncio.Event(), asyncio.Event()
        self._output = self._connected()
        stop_listening = self._session.on_entry(self._output.entry)
        failure: HoldfastError | None = None
        try:
            await self._introduce()
            await self._work(text)
        except HoldfastError as error:
            failure = error
        await self._agent.close()
        try:
            await asyncio.to_thread(self._session.close)
        except HoldfastError as error:
            failure = failure or error
        stop_listening()
        seconds = time.monotonic() - self._began
        kept = not self._options.ephemeral
        self._output.result(
            self._ending(failure).result(
                self._session, self._assembled.choice, self._before, seconds, kept=kept
            )
        )
        await self._say_the_last_word()
        self._signals.told = None
        return self._ending(failure).exit_code

    # What wants it to end

    def _connected(self) -> Output:
        """Return the output, connected so that its failure and signals end the run."""
        loop = asyncio.get_running_loop()

        def soon(call: Callable[..., object], *given: object) -> None:
            with suppress(RuntimeError):  # the loop is closed: there is nothing left to end
                loop.call_soon_threadsafe(call, *given)

        output = Output(
            self._options.output_format,
            failed=lambda: soon(self._end, output.why or "the reader of the output has gone"),
            closed=lambda: soon(self._written.set),
        )
        self._assembled.equipment.tell = output.note
        self._signals.told = lambda name: soon(self._end, name)
        self._signals.raises = False
        if self._signals.first is not None:
            self._end(self._signals.first.name)
        return output

    def _end(self, cause: str) -> None:
        self._agent.cancel(cause)
        self._ended.set()

    @property
    def _goes_on(self) -> bool:
        """Whether everything succeeded so far; otherwise queued prompts stay on hold."""
        gone = self._ended.is_set() or self._signals.first is not None
        return not gone and all(outcome.state == "completed" for outcome in self._outcomes)

    async def _unless_ended(self, event: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of an awaitable, or ``None`` as soon as the run is to end."""
        waiting = asyncio.ensure_future(event)
        ended = asyncio.ensure_future(self._ended.wait())
        await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        return None

    async def _say_the_last_word(self) -> None:
        """Return when the output is written.

        A reader that stopped reading is given up only if the run was told to end.
        """
        self._output.close()
        if await self._unless_ended(self._written.wait()) is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_SECONDS):
                    await self._written.wait()
        if self._output.why is not None:
            self._output.note(self._output.why)

    def _ending(self, failure: HoldfastError | None) -> Ending:
        return Ending(
            outcomes=self._outcomes,
            failure=failure,
            caught=self._signals.first,
            output_trouble=self._output.trouble,
        )

    # What is done

    async def _introduce(self) -> None:
        choice, equipment = self._assembled.choice, self._assembled.equipment
        self._output.session(
            {
                "session_id": self._session.id,
                "resumed": self._resumed,
                "provider": choice.provider,
                "endpoint": equipment.provider.endpoint,
                "model": choice.model,
                "why": choice.reason,
                "workspace": str(equipment.workspace),
                "version": __version__,
            }
        )
        for told in self._assembled.configuration.notes:
            self._output.note(told)
        if self._resumed:
            await self._report()
        await self._agent.record_who_answers(self._assembled.login)
        if self._facts:
            await asyncio.to_thread(lambda: self._session.update(**self._facts))

    async def _report(self) -> None:
        """Report what was repaired, and the turn that an earlier process left unfinished."""
        if not self._session.recovery.clean:
            self._output.recovered(str(self._session.recovery), [])
        interrupted = await self._agent.interrupted()
        if interrupted is None:
            for left in await asyncio.to_thread(left_running, self._session):
                self._output.note(f"a command is still running as process {left.processes[-1].pid}")
        if interrupted is not None:
            facts = interrupted.facts()
            self._output.recovered(facts["report"], facts["calls"])

    async def _work(self, text: str) -> None:
        options = self._options
        arriving = asyncio.Queue[int | HoldfastError | None]()
        if options.continue_turn:
            await self._agent.check_continue()
        if options.run_queue:
            await self._agent.check_queue()  # before the prompt, so that nothing is done by halves
        taking = asyncio.ensure_future(self._take_input(arriving)) if options.streams_in else None
        if options.compact and self._goes_on:
            await self._compact()
        if options.kill_running and self._goes_on:
            await self._end_running()
        if options.continue_turn and self._goes_on:
            outcome = await self._agent.continue_turn()
            if outcome is None:
                self._output.note("there is no interrupted turn to continue")
            else:
                self._outcomes.append(outcome)
        if text and self._goes_on:
            self._outcomes.append(await self._agent.prompt([Text(text=text)]))
        if taking is not None:
            await self._work_through(arriving)
            taking.cancel()
        while options.run_queue and self._goes_on:
            queued = await self._agent.next_queued()
            if queued is None:
                break
            self._outcomes.append(queued)

    async def _end_running(self) -> None:
        try:
            ended = await self._agent.end_running()
        except Stopped as stopped:
            self._outcomes.append(Outcome("cancelled", str(stopped)))
        else:
            self._output.note(f"{ended} command(s) killed" if ended else "no command was running")

    async def _compact(self) -> None:
        try:
            self._output.note((await self._agent.compact()).told)
        except Stopped as stopped:
            self._outcomes.append(Outcome("cancelled", str(stopped)))

    async def _take_input(self, arriving: asyncio.Queue[int | HoldfastError | None]) -> None:
        """Put the prompts of the input into the queue; each is durable as soon as it was read."""
        try:
            async for content in arriving_prompts():
                said = "".join(part.text for part in content if isinstance(part, Text))
                check_answerable(self._assembled, said)
                arriving.put_nowait((await self._agent.enqueue(content)).seq)
            arriving.put_nowait(None)
        except HoldfastError as error:
            arriving.put_nowait(error)

    async def _work_through(self, arriving: asyncio.Queue[int | HoldfastError | None]) -> None:
        """Run what arrives, in turn, until the input or the run ends."""
        while self._goes_on:
            queued = await self._unless_ended(arriving.get())
            if queued is None:
                return
            if isinstance(queued, HoldfastError):
                raise queued
            self._outcomes.append(await self._agent.queued(queued))
