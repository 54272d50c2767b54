"""Prints which modules of Holdfast common calls pass, and how often control switches between them.

python scripts/trace_walks.py             the table
python scripts/trace_walks.py --modules   also the names of the modules

Use it to compare two states of the source tree. A number says little on its own: it depends on the
made-up sessions below, so compare numbers of this script only with numbers of this script.

Method:
- A profile function (``sys.setprofile``, in every thread) sees each call of a Python function.
- Calls of functions that are defined in ``holdfast`` modules count. Bodies of modules,
  comprehensions and lambdas do not: they belong to the code around them. A generator counts each
  time that it is resumed, and so does a coroutine.
- *Modules* is the number of different modules of these calls.
- *Switches* is how often a call is in another module than the call before it in the same thread.
  Returns do not count, and neither does the change from one thread to another.
- Every command has run once before, in another home, so that imports are not part of a walk.

Set-up: a home with four sessions of two or three messages, and a fork. They are older than the two
seconds in which the index does not trust file times. *First* is a command that has to fill the
index. The chat runs its turns in its own process, offline, in a
pseudo-terminal. Its walk begins with Enter and ends when the prompt is in the journal; it includes
what is drawn in that time, so its number of switches differs by a fifth from run to run. The other
walks repeat, but for one module or so in a command that fills the index.
"""

from __future__ import annotations

import glob
import io
import itertools
import json
import os
import pty
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import holdfast
from holdfast.cli.main import main as command_line

_NOT_COUNTED = {"<module>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>"}
_WRITES = {"write", "writev", "pwrite", "pwritev", "fsync", "fdatasync"}
_SESSIONS = 4
_SETTLED_SECONDS = 2.5
_QUIET_SECONDS = 1.5
_LIMIT_SECONDS = 60.0
_CHAT = "--chat"  # for the process that this script starts for itself
_PROMPT = "a prompt whose way is traced"


