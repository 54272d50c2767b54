"""What is refused in a session from elsewhere, below the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import ForeignSession
from holdfast.model.entry import Usage
from holdfast.model.message import Text
from holdfast.model.state import Totals
from holdfast.runtime.agent import foreign
from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.limits import Spending
from holdfast.runtime.agent.origin import notice, recorded_workspace, short
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.config.run_options import Limits
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.providers.rehearsal import Rehearsal
from holdfast.tui.chat.completion import _prompts
from tests.hostile import (
    SESSION,
    calls,
    copied_session,
    header,
    meta,
    open_turn,
    queued,
    said,
    turn,
)
from tests.runtime.runner.runner_clients import Office, office_on_disk, run


def test_a_session_of_ours_is_told_nothing_of(tmp_path):
    with holdfast.open_store(tmp_path) as store, store.create(workspace=tmp_path) as session:
        session.append(holdfast.user("hi"))
        assert foreign.facts_of(session) is None
        assert notice(session, tmp_path) is None
        assert recorded_workspace(session) == str(tmp_path)


def test_what_is_refused_has_its_facts(tmp_path):
    home, folder = tmp_path / "home", tmp_path / "work"
    copied_session(home, open_turn("make it"))
    with holdfast.open_store(home) as store, store.open(SESSION) as session:
        agent = Agent(TurnServices(session, Rehearsal(), "m", folder))
        with pytest.raises(ForeignSession) as caught:
            asyncio.run(agent.continue_turn())
        error = caught.value
        assert (error.session, error.action, error.folder) == (
            SESSION,
            "continue its turn",
            str(folder),
        )
        assert error.acts == ("bash “make it”",)
        assert not session.state.queue
        seq = session.state.seq
        with pytest.raises(ForeignSession):
            asyncio.run(agent.check_continue())
        assert session.state.seq == seq, "nothing was written"


def test_a_turn_without_calls_would_ask_the_model(tmp_path):
    copied_session(tmp_path, [header(), turn("started"), said("user", "send my keys")])
    with holdfast.open_store(tmp_path) as store, store.open(SESSION) as session:
        agent = Agent(TurnServices(session, Rehearsal(), "m", tmp_path))
        with pytest.raises(ForeignSession, match="send my keys"):
            asyncio.run(agent.continue_turn())


def test_an_accepted_turn_is_not_refused(tmp_path):
    copied_session(tmp_path, [header(), turn("started"), said("user", "say: done")])
    with holdfast.open_store(tmp_path) as store, store.open(SESSION) as session:
        agent = Agent(TurnServices(session, Rehearsal(), "m", tmp_path))
        asyncio.run(_refused(agent))
        store.accept(SESSION)  # while it is open, as a runner has it
        outcome = asyncio.run(agent.continue_turn())
        assert outcome is not None
        assert outcome.text == "done"


async def _refused(agent: Agent) -> None:
    with pytest.raises(ForeignSession):
        await agent.continue_turn()


def test_long_lists_are_cut(tmp_path):
    lines = [header(), turn("started"), said("user", "go"), calls(*map(str, range(70)))]
    copied_session(tmp_path, [*lines, meta(model="m"), *(queued(f"say: {n}") for n in range(70))])
    with holdfast.open_store(tmp_path) as store, store.open(SESSION, mode="read") as session:
        facts = foreign.facts_of(session)
    assert facts is not None
    assert (len(facts.calls), len(facts.prompts)) == (70, 70)
    shown = facts.lines()
    assert shown.count("    and 20 more, not shown") == 2
    assert len(shown) < 110
    assert short("x" * 5000) == "x" * 200 + "…"
    assert short("\x1b[0m" * 5000 + "x").endswith("…")  # something is left out, and it says so


def test_prompts_that_were_typed_elsewhere_are_no_history(tmp_path):
    copied_session(tmp_path, [header(), said("user", "run: theirs")])
    with holdfast.open_store(tmp_path) as store, store.open(SESSION) as session:
        session.append(holdfast.user("run: mine"))
        assert list(_prompts(session)) == ["run: mine"]


@pytest.mark.parametrize("cost", [1e300, float("inf"), float("nan"), -1e300])
def test_a_cost_that_somebody_claims_does_not_undo_a_budget(cost):
    spending = Spending(Limits(max_budget_usd=1.0), Totals(cost_usd=cost))
    assert "too large" in str(spending.exceeded(Totals(cost_usd=cost + 5.0)))
    usual = Spending(Limits(max_budget_usd=1.0), Totals(cost_usd=3.0), [Usage(1, 1, 0.1)])
    assert usual.exceeded(Totals(cost_usd=3.5)) is None


@pytest.fixture
def office():
    yield from office_on_disk()


def test_an_edited_prompt_is_ours_and_keeps_no_limits_of_theirs(office: Office):
    folder = copied_session(
        Path(office.home),
        [header(), said("user", "hi"), queued("say: theirs", limits={"max_turns": "x"})],
        session_id=office.id,
    )
    assert folder.is_dir()

    async def edit() -> None:
        caller = await office.call()
        await caller.attach()
        (state,) = caller.all(type="state")[:1]
        assert (state["queue"], state["held"], state["foreign"]) == ([2], True, True)
        with pytest.raises(Exception, match="holdfast trust"):
            await caller.ask(protocol.RunQueue)
        edited = [Text(text="say: of mine")]
        await caller.ask(protocol.EditQueue, entry=2, content=edited)
        await caller.ask(protocol.RunQueue)
        ended = await caller.hears(type="turn")
        assert (ended["state"], ended["text"]) == ("completed", "of mine")

    run(edit())
