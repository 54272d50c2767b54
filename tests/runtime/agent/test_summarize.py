"""Compaction: room is made, and nothing is lost by it, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Message, Text, ToolCall, ToolResult, Turn, assistant, system, tool_result, user
from holdfast.errors import BadStatus, ConnectFailed
from holdfast.runtime.agent import summarize
from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.cancellation import Stopped
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.agent.summarize import HEADING, compact, is_due
from holdfast.runtime.policy.policy import Policy
from holdfast.runtime.providers.base import ProviderStatus, TextDelta, TokenCounts
from tests.processes import run
from tests.runtime.fake_model import FakeModel, calling, finished
from tests.runtime.random_conversations import complaints, damaged, frames

NOT = "The context was not compacted: "
CHEAP = "claude-haiku-4-5"


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def session(store, workspace):
    with store.create(workspace=workspace, provider="anthropic", model=CHEAP) as session:
        yield session


@pytest.fixture
def told():
    return []


@pytest.fixture
def equipped(session, workspace, told):
    """Return equipment around a model."""

    def make(model: FakeModel, **more: Any) -> TurnServices:
        more.setdefault("policy", Policy("allow-all"))
        return TurnServices(session, model, CHEAP, workspace, tell=told.append, **more)

    return make


def said(text: str) -> list[Any]:
    return [Text(text=text)]


def talk(session: holdfast.Session, turns: int = 3) -> None:
    for number in range(turns):
        session.append(
            [
                Turn("started"),
                user(f"question {number}"),
                assistant(f"answer {number}"),
                Turn("completed"),
            ]
        )


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def journal(session: holdfast.Session) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (session.path / "journal.jsonl").read_bytes().splitlines()]


def checkpoints(session: holdfast.Session) -> list[dict[str, Any]]:
    return [entry for entry in journal(session) if entry["type"] == "checkpoint"]


# When


def test_by_budget_inside_a_turn_which_goes_on(session, workspace, equipped, told):
    for name in ("one", "two", "three"):
        (workspace / name).write_text(f"{name}\n" * 900)
    model = FakeModel(
        *(calling(f"c{n}", "read", path=name) for n, name in enumerate(("one", "two", "three"))),
        "All three were read.",
        summaries=["One was read."],
    )
    agent = Agent(equipped(model, window_tokens=5000, max_tokens=500, system="Be good."))
    outcome = asyncio.run(agent.prompt(said("Read all three.")))
    assert outcome.state == "completed"
    assert outcome.message is not None
    assert outcome.message.text == "All three were read."
    assert len(model.requests) == 4
    assert len(model.asked_to_sum_up) == len(checkpoints(session)) >= 1
    assert any("The context was compacted: about" in line for line in told)
    # What was read last was not parted from its call, and the model saw it after the summary.
    last = model.requests[-1].messages
    assert last[0].text == HEADING + "One was read."
    assert [type(part) for part in last[1].content] == [ToolCall]
    assert last[2].role == "tool"
    assert session.messages[1].text == "Read all three."


def test_what_tools_returned_since_the_last_count_is_counted(session, equipped):
    equipment = equipped(FakeModel(), window_tokens=1000)

    async def due() -> bool:
        return await is_due(equipment)

    talk(session)
    equipment.known_tokens = 300
    assert not asyncio.run(due())
    session.append(calling("a", "read", path="x"))
    session.append(tool_result("a", "word " * 500))
    assert asyncio.run(due())
    equipment.known_tokens = None
    assert asyncio.run(due())
    equipment.compact_at = 0
    assert not asyncio.run(due())


def test_what_was_counted_before_a_compaction_does_not_count_after_it(session, equipped):
    talk(session)
    equipment = equipped(FakeModel("x", summaries=["s"]), window_tokens=1000)
    equipment.known_tokens = 900
    assert asyncio.run(is_due(equipment))
    assert asyncio.run(compact(equipment)).ok
    assert not asyncio.run(is_due(equipment))


def test_a_context_of_prompts_alone_is_counted(session, equipped):
    equipment = equipped(FakeModel(), window_tokens=1000)
    session.append(user("word " * 700))
    equipment.known_tokens = 0
    assert asyncio.run(is_due(equipment))


def test_a_context_that_cannot_be_shortened_is_not_tried_again_and_again(session, equipped, told):
    model = FakeModel("Done.", summaries=["short"])
    agent = Agent(equipped(model, window_tokens=2000, max_tokens=500))
    outcome = asyncio.run(agent.prompt(said("word " * 2000)))
    assert outcome.state == "completed"
    assert model.asked_to_sum_up == []
    assert told == ["There is nothing to compact yet."]


def test_on_demand_everything_that_was_answered_is_summed_up(session, equipped):
    talk(session)
    model = FakeModel("Fine.", summaries=["  Three questions were answered.\n"])
    agent = Agent(equipped(model, system="Be good."))

    async def both() -> None:
        done = await agent.compact()
        assert done.ok
        assert done.told.startswith("The context was compacted: about ")
        assert done.seq == checkpoints(session)[0]["seq"]
        summary = HEADING + "Three questions were answered."
        assert texts(session.context()) == [summary, "Be good."]
        assert await agent.compact() == summarize.Compacted(False, _nothing)
        await agent.prompt(said("And now?"))
        assert texts(model.requests[0].messages) == [summary, "And now?"]
        assert model.requests[0].system == "Be good."

    asyncio.run(both())
    # The system prompt stands behind the checkpoint: the next turn has no need to record it.
    assert [m.role for m in session.messages].count("system") == 1
    assert len(checkpoints(session)) == 1


_nothing = "There is nothing to compact yet."


def test_there_is_nothing_to_compact_in_a_new_session(session, equipped, home):
    model = FakeModel()
    assert asyncio.run(compact(equipped(model))).told == _nothing
    assert not home.exists()
    session.append(system("Be good."))
    assert asyncio.run(compact(equipped(model))).told == _nothing


def test_twice_in_a_row_the_second_summary_covers_the_first(session, equipped):
    model = FakeModel("ok", summaries=["first", "second"])
    equipment = equipped(model)
    talk(session)
    assert asyncio.run(compact(equipment)).ok
    talk(session, 1)
    assert asyncio.run(compact(equipment)).ok
    assert texts(session.context()) == [HEADING + "second"]
    assert HEADING + "first" in texts(model.asked_to_sum_up[1].messages)
    first, second = checkpoints(session)
    assert second["keep_from"] > first["keep_from"]


def test_what_an_earlier_compaction_kept_is_weighed_too(session, equipped):
    equipment = equipped(FakeModel("ok", summaries=["first", "second"]), window_tokens=1000)
    talk(session, 2)
    session.append(user("word " * 130))
    assert asyncio.run(compact(equipment)).ok
    assert len(session.context()) == 2
    session.append([assistant("yes"), user("more")])
    assert asyncio.run(compact(equipment)).ok
    assert texts(session.context()) == [HEADING + "second", "yes", "more"]


# What stays


def test_a_prompt_without_an_answer_stays(session, equipped):
    talk(session)
    session.append([Turn("started"), user("the open one")])
    assert asyncio.run(compact(equipped(FakeModel("x", summaries=["s"])))).ok
    assert texts(session.context()) == [HEADING + "s", "the open one"]


@pytest.mark.parametrize("recorded", [[], [tool_result("a", "half", outcome="unknown")]])
def test_calls_whose_results_are_to_come_stay_with_them(session, equipped, workspace, recorded):
    talk(session)
    session.append(
        [Turn("started"), user("do it"), calling("a", "bash", command="true"), *recorded]
    )
    session.append([user("are you there?")])
    equipment = equipped(FakeModel("Fine.", summaries=["s"]))
    assert asyncio.run(compact(equipment)).ok
    outcome = asyncio.run(Agent(equipment).prompt(said("go on")))
    assert outcome.state == "completed"
    sent = equipment.provider.requests[0].messages
    assert [message.role for message in sent[:3]] == ["user", "assistant", "tool"]
    assert isinstance(sent[2].content[0], ToolResult)


def test_large_payloads_weigh_what_they_are_although_they_are_apart(session, equipped):
    long = "much " * 60_000
    session.append([user("before"), assistant("yes"), user(long), assistant("I see"), user("on")])
    assert asyncio.run(compact(equipped(FakeModel("x", summaries=["s"])))).ok
    assert texts(session.context())[1:] == ["I see", "on"]


@st.composite
def sizes(draw: Any) -> tuple[int, int]:
    return draw(st.sampled_from([200, 2000, 20_000])), draw(st.integers(0, 3))


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(damaged(), frames(), sizes())
@example([assistant("a", stop="end"), user("b")], None, (200, 0))
def test_whatever_was_said_no_call_is_parted_and_the_request_is_accepted(before, frame, size):
    window, more = size
    with tempfile.TemporaryDirectory() as folder:
        store = holdfast.open_store(Path(folder) / "home")
        with store.create() as session:
            if before:
                session.append(before)
            model = FakeModel("x", summaries=["the summary"])
            equipment = TurnServices(
                session, model, CHEAP, Path(folder), window_tokens=window, max_tokens=100
            )
            for _ in range(1 + more):
                done = asyncio.run(compact(equipment))
                if done.ok:
                    _check_cut(session)
                    assert texts(session.context())[0] == HEADING + "the summary"
                if frame is not None:
                    assert complaints(session.context(), frame) == []
                session.append([user("<more>"), assistant("<yes>")])
            assert asyncio.run(compact(equipment)).ok
            _check_cut(session)


def _check_cut(session: holdfast.Session) -> None:
    """See that no result is kept whose call is not: a result belongs to the answer before it."""
    keep_from = checkpoints(session)[-1]["keep_from"]
    answered: int | None = None
    for entry in journal(session):
        if entry["type"] != "message":
            continue
        if entry["role"] == "assistant":
            answered = entry["seq"]
        kinds = [part["type"] for part in entry["content"]]
        if "tool_result" in kinds and entry["seq"] >= keep_from and answered is not None:
            assert answered >= keep_from


# Meanwhile


def test_what_arrives_while_the_summary_is_made_survives(session, equipped):
    talk(session)

    async def slow(request):
        yield ProviderStatus("a moment")
        yield TextDelta("the ")
        session.append(user("while it streams"))
        other = threading.Thread(target=session.append, args=[assistant("from another thread")])
        other.start()
        other.join()
        yield finished(assistant("the summary"), request)

    assert asyncio.run(compact(equipped(FakeModel("x", summaries=[slow])))).ok
    late = ["while it streams", "from another thread"]
    assert texts(session.context()) == [HEADING + "the summary", *late]
    assert texts(session.messages)[-2:] == late


def test_what_arrives_between_the_cut_and_the_request_survives(session, equipped, monkeypatch):
    talk(session)
    context = session.context

    def late():
        monkeypatch.undo()
        session.append(user("just now"))
        return context()

    monkeypatch.setattr(session, "context", late)
    model = FakeModel("x", summaries=["s"])
    assert asyncio.run(compact(equipped(model))).ok
    assert texts(model.asked_to_sum_up[0].messages)[-2] == "just now"
    assert texts(session.context()) == [HEADING + "s", "just now"]


def test_a_summary_of_a_branch_that_was_left_is_dropped_and_counted(session, equipped):
    start = session.append(user("the beginning"))
    talk(session)

    async def leaving(request):
        session.rewind(start)
        yield finished(assistant("of what is gone"), request)

    equipment = equipped(FakeModel("x", summaries=[leaving]))
    done = asyncio.run(compact(equipment))
    assert done.told == NOT + (
        "the conversation was continued in the meantime, so the summary was discarded."
    )
    assert not done.ok
    assert texts(session.context()) == ["the beginning"]
    assert checkpoints(session) == []
    assert session.totals.requests == 1
    assert session.totals.input > 0


# What may go wrong


async def _broken(request):
    yield TextDelta("so f")
    raise ConnectFailed("The line was cut.", retryable=True)


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        (BadStatus("Overloaded.", retryable=True, status=529), "Overloaded."),
        (_broken, "The line was cut."),
        (" \n ", "the summary was empty."),
        (calling("c", "bash", command="touch evil"), "the model called a tool"),
        (
            assistant([Text(text="Let me see."), ToolCall(id="c", name="bash", arguments={})]),
            "the model called a tool",
        ),
        (assistant("I can't.", stop="refusal"), "the model refused"),
    ],
    ids=["error", "broken off", "empty", "call", "words and call", "refusal"],
)
def test_a_failure_is_told_and_changes_nothing(session, workspace, equipped, told, summary, why):
    talk(session)
    equipment = equipped(FakeModel("Fine.", summaries=[summary]), window_tokens=300)
    before = session.context()
    done = asyncio.run(compact(equipment))
    assert (done.ok, done.seq) == (False, None)
    assert done.told.startswith(NOT + why)
    assert checkpoints(session) == []
    assert session.context() == before
    assert list(workspace.iterdir()) == []
    # A turn that meets it goes on without.
    equipment.known_tokens = 290
    outcome = asyncio.run(Agent(equipment).prompt(said("still there?")))
    assert outcome.state == "completed"
    assert done.told in told


def test_an_answer_that_broke_off_has_cost_something_that_nobody_knows(session, equipped):
    talk(session)
    asyncio.run(compact(equipped(FakeModel("x", summaries=[_broken]))))
    session.append(user("what was submitted is written by now"))
    assert (session.totals.requests, session.totals.unpriced) == (1, 1)


def test_a_summary_that_was_cut_off_says_so(session, equipped):
    talk(session)
    model = FakeModel("x", summaries=[assistant("so far", stop="length")])
    assert asyncio.run(compact(equipped(model))).ok
    (kept,) = session.context()
    assert kept.text == HEADING + "so far\n\n[The summary was cut off here.]"


def test_a_provider_that_breaks_its_word_is_no_summary(session, equipped):
    talk(session)

    async def nothing(request):
        yield ProviderStatus("hm")

    with pytest.raises(AssertionError, match="ends with Finished"):
        asyncio.run(compact(equipped(FakeModel("x", summaries=[nothing]))))
    assert checkpoints(session) == []


def test_a_cancel_in_the_middle_changes_nothing(session, equipped):
    talk(session)
    before = session.context()
    left: list[str] = []

    async def endless(request):
        try:
            yield TextDelta("once upon a time")
            agent.cancel("the person has had enough")
            await asyncio.Event().wait()
        finally:
            left.append("the connection is closed")

    agent = Agent(equipped(FakeModel("Fine.", summaries=[endless])))

    async def cancelled() -> None:
        with pytest.raises(Stopped, match="had enough"):
            await agent.compact()
        assert left
        assert session.context() == before
        assert (await agent.prompt(said("still there?"))).state == "completed"

    asyncio.run(cancelled())
    assert checkpoints(session) == []
    assert (session.totals.requests, session.totals.unpriced) == (2, 1)


def test_a_cancel_inside_a_turn_ends_the_turn(session, equipped):
    talk(session)

    async def endless(request):
        agent.cancel("enough")
        await asyncio.Event().wait()
        yield TextDelta("never")

    model = FakeModel("Fine.", summaries=[endless])
    agent = Agent(equipped(model, window_tokens=80, max_tokens=10))
    outcome = asyncio.run(agent.prompt(said("go on")))
    assert (outcome.state, outcome.cause) == ("cancelled", "enough")
    assert model.requests == []
    assert checkpoints(session) == []


def test_a_cancel_once_the_checkpoint_is_on_its_way_comes_too_late(session, equipped, monkeypatch):
    talk(session)
    set_checkpoint, on_its_way, go = session.checkpoint, threading.Event(), threading.Event()

    def slow(*args: Any, **more: Any) -> Any:
        on_its_way.set()
        go.wait()
        return set_checkpoint(*args, **more)

    monkeypatch.setattr(session, "checkpoint", slow)
    agent = Agent(equipped(FakeModel("x", summaries=["s"])))

    async def late() -> None:
        running = asyncio.ensure_future(agent.compact())
        await asyncio.to_thread(on_its_way.wait)
        agent.cancel("too late")
        await asyncio.sleep(0)
        go.set()
        assert (await running).ok

    asyncio.run(late())
    assert len(checkpoints(session)) == 1


def test_a_full_disk_is_told_and_the_checkpoint_waits(fragile, files, workspace):
    with fragile.create() as session:
        talk(session)
        equipment = TurnServices(session, FakeModel("x", summaries=["s"]), CHEAP, workspace)
        real = session.checkpoint

        def full(*args: Any, **more: Any) -> Any:
            files.fill()
            return real(*args, **more)

        session.checkpoint = full
        done = asyncio.run(compact(equipment))
        files.free()
        assert not done.ok
        assert done.told.startswith("The context is not compacted yet: Disk full")
        session.append(user("there is room again"))
        assert len(session.messages) == 7


# Afterwards


def test_cost_and_totals_survive(session, equipped):
    talk(session)
    session.usage(input=5, output=5, cost_usd=1.5, model="another")
    model = FakeModel("x", summaries=["s"], counts=TokenCounts(1_000_000, 0))
    assert asyncio.run(compact(equipped(model))).ok
    totals = session.totals
    assert totals.requests == 2
    assert totals.cost_usd > 1.5
    assert totals.unpriced == 0
    assert set(totals.models) == {"another", CHEAP}
    session.compact()  # the disk space too, and all of it is still known
    assert session.totals == totals


def test_a_rewind_to_before_it_brings_everything_back(session, equipped):
    talk(session)
    before, head = session.context(), session.state.head
    assert asyncio.run(compact(equipped(FakeModel("x", summaries=["s"])))).ok
    assert session.context() != before
    session.rewind(head)
    assert session.context() == before


def test_a_resumed_session_does_not_compact_again(store, session, workspace, equipped, home):
    for name in ("one", "two"):
        (workspace / name).write_text(f"{name}\n" * 900)
    model = FakeModel(
        calling("a", "read", path="one"),
        calling("b", "read", path="two"),
        "Done.",
        summaries=["s"],
    )
    agent = Agent(equipped(model, window_tokens=5000, max_tokens=500, system="Be good."))
    asyncio.run(agent.prompt(said("Read both. " + "word " * 1000)))
    before = checkpoints(session)
    assert before
    roles = [message.role for message in session.messages]
    assert roles.count("system") == 1 + len(before)  # once more behind each checkpoint
    session.close()
    source = f"""
import asyncio
from pathlib import Path
from holdfast import Text
from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.services import TurnServices
from tests.runtime.fake_model import FakeModel
with store.open({session.id!r}) as session:
    model = FakeModel("On it goes.", summaries=["again"])
    equipment = TurnServices(session, model, {CHEAP!r}, Path({str(workspace)!r}),
        window_tokens=5000, max_tokens=500, system="Be good.")
    asyncio.run(Agent(equipment).prompt([Text(text="And?")]))
    print(len(model.asked_to_sum_up), model.requests[0].messages[0].text.endswith("s"))
"""
    assert run(source, home) == "0 True\n"
    with store.open(session.id) as again:
        assert checkpoints(again) == before
        assert [message.role for message in again.messages].count("system") == 1 + len(before)
