"""What a picker reads while it is open, in threads of its own: nothing here may stall a screen.

Each piece of work can be given up, and says what it has come to in ``News``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.runtime.protocol.client import state_of
from holdfast.runtime.protocol.socket_path import listens, run_folder
from holdfast.store.git_project import project_names
from holdfast.store.store import Store
from holdfast.store.types import INTERRUPTED, RUNNING, Hit, Summary
from holdfast.tui.picker.model import IDLE, WAITING, PickerPlace, PickerRow, row_of

_TELL_EVERY_SECONDS = 0.1
_ANSWER_SECONDS = 2.0
_MOST_HITS = 100_000  # sessions
_STATES = {RUNNING, WAITING, IDLE}


class Loading(Struct, frozen=True):
    """So many sessions of so many were read."""

    done: int
    total: int


class Loaded(Struct, frozen=True):
    """Every session that there is."""

    rows: list[PickerRow]


class Located(Struct, frozen=True):
    """The names of the project that the folder is in."""

    projects: tuple[str, ...]


class Standings(Struct, frozen=True):
    """How sessions stand of which a summary alone does not tell."""

    known: dict[str, str]


class Searching(Struct, frozen=True):
    """How far a search is that has to read files."""

    query: str
    done: int
    total: int


class SearchResult(Struct, frozen=True):
    """What a search has found: a message of each session that has one."""

    query: str
    hits: list[Hit]


class Failed(Struct, frozen=True):
    """Something could not be done."""

    error: Exception


News = Struct
Tell = Callable[[News], None]


class GaveUp(BaseException):
    """Nobody wants to know any more. Not an ``Exception``: nobody is to take it for a failure."""


class BackgroundTask:
    """A thread that does something; it ends by itself soon after it was given up."""

    def __init__(self, do: Callable[[BackgroundTask], None], tell: Tell) -> None:
        self._do = do
        self._tell = tell
        self._given_up = threading.Event()
        # A daemon: who leaves does not wait for a slow disk.
        self._thread = threading.Thread(target=self._run, name="holdfast-picker", daemon=True)
        self._thread.start()

    def give_up(self) -> None:
        """Want no more of it."""
        self._given_up.set()

    def check(self) -> None:
        """Raise ``GaveUp`` if nobody wants it any more."""
        if self._given_up.is_set():
            raise GaveUp

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def tell(self, news: News) -> None:
        """Say something, unless nobody wants to hear it."""
        self.check()
        self._tell(news)

    def _run(self) -> None:
        with suppress(GaveUp):
            try:
                self._do(self)
            except Exception as error:  # noqa: BLE001  the edge of a thread: the screen is told
                self.tell(Failed(error))


# Listing


def load(
    store: Store, place: PickerPlace, standings: dict[str, str]
) -> Callable[[BackgroundTask], None]:
    """Return the work of listing every session."""

    def do(work: BackgroundTask) -> None:
        def progress(done: int, total: int) -> None:
            work.check()
            if done % 100 == 0:
                work.tell(Loading(done, total))

        summaries = store.list(progress=progress)
        work.tell(Loaded([row_of(each, place, standings.get(each.id)) for each in summaries]))

    return do


def locate(folder: str) -> Callable[[BackgroundTask], None]:
    """Return the work of finding out which project a folder is in; git may take its time."""
    return lambda work: work.tell(Located(tuple(project_names(folder))))


# How sessions stand


class SessionWatch:
    """Asks runners how they stand, and looks at how the last turns of interrupted sessions ended.

    What was read of a session counts until it changes.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns: dict[tuple[str, str], str] = {}

    def look(self, summaries: list[Summary]) -> Callable[[BackgroundTask], None]:
        """Return the work of looking once."""

        def do(work: BackgroundTask) -> None:
            standings = self._runners([each.id for each in summaries])
            if not self._turns:  # it may take a while to look at them for the first time
                work.tell(Standings(dict(standings)))
            for summary in summaries:
                work.check()
                if summary.state == INTERRUPTED and summary.id not in standings:
                    turn = self._last_turn(summary)
                    standings |= {summary.id: turn} if turn else {}
            work.tell(Standings(standings))

        return do

    def _runners(self, ids: list[str]) -> dict[str, str]:
        """Return how runners stand, also those whose sessions are not in the list yet."""
        standings = {}
        for name, standing in asyncio.run(_all_runners(self._store.local_folder)):
            # A socket has the beginning of an id for a name, which of most is the whole.
            standings[next((each for each in ids if each.startswith(name)), name)] = standing
        return standings

    def _last_turn(self, summary: Summary) -> str:
        key = (summary.id, summary.updated)
        if key not in self._turns:
            self._turns[key] = ""
            with suppress(HoldfastError), self._store.open(summary.id, mode="read") as session:
                turn = session.state.turn
                if turn is not None and turn.state == WAITING:
                    self._turns[key] = WAITING
        return self._turns[key]


async def _all_runners(home: Path) -> list[tuple[str, str]]:
    """Return how the runners of a home stand, by the names of their sockets."""
    paths = sorted(run_folder(home).glob("*.sock"))
    answers = await asyncio.gather(*(_standing(path) for path in paths))
    return [(path.stem, state) for path, state in zip(paths, answers, strict=True) if state]


async def _standing(path: Path) -> str | None:
    try:
        state = await state_of(path, _ANSWER_SECONDS)
    except TimeoutError:
        return RUNNING if listens(path) else None  # stopped, or very busy
    except HoldfastError:
        return None
    return state if state in _STATES else RUNNING


# Searching


def search(store: Store, query: str) -> Callable[[BackgroundTask], None]:
    """Return the work of looking for words in the messages of all sessions.

    Of each session the first message counts. It can be given up while it reads.
    """

    def do(work: BackgroundTask) -> None:
        told = time.monotonic()

        def progress(done: int, total: int) -> None:
            nonlocal told
            work.check()
            if time.monotonic() - told >= _TELL_EVERY_SECONDS:
                told = time.monotonic()
                work.tell(Searching(query, done, total))

        hits = store.search(query, limit=_MOST_HITS, once=True, progress=progress)
        work.tell(SearchResult(query, hits))

    return do
