"""The public surface: frozen, documented, and shaped as promised."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import holdfast

NAMES = """
    AnyPart Approval BadStatus Body Checkpoint Compaction ConnectFailed Custom Damage
    DamagedJournal DiskFull EmptyReply Entry Erased Event File FileChange Files Follower
    ForeignSession FormatTooNew Head HeadMoved Hit Holder HoldfastError IdConflict Image
    ImportRejected KeyRefused Label LocalStore Message Meta Migrated Migration Opaque Page
    Position Problem ProviderError ProviderUnavailable Queued Recovery Report Run Session
    SessionExists SessionLocked SessionNotFound SetAside State StepDone StepUncertain StorageError
    Store Stream Summary Text Thinking Ticket TimedOut Tombstone Tool ToolCall ToolResult Totals
    Turn Usage UsageError WriteFailed __version__ assistant open_store system tool_result user
""".split()  # noqa: SIM905  a list of names reads best as a list of names


def test_the_list_of_public_names_is_frozen():
    assert list(holdfast.__all__) == NAMES


def test_every_public_name_is_there():
    assert [name for name in NAMES if not hasattr(holdfast, name)] == []


def test_every_public_name_is_documented():
    undocumented = [
        name
        for name in NAMES
        if name != "__version__" and not (getattr(holdfast, name).__doc__ or "").strip()
    ]
    assert undocumented == []


CLASSES = [holdfast.LocalStore, holdfast.Session, holdfast.Stream, holdfast.Ticket]


@pytest.mark.parametrize("owner", CLASSES)
def test_every_public_method_and_property_is_documented_and_annotated(owner):
    for name, member in inspect.getmembers(owner):
        if name.startswith("_") or not (callable(member) or isinstance(member, property)):
            continue
        assert (member.__doc__ or "").strip(), name
        function: Any = member.fget if isinstance(member, property) else member
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, name


STORE = {
    "create": "workspace= session_id= **meta",
    "open": "id mode=",
    "session": "key mode= **meta",
    "list": "workspace= project= limit= since= until= key_prefix= progress=",
    "search": "text limit= order= substring= once= progress= **where",
    "delete": "id erase= everywhere=",
    "tombstones": "",
    "restore": "id",
    "cleanup": "older_than",
    "verify": "id progress=",
    "close": "",
}
SESSION = {
    "append": "item id= ids= expect_head=",
    "submit": "item id= ids= expect_head=",
    "stream": "model= call_id= name=",
    "usage": "input output cost_usd= model= cache_read= cache_write= request= **extra",
    "update": "**meta",
    "event": "name data= complete=",
    "keep": "data",
    "blob": "name",
    "put": "name value",
    "get": "name default=",
    "drop": "name",
    "entries": "after= before= reverse= types= branch= limit=",
    "entry": "which",
    "branch": "",
    "checkpoint": "summary upto= keep_last= tokens=",
    "truncate": "keep_last",
    "replace": "messages",
    "clear": "",
    "rewind": "to",
    "fork": "at= key= events=",
    "compact": "latest_events=",
    "erase": "which everywhere=",
    "follow": "after= live= wait=",
    "export": "format=",
    "on_entry": "callback",
    "on_live": "callback",
    "context": "",
    "close": "",
}
STREAM = {"write": "text kind= call_id= name=", "finish": "stop= content= **fields"}
TICKET = {"wait": "timeout_seconds="}


def shape(function: Callable[..., Any]) -> str:
    """Return the parameters of a method: an ``=`` marks those that may be left out."""
    words = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            words.append(f"**{parameter.name}")
        else:
            words.append(parameter.name + "=" * (parameter.default is not parameter.empty))
    return " ".join(words)


@pytest.mark.parametrize(
    ("owner", "promised"), list(zip(CLASSES, [STORE, SESSION, STREAM, TICKET], strict=True))
)
def test_what_was_promised_is_there_with_its_parameters(owner, promised):
    assert {name: shape(getattr(owner, name)) for name in promised} == promised


def test_what_a_session_shows_without_being_called(store):
    with store.create() as session:
        session.append(holdfast.user("hello"))
        assert isinstance(session.id, str)
        assert isinstance(session.messages, list)
        assert isinstance(session.summary, list)
        assert isinstance(session.state, holdfast.State)
        assert isinstance(session.totals, holdfast.Totals)
        assert isinstance(session.recovery, holdfast.Recovery)
    assert store.path.is_dir()


@pytest.mark.parametrize("owner", [holdfast.LocalStore, holdfast.Session, holdfast.Stream])
def test_what_is_closed_at_the_end_of_a_block(owner):
    assert hasattr(owner, "__enter__")
    assert hasattr(owner, "__exit__")
    if owner is not holdfast.LocalStore:
        assert hasattr(owner, "__aenter__")
        assert hasattr(owner, "__aexit__")


def test_the_first_example(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    store = holdfast.open_store()
    with store.create(workspace=".", provider="anthropic", model="m") as session:
        session.append(holdfast.user("fix the build"))
        with session.stream(model="m") as live:
            live.write("Looking at ")
            live.write("the log …")
            live.finish(stop="end")
        session.usage(input=812, output=40, cost_usd=0.0031, model="m")
        session.checkpoint(summary=[holdfast.user("so far: …")], keep_last=6, tokens=950)
    assert session.id == store.list()[0].id
    assert [message.text for message in session.messages] == [
        "fix the build",
        "Looking at the log …",
    ]
    assert [message.text for message in session.context()] == [
        "so far: …",
        "fix the build",
        "Looking at the log …",
    ]
    assert session.totals.cost_usd == 0.0031


def test_every_error_is_in_one_tree_and_says_how_to_exit():
    errors: list[Any] = [
        member
        for name in NAMES
        if isinstance(member := getattr(holdfast, name), type) and issubclass(member, Exception)
    ]
    assert len(errors) == 22
    assert all(issubclass(error, holdfast.HoldfastError) for error in errors)
    assert all(isinstance(error.exit_code, int) and error.exit_code > 0 for error in errors)
