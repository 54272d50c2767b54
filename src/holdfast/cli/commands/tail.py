"""``holdfast tail``: show the end of a session, and follow it with ``-f``."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any

import click

import holdfast
from holdfast.cli.run.output import note, put
from holdfast.cli.ui.complete import complete_session
from holdfast.cli.ui.plain_transcript import PlainTranscript
from holdfast.errors import StorageError
from holdfast.keeper.lookup import resolve_session
from holdfast.model.codec import shown
from holdfast.model.entry import Entry
from holdfast.model.event import Event
from holdfast.runtime.protocol.messages import LiveText
from holdfast.store.read.follower import Follower
from holdfast.store.session import Session

_POLL_SECONDS = 0.05
_FIRST_LOOK = 64


@click.command(
    help="""Show the end of a session. With -f, follow it until Ctrl+C.

    Following shows what any process writes, word by word, and continues after a compaction. With
    --json, entries are printed exactly as they are in the journal.

    \b
    holdfast tail k3v9 -f
    holdfast tail k3v9 -f --json --last 0 | jq 'select(.type == "usage")'
    """
)
@click.argument("session", shell_complete=complete_session)
@click.option("-f", "--follow", is_flag=True, help="Follow the session as it grows.")
@click.option(
    "--last",
    "-n",
    type=click.IntRange(0),
    default=10,
    metavar="N",
    help="Start with the last N messages (default 10).",
)
@click.option("--json", "as_json", is_flag=True, help="Print entries as they are in the journal.")
def command(*, session: str, follow: bool, last: int, as_json: bool) -> None:
    """Show the end of a session."""
    store = holdfast.open_store()
    with store.open(resolve_session(store, session), mode="read") as opened:
        after = _before_last(opened, last)
        follower = opened.follow(after, live=not as_json, wait=False)
    tail = _Tail(opened, last, as_json=as_json)
    with follower:
        tail.catch_up(follower)
        while follow:
            tail.take(follower)
            if not opened.path.exists():
                tail.end()
                note(f"{opened.id} was deleted")
                sys.exit(1)
            time.sleep(_POLL_SECONDS)
        tail.end()


def _before_last(session: Session, last: int) -> int:
    """Return the number of an entry that is before the last messages."""
    newest, span = session.seq, _FIRST_LOOK
    while last and span <= newest:
        after = newest - span
        if _messages(session.follow(after, wait=False)) >= last:
            return after
        span *= 4
    return -1 if last else newest


def _messages(follower: Follower) -> int:
    with follower:
        return sum(isinstance(each, Entry) and each.type == "message" for each in follower)


class _Tail:
    """Prints entries: as text, or as the lines of the journal."""

    def __init__(self, session: Session, last: int, *, as_json: bool) -> None:
        self._as_json = as_json
        self._last = last
        self._text = PlainTranscript(_Standard(), last, session.blob)

    def catch_up(self, follower: Follower) -> None:
        """Show the last messages, and the text that is being streamed."""
        entries: deque[Entry] = deque()
        live: list[Event] = []
        messages = 0
        while found := follower.poll():
            for each in found:
                if isinstance(each, Event):
                    live.append(each)
                    continue
                entries.append(each)
                messages += each.type == "message"
                while entries and messages > self._last:
                    messages -= entries.popleft().type == "message"
        while entries and entries[0].type != "message":
            entries.popleft()  # they belong to what is not shown
        for entry in entries:
            self._entry(entry)
        self._text.caught_up()
        for event in live:
            self._event(event)

    def take(self, follower: Follower) -> None:
        """Show new entries and live text."""
        try:
            found = follower.poll()
        except StorageError as error:
            note(str(error))  # it is asked again
            return
        for each in found:
            if isinstance(each, Entry):
                self._entry(each)
            else:
                self._event(each)

    def end(self) -> None:
        """End the current line."""
        if not self._as_json:
            self._text.end()

    def _entry(self, entry: Entry) -> None:
        if entry.status == "edited":
            note(f"#{entry.seq} was changed after it was written")
        if self._as_json:
            put(entry.line + b"\n")
            return
        decoded = _decoded(entry)
        if decoded is not None:
            self._text.entry(decoded)

    def _event(self, event: Event) -> None:
        self._text.live(
            LiveText(
                stream=event.stream,
                kind=event.kind,
                text=event.text,
                call_id=event.call_id,
                name=event.name,
            )
        )


def _decoded(entry: Entry) -> dict[str, Any] | None:
    return shown(entry) if entry.type in ("message", "turn") else None


class _Standard:
    """Standard output without a buffer."""

    def write(self, text: str) -> None:
        """Write some text."""
        put(text.encode("utf-8", "replace"))
