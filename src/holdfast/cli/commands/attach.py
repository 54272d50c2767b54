"""``holdfast attach``: follow a session, and start its runner if there is none.

On a terminal this opens the chat. Otherwise it is plain text, for pipes and terminals without a
screen: live text as it arrives, and each entry once it is durable. The turn continues after this
process ends, except in the foreground: there the runner is in this process, and the turn is
cancelled and saved first.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import click

from holdfast import open_store
from holdfast.cli.run.chat import chat_in
from holdfast.cli.run.output import note
from holdfast.cli.run.runner_connection import insists, is_first_process
from holdfast.cli.ui.complete import complete_session
from holdfast.cli.ui.line_input import QUIT, Typed, request_for
from holdfast.cli.ui.nonblocking_stdout import NonblockingOutput
from holdfast.cli.ui.plain_transcript import PlainTranscript
from holdfast.errors import HoldfastError, SessionNotFound, WriteFailed
from holdfast.keeper.runners import launch_for, resolve_running
from holdfast.keeper.text import printable
from holdfast.runtime.protocol.client import Connection, RunnerGone, new_request_id
from holdfast.runtime.protocol.messages import (
    Cancel,
    CaughtUp,
    EntryEvent,
    LiveText,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    RunnerExited,
    SessionRepaired,
    StateChanged,
    TurnInterrupted,
)
from holdfast.runtime.protocol.reconnect import ClientEvent, Connected, ReconnectingClient
from holdfast.runtime.protocol.socket_path import log_path
from holdfast.runtime.runner.in_process import InProcessRunner, hosted
from holdfast.runtime.runner.launch_options import Launch
from holdfast.runtime.runner.spawn import connect_or_start
from holdfast.store.store import Store
from holdfast.tui.tty import has_screen


@click.command(
    help="Follow a session, answer its questions, send it prompts. Starts a runner if needed."
)
@click.argument("session", shell_complete=complete_session)
@click.option("-C", "workspace", metavar="DIR", help="The session's folder, if it has moved.")
@click.option(
    "--last",
    type=click.IntRange(0),
    default=10,
    metavar="N",
    help="First show the last N messages (default 10).",
)
@click.option("--no-input", is_flag=True, help="Only follow; exit when nothing is left to run.")
@click.option("--plain", is_flag=True, help="Use plain text, even on a terminal.")
@click.option(
    "--foreground", is_flag=True, help="Run turns in this process; they stop when it exits."
)
def command(
    *,
    session: str,
    workspace: str | None,
    last: int,
    no_input: bool,
    plain: bool,
    foreground: bool,
) -> None:
    """Attach to a session."""
    store = open_store()
    screen = has_screen() and not plain and not no_input
    found = launch_for(store, resolve_running(store, session), workspace)
    if found.notice is not None and not screen:  # the chat shows it by itself
        note(found.notice)
    here = is_first_process() or foreground
    if screen:
        sys.exit(chat_in(store, found.launch, foreground=here))
    sys.exit(attach(store, found.launch, last, takes_input=not no_input, foreground=here))


def attach(store: Store, launch: Launch, last: int, *, takes_input: bool, foreground: bool) -> int:
    """Attach in plain text; return the exit code."""

    async def whole() -> int:
        attached = _Attached(store, launch, last, takes_input=takes_input)
        return await (attached.in_foreground() if foreground else attached.whole())

    return asyncio.run(whole())


class _Attached:
    """A terminal or a pipe attached to a session."""

    def __init__(self, store: Store, launch: Launch, last: int, *, takes_input: bool) -> None:
        self._store = store
        self._launch = launch
        self._id = launch.session
        self._screen = NonblockingOutput(self._told_to_end)
        self._transcript = PlainTranscript(self._screen, last, self._blob)
        self._takes_input = takes_input
        self._typing = Typed(self._typed, self._input_ended)
        self._host: InProcessRunner | None = None
        log = log_path(store.local_folder, launch.session)
        self._client = ReconnectingClient(self._connect, log=log)
        self._questions: dict[str, QuestionAsked] = {}
        self._state = "idle"
        self._held = 0  # prompts, as was told last
        self._warned = False
        self._met, self._leaving = asyncio.Event(), asyncio.Event()
        self._code = 0
        self._caught: list[signal.Signals] = []

    async def in_foreground(self) -> int:
        """Run the session in this process, unless another does, and follow it; return the code."""
        self._heed_signals()
        async with hosted(self._launch, self._store) as host:
            if host.here:
                self._host = host
                if self._code:  # told to end while it began
                    host.stop("it received a signal to end")
            else:
                self._screen.note("another process already runs this session; following it")
            code = await self.whole()
            if host.here and not host.stopping:
                host.stop("its terminal was closed")
            return code or await host.wait_stopped()

    async def whole(self) -> int:
        """Follow until the user, a signal or the runner ends it; return the exit code."""
        self._heed_signals()
        self._client.answers = self._takes_input and self._typing.listen()
        try:
            await self._follow_to_the_end()
        finally:
            self._transcript.end()
            if self._host is not None:
                self._screen.note(f"continue with: holdfast attach {self._id}")
            elif self._client.answers and self._state in ("running", "waiting"):
                self._screen.note(f"still running; attach with: holdfast attach {self._id}")
            await self._screen.close()
        return self._code

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
                loop.add_signal_handler(number, self._signalled, number)
        loop.add_signal_handler(signal.SIGINT, self._interrupted)

    async def _follow_to_the_end(self) -> None:
        """Follow until it is time to exit; start the next runner a limited number of times."""
        exiting = asyncio.ensure_future(self._time_to_leave())
        following = asyncio.ensure_future(self._follow())
        try:
            await asyncio.wait({following, exiting}, return_when=asyncio.FIRST_COMPLETED)
            following.cancel()
            await following
        except asyncio.CancelledError:
            return
        except RunnerGone:
            if self._host is None:  # or it has stopped, and no other is to replace it
                raise
        finally:
            exiting.cancel()
            self._client.detaches = not self._code
            await self._client.close()

    async def _follow(self) -> None:
        async for event in self._client:
            await self._screen.room()  # read no faster than the output is; the runner may drop us
            self._on_event(event)

    async def _time_to_leave(self) -> None:
        """Return when it is time to exit, but not before a runner was reached."""
        await self._met.wait()
        await self._leaving.wait()

    # What is followed

    async def _connect(self) -> Connection:
        """Return a connection; a runner is started if there is none."""
        if self._host is not None:
            return await self._host.connect()
        return await connect_or_start(self._launch, self._warn)

    def _on_event(self, event: ClientEvent) -> None:
        match event:
            case EntryEvent():
                self._transcript.entry(event.fields)
            case LiveText():
                self._transcript.live(event)
            case CaughtUp():
                self._transcript.caught_up()
            case Notice(text=text):
                self._transcript.say(text)
            case QuestionAsked():
                self._asked(event)
            case QuestionAnswered():
                self._answered(event)
            case SessionRepaired(report=report):
                self._report(report)
            case TurnInterrupted(report=report):
                self._report(report)
                self._transcript.say(
                    "/continue continues this turn; a new prompt leaves it unfinished"
                )
            case StateChanged():
                self._state_changed(event)
            case Connected(other_version=version):
                self._connected(version)
            case RunnerExited():
                self._runner_exited()

    def _connected(self, other_version: str | None) -> None:
        self._met.set()
        self._transcript.attached()
        self._questions.clear()  # those that are still open are asked again
        if other_version is not None:
            self._screen.note(
                f"the runner is Holdfast {other_version}; you can follow it, but not send prompts"
            )

    def _warn(self, text: str) -> None:
        """Print a warning about the runner once; called from another thread."""
        if not self._warned:
            self._warned = True
            self._screen.note(text)

    def _blob(self, name: str) -> bytes | None:
        with self._store.open(self._id, mode="read") as session:
            return session.blob(name)

    def _asked(self, event: QuestionAsked) -> None:
        self._questions[event.call_id] = event
        self._transcript.say(f"Allow {event.tool}: {printable(event.subject)}? [y/n]")

    def _answered(self, event: QuestionAnswered) -> None:
        if self._questions.pop(event.call_id, None) is not None:
            said = {True: "allowed", False: "denied", None: "no longer waiting for an answer"}
            self._transcript.say(said[event.allow])

    def _report(self, report: str) -> None:
        for line in report.split("\n"):
            self._transcript.say(line)

    def _state_changed(self, event: StateChanged) -> None:
        self._state = event.state
        if not event.queue:
            self._held = 0
        if event.at_rest and (event.queue or not self._client.answers):
            _start(self._rest())

    def _runner_exited(self) -> None:
        """Exit when the runner does; with an error code if the session is gone."""
        try:
            self._store.open(self._id, mode="read").close()
        except SessionNotFound:
            self._code = self._code or WriteFailed.exit_code
        except HoldfastError as error:
            self._code = self._code or error.exit_code
        self._leaving.set()

    async def _rest(self) -> None:
        """Print how many prompts are on hold, and exit if nothing is left to follow.

        The runner is asked first: a queued prompt may be about to run.
        """
        status = await self._client.status()
        if status is None or status.state != "idle":
            return  # a runner that is gone: the next one sends its state
        if status.queue not in (0, self._held):
            self._held = status.queue
            self._transcript.say(f"{self._held} prompt(s) are on hold; /run-queue runs them")
        if not self._client.answers:
            self._leave(0)

    # What people type

    async def _typed(self, text: str) -> None:
        if text.strip() == QUIT:
            self._leave(0)
            return
        try:
            await self._client.request(request_for(text, self._questions))
        except HoldfastError as error:
            self._transcript.say(str(error))

    def _interrupted(self) -> None:
        """Cancel the turn on Ctrl+C; without a turn, exit."""
        if self._state in ("running", "waiting") and self._client.is_connected:
            _start(self._cancel())
        else:
            self._signalled(signal.SIGINT)

    def _signalled(self, number: signal.Signals) -> None:
        self._caught.append(number)
        self._told_to_end(128 + number)
        if self._host is not None and insists(self._caught):
            self._host.stop(number.name, insist=True)

    async def _cancel(self) -> None:
        try:
            await self._client.request(Cancel(id=new_request_id()))
        except HoldfastError as error:
            self._transcript.say(str(error))

    # The end

    def _input_ended(self, code: int) -> None:
        """Exit at the end of the input, unless that would end a turn in the foreground."""
        if code:
            self._told_to_end(code)
        elif self._host is None or self._typing.on_terminal:
            self._leave(0)
        else:  # come back as one who cannot answer, and leaves when nothing is left to do
            self._client.answers = False
            _start(self._client.disconnect())

    def _leave(self, code: int) -> None:
        """Exit once everything is shown; the first error code wins.

        A runner in this process saves the turn first.
        """
        self._code = self._code or code
        if self._host is None:
            self._leaving.set()
        elif code > 128:
            self._host.stop(signal.Signals(code - 128).name)
        else:
            self._host.stop("its terminal was closed")

    def _told_to_end(self, code: int) -> None:
        """Exit without waiting for a reader that has stopped reading."""
        self._met.set()
        self._leave(code)
        self._screen.hurry()


def _start(work: Coroutine[Any, Any, None]) -> None:
    _running.add(task := asyncio.ensure_future(work))
    task.add_done_callback(_running.discard)


_running: set[asyncio.Task[None]] = set()  # the loop itself does not hold them
