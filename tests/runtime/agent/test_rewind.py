"""Going back: conversation, files, both; interrupted anywhere; never over other people's edits."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Image, Text, Tool, ToolCall, ToolResult, Turn, assistant, system, user
from holdfast.errors import UsageError
from holdfast.model.message import FileChange, Message
from holdfast.runtime.agent import rewind
from holdfast.runtime.agent.agent import Agent
from holdfast.runtime.agent.rewind_points import before_prompts, points, target
from holdfast.runtime.agent.services import TurnServices
from holdfast.runtime.policy.policy import Policy
from holdfast.runtime.providers.rehearsal import Rehearsal
from holdfast.runtime.tools.base import Call
from holdfast.runtime.tools.file_change import apply
from holdfast.runtime.tools.read_tracking import Seen
from holdfast.runtime.tools.workspace import Workspace
from tests.runtime.rehearsal_session import contents, prompt, write


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def session(store, workspace):
    with store.create(workspace=workspace, provider="rehearsal", model="rehearsal") as session:
        yield session


def go_back(session: holdfast.Session, to: int | None, folder: Path, **how: Any) -> dict[str, str]:
    """Plan and carry out; return what became of each file."""
    overwrite = how.pop("overwrite", False)
    planned = rewind.plan(session, to, folder, overwrite=overwrite)
    return {step.path: step.action for step in rewind.carry_out(session, planned, folder, **how)}


def events(session: holdfast.Session) -> list[tuple[bool, dict[str, str]]]:
    lines = (session.path / "journal.jsonl").read_bytes().splitlines()
    return [
        (entry["complete"], {step["path"]: step["action"] for step in entry["data"]["steps"]})
        for entry in map(json.loads, lines)
        if entry.get("name") == "files.restored"
    ]


# Where to


def test_points_are_the_prompts_with_what_changed_since(session, workspace):
    prompt(session, workspace, write("a", "one"), "write: b\nx\n" + write("a", "two"), "say: fine")
    first, second, third = points(session)
    assert [point.files for point in (first, second, third)] == [2, 2, 0]
    assert [point.line for point in (first, second, third)] == ["read: a", "write: b", "say: fine"]
    assert first.before is None
    assert first.seq < second.seq < third.seq
    assert second.at.endswith("Z")
    assert before_prompts(session, 1) == third.before
    assert before_prompts(session, 3) is None
    assert target(session, second.seq) == second.before
    assert second.before is not None
    assert target(session, second.before) == second.before
    session.rewind(second.before)
    assert points(session) == [first.__class__(first.seq, first.at, first.line, 1, None)]
    assert session.messages[-1].role == "assistant"


@pytest.mark.parametrize("count", [0, 3, -1])
def test_more_prompts_than_there_are(session, workspace, count):
    prompt(session, workspace, "say: one", "say: two")
    with pytest.raises(UsageError, match="this conversation has 2"):
        before_prompts(session, count)


def test_entries_that_are_not_there(session, workspace):
    prompt(session, workspace, "say: one", "say: two")
    left = session.state.head
    assert left is not None
    usage = next(entry.seq for entry in session.follow(wait=False) if entry.type == "usage")
    session.rewind(before_prompts(session, 1))
    for seq in (left, usage, 99):
        with pytest.raises(UsageError, match=f"Entry {seq} is not on the current branch"):
            target(session, seq)
        with pytest.raises(UsageError, match=f"Entry {seq} is not on the current branch"):
            rewind.plan(session, seq, workspace)
    assert target(session, left, anywhere=True) == left
    for seq in (usage, 99):
        with pytest.raises(UsageError):
            target(session, seq, anywhere=True)


def test_what_a_program_recorded_without_turns(session):
    first = session.append(system("Be good."))
    session.append([user("one"), assistant("yes")])
    session.append([user([Image(media_type="image/png", url="https://x/y.png")])])
    session.append(user("\n \n  long " + "and longer " * 40_000))
    one, two, three = points(session)
    assert (one.line, one.before) == ("one", first.seq)
    assert two.line == "[no text]"
    assert three.line.startswith("long and longer")
    assert three.before == two.seq
    session.rewind(None)
    assert points(session) == []


# Conversation, files, both


def test_a_conversation_without_turns(session, workspace):
    first = session.append([user("one"), assistant("yes")])
    session.append([user("two"), assistant("yes")])
    assert go_back(session, first.seq, workspace) == {}
    assert [message.text for message in session.messages] == ["one", "yes"]
    go_back(session, None, workspace)
    assert session.messages == []


def test_both(session, workspace):
    (workspace / "old").write_text("first")
    prompt(session, workspace, write("old", "second"), write("old", "third") + "\nwrite: new\nx")
    before = points(session)[1].before
    assert go_back(session, before, workspace) == {"new": "remove", "old": "restore"}
    assert contents(workspace) == {"old": "second"}
    assert session.state.head == before
    assert len(points(session)) == 1
    assert events(session) == [
        (False, {"new": "remove", "old": "restore"}),
        (True, {"new": "remove", "old": "restore"}),
    ]
    assert go_back(session, None, workspace) == {"old": "restore"}
    assert contents(workspace) == {"old": "first"}
    assert session.messages == []
    # The conversation goes on, and what was taken back can be done anew.
    prompt(session, workspace, write("old", "again"))
    assert contents(workspace) == {"old": "again"}


def test_the_conversation_alone(session, workspace):
    prompt(session, workspace, write("a", "one"))
    planned = rewind.plan(session, None, workspace)
    assert rewind.carry_out(session, planned, workspace, files=False) == []
    assert contents(workspace) == {"a": "one"}
    assert session.messages == []
    assert events(session) == []


def test_files_alone_and_what_was_done_by_a_rewind_is_not_taken_for_somebody_elses(
    session, workspace
):
    prompt(session, workspace, write("a", "one"), write("a", "two"), write("a", "three"))
    first, second, third = points(session)
    assert go_back(session, third.before, workspace, conversation=False) == {"a": "restore"}
    assert contents(workspace) == {"a": "two"}
    assert len(points(session)) == 3
    assert go_back(session, second.before, workspace, conversation=False) == {"a": "restore"}
    assert contents(workspace) == {"a": "one"}
    assert go_back(session, first.before, workspace, conversation=False) == {"a": "remove"}
    assert contents(workspace) == {}
    # Nobody but the rewind removed it, so it may be made again from what is stored.
    assert go_back(session, second.before, workspace, conversation=False) == {"a": "restore"}
    assert contents(workspace) == {"a": "one"}
    assert go_back(session, second.before, workspace, conversation=False) == {"a": "nothing"}


def test_what_another_branch_left_is_known_too(session, workspace):
    prompt(session, workspace, write("a", "one"), write("a", "two"))
    left = session.state.head
    to = points(session)[1].before
    session.rewind(to)
    prompt(session, workspace, write("a", "other"))
    session.rewind(left)
    assert go_back(session, to, workspace) == {"a": "restore"}
    assert contents(workspace) == {"a": "one"}


def test_nothing_to_do_with_files_leaves_no_event(session, workspace):
    prompt(session, workspace, "say: hello", "run: touch made")
    planned = rewind.plan(session, None, workspace)
    assert (planned.steps, planned.commands, planned.does_something) == ([], 1, False)
    assert rewind.carry_out(session, planned, workspace) == []
    assert events(session) == []
    assert session.messages == []


def test_nothing_at_all_writes_nothing(session, workspace):
    prompt(session, workspace, "say: hello")
    size = (session.path / "journal.jsonl").stat().st_size
    planned = rewind.plan(session, None, workspace)
    rewind.carry_out(session, planned, workspace, conversation=False)
    assert (session.path / "journal.jsonl").stat().st_size == size


def test_a_plan_can_be_made_beside_a_writer(store, session, workspace):
    prompt(session, workspace, write("a", "one"))
    with store.open(session.id, mode="read") as beside:
        (step,) = rewind.plan(beside, None, workspace).steps
        assert (step.path, step.action) == ("a", "remove")
        assert len(points(beside)) == 1


def test_the_folder_has_to_be_known_only_if_files_were_changed(session, workspace):
    prompt(session, workspace, "say: hello", write("a", "one"))
    head = session.state.head
    with pytest.raises(UsageError, match="is not recorded"):
        rewind.plan(session, None, None)
    planned = rewind.plan(session, head, None)
    assert planned.steps == []
    assert rewind.carry_out(session, planned, None) == []


# Other people's edits


def test_an_edit_by_somebody_else_is_left_and_overwritten_only_if_asked(session, workspace):
    (workspace / "a").write_text("first")
    prompt(session, workspace, write("a", "second") + "\nwrite: b\nx\nwrite: c\nx")
    (workspace / "a").write_text("theirs")
    (workspace / "b").unlink()
    assert go_back(session, None, workspace, conversation=False) == {
        "c": "remove",
        "b": "nothing",
        "a": "skip",
    }
    assert contents(workspace) == {"a": "theirs"}
    done = go_back(session, None, workspace, overwrite=True)
    assert done == {"c": "nothing", "b": "nothing", "a": "restore"}
    assert contents(workspace) == {"a": "first"}
    kept = session.blob(hashlib.sha256(b"theirs").hexdigest())
    assert kept == b"theirs"


def test_a_state_between_two_changes_is_not_the_last_one(session, workspace):
    prompt(session, workspace, write("a", "one"), write("a", "two"))
    (workspace / "a").write_text("one\n")
    assert go_back(session, None, workspace) == {"a": "skip"}
    assert contents(workspace) == {"a": "one"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_that_cannot_be_reached_is_skipped(session, workspace, overwrite):
    prompt(session, workspace, "write: folder/a\nx\nwrite: b\nx")
    for made in (workspace / "folder", workspace / "elsewhere"):
        made.mkdir(exist_ok=True)
    (workspace / "folder" / "a").unlink()
    (workspace / "folder").rmdir()
    (workspace / "folder").symlink_to("/etc")
    planned = rewind.plan(session, None, workspace, overwrite=overwrite)
    assert {step.path: step.action for step in planned.steps} == {"folder/a": "skip", "b": "remove"}
    rewind.carry_out(session, planned, workspace)
    assert not (workspace / "b").exists()


def test_an_edit_in_the_last_moment_is_neither_kept_nor_overwritten(session, workspace):
    prompt(session, workspace, write("a", "one"), write("a", "two") + "\nwrite: b\nx")
    (workspace / "a").write_text("theirs")
    (workspace / "b").write_text("theirs")
    planned = rewind.plan(session, points(session)[1].before, workspace, overwrite=True)
    (workspace / "a").write_text("theirs, later")
    (workspace / "b").unlink()
    (workspace / "b").mkdir()
    done = rewind.carry_out(session, planned, workspace)
    assert {step.path: step.action for step in done} == {"a": "skip", "b": "skip"}
    assert (workspace / "a").read_text() == "theirs, later"
    for edit in (b"theirs", b"theirs, later"):
        assert session.blob(hashlib.sha256(edit).hexdigest()) is None


def test_files_beside_the_workspace_only_where_allowed(session, workspace, tmp_path):
    beside = tmp_path / "beside"
    beside.mkdir()
    change = _change(session, Workspace(workspace, [beside]), str(beside / "a"), b"x")
    _record(session, change)
    assert [step.action for step in rewind.plan(session, None, workspace).steps] == ["skip"]
    planned = rewind.plan(session, None, workspace, allowed=[beside])
    rewind.carry_out(session, planned, workspace, allowed=[beside])
    assert contents(beside) == {}


# After a crash


def _change(session: holdfast.Session, files: Workspace, name: str, data: bytes) -> FileChange:
    """Change a file as a tool does; the result is not recorded."""
    if session.state.seq < 0:
        session.append([Turn("started"), user("do it")])
    place = files.locate(name)
    call = Call("c", {}, Path(files.root), session.path / "spool" / "0", print, session.keep)
    return apply(call, files, Seen(), place, files.find(place), data)


def _record(session: holdfast.Session, *changes: FileChange, outcome: str = "completed") -> None:
    result = ToolResult(call_id="c", content=[], outcome=outcome, changes=list(changes))
    session.append(Message(role="tool", content=[result]))


def test_a_change_of_which_nobody_knows_whether_it_was_made_counts(session, workspace):
    files = Workspace(workspace)
    _record(session, _change(session, files, "a", b"one"), outcome="unknown")
    (workspace / "b").write_text("as it was")
    never = FileChange(path="b", before=session.keep(b"as it was"), after=session.keep(b"no"))
    _record(session, never, outcome="unknown")
    assert go_back(session, None, workspace) == {"b": "nothing", "a": "remove"}
    assert contents(workspace) == {"b": "as it was"}


def test_several_changes_of_one_call_are_taken_back_in_order(session, workspace):
    files = Workspace(workspace)
    changes = [_change(session, files, "a", data) for data in (b"one", b"two", b"three")]
    _record(session, *changes)
    assert go_back(session, None, workspace) == {"a": "remove"}
    assert contents(workspace) == {}


def _interrupted(session: holdfast.Session, workspace: Path) -> None:
    """Leave a turn as a process leaves it that died between changing a file and saying so."""
    (workspace / "a").write_text("before")
    session.append([Turn("started"), user("write a")])
    call = ToolCall(id="c", name="write", arguments={"path": "a", "content": "after"})
    seq = session.append(assistant(call)).seq
    session.append(Tool("c", "write", "started", "writes"))
    files = Workspace(workspace)
    place = files.locate("a")
    spool = session.path / "spool" / session.signed_name(str(seq))
    order = Call("c", {}, workspace, spool, print, session.keep)
    apply(order, files, Seen(), place, files.find(place), b"after")


def test_a_change_that_no_result_tells_of_is_found_in_the_spool(session, workspace, store):
    _interrupted(session, workspace)
    assert go_back(session, None, workspace) == {"a": "restore"}
    assert contents(workspace) == {"a": "before"}
    assert not session.state.turn_is_open
    session.close()
    assert [summary.state for summary in store.list()] == ["clean"]


def test_files_alone_leave_the_turn_to_be_closed(session, workspace):
    _interrupted(session, workspace)
    go_back(session, None, workspace, conversation=False)
    assert session.state.turn_is_open
    prompt(session, workspace, "say: go on")
    (told,) = [m for m in session.messages if m.role == "tool"]
    (result,) = told.content
    assert isinstance(result, ToolResult)
    assert result.outcome == "never_ran"


def test_a_turn_that_is_only_shortened_stays_open(session, workspace):
    _interrupted(session, workspace)
    (point,) = points(session)
    go_back(session, point.seq, workspace)
    assert session.state.turn_is_open


def test_a_command_that_still_runs_is_named(session, workspace):
    text = "run: echo here; while [ ! -e stop ]; do sleep 0.01; done; touch stopped"
    planned: list[rewind.RewindPlan] = []

    async def look_while_it_runs() -> None:
        equipment = TurnServices(
            session, Rehearsal(), "rehearsal", workspace, policy=Policy("allow-all")
        )
        running = asyncio.ensure_future(Agent(equipment).prompt([Text(text=text)]))
        with session.follow(live=True) as follower:
            async for each in follower:
                if not isinstance(each, holdfast.Entry) and each.kind == "tool_output":
                    break
        planned.append(await asyncio.to_thread(rewind.plan, session, None, workspace))
        (workspace / "stop").touch()
        await running

    asyncio.run(look_while_it_runs())
    assert (workspace / "stopped").exists()
    (named,) = planned[0].running
    assert named.startswith("bash “echo here;")
    assert "is still running (process" in named


_DYING = """
import os, sys
from pathlib import Path
import holdfast
from holdfast.runtime.agent import rewind
from holdfast.runtime.tools.workspace import Workspace
from tests.runtime.rehearsal_session import contents, prompt, write
from holdfast.store.session import Session

