"""What is done between turns: nothing else begins meanwhile, and no mistake ends the runner."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.client import Refused
from holdfast.runtime.runner import requests as reception
from tests.cli.program import of_type, turns, until
from tests.runtime.runner.in_process_runner import FakeHeldFiles, runner_inside
from tests.runtime.runner.runner_clients import gate, run


def test_no_turn_begins_while_the_conversation_is_rewound(office, monkeypatch):
    looking, go = threading.Event(), threading.Event()
    really = reception._is_in_tree

    def slowly(*words):
        looking.set()
        go.wait()
        return really(*words)

    async def rewind():
        async with runner_inside(office, monkeypatch, FakeHeldFiles()) as inside:
            caller = await inside.call(after=-1)
            await caller.submit("say: one")
            await caller.hears(type="turn", text="one")
            to = of_type([e["entry"] for e in caller.all(type="entry")], "message")[0]["seq"]
            monkeypatch.setattr(reception, "_is_in_tree", slowly)
            rewinding = asyncio.ensure_future(caller.ask(protocol.Rewind, to=to))
            await asyncio.to_thread(looking.wait)
            try:
                other = await inside.call()
                waiting = await other.submit("say: two")
                await other.ask(protocol.Compact)
                for _ in range(20):
                    status = await other.ask_status()
                    assert (status["state"], status["queue"]) == ("idle", 1)
            finally:
                go.set()
            await rewinding
            await caller.hears(type="turn", queued=waiting, state="completed")

    run(rewind())
    journal = office.journal()
    (head,) = of_type(journal, "head")
    began = [each["seq"] for each in of_type(journal, "turn") if each["state"] == "started"]
    assert began[0] < head["seq"] < began[1]


def test_what_is_about_to_be_done_is_not_rewound_under(office, monkeypatch):
    async def rewind():
        async with runner_inside(office, monkeypatch, FakeHeldFiles()) as inside:
            caller = await inside.call(after=-1)
            await caller.submit("say: one")
            await caller.hears(type="turn")
            await caller.hears(type="state", state="idle")
            with inside.runner.queue.at_rest():
                await caller.ask(protocol.ContinueTurn)
                with pytest.raises(Refused, match="A turn is running"):
                    await caller.ask(protocol.Rewind, to=None)

    run(rewind())


def test_a_rewind_sent_again_while_a_turn_runs_has_been_done(office):
    async def rewind():
        caller = await office.call()
        await caller.attach()
        await caller.submit("say: one")
        await caller.hears(type="turn")
        await caller.ask(protocol.Rewind, to=None, id="back")
        office.kill(caller.pid)
        again = await office.call()
        await again.submit(f"run: {gate('x')}")
        until(office.file("x.begun").exists)
        await again.ask(protocol.Rewind, to=None, id="back")
        office.file("x.go").touch()
        await again.rests()

    run(rewind())
    assert len(of_type(office.journal(), "head")) == 1


def test_an_interrupted_turn_that_is_rewound_is_ended(office):
    async def rewind():
        caller = await office.call()
        await caller.attach()
        await caller.submit("say: one")
        await caller.hears(type="turn")
        first = of_type([e["entry"] for e in caller.all(type="entry")], "message")[-1]["seq"]
        await caller.submit(f"run: {gate('x')}")
        until(office.file("x.begun").exists)
        office.kill(caller.pid)
        again = await office.call()
        await again.attach()
        await again.hears(type="interrupted")
        await again.ask(protocol.Rewind, to=first)
        late = await office.call_again()
        await late.attach()
        assert late.all(type="interrupted") == []
        office.file("x.go").touch()

    run(rewind())
    assert turns(office.journal()) == ["started", "completed", "started", "cancelled"]


def test_another_model_is_set_once_whichever_runner_is_asked(office):
    other = {"provider": "openai", "model": "other-model", "base_url": "http://127.0.0.1:9/v1"}
    back = {"provider": "rehearsal", "model": None, "base_url": None}

    async def switch():
        caller = await office.call()
        await caller.attach()
        await caller.submit("say: hi")
        await caller.hears(type="turn")
        await caller.ask(protocol.SetModel, **other, id="other")
        await caller.hears(type="state", model="other-model", state="idle")
        await caller.ask(protocol.SetModel, **back, id="back")
        await caller.until(lambda: caller.all(type="state")[-1]["model"] == "rehearsal")
        office.kill(caller.pid)
        again = await office.call()
        await again.ask(protocol.SetModel, **other, id="other")  # the reply was lost
        await again.rests()
        assert (await again.ask_status())["model"] == "rehearsal"

    run(switch())
    metas = {e.get("id"): e for e in of_type(office.journal(), "meta")}
    assert metas["request:other"]["model"] == "other-model"
    assert metas["request:back"]["provider"] == "rehearsal"
    assert len([e for e in of_type(office.journal(), "meta") if e.get("model")]) == 3


def test_a_model_that_cannot_be_set_in_the_end_is_a_note_and_no_turn(office, monkeypatch):
    async def switch():
        async with runner_inside(office, monkeypatch, FakeHeldFiles()) as inside:
            caller = await inside.call(after=-1)
            with inside.runner.queue.at_rest():
                await caller.ask(protocol.SetModel, provider="rehearsal")
                config = office.home.parent / "config"
                config.mkdir()
                (config / "config.toml").write_text("not = toml = at all\n")
            await caller.until(lambda: any("not changed" in note for note in caller.notes))
            (config / "config.toml").unlink()
            await caller.submit("say: still here")
            assert (await caller.hears(type="turn"))["text"] == "still here"
            assert len(caller.all(type="turn")) == 1

    run(switch())


def test_a_mistake_of_ours_in_a_turn_is_told_and_is_not_the_end(office, monkeypatch, caplog):
    async def fail():
        async with runner_inside(office, monkeypatch, FakeHeldFiles()) as inside:
            caller = await inside.call(after=-1)
            with monkeypatch.context() as broken:
                broken.setattr(Agent, "queued", lambda *_: 1 / 0)
                await caller.submit("say: never")
                ended = await caller.hears(type="turn")
            assert (ended["state"], ended["exit_code"]) == ("failed", 1)
            assert "ZeroDivisionError" in ended["cause"]
            seq = await caller.submit("say: still here")
            await caller.hears(type="turn", queued=seq, state="completed")

    run(fail())
    assert "A turn failed" in caplog.text


def test_a_compaction_that_waits_is_not_queued_twice(office, monkeypatch):
    async def compact():
        async with runner_inside(office, monkeypatch, FakeHeldFiles()) as inside:
            caller = await inside.call(after=-1)
            with inside.runner.queue.at_rest():
                for _ in range(1500):  # more than may wait
                    await caller.ask(protocol.Compact)
            await caller.until(lambda: caller.notes)
            await caller.submit("say: hi")
            await caller.hears(type="turn")
            assert caller.notes == ["There is nothing to compact yet."]

    run(compact())


def test_a_folder_that_cannot_be_looked_at_is_not_taken_for_gone(office, monkeypatch):
    """A network that is away for a moment must not end the turn, nor the watch over the folder."""
    looked: list[int] = []

    def unwell(_, **options):
        looked.append(1)
        raise OSError(5, "the disk is unwell")

    async def look():
        async with runner_inside(office, monkeypatch, FakeHeldFiles()) as inside:
            caller = await inside.call(after=-1)
            with monkeypatch.context() as away:
                away.setattr("holdfast.runtime.runner.runner._LOOK_SECONDS", 0.01)
                away.setattr("pathlib.Path.stat", unwell)
                while len(looked) < 3:
                    await caller.ask_status()
            assert inside.runner.stopping is None

    run(look())
