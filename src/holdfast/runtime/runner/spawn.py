"""Starting a runner: from a client's wish to a process that listens, and a connection to it.

A runner is a fresh interpreter, never a fork, in a process session of its own. Where logging out
ends all of a user's processes it is started through systemd, if that may linger. Run as a program
this module is a runner; what that does is in ``process``.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.errors import StorageError, UsageError
from holdfast.files import Files
from holdfast.runtime.config.secret_variables import conceal, secrets_in, without_secrets
from holdfast.runtime.protocol.client import Connection, RunnerGone, connect
from holdfast.runtime.protocol.socket_path import listens, log_path, prepare_folder, socket_path
from holdfast.runtime.runner.launch_options import Launch, StartResult
from holdfast.runtime.runner.logind import of_this_user
from holdfast.store.programs import find_program

__all__ = ["Launch", "StartFailed", "connect_or_start", "ensure_runner", "main", "start"]

_MODULE = "holdfast.runtime.runner.spawn"
_START_SECONDS = 60.0
_TRIES = 5
_LOOK_AGAIN_SECONDS = 0.1
_files = Files()
# As ``python -m``, but for the path: modules come from where they came from for whoever starts it,
# and never from the folder that it happens to be in. The last word is for people.
_BEGIN = """
import json, runpy, sys
sys.path[:] = json.loads(sys.stdin.buffer.readline())
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


class StartFailed(StorageError):
    """A runner did not start; the message is its own sentence."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # that of the error it stands for


async def connect_or_start(
    launch: Launch, warn: Callable[[str], object] | None = None
) -> Connection:
    """Return a connection to the session's runner, started if there is none.

    One that is just leaving is waited for. ``warn`` is told what a user has to know of the one that
    is started, before it has anything to do; it may be called from another thread.

    Raises:
        HoldfastError: it could not be started, or does not answer; says why.
    """
    path, variable = socket_path(Path(launch.home), launch.session), _key_variable(launch)
    for left in reversed(range(_TRIES)):
        is_new = await ensure_runner(launch, warn)
        try:
            connection = await connect(path, key_variable=variable)
        except RunnerGone:
            if not left:
                raise
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        else:
            connection.is_new = is_new
            return connection
    raise AssertionError("unreachable")


def _key_variable(launch: Launch) -> str | None:
    """Return the variable that is configured to have a key in it."""
    from holdfast.runtime.config import load as config  # noqa: PLC0415  no prompt is to wait for it

    workspace, home = Path(launch.workspace), Path(launch.home)
    try:
        named = config.load(workspace, environment=os.environ, home=home).settings.key_variable
    except UsageError:
        return None  # a runner that is started says what is wrong
    if named is not None:
        conceal([named])
    return named


async def ensure_runner(launch: Launch, warn: Callable[[str], object] | None = None) -> bool:
    """See that the session has a runner; tells whether this one was started for it.

    Raises:
        HoldfastError: it could not be started; says why.
    """
    if listens(socket_path(Path(launch.home), launch.session)):
        return False
    started = await asyncio.to_thread(start, launch, warn)
    if started.state == "error":
        raise StartFailed(started.error, started.exit_code)
    return started.state == "ready"


def start(launch: Launch, warn: Callable[[str], object] | None = None) -> StartResult:
    """Start a runner and wait until it listens; blocks.

    Raises:
        StorageError: there is no place for what it needs.
    """
    prepare_folder(Path(launch.home))
    log = log_path(Path(launch.home), launch.session)
    logout = of_this_user(avoid=[launch.workspace])
    if warn is not None and logout.warning is not None:
        warn(logout.warning)
    prefix = logout.prefix
    if prefix and (through := find_program(prefix[0], [launch.workspace])) is not None:
        started = _start(launch, log, [through, *prefix[1:]])
    else:
        started = None if prefix else _start(launch, log, [])
    if started is None and prefix:
        started = _start(launch, log, [])  # better one that a logout ends than none
        if warn is not None and started is not None and started.state == "ready":
            warn(logout.fallen_back)
    return started or StartResult("error", f"The runner did not start. For details see {log}.")


def _start(launch: Launch, log: Path, prefix: list[str]) -> StartResult | None:
    """Start a runner; return what it says, ``None`` if it says nothing."""
    program = [sys.executable, "-P", "-c", _BEGIN, _MODULE, launch.session]
    try:
        descriptor = _open_log(log)
        try:
            process = subprocess.Popen(  # noqa: S603  this very program
                [*prefix, *program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=descriptor,
                start_new_session=True,
                env=without_secrets(
                    os.environ
                ),  # others could read them there, in the first moment
                cwd="/",  # it is to keep nobody from removing or unmounting a folder
            )
        finally:
            _files.close(descriptor)
    except OSError as error:
        if prefix:
            return None
        raise StorageError(f"A runner cannot be started: {error}.") from error
    threading.Thread(target=process.wait, daemon=True).start()  # it is to leave no zombie
    assert process.stdin is not None
    assert process.stdout is not None
    # Not on the command line, which everybody can read: an address may have a password in it. Nor
    # are keys in the environment that it is started with, for the same reason.
    path = json.dumps([os.path.abspath(each) for each in sys.path])  # noqa: PTH100  "" is here
    with suppress(BrokenPipeError), process.stdin as pipe:
        # In ASCII, whatever the locale and the names of folders are.
        words = json.dumps(msgspec.to_builtins(launch))
        keys = json.dumps(secrets_in(os.environ))
        pipe.write(f"{path}\n{words}\n{keys}\n".encode("ascii"))
    with process.stdout as pipe:
        ready, _, _ = select.select([pipe], [], [], _START_SECONDS)
        said = pipe.readline() if ready else b""
    try:
        return msgspec.convert(json.loads(said), StartResult)
    except (ValueError, msgspec.MsgspecError):
        process.kill()  # whoever speaks too late is not waited for
        return None


def _open_log(path: Path) -> int:
    try:
        return _files.open_append(path)
    except FileNotFoundError:
        pass
    try:
        return _files.open_append(path, create=True)
    except FileExistsError:  # somebody starts the same
        return _files.open_append(path)


def main(_: str) -> int:
    """Be a runner, as standard input says; return the exit code."""
    from holdfast.runtime.runner.main import run  # noqa: PLC0415  no client is to pay for it

    words = json.loads(sys.stdin.buffer.readline())
    os.environ.update(json.loads(sys.stdin.buffer.readline()))
    conceal()  # nothing is left to read in this process's memory, either
    return asyncio.run(run(msgspec.convert(words, Launch)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
