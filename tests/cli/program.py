"""The program in a folder of its own, run to its end or watched while it runs.

Nothing of this machine reaches it: it has its own home and configuration, no keys and no proxy.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path
from typing import IO, Any

PROGRAM = [sys.executable, "-m", "holdfast"]
_STRANGE = ("ANTHROPIC_", "OPENAI_", "XDG_", "HOLDFAST_", "DEEPSEEK_", "OPENROUTER_", "MOONSHOT_")
_PROXIES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}
_PATIENCE_SECONDS = 60.0


def until(condition: Callable[[], object], what: object = "the condition") -> None:
    """Wait until a condition holds; fail if it does not within a very long time."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} never came true"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits for its parent does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the second if it ends while it is read
        return False
    return state not in "ZX"


class Done:
    """A run that has ended."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out.decode()
        self.err = err.decode()
        assert "Traceback" not in self.err, self.err
        assert "Exception in thread" not in self.err, self.err

    @property
    def object(self) -> dict[str, Any]:
        """The one object that was printed."""
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The objects that were printed, one a line."""
        assert self.out.endswith("\n") or not self.out
        return [json.loads(line) for line in self.out.split("\n")[:-1]]


class Program:
    """A user with an empty home and an empty project."""

    def __init__(self, root: Path) -> None:
        root = Path(os.path.realpath(root))
        self.home = root / "state"
        self.config = root / "config"
        self.folder = root / "project"
        self.folder.mkdir(parents=True)
        self.temporary = root / "temporary"
        self.temporary.mkdir()
        self.environment = {
            name: each
            for name, each in os.environ.items()
            if not name.startswith(_STRANGE) and name.lower() not in _PROXIES
        }
        self.environment |= {
            "HOME": str(root),
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_CONFIG": str(self.config),
            "TMPDIR": str(self.temporary),
        }
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._running: list[Running] = []

    def run(
        self, *words: str | Path, given: bytes | None = b"", shell: str = "", **environment: str
    ) -> Done:
        """Run to the end. ``given`` is standard input; ``shell`` redirects, such as ``>&-``."""
        command = [*PROGRAM, *map(str, words)]
        if shell:
            command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment | environment,
            input=given,
            capture_output=True,
            check=False,
            timeout=_PATIENCE_SECONDS,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str | Path, before: str = "", **environment: str) -> Running:
        """Start it, with pipes; ``before`` is a line of shell to run before it."""
        command = [*PROGRAM, *map(str, words)]
        if before:
            command = ["sh", "-c", f'{before}; exec "$@"', "sh", *command]
        self._running.append(Running(command, self.folder, self.environment | environment))
        return self._running[-1]

    def close(self) -> None:
        for each in self._running:
            each.close()

    # What is on disk

    def configure(self, text: str) -> None:
        self.config.mkdir(exist_ok=True)
        (self.config / "config.toml").write_text(text)

    def sessions(self) -> list[Path]:
        """The folders of all sessions, oldest first."""
        # This glob bears folders that are renamed while it looks, and passes over hidden ones.
        return sorted(Path(path).parent for path in glob(f"{self.home}/sessions/*/*/journal.jsonl"))

    def journal(self, session: str | Path | None = None) -> list[dict[str, Any]]:
        """The entries of a session; of the only one if it is not named."""
        if session is None:
            (folder,) = self.sessions()
        else:
            (folder,) = [each for each in self.sessions() if each.name == Path(session).name]
        return entries((folder / "journal.jsonl").read_bytes())

    def script(self, *steps: dict[str, Any]) -> Path:
        """Write a script for the rehearsal model."""
        path = self.folder.parent / "script.jsonl"
        path.write_text("".join(json.dumps(step) + "\n" for step in steps))
        return path


class Running:
    """A run that goes on: read its lines, write to it, send signals."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.pid = self.process.pid
        self.err = ""
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()
        self._reading: threading.Thread | None = None

    def _listen(self) -> None:
        for line in _pipe(self.process.stderr):
            self.err += line.decode()

    def _read(self) -> None:
        for line in _pipe(self.process.stdout):
            self._lines.put(line)
        self._lines.put(b"")

    def line(self) -> dict[str, Any]:
        """The next object that it prints."""
        if self._reading is None:
            self._reading = threading.Thread(target=self._read, daemon=True)
            self._reading.start()
        line = self._lines.get(timeout=_PATIENCE_SECONDS)
        assert line, f"it printed no more; it said: {self.err}"
        found: dict[str, Any] = json.loads(line)
        return found

    def lines_until(self, **fields: Any) -> list[dict[str, Any]]:
        """The objects that it prints, down to one with these fields."""
        found = [self.line()]
        while any(found[-1].get(name) != value for name, value in fields.items()):
            found.append(self.line())
        return found

    def says(self, text: str) -> None:
        """Wait until it has said something on standard error."""
        until(lambda: text in self.err or self.process.poll() is not None, text)
        assert text in self.err, self.err

    def write(self, *prompts: str) -> None:
        """Let it read prompts as lines of JSON."""
        for prompt in prompts:
            line = json.dumps({"type": "user", "text": prompt})
            _pipe(self.process.stdin).write(line.encode() + b"\n")
        _pipe(self.process.stdin).flush()

    def end_input(self) -> None:
        _pipe(self.process.stdin).close()

    def leave(self) -> None:
        """Stop reading what it prints, as a reader does who closes the pipe."""
        _pipe(self.process.stdout).close()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Return the exit code. What it prints has to be read by somebody."""
        code = self.process.wait(timeout=_PATIENCE_SECONDS)
        self._listening.join(timeout=_PATIENCE_SECONDS)
        assert "Traceback" not in self.err, self.err
        return code

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(BrokenPipeError):  # what was written to it is of no use any more
                _pipe(pipe).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def entries(data: bytes) -> list[dict[str, Any]]:
    """The whole lines of a journal, or of a live file."""
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def of_type(found: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [entry for entry in found if entry.get("type") == name]


def said(found: list[dict[str, Any]], role: str) -> list[str]:
    """The texts of the messages of a role."""
    return [
        "".join(part.get("text", "") for part in entry["content"])
        for entry in of_type(found, "message")
        if entry["role"] == role
    ]


def results(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Outcome and text of each tool result."""
    return [
        (part["outcome"], "".join(inner.get("text", "") for inner in part["content"]))
        for entry in of_type(found, "message")
        for part in entry["content"]
        if part["type"] == "tool_result"
    ]


def turns(found: list[dict[str, Any]]) -> list[str]:
    return [entry["state"] for entry in of_type(found, "turn")]


@contextmanager
def program_in(root: Path) -> Iterator[Program]:
    """Give a program; what still runs at the end is killed."""
    program = Program(root)
    try:
        yield program
    finally:
        program.close()
