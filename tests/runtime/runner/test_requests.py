"""What each request does; sent again, on whatever connection and to whichever runner, no more."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.model.message import Image, Text
from holdfast.runtime.config.run_options import Limits
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.client import Refused, RunnerGone
from tests.cli.program import of_type, said, turns, until
from tests.runtime.runner.runner_clients import Office, gate, run


def test_a_prompt_is_run_and_its_end_is_told_behind_all_of_it(office):
    async def submit():
        caller = await office.call()
        await caller.attach()
        seq = await caller.submit("say: hello there")
        ended = await caller.hears(type="turn")
        assert {**ended, "denied": []} == {
            "type": "turn",
            "queued": seq,
            "state": "completed",
            "cause": None,
            "limit": False,
            "exit_code": 0,
            "text": "hello there",
            "denied": [],
        }
        assert "hello there".startswith(caller.live("text"))  # the entry has the rest
        place = caller.heard.index(ended)
        told = [each["entry"] for each in caller.heard[:place] if each["type"] == "entry"]
        assert told == office.journal()
        assert turns(told) == ["started", "completed"]
        await caller.hears(type="state", state="idle", times=2)

    run(submit())


def test_an_image_and_a_prompt_that_is_empty(office):
    async def submit():
        caller = await office.call()
        await caller.attach()
        with pytest.raises(Refused, match="The prompt is empty") as refused:
            await caller.submit("  ")
        assert (refused.value.kind, refused.value.exit_code) == ("UsageError", 2)
        assert not (office.home / "sessions").exists(), "an empty prompt has made a session"
        picture = Image(media_type="image/png", data="iVBORw0KGgo=")
        await caller.ask(protocol.Submit, content=[Text(text="say: nice"), picture])
        await caller.hears(type="turn", state="completed")

    run(submit())
    (message,) = [e for e in of_type(office.journal(), "message") if e["role"] == "user"]
    assert [part["type"] for part in message["content"]] == ["text", "image"]


def test_a_prompt_sent_again_is_not_run_again(office):
    """On the same connection, on a new one, and to a runner that has just been started."""

    async def submit():
        caller = await office.call()
        await caller.attach()
        seq = await caller.submit("run: echo once >> done", id="the one")
        assert await caller.submit("run: echo once >> done", id="the one") == seq
        other = await office.call_again()
        assert await other.submit("run: echo once >> done", id="the one") == seq
        await caller.hears(type="turn", state="completed")
        office.kill(caller.pid)
        await caller.hung_up()
        again = await office.call()
        assert again.pid != caller.pid
        await again.attach()
        assert await again.submit("run: echo once >> done", id="the one") == seq
        await again.submit("say: last")
        await again.hears(type="turn", text="last")

    run(submit())
    assert office.lines("done") == ["once"]
    assert said(office.journal(), "user") == ["run: echo once >> done", "say: last"]


def test_a_prompt_that_was_taken_and_not_run_is_run_by_its_retry(office):
    async def submit():
        caller = await office.call()
        await caller.submit(f"run: {gate('x')}")
        seq = await caller.submit("run: echo two >> done", id="two")
        await caller.submit("run: echo three >> done", id="three")
        until(office.file("x.begun").exists)
        office.kill(caller.pid)
        again = await office.call()
        await again.attach()
        state = again.all(type="state")[-1]
        assert (state["held"], len(state["queue"])) == (True, 2)
        assert await again.submit("run: echo two >> done", id="two") == seq
        office.file("x.go").touch()
        await again.hears(type="turn", queued=seq, state="completed")

    run(submit())
    assert office.lines("done") == ["two"], "what nobody asked for stays in the queue"


def test_prompts_wait_their_turn_are_edited_taken_out_and_held_after_a_cancel(office):
    async def queue():
        caller = await office.call()
        await caller.attach()
        running = await caller.submit(f"run: {gate('x')}")
        until(office.file("x.begun").exists)
        one = await caller.submit("run: echo one >> done")
        two = await caller.submit("run: echo two >> done")
        three = await caller.submit("run: echo three >> done")
        assert (await caller.hears(type="state", queue=[one, two, three]))["held"] is False
        edit = {"entry": two, "content": [Text(text="run: echo zwei >> done")], "id": "edit"}
        edited = (await caller.ask(protocol.EditQueue, **edit))["seq"]
        assert (await caller.ask(protocol.EditQueue, **edit))["seq"] == edited
        await caller.ask(protocol.EditQueue, entry=three)
        await caller.hears(type="state", queue=[one, edited])
        for entry, content in ((three, "x"), (running, "x"), (edited, " ")):
            with pytest.raises(Refused):
                await caller.ask(protocol.EditQueue, entry=entry, content=[Text(text=content)])
        assert (await caller.ask(protocol.Cancel))["running"] is True
        await caller.hears(type="turn", queued=running, state="cancelled")
        held = await caller.hears(type="state", state="idle", held=True)
        assert held["queue"] == [one, edited]
        assert (await caller.ask(protocol.Cancel))["running"] is False
        assert office.lines("done") == []
        assert (await caller.ask(protocol.RunQueue))["queue"] == [one, edited]
        await caller.hears(type="turn", queued=edited, state="completed")
        office.kill(caller.pid)
        again = await office.call()
        assert (await again.ask(protocol.EditQueue, **edit))["seq"] == edited

    run(queue())
    assert office.lines("done") == ["one", "zwei"]


def test_a_failed_turn_holds_the_queue(office):
    async def fail():
        caller = await office.call()
        await caller.attach()
        await caller.submit(f"run: {gate('x')}\nfail: 400")
        until(office.file("x.begun").exists)
        await caller.submit("run: echo one >> done")
        office.file("x.go").touch()
        failed = await caller.hears(type="turn", state="failed")
        assert failed["exit_code"] != 0
        assert "400" in failed["cause"]
        assert (await caller.hears(type="state", state="idle", held=True))["queue"]

    run(fail())
    assert office.lines("done") == []


def test_a_cancel_reaches_a_turn_that_is_only_about_to_begin(office):
    async def cancel():
        caller = await office.call()
        await caller.attach()
        for number in range(8):
            seq = await caller.submit(f"run: echo {number} >> done; sleep 60")
            assert (await caller.ask(protocol.Cancel))["running"] is True
            ended = await caller.hears(type="turn", queued=seq)
            assert ended["state"] == "cancelled"

    run(cancel())


def test_limits_bind_a_turn_that_nobody_watches(office):
    async def submit():
        caller = await office.call()
        seq = await caller.submit(
            "run: echo 1 >> done\nrun: echo 2 >> done\nrun: echo 3 >> done",
            limits=Limits(max_turns=2),
        )
        after = await caller.submit("say: without limits")
        await caller.attach()
        await caller.until(
            lambda: "cancelled" in turns([e["entry"] for e in caller.all(type="entry")])
        )
        held = await caller.hears(type="state", held=True)
        assert held["queue"] == [after]
        await caller.ask(protocol.RunQueue)
        await caller.hears(type="turn", queued=after, state="completed")
        await caller.close()
        return seq

    run(submit())
    assert office.lines("done") == ["1", "2"]
    (ended,) = [e for e in of_type(office.journal(), "turn") if e["state"] == "cancelled"]
    assert "--max-turns" in ended["cause"]


def test_a_session_is_renamed_once(office):
    async def rename():
        caller = await office.call()
        await caller.ask(protocol.Rename, title="before anything")
        assert not (office.home / "sessions").exists(), "a title alone has made a session"
        await caller.attach()
        await caller.submit("say: hi")
        await caller.hears(type="turn")
        await caller.ask(protocol.Rename, title="better", id="rename")
        office.kill(caller.pid)
        again = await office.call()
        await again.ask(protocol.Rename, title="better", id="rename")
        assert (await again.ask(protocol.StatusOf))["status"]["title"] == "better"

    run(rename())
    titles = [e["title"] for e in of_type(office.journal(), "meta") if "title" in e]
    assert titles == ["before anything", "better"]


def test_a_session_is_rewound_once_and_not_in_a_turn(office):
    async def rewind():
        caller = await office.call()
        await caller.attach()
        for word in ("one", "two"):
            await caller.submit(f"say: {word}")
            await caller.hears(type="turn", text=word)
        first = next(
            e["entry"]["seq"]
            for e in caller.all(type="entry")
            if e["entry"].get("role") == "assistant"
        )
        for nowhere in (0, 10_000):
            with pytest.raises(Refused, match="There is no message or checkpoint"):
                await caller.ask(protocol.Rewind, to=nowhere)
        await caller.ask(protocol.Rewind, to=first, id="back")
        await caller.submit("say: three")
        await caller.hears(type="turn", text="three")
        office.kill(caller.pid)
        again = await office.call()
        await again.ask(protocol.Rewind, to=first, id="back")
        await again.attach()
        await again.submit(f"run: {gate('x')}")
        until(office.file("x.begun").exists)
        for request, fields in ((protocol.Rewind, {"to": None}), (protocol.HandOver, {})):
            with pytest.raises(Refused, match="A turn is running"):
                await again.ask(request, **fields)
        await again.ask(protocol.Cancel)
        await again.hears(type="turn", state="cancelled")

    run(rewind())
    assert len(of_type(office.journal(), "head")) == 1, "the retry has rewound what came after"


def test_the_context_is_summed_up_between_turns(office):
    async def compact():
        caller = await office.call()
        await caller.attach()
        await caller.submit("say: " + "many words " * 50)
        await caller.hears(type="turn")
        answer = await caller.ask(protocol.Compact)
        assert answer["after_turn"] is False
        await caller.until(lambda: caller.notes)
        await caller.hears(type="state", state="idle", times=3)

    run(compact())


def test_another_model_goes_on_after_the_turn_or_is_refused_at_once(office, monkeypatch):
    async def switch():
        caller = await office.call()
        await caller.attach()
        with pytest.raises(Refused, match="key") as refused:
            await caller.ask(protocol.SetModel, provider="anthropic")
        assert refused.value.exit_code == 4
        with pytest.raises(Refused):
            await caller.ask(protocol.SetModel, provider="nobody")
        seq = await caller.submit(f"run: {gate('x')}")
        until(office.file("x.begun").exists)
        url = "http://127.0.0.1:9/v1"
        answer = await caller.ask(
            protocol.SetModel, provider="openai", model="other-model", base_url=url
        )
        assert answer["after_turn"] is True
        office.file("x.go").touch()
        await caller.hears(type="turn", queued=seq, state="completed")
        await caller.hears(type="state", model="other-model", state="idle")
        assert (await caller.ask(protocol.StatusOf))["status"]["model"] == "other-model"
        with pytest.raises(Refused, match="no price for other-model"):
            await caller.submit("hello", limits=Limits(max_budget_usd=1.0))

    run(switch())
    switched = [e for e in of_type(office.journal(), "meta") if e.get("model") == "other-model"]
    assert [each["provider"] for each in switched] == ["openai"]


def test_status_says_how_things_stand(office):
    async def ask():
        caller = await office.call()
        status = (await caller.ask(protocol.StatusOf))["status"]
        assert status["session"] == office.id
        assert status["pid"] == caller.pid
        assert status["state"] == "idle"
        assert status["workspace"] == str(office.workspace)
        assert status["clients"] == 0
        assert status["memory_bytes"] > 10_000_000

    run(ask())


def test_a_runner_that_hands_over_has_let_go_when_it_hangs_up(office):
    import holdfast  # noqa: PLC0415  as another process would

    async def hand_over():
        caller = await office.call()
        await caller.attach()
        await caller.submit("say: hi")
        await caller.hears(type="turn")
        await caller.ask(protocol.HandOver)
        bye = await caller.hears(type="bye")
        assert "continues the session" in bye["why"]
        await caller.hung_up()
        with holdfast.open_store(office.home) as store, store.open(office.id) as session:
            session.append(holdfast.user("mine now"))
        office.ended(caller.pid)

    run(hand_over())
    assert not office.socket().exists()


def test_a_runner_that_leaves_after_its_turn_does_nothing_more(office):
    async def stop():
        caller = await office.call()
        await caller.attach()
        seq = await caller.submit(f"run: {gate('x')}")
        until(office.file("x.begun").exists)
        waiting = await caller.submit("run: echo later >> done")
        assert (await caller.ask(protocol.Stop, after_turn=True))["running"] is True
        late = await caller.submit("say: too late", id="late")
        with pytest.raises(RunnerGone, match="is stopping"):
            await caller.ask(protocol.RunQueue)
        office.file("x.go").touch()
        await caller.hears(type="turn", queued=seq, state="completed")
        await caller.hung_up()
        assert caller.heard[-1]["type"] == "bye"
        again = await office.call()
        await again.attach()
        assert again.all(type="state")[-1]["queue"] == [waiting, late]
        assert again.all(type="state")[-1]["held"] is True
        assert await again.submit("say: too late", id="late") == late
        await again.hears(type="turn", text="too late")

    run(stop())
    assert office.lines("done") == []


def test_stop_cancels_saves_and_leaves(office: Office):
    async def stop():
        caller = await office.call()
        await caller.attach()
        await caller.submit(f"run: echo out; {gate('x')}")
        until(office.file("x.begun").exists)
        await caller.ask(protocol.Stop)
        await caller.hung_up()
        office.ended(caller.pid)
        await caller.close()
        with pytest.raises(RunnerGone):
            await caller.submit("say: nobody there")

    run(stop())
    assert turns(office.journal()) == ["started", "cancelled"]
    assert not office.socket().exists()
    assert not office.socket().with_suffix(".log").exists()


def test_tags_are_edited_once(office):
    async def tag():
        caller = await office.call()
        answer = await caller.ask(protocol.EditTags, add=["early", " early "])
        assert answer["tags"] == ["early"]
        assert not (office.home / "sessions").exists(), "a tag alone has made a session"
        await caller.attach()
        await caller.submit("say: hi")
        await caller.hears(type="turn")
        answer = await caller.ask(protocol.EditTags, add=["b", "a"], remove=["early"], id="tags")
        assert answer["tags"] == ["b", "a"]
        with pytest.raises(Refused, match="has no tag 'early'"):
            await caller.ask(protocol.EditTags, remove=["early"])
        with pytest.raises(Refused, match="1 to 100 characters"):
            await caller.ask(protocol.EditTags, add=["two\nlines"])
        office.kill(caller.pid)
        again = await office.call()
        answer = await again.ask(protocol.EditTags, add=["b", "a"], remove=["early"], id="tags")
        assert answer["tags"] == ["b", "a"]
        assert (await again.ask(protocol.EditTags, add=["b"]))["tags"] == ["b", "a"]
        others = [await office.call_again() for _ in range(4)]
        edits = [each.ask(protocol.EditTags, add=[f"at once {n}"]) for n, each in enumerate(others)]
        await asyncio.gather(*edits)
        answer = await again.ask(protocol.EditTags, add=["only"], replace=True)
        assert answer["tags"] == ["only"]

    run(tag())
    tags = [e["tags"] for e in of_type(office.journal(), "meta") if "tags" in e]
    assert tags[:2] == [["early"], ["b", "a"]]
    assert sorted(tags[-2]) == ["a", *(f"at once {number}" for number in range(4)), "b"]
    assert tags[-1] == ["only"]
