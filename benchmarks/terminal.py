"""The chat on a real terminal: how soon one can type, what it sends, what it uses.

A chat starts its runner behind its first paint, so the runner is in none of the times to a prompt;
but it would be in those of the next round. So each round waits until the runner of its own is
connected, has it leave, and waits until it has let go. While an answer streams the runner works
beside the client: bytes do not depend on that, and processor time is that of the client alone.

A time to a prompt is that of a clock on the wall, because that is what people wait for, less the
time in which the process was ready to run and others had the processors, as the kernel counts it:
a busy machine says nothing about the program. Of the processor time beside it a ratio is judged.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import holdfast
from benchmarks.conversation import submit_many
from benchmarks.harness import Bench, Goal, Result, Samples, at_most
from benchmarks.program import Program

if TYPE_CHECKING:
    from collections.abc import Iterator

_BARE = """
import click
from prompt_toolkit import PromptSession
PromptSession().prompt("> ")
"""
_TOKENS_A_SECOND = 100
_CHUNK_SECONDS = 0.05  # the runner hands on what was streamed in so long as one piece
_CHUNKS = 300
_MARKDOWN_BYTES = 5500
_LAST_WORDS = "These are the last words."
_MANY, _FEW = 10_000, 10
_LONG, _SHORT = "20260101-000000-aaaaaaaa", "20260101-000000-bbbbbbbb"
_QUIET_SECONDS = 1.0  # the status line of a turn that runs moves more often
_SECTION = """
## Part {number}: what the log says

The build fails because a *test* reads its own output before anything was written there; the
**writer** has only opened the file. Three things follow from `parse_line` returning `None`:

- the first line is taken for the header, and the header for a comment,
- a retry reads the same bytes again and comes to the same end,
- nobody is told.

```python
def parse_line(line: str) -> Entry | None:
    if not line.endswith("\\n"):
        return None  # not yet
    return decode(line)
```

| file | lines | why |
|---|---|---|
| `reader.py` | 40 | waits for the end of a line |
| `writer.py` | 12 | says when it has begun |

