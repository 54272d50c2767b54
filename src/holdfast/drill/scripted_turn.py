"""A turn that is known to the last character, and the steps that every scenario takes with it.

The model says a word and runs a command; says a long text and runs another; and ends. A text that
was cut off is not said again: other words follow, or they would hide its loss. A command prints
a line, waits as long as a file holds it back, prints more lines, can be held back before the last
one, too, and leaves a mark in a file when it begins and when it ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.drill.checks import ShownText, judge, ran, survived
from holdfast.drill.pty import PtyScreen, StuckError, until
from holdfast.drill.results import DrillResult, Moments
from holdfast.drill.sandbox import Sandbox
from holdfast.errors import HoldfastError
from holdfast.model.ids import new_session_id
from holdfast.runtime.protocol.client import connect
from holdfast.runtime.protocol.socket_path import socket_path
from holdfast.runtime.tools.shell.wrapper import start_of

FIRST, SECOND = "first", "second"
_PROMPT = "the drill"
_LINES = 1200
# Characters of one to four bytes, and one of two code points: any of them can be cut in two.
TEXT = "".join(
    f"{n:04d} so it is: all of it or no drill, à la e\u0301t\u00e9, 日本, 🙂 ok.\n"
    for n in range(1, _LINES + 1)
)
SHORT = "And so it goes on."
_OPENING, _CLOSING = "I begin.", "That was all."
_COMMAND = (
    "echo {name} began >> ../marks; echo line 01; while [ -e ../{name} ]; do sleep 0.02; done; "
    "for n in {numbers}; do echo line $n; sleep 0.02; done; "
    "while [ -e ../{name}-end ]; do sleep 0.02; done; echo line 99; echo {name} ended >> ../marks"
)


class ScriptedTurn:
    """The ground of one scenario with a turn on it, in a runner, in view of a terminal.

    ``lines`` is how many the first command prints while it is not held back. ``cut`` tells that the
    blow is to fall into the long text: the model then falls silent before its end, so that the
    blow comes in time however fast this machine is.
    """

    def __init__(
        self, ground: Sandbox, *, text: str = TEXT, lines: int = 0, cut: bool = False
    ) -> None:
        self.ground = ground
        self.session = new_session_id()
        self.shown = ""
        self._text = text
        self._numbers = [f"{number:02d}" for number in range(2, lines + 2)]
        self._is_cut = cut
        self._began = self._blow = self._start = self._back = 0.0

    @property
    def told(self) -> ShownText:
        """What the turn is made of when it has come to its end."""
        printed = (["01", *numbers, "99"] for numbers in (self._numbers, []))
        outputs = ["\n".join(f"line {number}" for number in each) for each in printed]
        if self._is_cut:
            return ShownText([_OPENING, SHORT, _CLOSING], outputs, self._text)
        return ShownText([_OPENING, self._text, _CLOSING], outputs)

    # The turn

    def begin(self, *, answers: bool = False) -> PtyScreen:
        """Begin the turn on a terminal, up to where the first command waits.

        One that ``answers`` is a person's: what its end means for the turn is configured.
        The runner is started from there: what comes over the terminal must not come over it.
        """
        self.ground.put(FIRST)
        self.ground.put(SECOND)
        self._write_script(self._text)
        silent = f"ok, stall@{len(self._text.split()) * 9 // 10}"
        chaos = ["--chaos", silent] if self._is_cut else []
        words = ("-p", _PROMPT, "--detach", "--session-id", self.session)
        first = (*words, "--script", str(self.ground.script), *chaos)
        screen = self.attach(first, answers=answers)
        with self._explained():
            screen.shows("line 01\n")
        self._began = screen.first or time.monotonic()
        return screen

    def _write_script(self, text: str) -> None:
        self.ground.write_script(
            {"say": _OPENING},
            _call(FIRST, self._numbers),
            {"say": text},
            _call(SECOND, []),
            {"say": _CLOSING},
        )

    def attach(self, first: tuple[str, ...] = (), *, answers: bool = False) -> PtyScreen:
        """Attach a new terminal, which shows everything from the beginning."""
        how = "--plain" if answers else "--no-input"
        words = ("attach", how, "--last", "1000", self.session)
        return self.ground.on_terminal(*words, first=first)

    def let_it_stream(self, screen: PtyScreen, part: float) -> None:
        """Let the first command end, and wait until a part of the text is on the screen."""
        self.ground.take(FIRST)
        beginning, enough = self._text[:20], round(len(self._text) * part)
        screen.until(
            lambda: len(screen.text.partition(beginning)[2]) >= enough, "the text on the screen"
        )

    def runner(self) -> int:
        """Return the process that runs the turn."""
        path = socket_path(self.ground.home, self.session)

        async def number() -> int:
            connection = await connect(path, {})
            await connection.close()
            assert connection.hello.pid is not None
            return connection.hello.pid

        try:
            return asyncio.run(number())
        except HoldfastError as error:
            raise StuckError(f"the runner does not answer: {error}") from error

    # The blow

    def struck(self, screen: PtyScreen) -> None:
        """Note that the blow was struck; what the terminal had taken by then was on the screen."""
        self._blow = time.monotonic()
        screen.look()
        self.shown = screen.text

    def await_end(self, runner: int) -> None:
        """Wait until the runner has ended."""
        until(lambda: start_of(runner) is None, "the end of the runner")

    # Coming back

    def resume(self, *words: str) -> None:
        """Go on with the session to the end of the turn, in a new process."""
        if self._is_cut:
            self._write_script(SHORT)
        self.ground.take(FIRST)
        self.ground.take(SECOND)
        self._start = time.monotonic()
        screen = self.ground.on_pipe(
            *("-r", self.session, "-p", *words, "--script", str(self.ground.script)),
            *("--output-format", "stream-json"),
        )
        # The first line names the session; the second is what recovery found, or the first entry.
        with self._explained():
            screen.until(lambda: screen.text.count("\n") > 1, "what the next program finds")
        self._back = time.monotonic()
        screen.whole()
        with self._explained():
            if code := screen.process.returncode:
                raise StuckError(f"the turn did not finish (exit code {code})")

    def came_back(self, start: float) -> None:
        """Note that what was shown is shown again, by a program that was started then."""
        self._start = start
        self._back = time.monotonic()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Add what the program said last to what did not happen."""
        try:
            yield
        except StuckError as error:
            raise StuckError(f"{error}; it said {self.ground.last_error}") from error

    # The end

    def finding(self, name: str, title: str, problems: list[str]) -> DrillResult:
        """Look at everything that is left, on a new terminal and with the library."""
        done = time.monotonic()
        kept, lost = survived(self.shown, self.attach().whole())
        commands = ran(self.ground.marks(), [FIRST, SECOND])
        self.ground.end_all()
        problems = [
            *problems,
            *lost,
            *commands.problems,
            *judge(self.ground.home, self.session, self.told),
        ]
        return DrillResult(
            name=name,
            title=title,
            state="failed" if problems else "survived",
            session=self.session,
            shown_characters=len(self.shown),
            survived_characters=kept,
            commands=commands.commands,
            run_twice=commands.twice,
            recovery_seconds=round(self._back - self._start, 3),
            moments=Moments.rounded(
                self._blow - self._began, self._back - self._began, done - self._began
            ),
            problems=problems,
        )


def _call(name: str, numbers: list[str]) -> dict[str, object]:
    command = _COMMAND.format(name=name, numbers=" ".join(numbers))
    return {"call": "bash", "arguments": {"command": command}}
