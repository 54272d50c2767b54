"""A chat with a session, whoever runs it: what happens is shown, what is typed is sent.

The session is painted from its journal at once; then the chat attaches to the session's runner,
behind the last entry it has painted. Everything it knows comes from there, so two terminals on one
session see the same, and closing one changes nothing for the turn.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import ForeignSession, HoldfastError, SessionNotFound, StorageError, UsageError
from holdfast.model.codec import shown
from holdfast.model.entry import Entry
from holdfast.runtime.agent.origin import notice
from holdfast.runtime.protocol.client import Refused, new_request_id
from holdfast.runtime.protocol.messages import Cancel, R, RequestFor
from holdfast.runtime.protocol.reconnect import ReconnectingClient
from holdfast.runtime.protocol.socket_path import log_path
from holdfast.runtime.protocol.transcript_stream import TranscriptStream
from holdfast.store.session import Session
from holdfast.store.store import Store
from holdfast.tui.chat.backlog import tail
from holdfast.tui.chat.choices import Choices
from holdfast.tui.chat.commands import COMMANDS, find
from holdfast.tui.chat.completion import ChatCompleter, Prompts
from holdfast.tui.chat.connect import Access
from holdfast.tui.chat.events import ChatEvents
from holdfast.tui.chat.input_area import Prompt
from holdfast.tui.chat.key_bindings import bindings
from holdfast.tui.chat.outbox import Outbox
from holdfast.tui.chat.render import Renderer
from holdfast.tui.chat.status_line import Status
from holdfast.tui.chat.transcript_view import ChatPage
from holdfast.tui.chat.trust_command import accepted
from holdfast.tui.chat.welcome import found
from holdfast.tui.target import ExitAction, Target
from holdfast.tui.tty import wants_colour

_BEGINS_SECONDS = 0.02
_LEAVES_SECONDS = 2.0
_DELIVERS_SECONDS = 30.0  # the first prompt waits for a runner that is just being started
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Chat:
    """One session on one terminal; made on the event loop."""

    def __init__(self, store: Store, target: Target) -> None:
        self.store = store
        self.target = target
        self.status = Status(read_only=target.read_only)
        self._colour = wants_colour(on_terminal=True)
        self._renderer: Renderer | None = None
        commands = [(each.name, each.about) for each in COMMANDS]
        completer = ChatCompleter(Path(target.launch.workspace), commands)
        self.prompt = Prompt(self, bindings(self), completer, Prompts(store, target.launch))
        self.choices = Choices(self.prompt.changed)
        self.outbox = Outbox(self)
        self.page = ChatPage(self.renderer, self.prompt.show, self.prompt.changed, self.blob)
        self._stream = TranscriptStream(self.page, self.blob)
        self._events = ChatEvents(self, self._stream)
        self.page.on_other(self._events.other_entry)
        self.access = Access(store, target, self.soon_warn)
        log = log_path(store.local_folder, target.launch.session)
        self.link = ReconnectingClient(self.access.reach, answers=True, log=log)
        self.cancelled = self._cancelling = False
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.target.launch.session

    @property
    def turn_runs(self) -> bool:
        """Whether a turn is under way, waiting for an answer perhaps."""
        return self.status.state in ("running", "waiting")

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Give the session, open for reading; blocks.

        Raises:
            SessionNotFound: there is nothing of it on the disk yet.
        """
        with self.store.open(self.session_id, mode="read") as session:
            yield session

    def blob(self, name: str) -> bytes | None:
        """Return the bytes of a blob."""
        with suppress(SessionNotFound), self.reading() as session:
            return session.blob(name)
        return None

    # Life

    async def whole(self) -> ExitAction:
        """Chat until it is time to leave."""
        for number in _ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
                self._loop.add_signal_handler(number, self._signalled, number)
        self._paint()
        try:
            leaving: ExitAction = await self.prompt.run(self._painted)
        except EOFError:  # the terminal has gone without a word
            leaving = ExitAction(code=128 + signal.SIGHUP)
        finally:
            await self._deliver()
            for number in _ENDING:
                self._loop.remove_signal_handler(number)
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.link.close()
            await self.access.close()
        return leaving

    async def _deliver(self) -> None:
        """Wait until the runner has accepted the last prompt: exiting must not drop it."""
        if self.outbox.is_sending:
            self.note("sending your last prompt …")
        for text in await self.outbox.delivered(_DELIVERS_SECONDS):
            self.warn(f"Not sent: {text}")

    def _signalled(self, number: signal.Signals) -> None:
        self.soon(self._told_to_end(number))

    async def _told_to_end(self, number: signal.Signals) -> None:
        """Save what is in this process before the terminal, which may be gone, is touched."""
        await self.access.leave(number.name)
        self.quit(128 + number)

    def _painted(self) -> None:
        """Begin what takes time, now that there is a prompt to type at."""
        self.soon(self._follow_files() if self.target.read_only else self._follow_runner())
        if self.target.prompt:
            self.outbox.send(self.target.prompt)
        if self.target.is_first:
            self.soon(self._tell_what_is_found())

    async def _tell_what_is_found(self) -> None:
        for line in await asyncio.to_thread(found):
            self.note(line)

    async def _follow_runner(self) -> None:
        """Show the runner's events, and those of the next one once it is wanted."""
        while True:
            try:
                async for event in self.link:
                    self._events.on_event(event)
            except HoldfastError as error:
                self._events.failed(error)
            except Exception as error:  # noqa: BLE001  the user has to know of a defect
                await self.link.disconnect()
                why = f"Following the session failed: {type(error).__name__}: {error}."
                self._events.failed(StorageError(why))
            await self.link.wait_wanted()

    async def _follow_files(self) -> None:
        """Follow what another process writes, without a runner."""
        self.status.lost = None
        with self.reading() as session, session.follow(self._stream.after) as entries:
            async for entry in entries:
                if isinstance(entry, Entry):
                    self._events.entry(shown(entry))

    def soon_warn(self, text: str) -> None:
        """Say something that must not be overlooked; called from any thread."""
        self._loop.call_soon_threadsafe(self.warn, text)

    def soon(self, doing: Awaitable[Any]) -> None:
        """Run a task in the background and show a warning if it fails."""

        async def told() -> None:
            try:
                await doing
            except HoldfastError as error:
                self.warn(str(error))
            except Exception as error:  # noqa: BLE001  one thing that fails is not the chat's end
                self.warn(f"Internal error, please report it: {type(error).__name__}: {error}")

        task = asyncio.ensure_future(told())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def leave(self, leaving: ExitAction) -> None:
        """Let the terminal go; what runs goes on."""
        self.link.detaches = leaving.code < 128
        self.prompt.leave(leaving)

    def quit(self, code: int = 0) -> None:
        """Leave for good."""
        self.leave(ExitAction(code=code))

    # What is shown

    def renderer(self) -> Renderer:
        """Return what makes lines for the terminal as wide as it is now."""
        if self._renderer is None or self._renderer.width != self.prompt.columns:
            self._renderer = Renderer(self.prompt.columns, colour=self._colour)
        return self._renderer

    def note(self, text: str) -> None:
        """Say something of our own."""
        for line in text.split("\n"):
            self.prompt.show(self.renderer().note(line))

    def warn(self, text: str) -> None:
        """Say something that must not be overlooked."""
        self.prompt.show(self.renderer().warning(text))

    def say_at_the_end(self, text: str) -> None:
        """Say something below everything else; the prompt is gone."""
        self.prompt.attract(self.renderer().note(text).replace("\n", "\r\n"))

    def unfold(self) -> None:
        """Show what was folded last, whole; the next time what was folded before it."""
        if not self.page.folded:
            self.note("there is nothing to unfold")
            return
        last = self.page.folded.pop()
        self.note(last.title)
        self.prompt.show(last.whole(self.renderer()))

    def _paint(self) -> None:
        """Show one screenful of what the journal has."""
        for line in self.target.notes:
            self.note(line)
        try:
            with self.reading() as session:
                last = tail(session, self.prompt.rows)
                self.link.after = self._stream.after = self.status.seq = session.state.seq
                self.status.title = session.state.title or ""
                self.status.model = str(session.meta.get("model") or "")
                self.status.cost_usd = session.totals.cost_usd
                about = notice(session, self.target.launch.workspace, in_chat=True)
        except SessionNotFound:
            return
        if about is not None:
            self.status.foreign = True
            self.warn(about)
        if last and last[0].get("parent") is not None:
            self.note("… earlier messages: /tree, /search, /export")
        for entry in last:
            self._stream.entry(entry)

    # What the bottom shows

    def moving(self, rows: int) -> str:
        """Return the end of what is unfinished."""
        return self.page.moving(rows)

    def queue_lines(self) -> list[str]:
        """Return the prompts that wait."""
        return self.outbox.lines()

    def choice_lines(self) -> list[str]:
        """Return the choice that is to be made."""
        return self.choices.lines(self.prompt.columns, self.prompt.rows // 3)

    def status_parts(self, columns: int, tick: int) -> list[tuple[str, str]]:
        """Return the status line."""
        self.status.silent = self.link.silent
        return self.status.parts(columns, tick)

    def busy(self) -> bool:
        """Tell whether anything runs, or is waited for."""
        return self.status.state == "running" or self.link.waits

    # What people do

    def accept(self) -> None:
        """Take what was typed: a command, or a prompt."""
        # Bytes that are no UTF-8 come as halves of characters, which cannot be sent.
        text = self.prompt.buffer.text.encode("utf-8", "replace").decode()
        if not text.strip():
            return
        self.cancelled = False
        self.prompt.buffer.append_to_history()
        self.prompt.buffer.reset()
        if text.startswith("/") and not text.startswith("//"):
            self.soon(self.command(text))
        else:
            self.outbox.accept(text.removeprefix("/") if text.startswith("//") else text)

    async def command(self, text: str) -> None:
        """Do what a line that begins with a slash says."""
        word, _, rest = text.strip().partition(" ")
        found = find(word)
        if found is None:
            self.warn(
                f"There is no command {word}. /help lists the commands. "
                "To send it as a prompt, start with //."
            )
            self.outbox.offer(text)
        else:
            await found.do(self, rest.strip())

    async def request(self, request: RequestFor[R]) -> R:
        """Send a request to the runner and return its reply.

        Raises:
            HoldfastError: it was rejected, or there is no runner.
        """
        if self.target.read_only:
            raise UsageError(
                "This session is open read-only. /fork makes a copy that you can continue."
            )
        try:
            return await self.link.request(request)
        except Refused as error:
            if error.kind != ForeignSession.__name__:
                raise
            if not await accepted(self):
                raise UsageError(
                    "Nothing was done, because you did not accept the session."
                ) from None
        return await self.link.request(msgspec.structs.replace(request, id=new_request_id()))

    def interrupt(self) -> None:
        """Handle Ctrl+C: cancel the turn; the second time, exit as well."""
        if self.turn_runs or self.outbox.awaits_turn:
            again, self.cancelled = self.cancelled, True
            self.soon(self._cancel_and_leave() if again else self._cancel())
        elif self.prompt.buffer.text:
            self.outbox.stop_editing()
        elif self.cancelled:
            self.quit(130)
        else:
            self.cancelled = True
            self.note("press Ctrl+C again to exit, or Ctrl+D")

    async def _cancel(self) -> None:
        """Cancel the turn; also one that is just about to begin."""
        self._cancelling = True
        try:
            while not (await self.request(Cancel(id=new_request_id()))).running:
                if not self.outbox.awaits_turn:
                    break
                await asyncio.sleep(_BEGINS_SECONDS)
        finally:
            self._cancelling = False

    async def _cancel_and_leave(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVES_SECONDS):  # whoever insists is not kept waiting
                await self._cancel()
                while self.turn_runs:  # noqa: ASYNC110  a moment, and no event is worth it
                    await asyncio.sleep(_BEGINS_SECONDS)
        self.quit(130)

    def turn_begins(self) -> None:
        """Be told that nothing ran before: a Ctrl+C is the first again."""
        self.cancelled = self._cancelling

    def decide(self, key: str) -> bool:
        """Take a key for the choice that waits; tell whether it was one of its keys."""
        way = self.choices.way(key)
        if way is not None:
            self.soon(way.do())
        return way is not None
