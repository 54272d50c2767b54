"""Runs one command and leaves its output and status behind, whatever becomes of the agent.

Started as ``python -I -S wrapper.py FOLDER TIMEOUT GRACE LARGEST SHELL COMMAND`` in a session of
its own, so that no terminal can hang it up; uses the standard library only, and little of it. SHELL
is an absolute path. It leaves in FOLDER, in this order:

    pid      itself and the command, each with the time it started; durable before the command runs
    output   what the command prints, both streams, written by the command itself
    status   how it ended, atomically

and prints the status on its standard output, which nobody else holds: end of file there means that
the wrapper has ended. TERM to the wrapper cancels the command: TERM to its process group, KILL
after GRACE seconds. The same happens after TIMEOUT seconds (0: never), and when the output is
larger than LARGEST bytes. What a command leaves in the background is not waited for, unless it
was told to end.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

PID, OUTPUT, STATUS = "pid", "output", "status"
_TICK_SECONDS = 0.1
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
# Python itself ignores the last two; a command must not inherit any of it.
_RESTORED = (*_IGNORED, signal.SIGTERM, signal.SIGALRM, signal.SIGPIPE, signal.SIGXFSZ)


def start_of(pid: int) -> str | None:
    """Return when and where a process started, ``None`` if it does not run.

    Two processes with the same number differ in it: boot, namespace and clock tick on Linux, the
    time in words elsewhere. A zombie does not run.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the program, in parentheses, may hold anything.
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read().strip().decode("ascii")
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        return None if os.path.exists("/proc/self/stat") else _start_by_ps(pid)
    return None if fields[0] in (b"Z", b"X") else f"{boot} {namespace} {fields[19].decode()}"


def _start_by_ps(pid: int) -> str | None:
    with os.popen(f"/bin/ps -o state=,lstart= -p {pid:d}") as answer:  # noqa: S605  a number only
        state, _, start = answer.read().strip().partition(" ")
    return None if not start or state.startswith("Z") else start.strip()


class WrappedCommand:
    """The command while it runs: when and why to end it."""

    def __init__(self, group: int, output: int, timeout: float, grace: float, largest: int) -> None:
        self._group = group
        self._output = output
        self._deadline = time.monotonic() + timeout if timeout else None
        self._grace = grace
        self._largest = largest
        self._kill_at: float | None = None
        self.ended_by: str | None = None

    def end(self, reason: str) -> None:
        """Tell the whole group to end; remember why."""
        if self.ended_by is None:
            self.ended_by = reason
            self._kill_at = time.monotonic() + self._grace
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # one that is stopped would not hear it

    def on_term(self, _number: int, _frame: FrameType | None) -> None:
        """Cancel."""
        self.end("cancelled")

    def on_tick(self, _number: int, _frame: FrameType | None) -> None:
        """Look at the clock and at the size of the output."""
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            self.end("timeout")
        if os.fstat(self._output).st_size > self._largest:
            self.end("output")
        if self._kill_at is not None and now >= self._kill_at:
            self._signal(signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the command; return its exit status, negative for a signal.

        If it was told to end, what else is in its group gets as long.
        """
        code = os.waitstatus_to_exitcode(os.waitpid(self._group, 0)[1])
        while self._kill_at is not None and self._signal(0):
            if time.monotonic() >= self._kill_at:
                self._signal(signal.SIGKILL)
                break
            time.sleep(_TICK_SECONDS / 2)
        return code

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self._group, number)
        except OSError:  # nobody is left
            return False
        return True


def main(arguments: list[str]) -> None:
    """Run the command to its end."""
    folder, timeout, grace, largest, shell, text = arguments
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # this source came in there; the command has no input
    os.close(nothing)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # A cancel that comes too early waits until there is something to cancel.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    output = os.open(f"{folder}/{OUTPUT}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    held, go = os.pipe()
    child = os.fork()
    if child == 0:
        become(shell, text, output, held, go)
    os.close(held)
    os.setpgid(child, child)  # the child does so too: whoever comes first
    try:
        claim(folder, processes(os.getpid(), child))
    except FileExistsError:  # somebody has told the user already that this never ran
        os.kill(child, signal.SIGKILL)
        return
    command = WrappedCommand(child, output, float(timeout), float(grace), int(largest))
    signal.signal(signal.SIGTERM, command.on_term)
    signal.signal(signal.SIGALRM, command.on_tick)
    signal.setitimer(signal.ITIMER_REAL, _TICK_SECONDS, _TICK_SECONDS)
    os.write(go, b"!")
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    code = command.wait()
    signal.setitimer(signal.ITIMER_REAL, 0)
    reason = "null" if command.ended_by is None else f'"{command.ended_by}"'
    size = os.fstat(output).st_size
    leave_status(folder, f'{{"exit":{code},"ended_by":{reason},"size_bytes":{size}}}\n'.encode())


def become(shell: str, command: str, output: int, held: int, go: int) -> None:
    """Turn this process, a fork of the wrapper, into the command. Does not return."""
    try:
        os.setpgid(0, 0)
        os.close(go)
        if not os.read(held, 1):  # the wrapper died before it had written down who we are
            return
        os.dup2(output, 1)
        os.dup2(output, 2)
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.execv(shell, [os.path.basename(shell), "-c", command])  # noqa: S606  found by the agent
    except OSError as error:
        os.write(output, f"The command could not be started: {error}\n".encode())
    finally:
        os._exit(126)


def processes(wrapper: int, command: int) -> bytes:
    """Return what ``pid`` says: wrapper and command, each with the time it started."""
    pair = [(wrapper, start_of(wrapper)), (command, start_of(command))]
    listed = ",".join(f'{{"pid":{pid},"start":"{start or ""}"}}' for pid, start in pair)
    return f"[{listed}]\n".encode()


def claim(folder: str, content: bytes) -> None:
    """Write ``pid``, durably, unless it is there.

    Of a wrapper that starts and a recovery that says it never did, only one can have the name.

    Raises:
        FileExistsError: it is there.
    """
    temporary = f"{folder}/.{PID}.{os.getpid()}"
    _write(temporary, content, sync=True)
    try:
        os.link(temporary, f"{folder}/{PID}")
    finally:
        os.unlink(temporary)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)


def leave_status(folder: str, status: bytes) -> None:
    """Write ``status`` and tell the parent, if it still listens."""
    try:
        temporary = f"{folder}/.{STATUS}"
        _write(temporary, status, sync=False)
        os.rename(temporary, f"{folder}/{STATUS}")
    except OSError:
        pass  # no room: the parent is told all the same
    try:
        os.write(1, status)
    except OSError:
        pass  # it does not: that is what the file is for


def _write(path: str, content: bytes, *, sync: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, content)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # there is nothing to clean up, and the parent waits
