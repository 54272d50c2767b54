"""The runner's events in the chat: text, questions, the state, a lost connection."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.runtime.protocol.client import new_request_id
from holdfast.runtime.protocol.messages import (
    Approve,
    ContinueTurn,
    EntryEvent,
    LiveText,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    RunnerExited,
    SessionRepaired,
    StateChanged,
    Stop,
    TurnInterrupted,
)
from holdfast.runtime.protocol.reconnect import ClientEvent, Connected, Disconnected
from holdfast.runtime.protocol.transcript_stream import TranscriptStream
from holdfast.tui.chat import terminal_notify
from holdfast.tui.chat.choices import ChoicePrompt, Option
from holdfast.tui.chat.render import question_of
from holdfast.tui.target import ExitAction, Target

if TYPE_CHECKING:
    from holdfast.tui.chat.chat import Chat

_LONG_TURN_SECONDS = 5.0
_MOST_QUESTION_LINES, _LONGEST_QUESTION = 3, 200
_ANSWERS = {True: "allowed", False: "denied", None: "no longer needed"}


class ChatEvents:
    """Shows the events of one session in its chat."""

    def __init__(self, chat: Chat, stream: TranscriptStream) -> None:
        self._chat = chat
        self._stream = stream
        self._turn_began = 0.0
        self._is_clean, self._report = True, ""

    def on_event(self, event: ClientEvent) -> None:
        """Show an event."""
        match event:
            case EntryEvent():
                self.entry(event.fields)
            case LiveText():
                self._stream.live(event)
            case StateChanged():
                self._state(event)
            case QuestionAsked():
                self._asked(event)
            case QuestionAnswered():
                self._answered(event)
            case SessionRepaired(report=report):
                self._repaired(report)
            case TurnInterrupted():
                self._interrupted(event)
            case Notice(text=text):
                self._chat.note(text)
            case Connected(other_version=version):
                self._connected(version)
            case Disconnected(why=why):
                self._disconnected(why)
            case RunnerExited(why=why):
                self._disconnected(f"The runner has stopped: {why}.")

    def entry(self, entry: dict[str, Any]) -> None:
        """Take an entry, from the runner or from the journal itself."""
        self._chat.status.seq = max(self._chat.status.seq, entry["seq"])
        self._stream.entry(entry)
        self._chat.prompt.changed()

    def other_entry(self, entry: dict[str, Any]) -> None:
        """Take an entry that the page does not show."""
        match entry:
            case {"type": "queued"}:
                self._chat.outbox.queued(entry)
            case {"type": "meta", "title": str(title)}:
                self._chat.status.title = title

    def _state(self, event: StateChanged) -> None:
        status = self._chat.status
        before, had_trouble = status.state, status.trouble
        status.update(event)
        self._chat.outbox.wait(event.queue)
        if status.trouble and status.trouble != had_trouble:
            self._chat.warn(f"NOT SAVED: {status.trouble}")
        elif had_trouble and not status.trouble:
            self._chat.note("everything is saved again")
        if before != status.state:
            self._changed(before, status.state)
        self._chat.prompt.changed()

    def _changed(self, before: str, now: str) -> None:
        if before == "idle":
            self._turn_began = time.monotonic()
            self._chat.turn_begins()
        if now == "running":
            self._chat.choices.withdraw("interrupted")  # somebody has decided, perhaps elsewhere
        elif now == "idle":
            self._chat.choices.withdraw("leave")
        long = time.monotonic() - self._turn_began > _LONG_TURN_SECONDS
        if now == "waiting":
            self._chat.prompt.attract(terminal_notify.notice("Holdfast is waiting for an answer"))
        elif now == "idle" and before == "running" and long:
            self._chat.prompt.attract(terminal_notify.notice("Holdfast: the turn has ended"))

    def _asked(self, event: QuestionAsked) -> None:
        async def answer(*, allow: bool) -> None:
            given = Approve(
                id=new_request_id(),
                call_id=event.call_id,
                arguments_sha256=event.arguments_sha256,
                allow=allow,
            )
            await self._chat.request(given)

        ways = (
            Option("y", "allow", lambda: answer(allow=True)),
            Option("n", "deny", lambda: answer(allow=False)),
        )
        question = question_of(event)
        lines = question.split("\n")
        if len(lines) > _MOST_QUESTION_LINES or len(question) > _LONGEST_QUESTION:
            self._chat.prompt.show(self._chat.renderer().panel("Whole", lines))
        self._chat.choices.ask(ChoicePrompt(f"approve:{event.call_id}", question, ways))

    def _answered(self, event: QuestionAnswered) -> None:
        if self._chat.choices.withdraw(f"approve:{event.call_id}"):
            self._chat.note(f"{_ANSWERS[event.allow]} in another terminal")

    def _repaired(self, report: str) -> None:
        """Tell what opening the session has found damaged, and what was done about it."""
        if report != self._report:  # not again from the same runner
            self._report, self._is_clean = report, False
            lines = report.split("\n")
            self._chat.prompt.show("\n" + self._chat.renderer().panel("Repaired", lines))

    def _interrupted(self, event: TurnInterrupted) -> None:
        """Tell what a crash left, and put what can be done about it."""
        lines = event.report.split("\n")
        if self._is_clean and not event.foreign:
            lines.append("Everything that was on the screen is saved.")
        title = "Recorded elsewhere" if event.foreign else "Recovered"
        self._chat.prompt.show("\n" + self._chat.renderer().panel(title, lines))

        async def go_on() -> None:
            await self._chat.request(ContinueTurn(id=new_request_id()))

        async def leave_it() -> None:
            self._chat.note("the turn stays unfinished; your next prompt continues from here")

        ways = (
            Option("c", "continue the turn", go_on),
            Option("l", "leave it unfinished", leave_it),
        )
        how = "recorded elsewhere" if event.foreign else "interrupted"
        question = f"The last turn was {how}."
        self._chat.choices.ask(ChoicePrompt("interrupted", question, ways))

    def _skewed(self, version: str) -> None:
        """Tell that the runner is of another version, and what can be done about it."""

        async def restart() -> None:
            await self._chat.request(Stop(id=new_request_id(), after_turn=True))
            self._chat.note("it stops after its turn; your next prompt starts a new runner")

        async def follow() -> None:
            self._chat.note("you can follow it, cancel the turn (Ctrl+C) and stop it (/stop)")

        ways = (Option("r", "restart it after the turn", restart), Option("f", "follow it", follow))
        question = f"The session's runner is Holdfast {version}, which uses another protocol."
        self._chat.choices.ask(ChoicePrompt("skewed", question, ways))

    # The connection

    def _connected(self, other_version: str | None) -> None:
        self._stream.attached()
        self._chat.choices.clear("approve:")  # those that are still open are asked again
        self._chat.status.lost = None
        if other_version is not None:
            self._skewed(other_version)
        self._chat.prompt.changed()

    def _disconnected(self, why: str) -> None:
        self._chat.status.lost, self._chat.status.state = why, "idle"
        self._chat.prompt.changed()

    def failed(self, error: HoldfastError) -> None:
        """Show that no runner can be reached or started, and what can be done about it."""
        self._disconnected(str(error))
        self._chat.warn(str(error))
        self._offer_ways_in()
        self._chat.prompt.changed()

    def _offer_ways_in(self) -> None:
        """Offer what can be done with a session that cannot be run here."""
        chat = self._chat

        async def again() -> None:
            chat.link.want()

        async def read_only() -> None:
            target = Target(launch=chat.target.launch, read_only=True)
            chat.leave(ExitAction(next="switch", target=target))

        async def leave() -> None:
            chat.quit()

        ways = (
            Option("t", "try again", again),
            Option("r", "open it read-only", read_only),
            Option("f", "fork it", lambda: chat.command("/fork")),
            Option("q", "quit", leave),
        )
        question = "The session cannot be continued here."
        chat.choices.ask(ChoicePrompt("way-in", question, ways))
