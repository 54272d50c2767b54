"""Who attaches in the middle of a stream hears what comes next, and never what came before."""

from __future__ import annotations

from holdfast.runtime.protocol.broadcast import Broadcaster

CAUGHT_BY = ("G",)


def apply() -> None:
    def nothing(self: Broadcaster, shown: dict[str, int]) -> list[bytes]:
        del self, shown
        return []

    Broadcaster._unseen = nothing  # type: ignore[method-assign]  # the defect itself
