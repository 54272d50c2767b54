"""Terminals with the program on them: of this process, of tmux, at the end of an SSH line.

Each shows what the program writes there, takes what is typed, and can be made to die in the ways
that terminals of its kind have. Nothing is read from a terminal but when ``shown`` is called: one
that nobody looks at fills up and stalls.
"""

from __future__ import annotations

import codecs
import os
import pty
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.crash.lab.line import Line
from tests.crash.lab.packages import found

PATIENCE_SECONDS = 25.0
_READY = "ready\n"


class StuckError(Exception):
    """Something that had to happen did not."""


def until(condition: Callable[[], object], what: str, *, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until a condition holds.

    Raises:
        StuckError: it does not, for a very long time.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise StuckError(f"{what}: waited for in vain")
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits for its parent does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


class Terminal:
    """One terminal. ``folder`` is for the notes that the program leaves."""

    has_tty = True

    def __init__(self, folder: Path, script: Callable[[Path, str], str]) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        before = "stty -echo -opost; " if self.has_tty else ""
        self._script = folder / "script"
        self._script.write_text(script(folder, f"{before}echo {_READY.strip()}"))
        self._taken = 0  # bytes
        self._text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open(["sh", str(self._script)])

    def _open(self, command: list[str]) -> None:
        raise NotImplementedError

    def _read(self) -> bytes:
        raise NotImplementedError

    def type(self, text: str) -> None:
        """Type something, as soon as the shell is there and before the program is."""
        raise NotImplementedError

    def close(self) -> None:
        """Remove what is left of it."""
        raise NotImplementedError

    def shown(self) -> str:
        """Return what the program has written here."""
        data = self._read()
        if data:
            self._taken += len(data)
            self._text += self._decoder.decode(data)  # the end may be half a character
        return self._text.partition(_READY)[2]

    def await_ready(self) -> None:
        """Wait for the shell."""

        def ready() -> bool:
            self.shown()
            return _READY in self._text

        until(ready, f"a shell on {type(self).__name__}")

    # The program on it

    @property
    def pid(self) -> int:
        """Return the program's number, once it runs."""
        note = self.folder / "pid"
        until(lambda: note.exists() and note.read_text(), "the start of the program")
        return int(note.read_text())

    def await_end(self) -> str:
        """Wait until the program has ended; return its exit code, or nothing if it was killed."""
        pid = self.pid
        until(lambda: not is_alive(pid), "the end of the program whose terminal died")
        code = self.folder / "code"
        return code.read_text() if code.exists() else ""

    @property
    def trouble(self) -> str:
        """What went wrong unseen."""
        note = self.folder / "trouble"
        return note.read_text() if note.exists() else ""

    def send(self, number: signal.Signals) -> None:
        """Send the program a signal."""
        os.kill(self.pid, number)

    def send_group(self, number: signal.Signals) -> None:
        """Send it to everything that runs in the foreground of the terminal."""
        os.killpg(os.getpgid(self.pid), number)


class Screen(Terminal):
    """A terminal whose other end this process has in hand."""

    def _open(self, command: list[str]) -> None:
        self._master, slave = pty.openpty()
        os.set_blocking(self._master, False)
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *command], stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)

    def _read(self) -> bytes:
        return b"" if self._master < 0 else _all_of(self._master)

    def type(self, text: str) -> None:
        self.await_ready()
        os.write(self._master, text.encode())

    def hang_up(self) -> None:
        """Close it, as a window is closed."""
        os.close(self._master)
        self._master = -1

    def close(self) -> None:
        if self._master >= 0:
            self.hang_up()
        _end(self._process)


class Pipes(Terminal):
    """No terminal at all: pipes, as a script has them."""

    has_tty = False

    def _open(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def _read(self) -> bytes:
        out = self._process.stdout
        return b"" if out is None or out.closed else _all_of(out.fileno())

    def type(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def stop_reading(self) -> None:
        """Close the end that is read from, as ``head`` does."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def close(self) -> None:
        _end(self._process)


class Tmux(Terminal):
    """A pane of a tmux server of its own."""

    def _open(self, command: list[str]) -> None:
        self._socket = self.folder / "tmux"
        log = self.folder / "shown"
        self._tmux(
            *("new-session", "-d", "-x", "200", "-y", "50", shlex.join(["exec", *command])),
            *(";", "pipe-pane", "-O", f"cat >> {shlex.quote(str(log))}"),
        )

    def _tmux(self, *words: str) -> None:
        # From its own folder: the path of a socket must not be long.
        base = ["tmux", "-f", "/dev/null", "-S", self._socket.name]
        subprocess.run([*base, *words], cwd=self.folder, check=True, capture_output=True)

    def _read(self) -> bytes:
        log = self.folder / "shown"
        return log.read_bytes()[self._taken :] if log.exists() else b""

    def type(self, text: str) -> None:
        self.await_ready()
        self._tmux("send-keys", "-l", text.rstrip("\n"))
        self._tmux("send-keys", "Enter")

    def kill(self, what: str) -> None:
        """Kill the pane, the session or the server."""
        self._tmux(f"kill-{what}")

    def close(self) -> None:
        with suppress(subprocess.CalledProcessError):  # it may be gone
            self._tmux("kill-server")


class Remote(Terminal):
    """The far end of an SSH line, with a terminal there (``-tt``) or without (``-T``)."""

    def __init__(
        self, folder: Path, script: Callable[[Path, str], str], line: Line, option: str
    ) -> None:
        self._line = line
        self._option = option
        self._frozen: list[int] = []
        self.has_tty = option == "-tt"
        super().__init__(folder, script)

    def _open(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            [*self._line.words(self._option), shlex.join(command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def _read(self) -> bytes:
        assert self._process.stdout is not None
        return _all_of(self._process.stdout.fileno())

    def type(self, text: str) -> None:
        self.await_ready()
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def end_input(self) -> None:
        """Send nothing more."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill_client(self) -> None:
        """Kill the near end."""
        self._process.kill()

    def server_pid(self) -> int:
        """Return the number of the far end: the process of sshd that has the program in hand."""
        pid = self.pid
        while True:
            status = Path(f"/proc/{pid}/stat").read_text()
            name, parent = status.split("(", 1)[1].rsplit(")", 1)
            if name.startswith("sshd"):
                return pid
            pid = int(parent.split()[1])

    def kill_server(self) -> None:
        """Kill the far end."""
        os.kill(self.server_pid(), signal.SIGKILL)

    def go_silent(self) -> None:
        """Have the line forward nothing more."""
        self._line.relay.go_silent()

    def freeze(self) -> None:
        """Stop both ends where they stand."""
        self._frozen = [self._process.pid, self.server_pid()]
        for pid in self._frozen:
            os.kill(pid, signal.SIGSTOP)

    def break_ice(self) -> None:
        """Kill the ends that were stopped."""
        for pid in self._frozen:
            os.kill(pid, signal.SIGKILL)
        self._frozen = []

    def close(self) -> None:
        self.break_ice()
        _end(self._process)


def _all_of(descriptor: int) -> bytes:
    pieces = []
    with suppress(OSError):  # there is no more, now or for good
        while piece := os.read(descriptor, 65536):
            pieces.append(piece)
    return b"".join(pieces)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.wait()


def missing() -> list[str]:
    """Return the programs that are needed and not there."""
    return [name for name in ("setsid", "stty", "ssh-keygen") if found(name) is None]
