"""Calling a person: a command of the user's own, run when a turn has ended or waits for an answer.

The runner runs it, so it comes also when nobody is attached. It is told what happened in its
environment, which has no keys of providers in it, and is not waited for.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from holdfast.model.sanitize import for_terminal, one_line
from holdfast.runtime.config.secret_variables import without_secrets
from holdfast.store.programs import path_outside
from holdfast.store.session import Session


class Attention:
    """Calls through ``command``, if there is one. Programs below ``avoid`` are not found."""

    def __init__(self, session: Session, command: str | None, avoid: Sequence[Path]) -> None:
        self._session = session
        self._command = command
        self._avoid = avoid

    def call(self, what: str) -> str | None:
        """Say what happened: waiting, completed, cancelled, failed; return why it cannot be."""
        if self._command is None:
            return None
        own = without_secrets(os.environ)
        told = {
            "PATH": path_outside(self._avoid),  # what is called is not a file of the project
            "HOLDFAST_EVENT": what,
            "HOLDFAST_SESSION": self._session.id,
            "HOLDFAST_TITLE": one_line(for_terminal(self._session.state.title or "")),
        }
        try:
            process = subprocess.Popen(  # noqa: S602  the user's own words, from their own file
                self._command,
                shell=True,
                env={**own, **told},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return f"on_attention cannot be run: {error}."
        threading.Thread(target=process.wait, daemon=True).start()  # it is to leave no zombie
        return None
