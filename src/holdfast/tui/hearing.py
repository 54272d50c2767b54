"""What the runner says, and what the chat makes of it: text, questions, how things stand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.runtime.control.client import Connection, new_request_id
from holdfast.runtime.control.protocol import Approve, ContinueTurn, Stop
from holdfast.runtime.control.story import Story
from holdfast.tui import attention
from holdfast.tui.choices import Choice, Way
from holdfast.tui.render import question_of
from holdfast.tui.target import Leaving, Target

if TYPE_CHECKING:
    from holdfast.tui.chat import Chat

_LONG_TURN_SECONDS = 5.0
_MOST_QUESTION_LINES, _LONGEST_QUESTION = 3, 200
_ANSWERS = {True: "allowed", False: "denied", None: "not asked any more"}


class Hearing:
    """The listener of one chat."""

    def __init__(self, chat: Chat, story: Story) -> None:
        self._chat = chat
        self._story = story
        self._turn_began = 0.0
        self._is_clean, self._report = True, ""

    @property
    def after(self) -> int:
        """The number of the last entry that was taken."""
        return self._story.after

    @property
    def answers(self) -> bool:
        """Whether somebody is there who can approve: at a terminal, always."""
        return True

    async def reach(self) -> Connection:
        """Return a connection; a runner is started if there is none."""
        return await self._chat.access.reach()

    async def hear(self, event: dict[str, Any]) -> None:
        """Take an event."""
        match event:
            case {"type": "entry", "entry": entry}:
                self.entry(entry)
            case {"type": "live"}:
                self._story.live(event)
            case {"type": "state"}:
                self._state(event)
            case {"type": "question"}:
                self._asked(event)
            case {"type": "answered", "call_id": call_id, "allow": allow}:
                if self._chat.choices.withdraw(f"approve:{call_id}"):
                    self._chat.note(f"{_ANSWERS[allow]}, from elsewhere")
            case {"type": "recovered", "report": report}:
                self._recovered(report)
            case {"type": "interrupted"}:
                self._interrupted(event)
            case {"type": "note", "text": text}:
                self._chat.note(text)
            case {"type": "skewed", "version": version}:
                self._skewed(version)

    def entry(self, entry: dict[str, Any]) -> None:
        """Take an entry, from the runner or from the journal itself."""
        self._chat.status.seq = max(self._chat.status.seq, entry["seq"])
        self._story.entry(entry)
        self._chat.prompt.changed()

    def other_entry(self, entry: dict[str, Any]) -> None:
        """Take an entry that the page does not show."""
        match entry:
            case {"type": "queued"}:
                self._chat.outbox.queued(entry)
            case {"type": "meta", "title": str(title)}:
                self._chat.status.title = title

    def _state(self, event: dict[str, Any]) -> None:
        status = self._chat.status
        before, had_trouble = status.state, status.trouble
        status.heard(event)
        self._chat.outbox.wait(list(event["queue"]))
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
            self._chat.prompt.attract(attention.notice("Holdfast waits for an answer"))
        elif now == "idle" and before == "running" and long:
            self._chat.prompt.attract(attention.notice("Holdfast: the turn has ended"))

    def _asked(self, event: dict[str, Any]) -> None:
        async def answer(*, allow: bool) -> None:
            given = Approve(
                id=new_request_id(),
                call_id=event["call_id"],
                arguments_sha256=event["arguments_sha256"],
                allow=allow,
            )
            await self._chat.request(given)

        ways = (
            Way("y", "allow", lambda: answer(allow=True)),
            Way("n", "deny", lambda: answer(allow=False)),
        )
        question = question_of(event)
        lines = question.split("\n")
        if len(lines) > _MOST_QUESTION_LINES or len(question) > _LONGEST_QUESTION:
            self._chat.prompt.show(self._chat.renderer().panel("Whole", lines))
        self._chat.choices.ask(Choice(f"approve:{event['call_id']}", question, ways))

    def _recovered(self, report: str) -> None:
        """Tell what opening the session has found damaged, and what was done about it."""
        if report != self._report:  # not again from the same runner
            self._report, self._is_clean = report, False
            lines = report.split("\n")
            self._chat.prompt.show("\n" + self._chat.renderer().panel("Repaired", lines))

    def _interrupted(self, event: dict[str, Any]) -> None:
        """Tell what a crash left, and put what can be done about it."""
        lines = event["report"].split("\n")
        if self._is_clean:
            lines.append("Everything that was on the screen is saved.")
        self._chat.prompt.show("\n" + self._chat.renderer().panel("Recovered", lines))

        async def go_on() -> None:
            await self._chat.request(ContinueTurn(id=new_request_id()))

        async def leave_it() -> None:
            self._chat.note("left as it is; the next prompt goes on from here")

        ways = (Way("c", "continue the turn", go_on), Way("l", "leave it as it is", leave_it))
        question = "The last turn was interrupted."
        self._chat.choices.ask(Choice("interrupted", question, ways))

    def _skewed(self, version: str) -> None:
        """Tell that the runner is of another version, and what can be done about it."""

        async def restart() -> None:
            await self._chat.request(Stop(id=new_request_id(), after_turn=True))
            self._chat.note("it leaves when its turn has ended; the next prompt starts our own")

        async def follow() -> None:
            self._chat.note("it can be followed, cancelled (Ctrl+C) and stopped (/stop)")

        ways = (Way("r", "restart it after the turn", restart), Way("f", "follow it", follow))
        question = f"The session's runner is version {version} and speaks another protocol."
        self._chat.choices.ask(Choice("skewed", question, ways))

    # Whether anybody is there

    def stands(self, why: HoldfastError | str | None) -> None:
        """Be told whether there is a connection: ``None``, or why there is none."""
        status = self._chat.status
        if why is None:
            self._story.attached()
            self._chat.choices.clear("approve:")  # those that are still open are asked again
            status.lost = None
        else:
            status.lost, status.state = str(why), "idle"
            if isinstance(why, HoldfastError):
                self._chat.warn(str(why))
                self._offer_ways_in()
        self._chat.prompt.changed()

    def _offer_ways_in(self) -> None:
        """Say what can be done with a session that nobody can run from here."""
        chat = self._chat

        async def again() -> None:
            chat.link.want()

        async def read_only() -> None:
            target = Target(launch=chat.target.launch, read_only=True)
            chat.leave(Leaving(next="switch", target=target))

        async def leave() -> None:
            chat.quit()

        ways = (
            Way("t", "try again", again),
            Way("r", "read only", read_only),
            Way("f", "fork it", lambda: chat.command("/fork")),
            Way("q", "leave", leave),
        )
        question = "The session cannot be gone on with here."
        chat.choices.ask(Choice("way-in", question, ways))
