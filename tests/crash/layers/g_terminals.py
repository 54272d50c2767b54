"""Layer G: terminals that die under a turn.

A client (``holdfast attach``) starts a runner from a terminal and gives it a prompt. The terminal
dies in the middle of the model's text; a second one of its kind attaches and dies while the tool
runs; a third follows to the end. Each of them must have shown every character once, up to its
death, and the last one all of them; the journal has what the model said; nothing has run twice.

``print …``: the same with ``holdfast -p``, which is its own process: what was in flight is saved,
and the session is gone on with.

``strike …``: no terminal dies, but the wrapper of a command or the command, at one step of the
wrapper's life: ``strike wrapper alone 9`` kills the agent, too (see ``lab/strikes.py``).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import Struct

from tests.crash import mutants
from tests.crash.lab.layer import Layer
from tests.crash.lab.line import Line
from tests.crash.lab.packages import provided
from tests.crash.lab.stage import Stage
from tests.crash.lab.strikes import cases as strikes_of
from tests.crash.lab.strikes import struck
from tests.crash.lab.tally import Tally
from tests.crash.lab.terminals import (
    Pipes,
    Remote,
    Screen,
    StuckError,
    Terminal,
    Tmux,
    is_alive,
    missing,
    until,
)
from tests.crash.lab.watched import PROMPT, WatchedTurn
from tests.runtime.providers.wire import chat_reply

_TIMES = {"ci": 1, "nightly": 100, "mutant": 1}
_LONG, _VERY_LONG = 30, 290  # pieces of 32 KB: more than pipes hold; more than a runner queues
_HUP, _TERM, _KILL = signal.SIGHUP, signal.SIGTERM, signal.SIGKILL


class Death(Struct, frozen=True):
    """A way to die: on which terminal, what is done, and how a client on it may end then.

    With ``long`` more text follows than the dead line can hold. ``at_last`` is done when the turn
    has ended, to a client that nothing has told of its terminal's death. One that ``returns`` was
    only away, and has to show the rest, too.
    """

    place: str
    strike: Callable[[Any], object]
    codes: tuple[int, ...]
    long: int = 0
    at_last: Callable[[Any], object] | None = None
    waits: bool = True  # for the client to end before the next one attaches
    returns: bool = False


def _nothing(_: Terminal) -> None:
    """Just look away."""


DEATHS = {
    "group-killed": Death("pty", lambda it: it.send_group(_KILL), (-_KILL,)),
    "pty-closed": Death("pty", Screen.hang_up, (129,)),
    "pty-HUP": Death("pty", lambda it: it.send(_HUP), (129,)),
    "pty-TERM": Death("pty", lambda it: it.send(_TERM), (143,)),
    "pty-KILL": Death("pty", lambda it: it.send(_KILL), (-_KILL,)),
    "group-TERM": Death("pty", lambda it: it.send_group(_TERM), (143,)),
    "pty-stalled": Death(
        "pty", _nothing, (143,), long=_LONG, at_last=lambda it: it.send(_TERM), waits=False
    ),
    "pty-stopped": Death(
        "pty",
        lambda it: it.send(signal.SIGSTOP),
        (143,),
        long=_VERY_LONG,
        at_last=lambda it: it.send(signal.SIGCONT),
        waits=False,
        returns=True,
    ),
    "reader-gone": Death("pipes", Pipes.stop_reading, (141,), waits=False),
    "tmux-server": Death("tmux", lambda it: it.kill("server"), (129,)),
    "tmux-session": Death("tmux", lambda it: it.kill("session"), (129,)),
    "tmux-pane": Death("tmux", lambda it: it.kill("pane"), (129,)),
    "ssh-tt-client": Death("-tt", Remote.kill_client, (129,)),
    "ssh-tt-server": Death("-tt", Remote.kill_server, (129,)),
    "ssh-tt-silent": Death("-tt", Remote.go_silent, (129,), long=_LONG, waits=False),
    "ssh-tt-frozen": Death(
        "-tt", Remote.freeze, (129,), long=_LONG, at_last=Remote.break_ice, waits=False
    ),
    "ssh-T-client": Death("-T", Remote.kill_client, (0, 141)),
    "ssh-T-server": Death("-T", Remote.kill_server, (0, 141)),
    "ssh-T-silent": Death("-T", Remote.go_silent, (0, 141), long=_LONG, waits=False),
    "ssh-T-frozen": Death(
        "-T", Remote.freeze, (0, 141), long=_LONG, at_last=Remote.break_ice, waits=False
    ),
}
PRINTS = {  # how the turn stands then: without a terminal there, no signal tells of the death
    "pty-closed": "cancelled",
    "pty-HUP": "cancelled",
    "pty-TERM": "cancelled",
    "pty-KILL": "interrupted",
    "ssh-tt-client": "cancelled",
    "ssh-T-client": "completed",
    "ssh-T-silent": "completed",
}
_MOMENTS = ("stream", "tool")
_NIGHTLY_ONLY = (
    "stream pty-HUP",
    "tool pty-HUP",
    "tool pty-TERM",
    "stream ssh-tt-client",
    "stream ssh-T-client",
    "tool ssh-T-silent",
)
_FOR_MUTANTS = ("group-killed", "pty-closed", "pty-HUP")


class TerminalLayer(Layer):
    """Kills terminals."""

    letter = "G"
    title = "terminals and wrappers that die"
    least: ClassVar[dict[str, int]] = {"ci": 90}
    workers = 4  # they wait most of the time
    longest_case_seconds = 300.0

    def why_not(self) -> str | None:
        """Say what is missing."""
        if sys.platform != "linux":
            return "terminals are opened and processes found as Linux has it"
        absent = missing()
        for program, package in (("tmux", "tmux"), ("sshd", "openssh-server")):
            if not provided(program, package, *(["openssh-client"] if program == "sshd" else [])):
                absent.append(program)
        return f"not installed: {', '.join(absent)}" if absent else None

    def cases(self) -> list[str]:
        """Return every cell, so many times."""
        if self.plan.level == "mutant":
            if mutants.variant_of(self.plan.mutant) == "strike":
                return [f"strike {each} 0" for each in strikes_of(self.plan)]
            return [f"{death} 0" for death in _FOR_MUTANTS]
        # Those that wait longest first, so that the others run meanwhile.
        deaths = sorted(DEATHS, key=lambda name: -DEATHS[name].long)
        prints = [f"{moment} {name}" for name in PRINTS for moment in _MOMENTS]
        if self.plan.level == "ci":
            prints = [each for each in prints if each not in _NIGHTLY_ONLY]
        strikes = [f"strike {each}" for each in strikes_of(self.plan)]
        cells = [*deaths, *strikes, *(f"print {each}" for each in prints)]
        return [f"{cell} {n}" for n in range(_TIMES[self.plan.level]) for cell in cells]

    def start(self) -> None:
        """Start the server of the SSH lines."""
        self._line = Line(self.plan.scratch / "line")
        self._stage: Stage | None = None

    def stop(self) -> None:
        """End it."""
        self._line.close()
        if self._stage is not None:
            self._stage.close()

    def run(self, case: str) -> Tally:
        """Let terminals die in one way."""
        if case.startswith("strike"):
            return self._strike(case)
        *kind, name, _ = case.split()
        folder = self.plan.scratch / case.replace(" ", "-")
        chance = random.Random(f"{self.plan.seed} {case}")
        turn = WatchedTurn(folder, chance, long=DEATHS[name].long, mutant=self.plan.mutant or "")
        course = _Course(turn, name, self._line)
        try:
            if kind:
                course.print(kind[1])
            else:
                course.attach()
        except StuckError as error:
            course.tally.break_(f"{error} {course.troubles()}")
        finally:
            course.close()
            shutil.rmtree(folder, ignore_errors=True)
        return course.tally

    def _strike(self, case: str) -> Tally:
        """Kill a wrapper or its command."""
        _, who, *alone, number, _ = case.split()
        if self._stage is None:
            self._stage = Stage(self.plan)
        folder = self.plan.scratch / case.replace(" ", "-")
        try:
            return struck(self._stage, folder, int(number), who, alone=bool(alone))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class _Course:
    """What happens in one case."""

    def __init__(self, turn: WatchedTurn, name: str, line: Line) -> None:
        self.turn = turn
        self.death = DEATHS[name]
        self.tally = Tally()
        self._name = name
        self._line = line
        self._opened: list[Terminal] = []
        self._runner: int | None = None

    def close(self) -> None:
        for terminal in self._opened:
            terminal.close()

    def troubles(self) -> str:
        return "; ".join(each.trouble for each in self._opened if each.trouble)

    def _open(self, place: str, *words: str) -> Any:
        script = self.turn.script(*words)
        folder = self.turn.folder / f"terminal {len(self._opened)}"
        makes: dict[str, Callable[[], Terminal]] = {
            "pty": lambda: Screen(folder, script),
            "pipes": lambda: Pipes(folder, script),
            "tmux": lambda: Tmux(folder, script),
            "-tt": lambda: Remote(folder, script, self._line, "-tt"),
            "-T": lambda: Remote(folder, script, self._line, "-T"),
        }
        self._opened.append(makes[place]())
        return self._opened[-1]

    # A client of a runner

    def attach(self) -> None:
        turn = self.turn
        session = turn.make_session()
        with turn.on_stage(*turn.replies()):
            first = self._open(self.death.place, "attach", "--plain", session)
            first.type(f"{PROMPT}\n")
            self._await(first, turn.told_to_the_pause)
            self._runner = turn.runner_pid()
            self._strike(first)
            second = self._open(self.death.place, "attach", "--plain", session)
            self._await(second, turn.told_to_the_pause)
            if self.death.long:
                self._strike(second)  # the rest would not be read by anybody
                turn.vendor.go_on()
            else:
                turn.vendor.go_on()
                self._await(second, turn.told_to_the_tool)
                self._strike(second)
            last = self._open("pty", "attach", session, "--no-input")
            self._await(last, turn.told_to_the_tool)
            turn.release_tool()
            self._see_off(last)
            for terminal in (first, second):
                self._judge_dead(terminal)
            self._judge_runner()
            turn.judge_journal(
                self.tally,
                ["Something.", *turn.first, *turn.second],
                ["started", "completed"],
            )
            turn.judge_effect(self.tally)
            if len(turn.vendor.received) != 2:
                self.tally.repeat(f"the model was asked {len(turn.vendor.received)} times")

    def _await(self, terminal: Terminal, told: str) -> None:
        def shows() -> bool:
            if self._runner is not None and not is_alive(self._runner):
                raise StuckError("the runner has died with a terminal")
            shown = terminal.shown()
            if not told.startswith(shown[: len(told)]):
                raise StuckError("something else is shown than was said")
            return len(shown) >= len(told)

        try:
            until(shows, "what is told")
        except StuckError as error:
            raise StuckError(f"{error}; a terminal shows {terminal.shown()[-300:]!r}") from None

    def _strike(self, terminal: Any) -> None:
        _ = terminal.pid
        self.death.strike(terminal)
        self.tally.cases += 1
        self.tally.count(f"{self.death.place} died")
        if self.death.waits:
            terminal.await_end()

    def _see_off(self, terminal: Terminal) -> None:
        """Wait for a client that leaves by itself, and judge what it has shown."""
        pid = terminal.pid

        def ended() -> bool:
            terminal.shown()
            return not is_alive(pid)

        until(ended, "the end of a client whose turn has ended")
        self.turn.judge_screen(self.tally, terminal.shown(), whole=True)
        if (code := terminal.await_end()) != "0":
            self.tally.break_(f"the last client left with {code}")

    def _judge_dead(self, terminal: Any) -> None:
        if self.death.at_last is not None:
            self.death.at_last(terminal)
        if self.death.returns:
            self._await(terminal, self.turn.told)
            terminal.send(_TERM)
        code = terminal.await_end() or str(-_KILL)
        if int(code) not in self.death.codes:
            self.tally.break_(f"a client ended with {code}, not {self.death.codes}")
        if terminal.trouble:
            self.tally.break_(f"a client says, seen by nobody: {terminal.trouble[-500:]}")
        self.turn.judge_screen(self.tally, terminal.shown(), whole=self.death.returns)

    def _judge_runner(self) -> None:
        if self._runner is None or self.turn.runner_pid() != self._runner:
            self.tally.break_(f"runner {self._runner} is gone")

    # A process of its own

    def print(self, moment: str) -> None:
        turn, state = self.turn, PRINTS[self._name]
        first, *others = turn.replies()
        if moment == "tool":
            first.pause = None
        if state != "completed":
            others = []
        with turn.on_stage(first, *others, chat_reply([{"content": each} for each in turn.later])):
            terminal = self._open(self.death.place, "-p", PROMPT)
            if self.death.place == "-T":
                terminal.end_input()
            self._await_live(turn.half if moment == "stream" else "begun\n")
            self._strike_print(terminal)
            if state == "completed":
                turn.vendor.go_on()
                turn.release_tool()
            self._judge_end(terminal, state)
            self._go_on(moment, state)

    def _await_live(self, text: str) -> None:
        until(lambda: self.turn.live_text().endswith(text), "the turn in its middle")

    def _strike_print(self, terminal: Any) -> None:
        _ = terminal.pid
        self.death.strike(terminal)
        self.tally.cases += 1
        self.tally.count("-p died")

    def _judge_end(self, terminal: Terminal, state: str) -> None:
        code = int(terminal.await_end() or -_KILL)
        # The answer may still fit into a pipe whose reader is as good as gone.
        wanted = (0, 141) if state == "completed" else self.death.codes
        if code not in wanted:
            self.tally.break_(f"-p ended with {code}, not {wanted}")
        if terminal.trouble:
            self.tally.break_(f"-p says, seen by nobody: {terminal.trouble[-500:]}")

    def _go_on(self, moment: str, state: str) -> None:
        """Go on with the session, as its user would."""
        turn = self.turn
        if state == "interrupted":
            turn.release_tool()
            words, later = ["--continue-turn"], "".join(turn.later)
        else:
            words, later = ["say: and on", "--provider", "rehearsal"], "and on"
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "-c", "-p", *words],
            cwd=turn.project,
            env={"PATH": os.environ["PATH"], **turn.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0 or done.stdout.decode() != f"{later}\n":
            self.tally.break_(f"-c -p {words} ended with {done.returncode}: {done.stderr.decode()}")
        said = [turn.half] if moment == "stream" else turn.first
        if state == "completed":
            said = [*turn.first, *turn.second]
        ends = ["started", state, "started", "completed"]
        if state == "interrupted":
            ends = ["started", "completed"]
        turn.judge_journal(self.tally, [*said, later], ends)
        ran = int(moment == "tool" or state == "completed")
        turn.judge_effect(self.tally, ran, ran)