"""


def terminal(bench: Bench) -> Iterator[Result]:
    """The way to a prompt, in a new session and in a long one; an answer that streams."""
    if sys.platform != "linux":
        return  # processor times of other processes are told there only
    yield from _prompt(bench)
    yield from _resume(bench)
    yield from _streaming(bench)


def _prompt(bench: Bench) -> Iterator[Result]:
    place = _Place(bench.fresh("chat"))
    ours, floor = _Start(place, [], "/help"), _Start(place, None, "")
    yield from _painted(bench, "prompt on screen", ours, floor, at_most(0.350, "seconds"))


def _resume(bench: Bench) -> Iterator[Result]:
    place = _Place(bench.kept("long-chat", partial(_build, bench)))
    ours, floor = (_Start(place, ["-r", name], _LAST_WORDS) for name in (_LONG, _SHORT))
    name = f"resume {_MANY:,} messages to a prompt"
    yield from _painted(bench, name, ours, floor, at_most(0.500, "seconds"))


def _painted(bench: Bench, name: str, ours: _Start, floor: _Start, goal: Goal) -> Iterator[Result]:
    """The time until a prompt is painted, and what of it the processor worked."""
    measures = {"ours": ours.seconds, "floor": floor.seconds}
    samples = bench.interleave(name, bench.amount(15, 5), measures)
    yield Result(name, samples.median("ours"), "seconds", samples.median("floor"), goal=goal)
    work = Samples({"ours": ours.work[1:], "floor": floor.work[1:]})
    yield work.result("  processor time until then", "seconds", at_most(1.8))


def _build(bench: Bench, folder: Path) -> None:
    place = _Place(folder)
    store = holdfast.open_store(place.home)
    label = f"building a session of {_MANY:,} messages"
    for session_id, count in ((_LONG, _MANY), (_SHORT, _FEW)):
        with store.create(workspace=place.workspace, session_id=session_id) as session:
            submit_many(session, count - 1, partial(bench.progress.step, label))
            session.append(holdfast.assistant(_LAST_WORDS))
    store.list()  # what a first list has to do is not what is measured


def _streaming(bench: Bench) -> Iterator[Result]:
    place = _Place(bench.fresh("chat-stream"))
    text = "".join(_SECTION.format(number=number) for number in range(1, 100))
    text = text[: _MARKDOWN_BYTES - len(_LAST_WORDS) - 2] + f"\n\n{_LAST_WORDS}"
    words = len(text.split())
    slowly = _Answer(place, text, _CHUNKS * _CHUNK_SECONDS / words)
    fast = _Answer(place, text, 1 / _TOKENS_A_SECOND)
    shares: list[float] = []
    sent: list[float] = []
    for _ in bench.steps("an answer that streams", bench.amount(3, 1)):
        sent.append(slowly.streamed().sent_bytes / 1024)
        shares.append(100 * fast.streamed().cpu_seconds * _TOKENS_A_SECOND / words)
    yield Result(
        name=f"sent for {_MARKDOWN_BYTES / 1000:.1f} KB of Markdown in {_CHUNKS} pieces",
        ours=median(sent),
        unit="KiB",
        floor=len(text.encode()) / 1024,
        goal=at_most(60, "KiB"),
    )
    yield Result(
        name=f"chat at {_TOKENS_A_SECOND} tokens/s, share of a core",
        ours=median(shares),
        unit="%",
        goal=at_most(15, "%"),
    )


class _Place:
    """A home and a folder to work in, with nothing of the user's own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = kept | {
            "HOME": str(folder),
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_CONFIG": str(folder / "config"),
            "PYTHONPATH": str(Path(holdfast.__file__).parents[1]),  # the same, from any folder
            "TERM": "xterm-256color",
            "PROMPT_TOOLKIT_NO_CPR": "1",  # nobody here would answer where the cursor is
        }

    def chat(self, options: list[str]) -> Program:
        """Start a chat."""
        words = [sys.executable, "-m", "holdfast", *options]
        return Program(words, self.environment, self.workspace)

    def bare(self) -> Program:
        """Start the least that can paint a prompt."""
        return Program([sys.executable, "-c", _BARE], self.environment, self.workspace)

    def quiet(self) -> None:
        """Have every runner leave; return when they have."""
        words = [sys.executable, "-m", "holdfast", "stop", "--all"]
        subprocess.run(words, env=self.environment, check=True, capture_output=True)


class _Start:
    """Starts a chat, or without ``options`` a bare prompt; ``work`` is the processor's part."""

    def __init__(self, place: _Place, options: list[str] | None, wanted: str) -> None:
        self._place = place
        self._options = options
        self._wanted = wanted
        self.work: list[float] = []

    def seconds(self) -> float:
        """Return the time from the start of the process to a prompt, and all else, on screen."""
        if self._options is None:
            with self._place.bare() as program:
                return self._painted(program)
        with self._place.chat(self._options) as program:
            taken = self._painted(program)
            program.until("saved ✓")
        self._place.quiet()
        return taken

    def _painted(self, program: Program) -> float:
        taken = program.until_prompt(self._wanted)
        self.work.append(program.cpu_seconds())
        return taken - program.waited_seconds()


class _Streamed(NamedTuple):
    """What an answer cost."""

    sent_bytes: int
    cpu_seconds: float


class _Answer:
    """A text that the rehearsal model streams, word by word."""

    def __init__(self, place: _Place, text: str, pause_seconds: float) -> None:
        self._place = place
        self._script = place.workspace / f"script-{pause_seconds:.4f}.jsonl"
        steps = ({"pace": pause_seconds}, {"say": text})
        self._script.write_text("".join(f"{json.dumps(step)}\n" for step in steps))

    def streamed(self) -> _Streamed:
        """Have it streamed; return what the client sent and used, from Enter to the end."""
        with self._place.chat(["--script", str(self._script)]) as program:
            program.until("saved ✓")
            program.settle(_QUIET_SECONDS)
            cpu, sent = program.cpu_seconds(), len(program.written)
            program.type("go\r")
            program.until(_LAST_WORDS)
            program.settle(_QUIET_SECONDS)
            cpu, sent = program.cpu_seconds() - cpu, len(program.written) - sent
        self._place.quiet()
        return _Streamed(sent, cpu)