class Tracer:
    """Records calls of Holdfast's functions while it is active; one at a time per process."""

    def __init__(self) -> None:
        self.is_active = False
        self.on_write: Callable[[], None] | None = None
        self._calls: dict[int, list[str]] = {}

    def install(self) -> None:
        """Watch this thread and all threads that are started later."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    @contextmanager
    def walk(self) -> Iterator[None]:
        """Record what happens inside, and nothing from before."""
        self._calls = {}
        self.is_active = True
        try:
            yield
        finally:
            self.is_active = False

    def result(self) -> dict[str, Any]:
        """Return the modules and the number of switches."""
        calls = list(self._calls.values())
        modules = sorted(set(itertools.chain.from_iterable(calls)))
        switches = sum(
            before != after for thread in calls for before, after in itertools.pairwise(thread)
        )
        return {"modules": modules, "switches": switches}

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self.is_active:
            return
        if event == "call" and frame.f_code.co_name not in _NOT_COUNTED:
            module = frame.f_globals.get("__name__", "")
            if module.partition(".")[0] == "holdfast":
                self._calls.setdefault(threading.get_ident(), []).append(module)
        elif event == "c_return" and self.on_write and argument.__name__ in _WRITES:
            self.on_write()


def main() -> None:
    """Trace all walks and print the table."""
    with_modules = "--modules" in sys.argv[1:]  # the commands below replace ``sys.argv``
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        os.chdir(folder)
        _leave_foreign_sessions(Path(folder))
        results = dict(_walks(Path(folder)))
    width = max(map(len, results))
    print(f"{'walk':{width}}  modules  switches")
    for name, result in results.items():
        print(f"{name:{width}}  {len(result['modules']):7}  {result['switches']:8}")
    if with_modules:
        for name, result in results.items():
            print(f"\n{name}")
            print("".join(f"  {module}\n" for module in result["modules"]), end="")


def _walks(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "chat prompt, Enter to journal", _chat(folder)
    tracer = Tracer()
    tracer.install()
    _library_walks(folder / "throw-away", Tracer())  # loads what is loaded when first needed
    for words in (["ls"], ["search", "foo"], ["import", "auto", "--yes"]):
        _command(folder / "throw-away", *words)
    home = folder / "home"
    yield from _library_walks(home, tracer).items()
    for name, words in {
        "ls, first": ["ls"],
        "ls": ["ls"],
        "search foo, first": ["search", "foo"],
        "search foo": ["search", "foo"],
        "import auto": ["import", "auto", "--yes"],
    }.items():
        with tracer.walk():
            _command(home, *words)
        yield name, tracer.result()


def _library_walks(home: Path, tracer: Tracer) -> dict[str, dict[str, Any]]:
    """Make the sessions of a home; return the walks of the library on the way."""
    results = {}
    store = holdfast.open_store(home)
    for _ in range(_SESSIONS - 1):
        with store.create(workspace=home) as session:
            session.append(holdfast.user("foo"))
            session.append(holdfast.assistant("foo bar"))
    with store.create(workspace=home) as session:
        with tracer.walk():
            session.append(holdfast.user("foo"))
        results["first append"] = tracer.result()
        with tracer.walk():
            session.append(holdfast.assistant("foo bar"))
        results["later append, assistant"] = tracer.result()
        with tracer.walk():
            session.append(holdfast.user("foo again"))
        results["later append, user"] = tracer.result()
    time.sleep(_SETTLED_SECONDS)
    with tracer.walk():
        opened = store.open(session.id)
    results["open"] = tracer.result()
    with opened:
        with tracer.walk():
            copy = opened.fork()
        results["fork"] = tracer.result()
        copy.close()
    time.sleep(_SETTLED_SECONDS)
    return results


def _command(home: Path, *words: str) -> None:
    """Run a command in this process; what it prints is dropped."""
    os.environ["HOLDFAST_HOME"] = str(home)
    sys.argv = ["holdfast", *words]
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        try:
            command_line()
        except SystemExit as end:
            if end.code not in (0, None):
                sys.exit(f"holdfast {' '.join(words)} failed: {said.getvalue()}")


def _leave_foreign_sessions(home: Path) -> None:
    """Write two small sessions as Claude Code and Codex do."""
    claude = home / ".claude" / "projects" / "-app" / "9f1c2d3e-0000-4000-8000-000000000001.jsonl"
    lines = [
        {
            "type": role,
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": claude.stem,
            "cwd": "/app",
            "timestamp": f"2026-02-03T04:05:{number:02}.000Z",
            "message": {"role": role, "content": f"foo {number}"},
        }
        for number, role in enumerate(("user", "assistant", "user"))
    ]
    _write(claude, lines)
    name = "9f1c2d3e-0000-4000-8000-000000000002"
    day = home / ".codex" / "sessions" / "2026" / "02" / "03"
    started = "2026-02-03T04:05:00.000Z"
    facts = {"id": name, "timestamp": started, "cwd": "/app", "cli_version": "0.50.0"}
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "foo"}]}
    turns: list[dict[str, Any]] = [
        {"timestamp": started, "type": "session_meta", "payload": facts},
        {"timestamp": started, "type": "response_item", "payload": said},
    ]
    _write(day / f"rollout-2026-02-03T04-05-00-{name}.jsonl", turns)


def _write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _chat(folder: Path) -> dict[str, Any]:
    """Trace a chat's second prompt: from Enter until the journal holds it."""
    home, report = folder / "chat", folder / "report.json"
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, __file__, _CHAT, str(home), str(report)])
    try:
        _until_quiet(terminal)
        os.write(terminal, b"hello\r")
        _until_quiet(terminal)
        os.write(terminal, _PROMPT.encode())
        _until_quiet(terminal)
        os.kill(child, signal.SIGUSR1)  # the signal comes before the key, in any case
        time.sleep(_QUIET_SECONDS)
        os.write(terminal, b"\r")
        end = time.monotonic() + _LIMIT_SECONDS
        while not report.exists():
            if time.monotonic() > end:
                sys.exit("The chat did not record its prompt in time.")
            _read(terminal)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
    result: dict[str, Any] = json.loads(report.read_text())
    return result


def _chat_traced(home: Path, report: Path) -> None:
    """Run a chat in this process, and write a report when the journal has the prompt."""
    tracer = Tracer()
    tracer.install()

    def stop_when_recorded() -> None:
        tracer.is_active = False  # nothing of what follows is part of the walk
        for journal in glob.iglob(f"{home}/**/journal*.jsonl", recursive=True):
            if _PROMPT in Path(journal).read_text():
                unfinished = report.with_suffix(".new")
                unfinished.write_text(json.dumps(tracer.result()))
                unfinished.rename(report)
                return
        tracer.is_active = True

    def start(*_: object) -> None:
        tracer.on_write = stop_when_recorded
        tracer.is_active = True

    signal.signal(signal.SIGUSR1, start)
    os.environ |= {"HOLDFAST_HOME": str(home), "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    sys.argv = ["holdfast", "--foreground", "--provider", "rehearsal"]
    command_line()


def _until_quiet(terminal: int) -> None:
    """Wait until the chat has drawn something and then draws nothing for a while."""
    end = time.monotonic() + _LIMIT_SECONDS
    while not _read(terminal):
        if time.monotonic() > end:
            sys.exit("The chat shows nothing.")
    while _read(terminal):
        pass


def _read(terminal: int) -> bytes:
    """Return what the chat draws, or nothing if it is quiet."""
    if not select.select([terminal], [], [], _QUIET_SECONDS)[0]:
        return b""
    try:
        return os.read(terminal, 65536)
    except OSError:
        sys.exit("The chat has ended before its time.")


if __name__ == "__main__":
    if sys.argv[1:2] == [_CHAT]:
        _chat_traced(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
