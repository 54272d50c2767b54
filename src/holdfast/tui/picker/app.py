"""The picker: one session out of all there are, on a screen of its own.

It is the only part that Textual is loaded for, so import it when it is opened.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from textual.app import App
from textual.screen import Screen

from holdfast.errors import HoldfastError
from holdfast.store.store import Store
from holdfast.tui.picker.driver import (
    PickerDriver,
    check_terminal,
    ended_by_signals,
    hung_up,
)
from holdfast.tui.picker.model import Picked
from holdfast.tui.picker.screen import PickerScreen

__all__ = ["Picked", "PickerApp", "pick"]

_LOOK_SECONDS = 1.0


def pick(store: Store, folder: str | os.PathLike[str], *, query: str = "") -> Picked | None:
    """Let a person choose a session; ``None`` if they leave without one.

    ``folder`` is where they are: its sessions come first. ``query`` is searched for at once. Call
    it from the main thread. A signal that ends the process does so once the terminal is as before.

    Raises:
        UsageError: there is no terminal for it.
    """
    check_terminal()
    app = PickerApp(store, Path(folder), query)
    picked = asyncio.run(_run(app))
    if app.return_code:
        raise HoldfastError(
            "The picker failed, see above. List the sessions with: holdfast ls. "
            "Resume one with: holdfast -r ID"
        )
    return picked


async def _run(app: PickerApp) -> Picked | None:
    loop = asyncio.get_running_loop()
    with ended_by_signals(lambda: loop.call_soon_threadsafe(app.exit)):
        return await app.run_async()


class PickerApp(App[Picked]):
    """The picker as a Textual application, in the colours of the terminal."""

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False

    def __init__(self, store: Store, folder: Path, query: str = "") -> None:
        # The terminal's own colours; with NO_COLOR there are none, only bold, dim and reverse.
        super().__init__(driver_class=PickerDriver, ansi_color=True)
        self.theme = "ansi-dark"
        self.animation_level = "none"
        self._first = PickerScreen(store, folder, query)

    def get_default_screen(self) -> Screen[None]:
        """Return the one screen that there is."""
        return self._first

    def on_mount(self) -> None:
        """Watch the terminal: not everything that takes it away sends a signal."""
        if not self.is_headless:
            self.set_interval(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        if hung_up():
            self.exit(None)
