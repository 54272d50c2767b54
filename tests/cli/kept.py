"""Sessions that a user has, made without an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import holdfast
from holdfast import Text, Thinking, ToolCall, assistant, tool_result, user
from tests.cli.program import Program

BUILD = "20260102-030405-aaaabbbb"
DOCS = "20260103-030405-ccccdddd"
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e evil \x9b31m\x00 <script>alert(1)</script> $(reboot)"
KEY = "sk-ant-api03-" + "aB3dE5gH7jK9" * 3


def put(program: Program, session_id: str, text: str = "hello", **meta: Any) -> Path:
    """Make a session with one prompt; return its folder."""
    store = holdfast.open_store(program.home)
    with store.create(session_id=session_id, **meta) as session:
        session.append(user(text))
    return session.path


def put_build(program: Program) -> Path:
    """Make a session of the program's folder with a tool call, hostile output and a compaction."""
    store = holdfast.open_store(program.home)
    with store.create(session_id=BUILD, workspace=program.folder, model="m-1") as session:
        session.append(user("fix the build"))
        call = ToolCall(id="c1", name="bash", arguments={"command": "make\ntrue"})
        session.append(assistant([Thinking(text="deep thought"), Text(text="I look at it."), call]))
        session.append(tool_result("c1", f"output {HOSTILE} {KEY}"))
        session.append(assistant("It is fixed."))
        session.usage(input=100, output=5, cost_usd=0.0125, model="m-1")
        session.checkpoint("so far: fixed", keep_last=1)
        session.append(user("thank you"))
    return session.path
