"""``holdfast attach``: come back to a session that runs, or have it run again.

On a terminal that is the chat. Here is the same in plain text, for pipes and for terminals that
only take lines: live text as it comes, and each entry once it is durable. Hanging up, and any end
of this process, leaves the turn running; in the foreground, where the runner is in this process, it
has the turn cancelled and saved first.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import click

from holdfast import open_store
from holdfast.cli.chat import chat_in, has_screen
from holdfast.cli.ls import printable
from holdfast.cli.naming import complete_session
from holdfast.cli.runners import insists, is_first_process, launch_for, resolved, rests
from holdfast.cli.screen import Screen
from holdfast.cli.transcript import Transcript
from holdfast.cli.typed import QUIT, Typed, request_for
from holdfast.errors import HoldfastError, SessionNotFound, WriteFailed
from holdfast.runtime.control.address import log_path
from holdfast.runtime.control.client import Connection, RunnerGone, new_request_id
from holdfast.runtime.control.following import Following
from holdfast.runtime.control.protocol import Cancel, StatusOf
from holdfast.runtime.foreground import Host, hosted
from holdfast.runtime.launch import reach
from holdfast.runtime.wishes import Launch
from holdfast.store.local import LocalStore

_RETRY_SECONDS = 0.2


@click.command(help="Attach to a session: follow it, answer its questions, send it prompts.")
@click.argument("session", shell_complete=complete_session)
@click.option("-C", "workspace", metavar="DIR", help="The session's folder, if it has moved.")
@click.option("--last", type=click.IntRange(0), default=10, help="Show so many messages (10).")
@click.option("--no-input", is_flag=True, help="Only follow; leave when the turn has ended.")
@click.option("--plain", is_flag=True, help="In plain text, also on a terminal.")
@click.option("--foreground", is_flag=True, help="Run its turns in this process, and end with it.")
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
    launch = launch_for(store, resolved(store, session), workspace)
    here = is_first_process() or foreground
    if has_screen() and not plain and not no_input:
        sys.exit(chat_in(store, launch, foreground=here))
    sys.exit(attach(store, launch, last, takes_input=not no_input, foreground=here))


def attach(
    store: LocalStore, launch: Launch, last: int, *, takes_input: bool, foreground: bool
) -> int:
    """Attach in plain text; return the exit code."""

    async def whole() -> int:
        attached = _Attached(store, launch, last, takes_input=takes_input)
        return await (attached.in_foreground() if foreground else attached.whole())

    return asyncio.run(whole())


class _Attached:
    """A terminal, or a pipe, on a session; the listener of what it follows."""

    def __init__(self, store: LocalStore, launch: Launch, last: int, *, takes_input: bool) -> None:
        self._store = store
        self._launch = launch
        self._id = launch.session
        self._screen = Screen(self._told_to_end)
        self._transcript = Transcript(self._screen, last, self._blob)
        self.answers = takes_input
        self._typing = Typed(self._typed, self._input_ended)
        self._host: Host | None = None
        self._following = Following(self, log_path(store.path, launch.session))
        self._questions: dict[str, dict[str, Any]] = {}
        self._state = "idle"
        self._held = 0  # prompts, as was told last
        self._warned = False
        self._met, self._leaving = asyncio.Event(), asyncio.Event()
        self._code = 0
        self._caught: list[signal.Signals] = []

    async def in_foreground(self) -> int:
        """Run the session here, unless another process does, and follow it; the exit code."""
        self._heed_signals()
        async with hosted(self._launch) as host:
            if host.here:
                self._host = host
                if self._code:  # told to end while it began
                    host.leave("told to end")
            else:
                self._screen.note("another process runs this session already; following it")
            code = await self.whole()
            if host.here and not host.leaving:
                host.leave("its terminal has left")
            return code or await host.gone()

    async def whole(self) -> int:
        """Follow until it is time to leave; return the exit code."""
        self._heed_signals()
        self.answers = self.answers and self._typing.listen()
        try:
            await self._follow_to_the_end()
        finally:
            self._transcript.end()
            if self._host is not None:
                self._screen.note(f"go on with: holdfast attach {self._id}")
            elif self.answers and self._state in ("running", "waiting"):
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
        """Follow; a runner that is gone is looked for, or started, but not for ever."""
        leaving = asyncio.ensure_future(self._time_to_leave())
        try:
            while not self._leaving.is_set():
                following = asyncio.ensure_future(self._following.attached())
                await asyncio.wait({following, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if following.done() and following.exception() is None:
                    if following.result() is not None:
                        await asyncio.sleep(_RETRY_SECONDS)
                    continue
                self._following.on_purpose = not self._code
                following.cancel()
                try:
                    await following
                except asyncio.CancelledError:
                    return
                except RunnerGone:
                    if self._host is None:  # or it has left, and nobody is to come after it
                        raise
                    return
        finally:
            leaving.cancel()

    async def _time_to_leave(self) -> None:
        """Return when it is; who only has no more to say still hears whether there is a runner."""
        await self._met.wait()
        await self._leaving.wait()

    # What is followed

    @property
    def after(self) -> int:
        """The number of the last entry that was taken."""
        return self._transcript.after

    async def reach(self) -> Connection:
        """Return a connection; a runner is started if there is none."""
        if self._host is not None:
            return await self._host.connect()
        return await reach(self._launch, self._warn)

    def stands(self, why: HoldfastError | str | None) -> None:
        """Be told whether a runner is there."""
        if why is None:
            self._met.set()
            self._transcript.attached()
            self._questions.clear()  # those that are still open are asked again

    async def hear(self, event: dict[str, Any]) -> None:
        """Take an event."""
        hear: dict[str, Callable[[dict[str, Any]], None]] = {
            "entry": lambda event: self._transcript.entry(event["entry"]),
            "live": self._transcript.live,
            "caught_up": lambda _: self._transcript.caught_up(),
            "note": lambda event: self._transcript.say(event["text"]),
            "skewed": self._skewed,
            "question": self._asked,
            "answered": self._answered,
            "recovered": self._told_of_repair,
            "interrupted": self._told_of_interruption,
            "state": self._told_state,
            "bye": lambda _: self._told_of_leave(),
        }
        await self._screen.room()  # who is not read reads nothing: the runner drops it
        if event["type"] in hear:
            hear[event["type"]](event)

    def _warn(self, text: str) -> None:
        """Say once what the user has to know of a runner; called from another thread."""
        if not self._warned:
            self._warned = True
            self._screen.note(text)

    def _skewed(self, event: dict[str, Any]) -> None:
        self._screen.note(f"the runner is version {event['version']}; only following it")

    def _blob(self, name: str) -> bytes | None:
        with self._store.open(self._id, mode="read") as session:
            return session.blob(name)

    def _asked(self, event: dict[str, Any]) -> None:
        self._questions[event["call_id"]] = event
        self._transcript.say(f"Allow {event['tool']}: {printable(event['subject'])}? [y/n]")

    def _answered(self, event: dict[str, Any]) -> None:
        if self._questions.pop(event["call_id"], None) is not None:
            said = {True: "allowed", False: "denied", None: "not asked any more"}
            self._transcript.say(said[event["allow"]])

    def _told_of_repair(self, event: dict[str, Any]) -> None:
        for line in event["report"].split("\n"):
            self._transcript.say(line)

    def _told_of_interruption(self, event: dict[str, Any]) -> None:
        for line in event["report"].split("\n"):
            self._transcript.say(line)
        self._transcript.say("/continue goes on with it; a new prompt leaves it as it is")

    def _told_state(self, event: dict[str, Any]) -> None:
        self._state = event["state"]
        if not event["queue"]:
            self._held = 0
        if rests(event) and (event["queue"] or not self.answers):
            _start(self._rest())

    def _told_of_leave(self) -> None:
        """Leave, too; if the session itself has gone, that is a failure."""
        try:
            self._store.open(self._id, mode="read").close()
        except SessionNotFound:
            self._code = self._code or WriteFailed.exit_code
        except HoldfastError as error:
            self._code = self._code or error.exit_code
        self._leaving.set()

    async def _rest(self) -> None:
        """Tell what is held and leave, if nothing is left to follow.

        The runner is asked first: some of what waits may be about to run.
        """
        connection = self._following.connection
        if connection is None:
            return
        try:
            status = (await connection.request(StatusOf(id=new_request_id())))["status"]
        except HoldfastError:
            return  # the runner is gone: the next one tells how it stands
        if status["state"] != "idle":
            return
        if status["queue"] not in (0, self._held):
            self._held = status["queue"]
            self._transcript.say(f"{self._held} prompt(s) are held; /run-queue runs them")
        if not self.answers:
            self._leave(0)

    # What people type

    async def _typed(self, text: str) -> None:
        if text.strip() == QUIT:
            self._leave(0)
            return
        try:
            await self._following.ask(request_for(text, self._questions))
        except HoldfastError as error:
            self._transcript.say(str(error))

    def _interrupted(self) -> None:
        """Ctrl+C cancels the turn; with none running it leaves."""
        if self._state in ("running", "waiting") and self._following.connection is not None:
            _start(self._cancel())
        else:
            self._signalled(signal.SIGINT)

    def _signalled(self, number: signal.Signals) -> None:
        self._caught.append(number)
        self._told_to_end(128 + number)
        if self._host is not None and insists(self._caught):
            self._host.leave(number.name, insist=True)

    async def _cancel(self) -> None:
        try:
            await self._following.ask(Cancel(id=new_request_id()))
        except HoldfastError as error:
            self._transcript.say(str(error))

    # The end

    def _input_ended(self, code: int) -> None:
        """Leave; only in the foreground, where that would end the turn, a pipe is no terminal."""
        if code:
            self._told_to_end(code)
        elif self._host is None or self._typing.on_terminal:
            self._leave(0)
        else:  # come back as one who cannot answer, and leaves when nothing is left to do
            self.answers = False
            if self._following.connection is not None:
                _start(_come_back(self._following.connection))

    def _leave(self, code: int) -> None:
        """Leave when everything is shown; the first reason that is a failure counts.

        A runner in this process has the turn saved first, and says when it has.
        """
        self._code = self._code or code
        if self._host is None:
            self._leaving.set()
        elif code > 128:
            self._host.leave(signal.Signals(code - 128).name)
        else:
            self._host.leave("its terminal has left")

    def _told_to_end(self, code: int) -> None:
        """Leave whether or not anybody reads what is left to show."""
        self._met.set()
        self._leave(code)
        self._screen.hurry()


async def _come_back(connection: Connection) -> None:
    """Have the session attached to anew; where hang-ups end turns, this is none."""
    await connection.detach()
    await connection.close()


def _start(work: Coroutine[Any, Any, None]) -> None:
    _running.add(task := asyncio.ensure_future(work))
    task.add_done_callback(_running.discard)


_running: set[asyncio.Task[None]] = set()  # the loop itself does not hold them
