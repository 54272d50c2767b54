"""What a runner does not do, or not now: it says so, and nothing is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.model.message import Text
from holdfast.runtime.config.run_options import Limits
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.client import Refused
from tests.cli.program import said, until
from tests.runtime.protocol.in_process_server import Desk
from tests.runtime.runner.runner_clients import gate, run


@pytest.mark.parametrize("address", ["file:///etc", "localhost:80", "http://", ""])
def test_an_address_that_is_none_is_refused(office, address):
    async def ask() -> None:
        caller = await office.call()
        with pytest.raises(Refused, match="begins with http:// or https://") as refused:
            await caller.ask(protocol.SetModel, provider="openai", model="m", base_url=address)
        assert refused.value.exit_code == 2

    run(ask())


@pytest.mark.parametrize(
    "limits",
    [Limits(max_turns=-1), Limits(max_turns=0), Limits(None, -0.5), Limits(None, None, -1.0)],
    ids=["turns", "no turns", "budget", "time"],
)
def test_a_limit_below_everything_is_refused(office, limits):
    async def ask() -> None:
        caller = await office.call()
        with pytest.raises(Refused, match="must be more than 0, or left out"):
            await caller.submit("say: hi", limits=limits)
        assert (await caller.ask_status())["seq"] == -1

    run(ask())


def test_a_prompt_that_comes_while_the_last_turn_ends_is_kept_and_held(office):
    async def ask() -> None:
        caller = await office.call()
        await caller.attach()
        await caller.submit(f"run: {gate('x')}")
        until(office.file("x.begun").exists)
        await caller.ask(protocol.Stop, after_turn=True)
        content = [Text(text="say: later")]
        reply = await caller.ask(protocol.Submit, content=content, id="later")
        assert reply["held"] is True
        await caller.until(lambda: any("saved, and on hold" in note for note in caller.notes))
        office.file("x.go").touch()
        await caller.hung_up()
        office.ended(caller.pid)
        after = await office.call()
        await after.attach()
        assert (await after.hears(type="state"))["held"] is True
        assert await after.submit("say: later", id="later") == reply["seq"]
        await after.hears(type="turn", text="later", queued=reply["seq"])

    run(ask())
    assert said(office.journal(), "user")[1:] == ["say: later"]


def test_a_prompt_that_comes_while_a_turn_is_cancelled_is_left_to_the_next_runner(office):
    async def ask() -> None:
        caller = await office.call()
        await caller.attach()
        await caller.submit(f"run: {gate('x')}")
        until(office.file("x.begun").exists)
        await caller.ask(protocol.Stop, after_turn=True)
        await caller.ask(protocol.Stop)
        await caller.hung_up()
        office.ended(caller.pid)
        assert not any("saved, and on hold" in note for note in caller.notes)

    run(ask())


def test_a_terminal_of_another_version_is_not_waited_for_and_may_leave_on_purpose(tmp_path):
    """It cannot approve: that would be refused."""

    async def ask() -> None:
        with Desk(tmp_path) as desk:
            async with desk.serving() as broadcaster:
                read, write = await desk.raw()

                async def told(message: dict[str, Any]) -> dict[str, Any]:
                    write.write(json.dumps(message).encode() + b"\n")
                    while True:
                        reply: dict[str, Any] = json.loads(await read.readline())
                        if reply.get("to") == message["id"]:
                            return reply

                await told({"type": "hello", "id": "h", "protocol": 2, "version": "9"})
                assert (await told({"type": "attach", "id": "a", "answers": True}))["ok"]
                await told({"type": "status", "id": "s"})  # done behind the attach
                assert any(client.attached for client in broadcaster.clients)
                assert not broadcaster.terminals
                assert not broadcaster.present
                assert (await told({"type": "detach", "id": "d"}))["ok"]
                assert not any(client.attached for client in broadcaster.clients)
                assert not (await told({"type": "compact", "id": "c"}))["ok"]
                write.close()
                await write.wait_closed()

    run(ask())
