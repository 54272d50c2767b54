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


@pytest.mark.parametrize("data", ["abc", None, 5, [1, 2]])
def test_what_is_to_be_kept_is_bytes(store, data):
    session = store.create()
    session.append(user("a"))
    with pytest.raises(holdfast.UsageError, match="Give bytes"):
        session.keep(data)
    assert not (session.path / "blobs").exists()


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
