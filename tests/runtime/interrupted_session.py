"""A session that ends in the middle of a turn, put together entry by entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast import Session, user
from holdfast.model.entry import Body, Tool, Turn
from holdfast.model.message import Message, Text, ToolCall, ToolResult
from holdfast.runtime.agent.recovery import Interrupted, OpenCall, examine
from holdfast.runtime.tools.shell import wrapper
from holdfast.runtime.tools.shell.spool import prepare
from tests.runtime.bench import Bench

BASH = {"command": "echo ran >> log"}


class Wreck:
    """A session that ends in the middle of a turn, as far as ``entries`` say."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.seq = 0

    def leave(self, *entries: Body, calls: list[ToolCall]) -> None:
        with self.bench.session() as session:
            session.append([Turn("started"), user("do it")])
            answer = Message(role="assistant", content=list(calls), stop="tool_calls")
            self.seq = session.append(answer).seq
            for entry in entries:
                session.append(entry)

    def spool(self, session: Session) -> Path:
        return self.bench.equipment(session).spool(self.seq)

    def look(self, *, claim: bool = True, **options: Any) -> Interrupted:
        with self.bench.session(mode="write" if claim else "read") as session:
            found = examine(self.bench.equipment(session, **options), claim=claim)
        assert found is not None
        return found

    def one(self, **options: Any) -> OpenCall:
        (found,) = self.look(**options).calls
        return found


def call(name: str = "bash", arguments: Any = BASH, one: str = "a") -> ToolCall:
    return ToolCall(id=one, name=name, arguments=arguments)


def started(name: str = "bash", effect: str = "unknown", one: str = "a") -> Tool:
    return Tool(one, name, "started", effect)


def result(outcome: str, text: str = "said", one: str = "a", stream: str | None = None) -> Message:
    content = ToolResult(call_id=one, content=[Text(text=text)], outcome=outcome)
    return Message(role="tool", content=[content], stream=stream)


def leave_command(wreck: Wreck, *, status: bytes | None, output: bytes = b"some output\n") -> None:
    """Leave what a command leaves that ended, or with no status one that is gone."""
    wreck.leave(started(), calls=[call()])
    with wreck.bench.session() as session:
        folder = prepare(wreck.spool(session), "a")
    nobody = b'[{"pid":1,"start":"long ago"},{"pid":1,"start":"long ago"}]'
    (folder / wrapper.PID).write_bytes(nobody)
    (folder / wrapper.OUTPUT).write_bytes(output)
    if status is not None:
        (folder / wrapper.STATUS).write_bytes(status)
