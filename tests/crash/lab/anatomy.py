"""A journal of 64 KB with every kind of line in it, the same to the byte whenever it is made."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import holdfast
from holdfast import (
    Approval,
    Label,
    Message,
    Queued,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Turn,
    assistant,
    system,
    tool_result,
    user,
)
from holdfast.model.entry import Unknown

SESSION = "20260102-030405-aaaabbbb"
SIZE_BYTES = 64 * 1024
LARGEST_BYTES = 72 * 1024
_NOON_NS = 1_767_355_200_000_000_000
_WORDS = (
    "the",
    "build",
    "fails,",
    "naïve",
    "日本",
    "\u2028",
    '"quoted"',
    "\\",
    '{"seq":1}',
    "line\n",
)


@contextmanager
def _standing_still() -> Iterator[None]:
    """Let time, names and numbers be the same in every run, so that every byte has its place."""
    chance = random.Random(1)
    clock = SimpleNamespace(time_ns=lambda: _NOON_NS, gmtime=time.gmtime, strftime=time.strftime)
    with ExitStack() as stack:
        stack.enter_context(patch("holdfast.journal.format.time", clock))
        stack.enter_context(patch("holdfast.model.ids._random", chance.randbytes))
        stack.enter_context(patch("os.getpid", lambda: 4711))
        stack.enter_context(patch("socket.gethostname", lambda: "somewhere"))
        yield


def make(store: holdfast.Store) -> str:
    """Make the session; it ends with a batch."""
    chance = random.Random(2)

    def text(words: int) -> str:
        return " ".join(chance.choices(_WORDS, k=words))

    with _standing_still():
        with store.create(session_id=SESSION, title="patient", model="none") as session:
            session.append([system(text(30)), user("a first question")])
            session.append(user("left out by the compaction"))
            session.rewind(session.append(user(text(20))).seq - 1)
            session.checkpoint("a first summary", keep_last=1)
            session.usage(input=10, output=3, cost_usd=0.25, model="none")
            session.compact()
            _turn(session, "one", text(100))
        with store.open(SESSION) as session:
            _bookkeeping(session)
            for number in range(4):
                session.append(user(f"{number} {text(400)}"))
                session.append(assistant(f"{number} {text(200)}", model="none"))
            session.checkpoint([user(text(40))], keep_last=3, tokens=950)
            _turn(session, "two", text(150))
            last = session.append([user(f"in a batch {n} {text(30)}") for n in range(3)])
            session.append(user("on another branch"))
            session.rewind(last)
            session.update(title="another title", tags=["a", "b"])
        with store.open(SESSION) as session:
            while _size(session) < SIZE_BYTES - 1500:
                session.append(user(text(700)))
            session.append([user(f"at the end {n} {text(40)}") for n in range(3)])
    return SESSION


def _turn(session: holdfast.Session, name: str, output: str) -> None:
    session.append(Turn("started"))
    wish = ToolCall(id=name, name="bash", arguments={"command": "make", "n": [1, 2.5, None, True]})
    session.append(assistant([Thinking(text="hm", signature="s" * 40), Text(text="yes"), wish]))
    session.append(Approval(name, "0" * 64, "allowed"))
    session.append(Tool(name, "bash", "started", "unknown"))
    session.append(tool_result(name, output))
    live = session.stream(model="none")
    live.write("streamed ")
    live.write(output[:200])
    live.finish()
    session.append([Turn("completed"), user("and now?"), holdfast.Meta({"n": 1})])


def _bookkeeping(session: holdfast.Session) -> None:
    session.event("viewer", {"scroll": 12}, complete=True)
    session.append(Label("here", session.state.head))
    queued = session.append(Queued([Text(text="later")])).seq
    session.append(Message(role="user", content=[Text(text="later")], queued=queued))
    session.append(Unknown("invention", {"of": "another version", "deep": [{"a": {}}]}))
    session.append(user("with an id"), id="an id of the caller's")


def _size(session: holdfast.Session) -> int:
    return (session.path / "journal.jsonl").stat().st_size
