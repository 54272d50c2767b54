"""A real SSH server on loopback, and a line to it that can go silent.

The server has its own configuration and keys and listens on a port of its own; the line is a relay
that stops forwarding without closing anything, as a network does that is just gone.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.crash.lab.packages import found

_CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
MaxStartups 100
ClientAliveInterval 1
ClientAliveCountMax 2
LogLevel ERROR
"""
_PRIVILEGE_SEPARATION = Path("/run/sshd")
_START_SECONDS = 20.0


class Line:
    """The server, the relay, and the words that call through it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        folder.chmod(0o700)
        for name in ("host", "user"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        if os.geteuid() == 0:
            _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        self._folder = folder
        self._port = _free_port()
        (folder / "config").write_text(_CONFIG.format(folder=folder, port=self._port))
        program = found("sshd")
        assert program is not None  # it insists on its full path
        with (folder / "log").open("wb") as log:
            self._server = subprocess.Popen(
                [program, "-D", "-e", "-f", str(folder / "config")],
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        self._await_server()
        self.relay = Relay(self._port)

    def _await_server(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while True:
            with suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", self._port)).close()
                return
            if self._server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"sshd does not start: {(self._folder / 'log').read_text()}")
            time.sleep(0.02)

    def words(self, *options: str) -> list[str]:
        """Return the command that calls; what is to be run comes behind it."""
        settings = {
            "IdentityFile": f"{self._folder}/user",
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "no",
            "LogLevel": "ERROR",
            "BatchMode": "yes",
        }
        chosen = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        where = ["-p", str(self.relay.port), "127.0.0.1"]
        return ["ssh", "-F", "/dev/null", *options, *chosen, *where]

    def close(self) -> None:
        """Hang up everything."""
        self.relay.close()
        self._server.kill()
        self._server.wait()


class Relay:
    """Forwards connections to a port, until it is told to go silent."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._silent = threading.Event()
        self._over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def go_silent(self) -> None:
        """Forward nothing more of the connections there are; later ones are as good as new."""
        self._silent.set()
        self._silent = threading.Event()

    def close(self) -> None:
        """Hang up, and take no more calls."""
        self._over.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
                called = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return  # closed
            forward = threading.Thread(
                target=self._forward, args=(caller, called, self._silent), daemon=True
            )
            forward.start()

    def _forward(
        self, caller: socket.socket, called: socket.socket, silent: threading.Event
    ) -> None:
        other = {caller: called, called: caller}
        with caller, called, suppress(OSError):
            while not self._over.is_set():
                ready, _, _ = select.select(list(other), [], [], 0.02)
                if silent.is_set():
                    break
                for end in ready:
                    data = end.recv(65536)
                    if not data:
                        return
                    other[end].sendall(data)
            self._over.wait()  # open and mute


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port
