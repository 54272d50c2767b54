"""What headless mode writes: the answer to standard output, everything else to standard error.

text         the last answer
json         one object at the end
stream-json  a line on the session, every entry as it is in the journal, the moment it is durable,
             and the same object at the end

Writing is done by a thread of its own, so that a reader who is slow does not hold up the turn. A
reader who has gone ends it: what was done is saved. Where there is no standard output at all,
nobody has asked for any.
"""

from __future__ import annotations

import queue
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast.cli.run.options import Format
from holdfast.cli.run.result import Result
from holdfast.model.codec import dumps
from holdfast.model.entry import Entry
from holdfast.model.sanitize import for_terminal, quoted_line
from holdfast.runtime.tools.autorun import AUTORUN
from holdfast.tui.tty import is_terminal


class Output:
    """Standard output and standard error of one run.

    ``failed`` is called once, from another thread, when standard output takes no more, and
    ``trouble`` says why. ``closed`` is called, from there too, when everything is written.
    """

    def __init__(
        self,
        format: Format,  # noqa: A002  as users say it
        failed: Callable[[], object],
        closed: Callable[[], object],
    ) -> None:
        self._format = format
        self._failed = failed
        self._closed = closed
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.trouble: OSError | None = None
        # Not to be waited for at the end: a reader may have stopped reading.
        threading.Thread(target=self._write, name="holdfast-output", daemon=True).start()

    @property
    def why(self) -> str | None:
        """A sentence about the error; ``None`` if the reader has gone."""
        if self.trouble is None or isinstance(self.trouble, ConnectionError):
            return None
        return f"Cannot write to standard output: {self.trouble.strerror}."

    def session(self, facts: dict[str, Any]) -> None:
        """Write which session this is and which model answers."""
        if self._format == "stream-json":
            self._lines.put(dumps({"type": "session", **facts}) + b"\n")
        else:
            self.note(f"session {facts['session_id']} · using {facts['model']} ({facts['why']})")

    def recovered(self, report: str, calls: list[dict[str, Any]]) -> None:
        """Write what was repaired, and what an earlier process left unfinished."""
        if self._format == "stream-json":
            self._lines.put(dumps({"type": "recovery", "report": report, "calls": calls}) + b"\n")
        self.note(report)

    def entry(self, entry: Entry) -> None:
        """Write a durable entry; called from any thread."""
        self.line(entry.line)

    def line(self, line: bytes) -> None:
        """Write the journal line of an entry; called from any thread."""
        if self._format == "stream-json":
            self._lines.put(line + b"\n")

    def note(self, text: str) -> None:
        """Write a note to standard error; ignore that it is closed."""
        note(text)

    def result(self, result: Result) -> None:
        """Write the result."""
        if self._format != "text":
            self._lines.put(dumps(result.fields()) + b"\n")
            return
        if result.text:
            text = for_terminal(result.text) if is_terminal(sys.stdout) else result.text
            self._lines.put(text.rstrip("\n").encode("utf-8", "replace") + b"\n")
        self._say_how_it_ended(result)

    def _say_how_it_ended(self, result: Result) -> None:
        for each in result.denied:
            subject = quoted_line(each["subject"])
            why = "allow it with --allow"
            if (rule := each["rule"] or "").startswith(AUTORUN):
                why = f"{rule}; approve it in a chat"
            self.note(f"denied: {each['tool']} {subject} ({why})")
        if result.cause is not None:
            self.note(f"{result.state}: {result.cause}")
        if result.requests:
            cost = "?" if result.cost_usd is None else f"{result.cost_usd:.4f}"
            tokens = sum(result.usage.values())
            self.note(f"{result.requests} request(s), {tokens:,} tokens, ${cost}")
        if result.queued:
            how = "run them with --run-queue"
            if result.queued_foreign:
                how = (
                    f"{result.queued_foreign} from elsewhere only run after you accept the session"
                )
            self.note(f"{result.queued} prompt(s) are queued; {how}")
        if result.resume is not None:
            self.note(f"Resume with: {result.resume}")

    def close(self) -> None:
        """Write the rest, then call ``closed``."""
        self._lines.put(None)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            if self.trouble is None:
                try:
                    put(line)
                except OSError as error:
                    self.trouble = error
                    self._failed()
        self._closed()


def note(text: str) -> None:
    """Write a line to standard error; ignore that it is closed."""
    with suppress(OSError, ValueError, AttributeError):  # closed, or never there
        sys.stderr.write(f"holdfast: {for_terminal(text)}\n")
        sys.stderr.flush()


def put(data: bytes) -> None:
    """Write everything at once, without a buffer."""
    if sys.stdout is None:
        return
    raw = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    rest = memoryview(data)
    while rest:
        written = raw.write(rest)
        if written is None:  # somebody who shares the pipe has made it non-blocking
            select.select([], [raw], [])
        else:
            rest = rest[written:]
