"""The picker on Textual's own pilot: keys go in, and what stands on the screen is read back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

import holdfast
from holdfast.tui.picker.app import Picked, PickerApp
from holdfast.tui.picker.screen import PickerScreen

PATIENCE_SECONDS = 30.0


class Picking:
    """A picker that is open."""

    def __init__(self, app: PickerApp, pilot: Pilot[Any]) -> None:
        self.app = app
        self._pilot = pilot

    @property
    def main(self) -> PickerScreen:
        """The screen below whatever window is open."""
        screen = self.app.screen_stack[0]
        assert isinstance(screen, PickerScreen)
        return screen

    def lines(self) -> list[str]:
        """Return what is on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips]

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines())

    def rows(self) -> list[str]:
        """Return the titles that are listed."""
        return [row.title for row in self.main.catalogue.view.rows]

    @property
    def chosen(self) -> str:
        row = self.main.table.chosen
        assert row is not None
        return row.title

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def type(self, text: str) -> None:
        await self._pilot.press(*("space" if each == " " else each for each in text))

    async def until(self, condition: Callable[[], object], what: object = "it") -> None:
        """Wait until something is so; show the screen if it never is."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"{what} never came; the screen:\n{self.text()}"
            await self._pilot.pause()
            await asyncio.sleep(0.01)

    async def sees(self, *texts: str) -> None:
        """Wait until the screen shows some texts."""
        await self.until(lambda: all(each in self.text() for each in texts), texts)

    async def loses(self, text: str) -> None:
        await self.until(lambda: text not in self.text(), f"no {text}")

    async def resize(self, width: int, height: int) -> None:
        await self._pilot.resize_terminal(width, height)


def pick_with(
    store: holdfast.Store,
    folder: Path,
    work: Callable[[Picking], Awaitable[None]],
    *,
    query: str = "",
    size: tuple[int, int] = (80, 24),
    loaded: bool = True,
) -> Picked | None:
    """Open a picker, do something with it, and return what was picked.

    The work begins when all sessions are listed, or at once if they need not be ``loaded``. It need
    not leave: the picker is closed.
    """

    async def whole() -> Picked | None:
        app = PickerApp(store, folder, query)
        async with app.run_test(size=size) as pilot:
            picking = Picking(app, pilot)
            if loaded:
                await picking.until(lambda: picking.main.catalogue.loaded, "the list")
            await work(picking)
        return app.return_value

    async def limited() -> Picked | None:
        async with asyncio.timeout(3 * PATIENCE_SECONDS):
            return await whole()

    return asyncio.run(limited())
