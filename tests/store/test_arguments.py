"""What cannot be meant is refused at once, by an error of ours, and leaves nothing on disk."""

from __future__ import annotations

import asyncio
import math

import pytest

import holdfast
from holdfast import user

NO_FOLDERS = [5, "a\0b", object(), ["here"]]
BAD_META = [object(), math.nan, {1, 2}, {"deep": [object()]}]


def everything(folder):
    return {
        path: path.read_bytes() if path.is_file() and path.name != "lock" else b""
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("folder", NO_FOLDERS)
def test_a_workspace_that_is_no_path(store, home, folder):
    for call in (store.create, store.list):
        with pytest.raises(holdfast.UsageError, match="not the path of a folder"):
            call(workspace=folder)
    with pytest.raises(holdfast.UsageError, match="not the path of a folder"):
        store.session("key", workspace=folder)
    with pytest.raises(holdfast.UsageError, match="not the path of a folder"):
        store.create().update(workspace=folder)
    with pytest.raises(holdfast.UsageError, match="not the path of a folder"):
        store.list(project=folder)
    assert store.list() == []


@pytest.mark.parametrize("value", BAD_META)
def test_bad_meta_of_a_new_session(store, home, value):
    with pytest.raises(holdfast.UsageError):
        store.create(title=value)
    with pytest.raises(holdfast.UsageError):
        store.session("key", title=value)
    assert everything(home) == {}


@pytest.mark.parametrize("value", BAD_META)
def test_bad_meta_of_a_session_without_entries(store, home, value):
    session = store.create(title="good")
    with pytest.raises(holdfast.UsageError):
        session.update(title=value)
    assert everything(home) == {}
    session.append(user("a"))
    assert session.meta == {"title": "good"}
    session.close()
    assert store.open(session.id, "read").meta == {"title": "good"}


@pytest.mark.parametrize("value", BAD_META)
def test_bad_meta_of_a_session_with_entries(store, home, value):
    session = store.create(title="good")
    session.append(user("a"))
    before = everything(home)
    with pytest.raises(holdfast.UsageError):
        session.update(title=value)
    assert everything(home) == before
    session.update(title="better")
    assert session.meta == {"title": "better"}


@pytest.mark.parametrize("moment", [5, "yesterday", object()])
@pytest.mark.parametrize("name", ["since", "until"])
def test_a_time_that_is_none(store, name, moment):
    with pytest.raises(holdfast.UsageError):
        store.list(**{name: moment})


@pytest.mark.parametrize("limit", [-1, 1.5, "many"])
def test_a_limit_that_is_no_number(store, limit):
    with pytest.raises(holdfast.UsageError):
        store.search("a", limit=limit)
    with pytest.raises(holdfast.UsageError):
        store.list(limit=limit)


def test_a_search_ends_at_its_limit(store):
    with store.create() as session:
        session.append([user(f"needle {number}") for number in range(5)])
    assert len(store.search("needle", limit=3)) == 3
    assert store.search("needle", limit=0) == []


@pytest.mark.parametrize("place", [True, "3", 1.0])
def test_an_entry_that_is_not_named_by_a_number(store, place):
    session = store.create()
    session.append(user("a"))
    for call in (session.rewind, session.fork, session.follow):
        with pytest.raises(holdfast.UsageError, match="its number or by the Position"):
            call(place)
    assert [message.text for message in session.messages] == ["a"]


@pytest.mark.parametrize("given", ["text", [user("a"), "text"], None, 5])
def test_a_history_that_is_no_list_of_messages(store, given):
    session = store.create()
    session.append(user("a"))
    with pytest.raises(holdfast.UsageError, match="list of messages"):
        session.replace(given)
    assert [message.text for message in session.messages] == ["a"]


BOGUS = holdfast.Message(role="bogus", content=[holdfast.Text(text="a")])


def test_a_role_that_nobody_has(store):
    session = store.create()
    session.append(user("a"))
    before = session.state
    for call in (
        lambda: session.append(BOGUS),
        lambda: session.replace([user("b"), BOGUS]),
        lambda: session.checkpoint(BOGUS),
        lambda: session.checkpoint([user("b"), BOGUS]),
        lambda: session.append(holdfast.Checkpoint([BOGUS], 1)),
    ):
        with pytest.raises(holdfast.UsageError, match="'bogus' is not a role"):
            call()
    assert session.state == before


@pytest.mark.parametrize("listener", [None, "print", 5])
def test_a_listener_that_cannot_be_called(store, listener):
    session = store.create()
    for call in (session.on_entry, session.on_live):
        with pytest.raises(holdfast.UsageError, match="A listener is a function"):
            call(listener)
    session.append(user("a"))


@pytest.mark.parametrize("data", ["abc", None, 5, [1, 2]])
def test_what_is_to_be_kept_is_bytes(store, data):
    session = store.create()
    session.append(user("a"))
    with pytest.raises(holdfast.UsageError, match="Give bytes"):
        session.keep(data)
    assert not (session.path / "blobs").exists()


def test_bytes_of_any_kind_are_kept(store):
    session = store.create()
    session.append(user("a"))
    names = {session.keep(kind(b"abc")) for kind in (bytes, bytearray, memoryview)}
    assert [session.blob(name) for name in names] == [b"abc"]


def test_a_store_in_async_code_closes_its_sessions(home):
    async def work() -> holdfast.Session:
        async with holdfast.open_store(home) as store:
            session = store.create()
            await session.submit(user("a"))
            return session

    session = asyncio.run(work())
    with pytest.raises(holdfast.UsageError, match="closed"):
        session.append(user("b"))
    assert [message.text for message in session.messages] == ["a"]


def test_a_temporary_file_that_vanishes_under_verify(fragile, files):
    with fragile.create() as session:
        session.append(user("a"))
    temporary = session.path / ".journal.jsonl.abcdefgh"
    temporary.touch(0o666)

    def vanish() -> None:
        temporary.unlink()
        raise FileNotFoundError

    files.on("status_of", vanish, name=temporary.name)
    assert fragile.verify(session.id).ok
    assert not temporary.exists()
