"""What can be completed while typing, and the prompts of before.

Prompts are not kept a second time: they are read from the sessions of this folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from holdfast.errors import HoldfastError
from holdfast.model.message import Message
from holdfast.runtime.runner.launch_options import Launch
from holdfast.store.session import Session
from holdfast.store.store import Store

_MOST_FILES = 4000
_MOST_SHOWN = 30
_MOST_SESSIONS = 10
_MOST_PROMPTS = 500
_SKIPPED = frozenset({".git", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"})


class ChatCompleter(Completer):
    """Completes ``/commands`` at the beginning, and the names of files behind ``@``."""

    def __init__(self, folder: Path, commands: Sequence[tuple[str, str]]) -> None:
        self._folder = folder
        self._commands = commands

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterable[Completion]:
        """Yield what the word before the cursor may become."""
        before = document.text_before_cursor
        if before.startswith("/") and " " not in before and "\n" not in before:
            for name, about in self._commands:
                if name.startswith(before):
                    yield Completion(name, -len(before), display_meta=about)
            return
        word = before.split()[-1] if before and not before[-1].isspace() else ""
        if word.startswith("@"):
            yield from self._files(word[1:])

    def _files(self, typed: str) -> Iterator[Completion]:
        wanted = typed.casefold()
        shown = 0
        for name in self._names(typed):
            if wanted in name.casefold():
                quoted = f'"{name}"' if " " in name else name
                yield Completion(f"@{quoted}", -len(typed) - 1, display=name)
                shown += 1
                if shown >= _MOST_SHOWN:
                    return

    def _names(self, typed: str) -> Iterator[str]:
        """Yield names, those that begin as typed first; what hides itself only if it is named."""
        found = list(_walk(self._folder, hidden=typed.startswith(".")))
        yield from (name for name in found if name.startswith(typed))
        yield from (name for name in found if not name.startswith(typed))


def _walk(folder: Path, *, hidden: bool) -> Iterator[str]:
    """Yield the files and folders below one, nearest first, as paths relative to it."""
    waiting = [""]
    seen = 0
    while waiting and seen < _MOST_FILES:
        below = waiting.pop(0)
        with suppress(OSError), os.scandir(folder / below) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                if entry.name in _SKIPPED or (entry.name.startswith(".") and not hidden):
                    continue
                seen += 1
                name = f"{below}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{name}/")
                    name += "/"
                if name.isprintable():
                    yield name


class Prompts(History):
    """The prompts of this session and of the folder's others, newest first; nothing is written."""

    def __init__(self, store: Store, launch: Launch) -> None:
        super().__init__()
        self._store = store
        self._launch = launch

    def load_history_strings(self) -> Iterable[str]:
        """Yield earlier prompts; read as they are asked for."""
        left = _MOST_PROMPTS
        for session_id in self._sessions():
            with suppress(HoldfastError), self._store.open(session_id, mode="read") as session:
                for prompt in _prompts(session):
                    yield prompt
                    left -= 1
                    if not left:
                        return

    def _sessions(self) -> Iterator[str]:
        yield self._launch.session
        with suppress(HoldfastError):
            listed = self._store.list(workspace=self._launch.workspace, limit=_MOST_SESSIONS)
            yield from (each.id for each in listed if each.id != self._launch.session)

    def store_string(self, string: str) -> None:
        """Do nothing: what is sent is in the journal."""


def _prompts(session: Session) -> Iterator[str]:
    """Yield the prompts of a session, newest first, but none that were typed elsewhere."""
    provenance = session.provenance()
    for entry in session.branch():
        if provenance.is_foreign(entry.seq):
            continue
        if isinstance(entry.body, Message) and entry.body.role == "user" and entry.body.text:
            yield entry.body.text
