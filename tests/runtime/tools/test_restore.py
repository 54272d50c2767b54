"""Taking changes back, and never what somebody else did."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.files import Files
from holdfast.model.message import FileChange
from holdfast.runtime.tools.undo import UndoStep, carry_out, overwriting, plan
from holdfast.runtime.tools.workspace import Workspace, digest
from tests.runtime.tools.desk import Desk


def changed(desk: Desk, tool: str, **arguments: object) -> FileChange:
    (change,) = desk.run(tool, **arguments).changes
    return change


def actions(steps: list[UndoStep]) -> dict[str, str]:
    return {step.path: step.action for step in steps}


def test_files_become_what_they_were(desk):
    desk.file("old", "one").chmod(0o755)
    changes = [
        changed(desk, "edit", path="old", old="one", new="two"),
        changed(desk, "write", path="new", content="x"),
        changed(desk, "edit", path="old", old="two", new="three"),
    ]
    steps = plan(reversed(changes), desk.workspace)
    assert actions(steps) == {"old": "restore", "new": "remove"}
    assert (desk.root / "old").read_text() == "three"
    done = carry_out(steps, desk.workspace, desk.blobs.get)
    assert done == steps
    assert {path.name: path.read_text() for path in desk.root.iterdir()} == {"old": "one"}
    assert stat.S_IMODE((desk.root / "old").stat().st_mode) == 0o755
    assert actions(plan(reversed(changes), desk.workspace)) == {"old": "nothing", "new": "nothing"}
    assert carry_out(plan(changes, desk.workspace), desk.workspace, desk.blobs.get)


def test_what_somebody_else_edited_is_left_unless_the_user_says_so(desk):
    desk.file("a", "one")
    changes = [
        changed(desk, "edit", path="a", old="one", new="two"),
        changed(desk, "write", path="b", content="x"),
        changed(desk, "write", path="c", content="x"),
    ]
    desk.file("a", "theirs")
    desk.file("b", "theirs")
    (desk.root / "c").unlink()
    steps = plan(changes, desk.workspace)
    assert actions(steps) == {"a": "skip", "b": "skip", "c": "nothing"}
    assert steps[0].reason == "a was changed by another program since."
    carry_out(steps, desk.workspace, desk.blobs.get)
    assert (desk.root / "a").read_text() == "theirs"
    assert (desk.root / "b").read_text() == "theirs"
    forced = [overwriting(step) for step in steps]
    assert actions(forced) == {"a": "restore", "b": "remove", "c": "nothing"}
    assert carry_out(forced, desk.workspace, desk.blobs.get) == forced
    assert {path.name: path.read_text() for path in desk.root.iterdir()} == {"a": "one"}


def test_a_file_that_was_removed_is_not_put_back_unasked(desk):
    desk.file("a", "one")
    change = changed(desk, "edit", path="a", old="one", new="two")
    (desk.root / "a").unlink()
    (step,) = plan([change], desk.workspace)
    assert (step.action, step.reason) == ("skip", "a was removed since.")
    carry_out([overwriting(step)], desk.workspace, desk.blobs.get)
    assert (desk.root / "a").read_text() == "one"


def test_what_changes_between_plan_and_deed_is_left(desk):
    desk.file("a", "one")
    change = changed(desk, "edit", path="a", old="one", new="two")
    steps = plan([change], desk.workspace)
    desk.file("a", "theirs")
    (step,) = carry_out(steps, desk.workspace, desk.blobs.get)
    assert (step.action, step.reason) == ("skip", "a was changed by another program just now.")
    assert (desk.root / "a").read_text() == "theirs"
    (step,) = carry_out([overwriting(step)], desk.workspace, desk.blobs.get)
    assert step.action == "skip"


def test_one_that_cannot_be_put_back_does_not_hold_up_the_others(desk, monkeypatch):
    desk.file("a", "one")
    desk.file("b", "one")
    changes = [
        changed(desk, "edit", path="a", old="one", new="two"),
        changed(desk, "edit", path="b", old="one", new="three"),
        FileChange("../outside", None, "x"),
    ]
    steps = plan(changes, desk.workspace)
    assert actions(steps) == {"a": "restore", "b": "restore", "../outside": "skip"}
    (first, second, _) = carry_out(steps, desk.workspace, lambda name: None)
    assert first.reason == "What a was before is no longer stored."
    assert second.action == "skip"

    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "a")

    monkeypatch.setattr(Workspace, "replace_file", fail)
    (first, *_) = carry_out(steps, desk.workspace, desk.blobs.get)
    assert (first.action, first.reason) == ("skip", "Permission denied: a")
    monkeypatch.setattr(Workspace, "find", fail)
    assert plan(changes, desk.workspace)[0].reason == "Permission denied: a"


def test_a_file_to_remove_that_is_gone_is_fine(desk):
    step = UndoStep("a", "remove", None, None)
    assert carry_out([step], desk.workspace, desk.blobs.get) == [step]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ours", "theirs", "removed"]),
            st.sampled_from("abc"),
            st.text("xyz", max_size=2),
        ),
        max_size=10,
    )
)
def test_a_rewind_brings_back_the_beginning_or_keeps_what_others_did(history):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Files, "sync", lambda *_: None)  # not what this is about
        patch.setattr(os, "fsync", lambda *_: None)
        desk = Desk(Path(folder))
        desk.file("a", "begin")
        start: dict[str, str | None] = {"a": "begin", "b": None, "c": None}
        changes: list[FileChange] = []
        last: dict[str, str] = {}
        for who, name, content in history:
            if who == "ours":
                if (desk.root / name).exists():
                    desk.run("read", path=name)
                changes.append(changed(desk, "write", path=name, content=content))
                last[name] = content
            elif who == "theirs":
                desk.file(name, content)
            else:
                (desk.root / name).unlink(missing_ok=True)
        before = {name: _content(desk, name) for name in "abc"}
        steps = plan(reversed(changes), desk.workspace)
        carry_out(steps, desk.workspace, desk.blobs.get)
        for name in "abc":
            ours = before[name] is not None and before[name] == last.get(name)
            oldest = next((each.before for each in changes if each.path == name), None)
            expected = before[name]
            if ours:
                expected = None if oldest is None else desk.blobs[oldest].decode()
            assert _content(desk, name) == expected
            outside = any(who != "ours" and each == name for who, each, _ in history)
            if ours and not outside:
                assert expected == start[name]


def _content(desk: Desk, name: str) -> str | None:
    path = desk.root / name
    return path.read_text() if path.exists() else None


def test_the_digest_is_the_name_of_the_blob(desk):
    assert desk.keep(b"x") == digest(b"x")
