"""A disk that is full under a chat: the status line says so, and when everything is saved again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests.cli.program import until
from tests.cli.run.test_headless_full_disk import LONG, fill
from tests.crash.lab.mounts import mounted, why_not
from tests.tui.pane import Desk


@pytest.fixture
def small_disk(desk: Desk) -> Iterator[Path]:
    reason = why_not("tmpfs")
    if reason is not None:
        assert not os.environ.get("HOLDFAST_NOTHING_SKIPPED"), reason
        pytest.skip(f"A full disk was NOT tried: {reason}.")
    with mounted("tmpfs", desk.home, "size=32m,mode=0700") as folder:
        yield folder
        desk.close()  # or it cannot be unmounted


def test_a_full_disk_is_told_and_so_is_its_end(desk, small_disk):
    gate = "touch begun; while ! [ -e go ]; do sleep 0.02; done"
    script = desk.program.script(
        {"call": "bash", "arguments": {"command": gate}}, {"say": LONG}, {"stop": "end"}
    )
    pane = desk.chat("--script", script, "--allow-all")
    pane.enter("go")
    until((desk.folder / "begun").exists)
    ballast = fill(small_disk)
    (desk.folder / "go").touch()
    pane.stands("NOT SAVED: Disk full")
    other = desk.pane()
    other.enter(f"holdfast -r {desk.session}")
    other.stands("NOT SAVED: Disk full")  # also for who comes then
    ballast.unlink()
    pane.stands("saved ✓")
    other.stands("saved ✓")
    pane.shows("everything is saved again")
    desk.await_turns("started", "completed")
    pane.rests()
    with holdfast.open_store(desk.home) as store, store.open(desk.session, mode="read") as session:
        assert session.messages[-1].text == LONG
