"""The command as a shell runs it: in pipes, or on a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = [sys.executable, "-c", "from holdfast.cli.main import main; main()"]
_STRANGE = ("ANTHROPIC_", "OPENAI_", "XDG_", "HOLDFAST_")
_PATIENCE_SECONDS = 30


class Shell:
    """A user with nothing but an empty home and an empty project."""

    def __init__(self, root: Path) -> None:
        root = Path(os.path.realpath(root))
        self.home = root / "state"
        self.config = root / "me" / ".config" / "holdfast"
        self.project = root / "project"
        self.project_file = self.project / ".holdfast" / "config.toml"
        self.project_file.parent.mkdir(parents=True)
        inherited = {
            name: each for name, each in os.environ.items() if not name.startswith(_STRANGE)
        }
        self.environment = {
            **inherited,
            "HOME": str(root / "me"),
            "HOLDFAST_HOME": str(self.home),
            "PYTHONIOENCODING": "utf-8",
        }

    def run(
        self, *words: str, given: str | bytes = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the command in the project; ``given`` is its standard input."""
        done = subprocess.run(
            [*PROGRAM, *words],
            cwd=self.project,
            env=self.environment | environment,
            input=given.encode() if isinstance(given, str) else given,
            capture_output=True,
            check=False,
            timeout=60,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def type(self, *words: str, answers: dict[str, str]) -> tuple[int, str]:
        """Run the command on a terminal of its own, as somebody would who answers questions.

        ``answers`` maps the end of what the terminal shows to what is typed then. Returns the exit
        code and everything that was on the screen.
        """
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.project)
            os.execve(PROGRAM[0], [*PROGRAM, *words], self.environment)
        screen, waiting = "", dict(answers)
        while True:
            if not select.select([terminal], [], [], _PATIENCE_SECONDS)[0]:
                os.kill(child, signal.SIGKILL)
                raise AssertionError(f"it waits for something else: {screen}")
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            screen += piece.decode()
            for question in [each for each in waiting if screen.endswith(each)]:
                os.write(terminal, waiting.pop(question).encode())
        os.close(terminal)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status), screen
