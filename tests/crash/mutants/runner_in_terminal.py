"""The runner belongs to the terminal that started it: what kills that one's processes kills it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from holdfast.runtime.runner import spawn as launch

CAUGHT_BY = ("G",)


def apply() -> None:
    ways = vars(launch)["subprocess"]

    def start(command: list[str], **given: Any) -> Any:
        return ways.Popen(command, **{**given, "start_new_session": False})

    vars(launch)["subprocess"] = SimpleNamespace(**{**vars(ways), "Popen": start})
