"""The program as the laboratory's terminals run it: with a defect, if wanted, and leaving notes.

``python -m tests.crash.lab.program NOTES MUTANT WORD…``: in the folder NOTES it leaves ``pid``, its
exit ``code`` once it ends by itself, and ``trouble``: whatever went wrong unseen, because a dead
terminal shows no traceback. A runner that it starts has the same defect.
"""

from __future__ import annotations

import importlib
import logging
import os
import runpy
import sys
import threading
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

RUNNER = "a runner"
"""Comes as the first word in a process that is to be a runner."""

_LAUNCH = "holdfast.runtime.runner.spawn"


def main(notes: Path, mutant: str, words: list[str]) -> None:
    """Be the program."""
    if mutant:
        importlib.import_module("tests.crash.mutants").apply(mutant)
        _hand_on(notes, mutant)
    if words[0] == RUNNER:
        sys.argv = [RUNNER, *words[1:]]
        runpy.run_module(_LAUNCH, run_name="__main__", alter_sys=True)
        return
    (notes / "pid").write_text(str(os.getpid()))
    trouble = notes / "trouble"
    logging.getLogger().addHandler(logging.FileHandler(trouble, delay=True))
    threading.excepthook = lambda told: _note(trouble, told.exc_value)
    sys.unraisablehook = lambda told: _note(trouble, told.exc_value)
    sys.argv = ["holdfast", *words]
    try:
        importlib.import_module("holdfast.cli.main").main()
    except SystemExit as end:
        (notes / "code").write_text(str(end.code or 0))
        raise
    except BaseException as error:
        _note(trouble, error)
        raise


def _note(trouble: Path, error: BaseException | None) -> None:
    with trouble.open("a") as file:
        file.write("".join(traceback.format_exception(error)))


def _hand_on(notes: Path, mutant: str) -> None:
    """Have runners started by way of this module."""
    launch = importlib.import_module(_LAUNCH)
    ways = launch.subprocess

    def start(command: list[str], **given: Any) -> Any:
        place = command.index(_LAUNCH)
        words = [__spec__.name, str(notes), mutant, RUNNER]
        return ways.Popen([*command[:place], *words, *command[place + 1 :]], **given)

    vars(launch)["subprocess"] = SimpleNamespace(**{**vars(ways), "Popen": start})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
