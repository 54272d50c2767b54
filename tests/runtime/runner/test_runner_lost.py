"""What is taken from under a runner: its socket, its folder, its session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.client import Refused
from holdfast.runtime.protocol.socket_path import listens
from tests.cli.program import until
from tests.runtime.runner.runner_clients import Caller, Office, run


@pytest.mark.parametrize("whole_folder", [False, True])
def test_a_runner_whose_socket_was_removed_listens_anew(office, whole_folder):
    async def remove() -> None:
        caller = await office.call()
        await caller.attach()
        if whole_folder:
            shutil.rmtree(office.socket().parent)
        else:
            office.socket().unlink()
        until(lambda: listens(office.socket()))
        late = await office.call()
        assert late.pid == caller.pid
        await late.submit("say: still here")
        await caller.hears(type="turn", text="still here")
        assert office.socket().stat().st_mode & 0o777 == 0o600
        await late.ask(protocol.Stop)
        await caller.hung_up()
        office.ended(caller.pid)

    run(remove())
    assert not office.socket().exists()


async def _with_a_turn(office: Office) -> tuple[Caller, Path]:
    caller = await office.call()
    await caller.attach()
    await caller.submit("say: hi")
    await caller.hears(type="turn")
    (folder,) = office.home.glob(f"sessions/*/{office.id}")
    return caller, folder


def test_a_runner_whose_folder_was_replaced_says_so_and_leaves(office):
    async def replace() -> None:
        caller, folder = await _with_a_turn(office)
        folder.rename(folder.with_name("away"))
        shutil.copytree(folder.with_name("away"), folder)
        await caller.hung_up()
        assert any(f"{folder} was replaced by another folder" in note for note in caller.notes)
        office.ended(caller.pid)

    run(replace())


def test_a_runner_that_can_never_save_again_says_so_and_leaves(office):
    async def replace() -> None:
        caller, folder = await _with_a_turn(office)
        journal = folder / "journal.jsonl"
        shutil.copy(journal, folder / "copy")
        (folder / "copy").rename(journal)
        with pytest.raises(Refused, match="The session is now read-only") as refused:
            await caller.submit("say: lost")
        assert refused.value.exit_code == 74
        await caller.hung_up()
        assert any("now read-only" in note for note in caller.notes)
        office.ended(caller.pid)

    run(replace())
