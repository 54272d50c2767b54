"""One turn from its prompt to its end: what is durable when, and what becomes of each call."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast.errors import ConnectFailed
from holdfast.model.message import Text, ToolCall, ToolResult
from holdfast.runtime.agent.prices import PriceTable
from holdfast.runtime.policy.policy import Policy
from holdfast.runtime.providers.base import (
    Delta,
    Finished,
    TextDelta,
    ThinkingDelta,
    TokenCounts,
)
from holdfast.runtime.providers.fault_injection import Chaos
from holdfast.runtime.providers.rehearsal import Rehearsal
from holdfast.runtime.providers.rehearsal_script import parse_prompt
from holdfast.runtime.tools.registry import standard_tools
from tests.runtime.bench import (
    Bench,
    FakeProvider,
    FakeSlowFiles,
    FakeTool,
    calling,
    done,
    durable,
    entries_of,
    results,
    saying,
    shapes,
    text_of,
)


def test_everything_is_durable_before_it_is_acted_upon(tmp_path):
    bench = Bench(tmp_path, FakeSlowFiles())
    seen = []

    async def work(call):
        seen.append(("tool", durable(session)))
        return done("worked")

    def asked(_):
        seen.append(("provider", durable(session)))

    async def ask(_):
        seen.append(("person", durable(session)))
        return True

    provider = FakeProvider(calling(("a", "fake", {"what": "it"})), saying("done"), before=asked)
    with bench.session() as session:
        agent = bench.agent(
            session,
            provider,
            tools={"fake": FakeTool(work)},
            system="Be good.",
            ask=ask,
            policy=Policy("ask"),
        )
        outcome = asyncio.run(agent.prompt([Text(text="go")]))
    prompted = ["turn started", "system", "user"]
    answered = [*prompted, "assistant tool_calls", "usage"]
    announced = [*answered, "a allow", "a started"]
    finished = [*announced, "a completed"]
    assert seen == [
        ("provider", prompted),
        ("person", answered),
        ("tool", announced),
        ("provider", finished),
    ]
    assert shapes(bench.entries()) == [*finished, "assistant end", "usage", "turn completed"]
    assert outcome.state == "completed"
    assert outcome.message is not None
    assert outcome.message.text == "done"


def test_message_and_usage_are_one_batch(bench):
    bench.prompt("say: hello")
    entries = {one.type: one for one in bench.entries()}
    assert (entries["message"].batch, entries["usage"].batch) == ((0, 2), (1, 2))


def test_what_a_tool_shows_is_in_the_live_file_while_it_runs(bench, eventually):
    async def work(call):
        call.show("said by the tool")
        live = call.spool.parent.parent / "live.jsonl"
        await asyncio.to_thread(eventually, lambda: "said by the tool" in live.read_text())
        return done("all of it")

    provider = FakeProvider(calling(("a", "fake", {})), saying("done"))
    bench.prompt("go", provider, tools={"fake": FakeTool(work)})
    assert text_of(results(bench.entries())["a"]) == "all of it"


def test_nothing_is_written_without_a_prompt(bench):
    with pytest.raises(holdfast.UsageError, match="The prompt is empty"):
        bench.prompt(" \n")
    assert not bench.store.list()


def test_the_system_prompt_is_an_entry_whenever_it_changes(bench):
    for system in ("one", "one", "two", None, "two"):
        bench.prompt("say: hi", system=system)
    recorded = [
        one.body.text for one in bench.entries() if getattr(one.body, "role", 0) == "system"
    ]
    assert recorded == ["one", "two"]


# Calls


def test_commands_run_at_once_files_one_after_the_other_and_kinds_wait_for_each_other(bench):
    running: set[str] = set()
    together: list[tuple[str, ...]] = []

    def tool(name, effect):
        async def work(call):
            running.add(call.id)
            await asyncio.sleep(0.02)
            together.append(tuple(sorted(running)))
            await asyncio.sleep(0.02)
            running.discard(call.id)
            return done(name)

        return FakeTool(work, effect, name)

    tools = {name: tool(name, name) for name in ("reads", "writes", "unknown")}
    wanted = ["unknown", "unknown", "reads", "reads", "writes", "writes", "unknown"]
    calls = calling(*((f"{n}", name, {}) for n, name in enumerate(wanted)))
    bench.prompt("go", FakeProvider(calls, saying("done")), tools=tools)
    assert together == [("0", "1"), ("0", "1"), ("2", "3"), ("2", "3"), ("4",), ("5",), ("6",)]
    started = [shape for shape in shapes(bench.entries()) if shape.endswith("started")][1:]
    assert started == ["0 started", "1 started", "4 started", "5 started", "6 started"]


def test_parallel_commands_and_files_of_the_real_tools(bench):
    outcome = bench.prompt(
        "parallel:\nrun: echo hi\nrun: echo ho >> log\nwrite: a.txt\nhello\n\nread: a.txt"
    )
    assert outcome.state == "completed"
    assert bench.file("a.txt").read_text() == "hello\n"
    assert bench.file("log").read_text() == "ho\n"
    assert {one: result.outcome for one, result in results(bench.entries()).items()} == {
        "call-1-1": "completed",
        "call-1-2": "completed",
        "call-1-3": "completed",
        "call-2-1": "completed",
    }
    (change,) = results(bench.entries())["call-1-3"].changes
    with bench.session() as session:
        assert session.blob(change.after) == b"hello\n"
        assert not list((session.path / "spool").iterdir())


def test_calls_that_cannot_run_are_answered_and_the_turn_goes_on(bench):
    async def broken(call):
        call.show("some output, ")
        raise RuntimeError("the tool has a bug")

    tools = {"fake": FakeTool(broken), **bench_tools()}
    provider = FakeProvider(
        calling(
            ("a", "nonsense", {}),
            ("b", "read", "not an object"),
            ("c", "read", {"file": "x"}),
            ("d", "read", {"path": "missing"}),
            ("e", "fake", {}),
        ),
        saying("I see"),
    )
    outcome = bench.prompt("go", provider, tools=tools)
    assert outcome.state == "completed"
    found = results(bench.entries())
    said = {one: (result.outcome, text_of(result)) for one, result in found.items()}
    assert said["a"] == (
        "failed",
        "There is no tool 'nonsense'. Available tools: fake, read, write, edit, bash, grep, glob.",
    )
    assert said["b"] == ("failed", "The arguments are not a JSON object; nothing was run.")
    assert said["c"][0] == said["d"][0] == "failed"
    assert said["e"][0] == "unknown"
    assert said["e"][1] == (
        "some output, [the tool itself failed: the tool has a bug; "
        "it may have done all, some or none of its work]"
    )
    sent = provider.requests[1].messages[-1]
    assert [part.call_id for part in sent.content if isinstance(part, ToolResult)] == list("abcde")


def bench_tools():
    return standard_tools()


def test_what_is_denied_is_told_to_the_model_and_listed(bench):
    policy = Policy("deny", allow=["bash(echo fine)"])
    outcome = bench.prompt("run: rm -r .\nrun: echo fine\nrun: touch x", policy=policy)
    assert [(one.tool, one.subject) for one in outcome.denied] == [
        ("bash", "rm -r ."),
        ("bash", "touch x"),
    ]
    found = results(bench.entries())
    assert [found[one].outcome for one in sorted(found)] == ["denied", "completed", "denied"]
    assert "denied by the rules (deny)" in text_of(found["call-1-1"])
    assert "call-1-1 started" not in shapes(bench.entries())


# Answers that break off


def test_a_stream_that_breaks_off_is_kept_and_gone_on_with(bench):
    script = parse_prompt("say: one two three four")
    outcome = bench.prompt("go", Chaos(Rehearsal(script), "disconnect@2, timeout@1, ok"))
    assert outcome.state == "completed"
    assert shapes(bench.entries()) == [
        "turn started",
        "user",
        "assistant interrupted",
        "usage",
        "assistant interrupted",
        "usage",
        "assistant end",
        "usage",
        "turn completed",
    ]
    with bench.session() as session:
        assert [message.text for message in session.messages] == [
            "go",
            "one two ",
            "one ",
            "one two three four",
        ]
        assert session.totals.unpriced == 2
    assert sum("requesting the rest" in text for text in bench.told) == 2


def test_the_next_request_has_what_had_arrived(tmp_path):
    bench = Bench(tmp_path, FakeSlowFiles())
    error = ConnectFailed("The line is dead.", retryable=True)
    broken: list[Delta | Exception] = [ThinkingDelta("hm"), TextDelta("first half, "), error]
    provider = FakeProvider(broken, saying("second half"))
    assert bench.prompt("go", provider).state == "completed"
    kept, urged = provider.requests[1].messages[-2:]
    assert (kept.role, kept.text) == ("assistant", "first half, ")
    assert "cut off" in urged.text


def test_after_too_many_broken_answers_the_turn_fails(bench):
    outcome = bench.prompt("say: one two three", Chaos(Rehearsal(), "disconnect@1x9"))
    assert outcome.state == "failed"
    assert isinstance(outcome.error, ConnectFailed)
    assert shapes(bench.entries()).count("assistant interrupted") == 4
    assert shapes(bench.entries())[-1] == "turn failed"


@pytest.mark.parametrize("plan", ["400@0", "401@0", "400@2", "disconnect@0"])
def test_a_failure_ends_the_turn_with_nothing_lost(bench, plan):
    outcome = bench.prompt(
        "run: echo done >> log\nsay: many more words", Chaos(Rehearsal(), f"ok, {plan}")
    )
    assert (outcome.state, outcome.cause) == ("failed", str(outcome.error))
    assert shapes(bench.entries())[-1] == "turn failed"
    assert results(bench.entries())["call-1-1"].outcome == "completed"
    again = bench.prompt("say: back again")
    assert again.state == "completed"
    with bench.session() as session:
        assert session.messages[0].text == "run: echo done >> log\nsay: many more words"


# What it costs


def test_the_cost_is_that_of_the_time_of_the_request(bench):
    table = {"rehearsal": {"input": 1_000_000, "output": 0}}
    bench.prompt("say: one two", prices=PriceTable(table))
    table["rehearsal"]["input"] = 5_000_000
    bench.prompt("say: three", prices=PriceTable(table))
    costs = [one.body.cost_usd for one in bench.entries() if one.type == "usage"]
    assert costs == [3.0, 35.0]  # "say: one two" has three words; later the whole talk is sent
    with bench.session() as session:
        assert session.totals.cost_usd == 38.0
        assert entries_of(session)[-1].type == "turn"


def test_an_unknown_price_is_no_price(bench):
    bench.prompt("say: hi", FakeProvider(saying("hi")), model="nobody-knows")
    (usage,) = [one.body for one in bench.entries() if one.type == "usage"]
    assert (usage.input, usage.output, usage.cost_usd) == (10, 5, None)


def cut_off(text: str) -> list[Delta | Exception]:
    """Return an answer that ended because it was too long."""
    message = holdfast.assistant(text, stop="length")
    return [TextDelta(text), Finished(message, TokenCounts(10, 5))]


def test_an_answer_that_is_too_long_is_asked_for_to_its_end(bench):
    provider = FakeProvider(cut_off("one, "), cut_off("two, "), saying("three"))
    outcome = bench.prompt("go", provider)
    assert (outcome.state, outcome.text) == ("completed", "one, two, three")
    assert "cut off" in provider.requests[1].messages[-1].text


def test_an_answer_without_end_is_not_asked_for_for_ever(bench):
    provider = FakeProvider(*(cut_off(f"{number} ") for number in range(9)))
    outcome = bench.prompt("go", provider)
    assert (outcome.state, outcome.text) == ("completed", "0 1 2 3 ")


def test_the_text_of_an_answer_has_the_pieces_that_broke_off(bench):
    error = ConnectFailed("The line is dead.", retryable=True)
    broken: list[Delta | Exception] = [ThinkingDelta("hm"), TextDelta("first half, "), error]
    assert bench.prompt("go", FakeProvider(broken, saying("second"))).text == "first half, second"


def test_the_text_is_that_of_the_last_answer_alone(bench):
    outcome = bench.prompt("say: first\nrun: true\nsay: last")
    assert outcome.text == "last"


def test_an_answer_that_no_journal_can_hold_fails_the_turn_and_is_kept_as_it_arrived(bench):
    endless = float("inf")
    message = holdfast.assistant([ToolCall(id="a", name="read", arguments={"path": endless})])
    answer: list[Delta | Exception] = [TextDelta("Look: "), Finished(message, TokenCounts(1, 1))]
    outcome = bench.prompt("go", FakeProvider(answer))
    assert outcome.state == "failed"
    assert "cannot be saved as a message" in str(outcome.error)
    assert shapes(bench.entries())[-3:] == ["assistant interrupted", "usage", "turn failed"]


def test_a_fault_of_our_own_ends_the_turn_before_it_is_raised(bench, monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("holdfast.runtime.agent.turn.context.build", broken)
    with pytest.raises(ZeroDivisionError):
        bench.prompt("say: hi")
    assert shapes(bench.entries()) == ["turn started", "user", "turn failed"]
