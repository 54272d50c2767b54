"""A client shows the entry that finishes a stream whole, after the text that it showed live."""

from __future__ import annotations

from holdfast.runtime.control.story import Story

CAUGHT_BY = ("G",)


def apply() -> None:
    rest_now = Story._rest

    def rest(self: Story, key: tuple[str, str, str | None], text: str) -> None:
        self._told.pop(key, None)
        rest_now(self, key, text)

    Story._rest = rest  # type: ignore[method-assign]  # the defect itself