session_id, folder, deadly, to = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
calls = 0

def deadly_at(function):
    def call(*args, **more):
        global calls
        calls += 1
        if calls == deadly:
            os._exit(9)
        return function(*args, **more)
    return call

with holdfast.open_store().open(session_id) as session:
    Session.append = deadly_at(Session.append)
    Workspace.replace_file = deadly_at(Workspace.replace_file)
    Workspace.remove_file = deadly_at(Workspace.remove_file)
    planned = rewind.plan(session, to, folder)
    rewind.carry_out(session, planned, folder)
"""


@pytest.mark.parametrize("deadly", [1, 2, 3, 4, 5, 6])  # event, three files, event and head; none
def test_a_death_before_any_step_leaves_what_the_same_call_finishes(
    session, store, workspace, home, deadly
):
    (workspace / "a").write_text("first")
    prompt(session, workspace, "say: begin", write("a", "2") + "\nwrite: b\nx\nwrite: c\nx")
    to = before_prompts(session, 1)
    session.close()

    def same_call(deadly: int) -> int:
        done = subprocess.run(
            [sys.executable, "-c", _DYING, session.id, workspace, str(deadly), str(to)],
            env={**os.environ, "HOLDFAST_HOME": str(home)},
            check=False,
        )
        return done.returncode

    assert same_call(deadly) == (9 if deadly < 6 else 0)
    if deadly < 6:
        with store.open(session.id, mode="read") as there:
            assert there.state.head != to
            assert all(not complete for complete, _ in events(there))
        assert same_call(0) == 0
    assert contents(workspace) == {"a": "first"}
    with store.open(session.id) as after:
        assert after.state.head == to
        assert events(after)[-1] == (True, {"a": "restore", "b": "remove", "c": "remove"})


def test_what_was_begun_by_a_process_that_died_is_recorded_as_done(session, workspace):
    prompt(session, workspace, write("a", "one") + "\nwrite: b\nx")
    planned = rewind.plan(session, None, workspace)
    # As far as a process comes that dies after the files.
    session.append(rewind._event(planned.to, planned.steps, complete=False))
    (workspace / "a").unlink()
    (workspace / "b").unlink()
    assert go_back(session, None, workspace) == {"a": "nothing", "b": "nothing"}
    assert events(session)[-1] == (True, {"a": "remove", "b": "remove"})
    assert session.messages == []


def test_events_of_another_version_are_passed_over(session, workspace):
    prompt(session, workspace, write("a", "one"))
    session.event("files.restored", {"to": "somewhere"}, complete=True)
    session.event("somebody.elses")
    assert go_back(session, None, workspace) == {"a": "remove"}


def test_a_full_disk_keeps_the_conversation_where_it_is(fragile, files, workspace):
    with fragile.create(workspace=workspace) as session:
        prompt(session, workspace, write("a", "one"))
        head = session.state.head
        planned = rewind.plan(session, None, workspace)
        files.fill()
        with pytest.raises(holdfast.DiskFull):
            rewind.carry_out(session, planned, workspace)
        assert contents(workspace) == {"a": "one"}
        assert session.state.head == head
        files.free()
        assert go_back(session, None, workspace) == {"a": "remove"}
