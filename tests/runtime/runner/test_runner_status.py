"""What ``state`` says: all that a status line needs, at once and again when it changes."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from holdfast import open_store, user
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.client import Refused
from tests.cli.program import of_type
from tests.cli.vendor import streamed, vendor_on_loopback
from tests.runtime.runner.in_process_runner import FakeHeldFiles, runner_inside
from tests.runtime.runner.runner_clients import Caller, run


def _last(caller: Caller) -> dict[str, Any]:
    return caller.all(type="state")[-1]


def _is_mended(caller: Caller) -> bool:
    return _last(caller)["trouble"] is None


def test_a_client_that_comes_knows_at_once_how_things_stand(office):
    with open_store(office.home) as store, store.create(session_id=office.id) as session:
        session.append(user("an old question, of many words: " + "word " * 700))
        session.usage(input=700, output=10, cost_usd=0.25, model="old")

    async def attach():
        caller = await office.call()
        await caller.attach(after=2**62)
        measured = await caller.until(
            lambda: [e for e in caller.all(type="state") if e["context_tokens"] is not None]
        )
        assert 700 <= measured[0]["context_tokens"] <= 2000
        stands = _last(caller)
        assert stands["title"].startswith("an old question")
        assert {**stands, "title": "…", "context_tokens": 0, "seq": 0} == {
            "type": "state",
            "state": "idle",
            "queue": [],
            "held": False,
            "model": "rehearsal",
            "title": "…",
            "cost_usd": 0.25,
            "context_tokens": 0,
            "context_window": 200_000,
            "seq": 0,
            "trouble": None,
            "foreign": False,
        }
        assert _last(caller)["seq"] == (await caller.ask_status())["seq"]

    run(attach())


def test_cost_and_context_are_told_behind_what_changed_them(office, monkeypatch):
    config = office.home.parent / "config"
    config.mkdir()
    prices = '[prices."served"]\ninput = 1_000_000\noutput = 0\n'
    (config / "config.toml").write_text(f"context_tokens = 5_000\n{prices}")
    with vendor_on_loopback(streamed("openai", "one"), streamed("openai", "two")) as vendor:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-key")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{vendor.url}/v1")

        async def ask():
            caller = await office.call(provider="openai", model="served")
            await caller.attach()
            assert (_last(caller)["title"], _last(caller)["cost_usd"]) == (None, 0.0)
            await caller.submit("hello")
            await caller.hears(type="turn", state="completed")
            spent = await caller.until(
                lambda: [e for e in caller.all(type="state") if e["cost_usd"]]
            )
            (usage,) = of_type([e["entry"] for e in caller.all(type="entry")], "usage")
            assert spent[0]["cost_usd"] == usage["cost_usd"] > 0
            assert spent[0]["title"] == "hello"
            assert spent[0]["context_tokens"] == usage["input"] + usage["output"]
            assert spent[0]["context_window"] == 5_000
            entry = next(e for e in caller.all(type="entry") if e["entry"]["type"] == "usage")
            assert caller.heard.index(entry) < caller.heard.index(spent[0])
            assert spent[0]["seq"] >= usage["seq"]
            late = await office.call_again()
            await late.attach(after=2**62)
            assert _last(late)["cost_usd"] == usage["cost_usd"]

        run(ask())


def test_what_nobody_knows_the_price_of_is_not_told_as_nothing(office):
    with open_store(office.home) as store, store.create(session_id=office.id) as session:
        session.append(user("a question"))
        session.usage(input=1, output=1, cost_usd=0.25)
        session.usage(input=1, output=1, cost_usd=None)

    async def attach():
        caller = await office.call()
        await caller.attach()
        assert _last(caller)["cost_usd"] is None

    run(attach())


def test_a_title_is_told_also_before_there_is_a_session(office):
    async def rename():
        caller = await office.call()
        await caller.attach()
        await caller.ask(protocol.Rename, title="mine")
        await caller.hears(type="state", title="mine")
        assert (await caller.ask_status())["title"] == "mine"
        with pytest.raises(Refused, match="1 to 500 characters"):
            await caller.ask(protocol.Rename, title="x" * 501)
        await caller.submit("say: hi")
        await caller.hears(type="turn")
        await caller.ask(protocol.Rename, title="better")
        await caller.hears(type="state", title="better")

    run(rename())


def test_a_context_that_was_rewound_is_measured_anew(office):
    async def rewind():
        caller = await office.call()
        await caller.attach()
        await caller.submit("say: " + "many words " * 3000)
        await caller.hears(type="turn")
        large = await caller.until(
            lambda: [e for e in caller.all(type="state") if (e["context_tokens"] or 0) > 5000]
        )
        await caller.ask(protocol.Rewind, to=None)
        place = caller.heard.index(large[-1])
        await caller.until(
            lambda: [
                e
                for e in caller.heard[place:]
                if e["type"] == "state" and e["context_tokens"] is not None
                if e["context_tokens"] < 1000
            ]
        )

    run(rewind())


def test_trouble_is_told_when_it_begins_and_when_it_ends(office, monkeypatch):
    files = FakeHeldFiles()

    async def fill_up():
        async with runner_inside(office, monkeypatch, files) as inside:
            caller = await inside.call(after=-1)
            await caller.submit("say: hi")
            await caller.hears(type="turn")
            assert _last(caller)["trouble"] is None
            with files.full_disk():
                with pytest.raises(Refused, match="Disk full"):
                    await caller.submit("say: later", id="later")
                assert "Disk full" in _last(caller)["trouble"], "the refusal came before it"
                late = await inside.call(after=2**62)
                assert "Disk full" in _last(late)["trouble"]
            for each in (caller, late):
                await each.until(partial(_is_mended, each))
            await caller.submit("say: later", id="later")
            await caller.hears(type="turn", text="later")

    run(fill_up())


def test_trouble_that_nobody_met_is_told_too(office, monkeypatch):
    files = FakeHeldFiles()

    async def fill_up():
        async with runner_inside(office, monkeypatch, files) as inside:
            caller = await inside.call(after=-1)
            await caller.submit("say: hi")
            await caller.hears(type="turn")
            with files.full_disk():
                inside.session.submit(user("nobody waits for this"))
                await caller.until(lambda: _last(caller)["trouble"] is not None)
            await caller.until(lambda: _last(caller)["trouble"] is None)

    run(fill_up())


def test_a_prompt_that_is_being_taken_never_passes_for_held(office):
    async def submit():
        caller = await office.call()
        await caller.attach()
        for number in range(30):
            await caller.submit(f"say: {number}")
        await caller.hears(type="turn", text="29")
        assert caller.all(type="state", held=True) == []

    run(submit())
