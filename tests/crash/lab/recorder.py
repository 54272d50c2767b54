"""Records what a run of the scenario does to the disk, and reads such recordings.

A recording is the log of ``native/recorder.c``: one order of all effects, syncs and promises. It is
checked before it is used: replayed as if there had been no power cut, it must come to what is
really on the disk, byte for byte, or the recorder has missed something.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.crash.lab import native, scenario
from tests.crash.lab.layer import Plan
from tests.crash.lab.posix import WHOLE, Op, epochs
from tests.crash.lab.stage import Stage
from tests.crash.lab.witness import Witness, heard

HOME = "a home/of its own/holdfast"
"""Where the recorded home is below the root: its ancestors are new, too."""

_HEAD = struct.Struct("<8I2qQ")
_KINDS = (
    "",
    "create",
    "make_folder",
    "link",
    "unlink",
    "remove_folder",
    "rename",
    "write",
    "truncate",
    "sync",
    "said",
    "strange",
)


def play(home: Path, witness: Witness, variant: str, root: str, log: str) -> None:
    """Play the scenario on stage, recorded."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    library = ctypes.CDLL(None)
    library.recorder_begin(os.fsencode(root), descriptor, witness._descriptor)
    scenario.run(home, witness, variant)


def record(plan: Plan, variant: str, log: Path) -> None:
    """Record one run into a file.

    Raises:
        AssertionError: the run did not come to its end, or the recording is not the whole truth.
    """
    root = plan.scratch / "a recorded root"
    root.mkdir()
    try:
        with Stage(plan, {"LD_PRELOAD": str(native.library("recorder"))}) as stage:
            played = stage.play(
                root / HOME,
                play="tests.crash.lab.recorder:play",
                options={"variant": variant, "root": str(root), "log": str(log)},
            )
        assert played.status == 0, (
            f"the recorded run ended with {played.status}: {played.said[-1:]}"
        )
        _check(read(log), root, played.said)
    finally:
        shutil.rmtree(root)


def _check(ops: list[Op], root: Path, said: list[list[Any]]) -> None:
    assert list(promises(ops)) == said, "the recording has other promises than the pipe"
    *_, end = epochs(ops)
    state = end.state(dict.fromkeys(end.pending, WHOLE))
    modelled = {
        item.path: item.content.data if item.content is not None else None for item in state.items
    }
    real = {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }
    assert modelled == real, "the recording does not come to what is on the disk"


def promises(ops: list[Op]) -> Iterator[list[Any]]:
    """Return all that was said to the witness."""
    return heard(op.data for op in ops if op.kind == "said")


def read(log: Path) -> list[Op]:
    """Return the lines of a log.

    Raises:
        AssertionError: something was done that the model knows nothing of.
    """
    data = log.read_bytes()
    ops: list[Op] = []
    place = 0
    while place < len(data):
        head = _HEAD.unpack_from(data, place)
        kind, began, file, folder, second_folder, *sizes, offset, length, inode = head
        place += _HEAD.size
        texts = []
        for size in sizes:
            texts.append(data[place : place + size])
            place += size
        assert _KINDS[kind] != "strange", f"the model does not know this: {texts[2].decode()}"
        ops.append(
            Op(
                number=len(ops),
                kind=_KINDS[kind],
                file=file,
                folder=folder,
                name=os.fsdecode(texts[0]),
                second_folder=second_folder,
                second_name=os.fsdecode(texts[1]),
                offset=offset,
                length=length,
                data=texts[2],
                began=began,
                inode=inode,
            )
        )
    assert place == len(data), "the log ends in the middle of a line"
    return ops
