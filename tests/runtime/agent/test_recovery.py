"""What an interrupted turn left: every state of a call, said truly and brought to an end."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.model.entry import Turn
from holdfast.model.message import FileChange, ToolResult
from holdfast.runtime.agent.recovery import settlement
from holdfast.runtime.policy.policy import approval
from holdfast.runtime.tools.file_change import CHANGE_NAME
from holdfast.runtime.tools.registry import standard_tools
from holdfast.runtime.tools.shell import wrapper
from holdfast.runtime.tools.shell.spool import folder_of, prepare
from tests.runtime.bench import FakeProvider, FakeTool, results, saying, text_of
from tests.runtime.interrupted_session import BASH, Wreck, call, leave_command, result, started

# What the journal alone says


@pytest.mark.parametrize(
    "outcome", ["completed", "failed", "cancelled", "denied", "never_ran", "unknown"]
)
def test_a_call_with_a_result_is_what_the_result_says(wreck, outcome):
    wreck.leave(started(), result(outcome), calls=[call()])
    found = wreck.one()
    assert (found.state, found.recorded) == (outcome, True)
    assert settlement(wreck.look()) == [Turn("failed", "interrupted")]


@pytest.mark.parametrize("name", ["bash", "write", "edit", "read", "grep", "glob", "nonsense"])
def test_a_call_that_was_not_announced_never_ran(wreck, name):
    wreck.leave(calls=[call(name, {})])
    found = wreck.one()
    assert (found.state, found.recorded) == ("never_ran", False)
    assert text_of(settled(wreck)["a"]).startswith("[not run: the session was interrupted")


def settled(wreck: Wreck) -> dict[str, ToolResult]:
    assert wreck.bench.run(lambda agent: agent.settle()) is not None
    assert wreck.bench.run(lambda agent: agent.settle()) is None
    return results(wreck.bench.entries())


@pytest.mark.parametrize("name", ["gone", "fake"])
def test_an_announced_call_of_a_tool_that_nobody_knows_may_have_run(wreck, name):
    async def never(_):
        raise AssertionError("nobody knows whether it ran")

    wreck.leave(started(name), calls=[call(name, {"what": "it"})])
    tools = {**standard_tools(), "fake": FakeTool(never)}
    assert wreck.one(tools=tools).state == "unknown"
    outcome = wreck.bench.run(
        lambda agent: agent.continue_turn(), FakeProvider(saying("I look")), tools=tools
    )
    assert outcome is not None
    assert outcome.state == "completed"
    assert results(wreck.bench.entries())["a"].outcome == "unknown"


def test_a_denial_is_a_denial_only_for_what_was_denied(wreck):
    denied = approval("a", BASH, "deny")
    other = approval("b", {"command": "something else"}, "deny")
    wreck.leave(denied, other, calls=[call(), call(one="b")])
    assert [found.state for found in wreck.look().calls] == ["denied", "never_ran"]
    assert [one.outcome for one in settled(wreck).values()] == ["denied", "never_ran"]


def test_reads_are_run_again_and_what_never_ran_is_run(wreck):
    wreck.bench.file("notes").write_text("hello")
    wreck.leave(calls=[call("read", {"path": "notes"}), call(one="b")])
    outcome = wreck.bench.run(lambda agent: agent.continue_turn(), FakeProvider(saying("done")))
    assert outcome is not None
    assert outcome.state == "completed"
    found = results(wreck.bench.entries())
    assert "hello" in text_of(found["a"])
    assert wreck.bench.file("log").read_text() == "ran\n"


def test_calls_with_the_same_id_are_told_apart_by_their_order(wreck):
    wreck.leave(result("completed"), calls=[call(), call()])
    assert [found.state for found in wreck.look().calls] == ["completed", "never_ran"]


# What a command left


@pytest.mark.parametrize(
    ("status", "state", "text"),
    [
        (b'{"exit":0,"ended_by":null,"size_bytes":12}', "completed", "some output\n"),
        (b'{"exit":3,"ended_by":null,"size_bytes":12}', "failed", "some output\n[exit status 3]"),
        (
            b'{"exit":-15,"ended_by":"cancelled","size_bytes":12}',
            "cancelled",
            "some output\n[cancelled]",
        ),
        (None, "unknown", "some output\n[the command is gone and left no status"),
        (b"{torn", "unknown", "some output\n[the command is gone and left no status"),
    ],
)
@pytest.mark.parametrize("ending", ["settle", "continue"])
def test_what_a_command_left_is_taken(wreck, status, state, text, ending):
    leave_command(wreck, status=status)
    assert wreck.one().state == state
    if ending == "settle":
        found = settled(wreck)["a"]
    else:
        outcome = wreck.bench.run(lambda agent: agent.continue_turn(), FakeProvider(saying("ok")))
        assert outcome is not None
        found = results(wreck.bench.entries())["a"]
    assert found.outcome == state
    assert text_of(found).startswith(text)
    assert not wreck.bench.file("log").exists()
    with wreck.bench.session() as session:
        assert not list((session.path / "spool").iterdir())


def test_long_output_becomes_a_blob_that_the_result_keeps(wreck):
    size = 300_000
    status = f'{{"exit":0,"ended_by":null,"size_bytes":{size}}}'.encode()
    leave_command(wreck, status=status, output=b"x" * size)
    found = settled(wreck)["a"]
    with wreck.bench.session() as session:
        assert [session.blob(name) for name in found.kept] == [b"x" * size]


def test_an_announced_command_that_did_not_start_never_will(wreck):
    wreck.leave(started(), calls=[call()])
    assert wreck.one().state == "never_ran"
    with wreck.bench.session() as session:
        folder = folder_of(wreck.spool(session), "a")
    with pytest.raises(FileExistsError):
        wrapper.claim(str(folder), b"a wrapper that comes late")
    outcome = wreck.bench.run(lambda agent: agent.continue_turn(), FakeProvider(saying("done")))
    assert outcome is not None
    assert wreck.bench.file("log").read_text() == "ran\n"


@pytest.mark.parametrize("spool_is_left", [True, False])
def test_what_was_streamed_counts_until_more_is_known(wreck, spool_is_left):
    """The store says unknown of a stream that nobody finished, and the loop itself may say so."""
    leave_command(wreck, status=b'{"exit":0,"ended_by":null,"size_bytes":12}')
    with wreck.bench.session() as session:
        session.append(result("unknown", "some", stream="abcdefgh"))
        if not spool_is_left:  # then the loop had answered, and forgotten the rest
            prepare(wreck.spool(session), "a").rmdir()
    found = wreck.one()
    assert (found.state, found.recorded) == (
        ("completed", False) if spool_is_left else ("unknown", True)
    )
    outcome = wreck.bench.run(lambda agent: agent.continue_turn(), FakeProvider(saying("done")))
    assert outcome is not None
    assert not wreck.bench.file("log").exists(), "it ran, and was run again"


# What a change of a file left


def leave_change(wreck: Wreck, name: str, *, before: bytes | None, now: bytes | None) -> None:
    wreck.leave(
        started(name, "writes"),
        calls=[call(name, {"path": "f", "content": "new", "old": "o", "new": "n"})],
    )
    with wreck.bench.session() as session:
        kept = None if before is None else session.keep(before)
        change = FileChange(path="f", before=kept, after=session.keep(b"new"))
        folder = prepare(wreck.spool(session), "a")
    (folder / CHANGE_NAME).write_bytes(msgspec.json.encode(change))
    if now is not None:
        wreck.bench.file("f").write_bytes(now)


@pytest.mark.parametrize("name", ["write", "edit"])
@pytest.mark.parametrize(
    ("before", "now", "state"),
    [
        (b"old", b"new", "completed"),
        (None, b"new", "completed"),
        (b"old", b"old", "never_ran"),
        (None, None, "never_ran"),
        (b"old", b"somebody else's", "unknown"),
        (b"old", None, "unknown"),
    ],
)
def test_a_file_is_changed_or_is_not(wreck, name, before, now, state):
    leave_change(wreck, name, before=before, now=now)
    assert wreck.one().state == state
    found = settled(wreck)["a"]
    assert found.outcome == state
    if state == "completed":
        (change,) = found.changes
        with wreck.bench.session() as session:
            assert session.blob(change.after) == b"new"
            assert change.after in found.kept
    assert (wreck.bench.file("f").read_bytes() if now is not None else None) == now


def test_a_change_that_was_announced_and_not_prepared_never_ran(wreck):
    wreck.leave(
        started("write", "writes"), calls=[call("write", {"path": "f", "content": "new\n"})]
    )
    assert wreck.one().state == "never_ran"
    outcome = wreck.bench.run(lambda agent: agent.continue_turn(), FakeProvider(saying("done")))
    assert outcome is not None
    assert wreck.bench.file("f").read_text() == "new\n"
