"""An agent beside its turns: the queue, another model, and what belongs to the session."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast.model.message import Text
from holdfast.runtime.providers.rehearsal import Rehearsal
from tests.runtime.bench import FakeProvider, entries_of, results, saying, shapes


def words(*texts: str) -> list[Text]:
    return [Text(text=text) for text in texts]


# The queue


def test_a_prompt_that_is_queued_while_a_turn_runs_runs_once(bench, eventually):
    async def work(agent):
        turn = asyncio.ensure_future(
            agent.prompt(words("run: until [ -e go ]; do sleep 0.01; done"))
        )
        await asyncio.to_thread(
            eventually, lambda: "call-1-1 started" in shapes(entries_of(agent.session))
        )
        await agent.enqueue(words("run: echo ran >> log"))
        assert len(agent.session.state.queue) == 1
        bench.file("go").touch()
        assert (await turn).state == "completed"
        at_once = [agent.next_queued(), agent.next_queued()]
        return await asyncio.gather(*at_once)

    first, second = bench.run(work)
    assert (first.state, second) == ("completed", None)
    assert bench.file("log").read_text() == "ran\n"
    assert bench.run(lambda agent: agent.next_queued()) is None


def test_a_queue_survives_and_is_held_after_a_failure(bench):
    async def fail(agent):
        await agent.enqueue(words("say: later"))
        return await agent.prompt(words("fail: 400"))

    assert bench.run(fail).state == "failed"
    with bench.session() as session:
        assert len(session.state.queue) == 1
        assert "later" not in [message.text for message in session.messages]
    outcome = bench.run(lambda agent: agent.next_queued())
    assert outcome is not None
    assert outcome.state == "completed"
    with bench.session() as session:
        assert session.state.queue == []
        assert session.messages[-1].text == "later"


def test_a_queued_prompt_that_has_run_is_not_run_again(bench):
    async def work(agent):
        await agent.enqueue(words("run: echo ran >> log"))
        (seq,) = agent.session.state.queue
        await agent.queued(seq)
        with pytest.raises(holdfast.UsageError, match="no longer in the queue"):
            await agent.queued(seq)

    bench.run(work)
    assert bench.file("log").read_text() == "ran\n"


def test_an_empty_prompt_is_not_queued(bench):
    async def work(agent):
        with pytest.raises(holdfast.UsageError):
            agent.enqueue(words("  "))

    bench.run(work)


# Another model


def test_a_switch_is_recorded_and_loses_nothing(bench):
    heard: list[str] = []

    async def work(agent):
        session = agent.session
        await agent.record_who_answers()
        session.on_entry(lambda entry: heard.append(entry.type))
        await agent.prompt(words("say: one"))
        await asyncio.to_thread(lambda: session.update(title="My title"))
        other = FakeProvider(saying("two"))
        await agent.switch(other, "other-model", login="work")
        heard.clear()
        outcome = await agent.prompt(words("go on"))
        assert outcome.message.text == "two"
        assert [message.text for message in other.requests[0].messages] == [
            "say: one",
            "one",
            "go on",
        ]
        assert other.requests[0].model == "other-model"
        return session.meta

    meta = bench.run(work)
    assert heard == ["turn", "message", "message", "usage", "turn"]
    assert (meta["title"], meta["login"]) == ("My title", "work")
    with bench.session() as session:
        assert session.meta["provider"] == "fake"
        assert session.meta["model"] == "other-model"
        assert session.meta["title"] == "My title"
        assert [m.text for m in session.messages] == ["say: one", "one", "go on", "two"]
    assert bench.run(lambda agent: agent.interrupted()) is None


def test_the_same_model_again_is_no_change(bench):
    async def work(agent):
        await agent.prompt(words("say: one"))
        await agent.record_who_answers()
        before = len(entries_of(agent.session))
        await agent.switch(Rehearsal(), "rehearsal")
        await agent.record_who_answers()
        return len(entries_of(agent.session)) - before

    assert bench.run(work) == 0


def test_a_switch_before_the_first_prompt_writes_nothing_until_then(bench):
    async def work(agent):
        await agent.switch(FakeProvider(saying("hi")), "other-model")
        assert not agent.session.path.exists()
        await agent.prompt(words("hello"))

    bench.run(work)
    with bench.session() as session:
        assert session.meta["model"] == "other-model"


def test_a_switch_closes_the_provider_before_and_waits_for_the_turn(bench, eventually):
    first = FakeProvider(saying("one"))

    async def work(agent):
        turn = asyncio.ensure_future(agent.prompt(words("go")))
        await asyncio.sleep(0)
        await agent.switch(FakeProvider(), "other-model")
        assert turn.done()
        assert first.closed
        return await turn

    assert bench.run(work, first).message.text == "one"


def test_an_agent_that_is_made_anew_goes_on_and_listeners_stay(bench):
    heard: list[str] = []
    with bench.session() as session:
        session.on_entry(lambda entry: heard.append(entry.type))
        for text in ("one", "two"):
            outcome = asyncio.run(bench.agent(session).prompt(words(f"say: {text}")))
            assert outcome.state == "completed"
        assert heard.count("message") == 4
        assert [one.type for one in entries_of(session)][-len(heard) :] == heard


def test_one_turn_at_a_time(bench):
    async def work(agent):
        return await asyncio.gather(
            *(
                agent.prompt(words(f"run: echo {n} in >> log; sleep 0.05; echo {n} out >> log"))
                for n in range(3)
            )
        )

    assert [outcome.state for outcome in bench.run(work)] == ["completed"] * 3
    lines = [line.split() for line in bench.file("log").read_text().splitlines()]
    assert [line[1] for line in lines] == ["in", "out"] * 3
    assert len(results(bench.entries())) == 3


def test_what_is_interrupted_is_not_asked_of_a_turn_that_runs(bench):
    async def work(agent):
        turn = asyncio.ensure_future(agent.prompt(words("run: echo ran >> log")))
        await asyncio.sleep(0)
        asked = [agent.interrupted() for _ in range(20)]
        found = await asyncio.gather(*asked)
        assert (await turn).state == "completed"
        return found

    assert bench.run(work) == [None] * 20
    assert bench.file("log").read_text() == "ran\n"
