"""Following a session: from any process, across its files, never ahead of what is durable."""

from __future__ import annotations

import asyncio
import threading

import holdfast
from holdfast import user


def texts(entries):
    return [entry.body.text for entry in entries if isinstance(entry.body, holdfast.Message)]


def test_a_follower_delivers_everything_then_what_comes(store):
    session = store.create()
    session.append([user("a"), user("b")])
    follower = session.follow()
    assert [next(follower).type for _ in range(3)] == ["header", "message", "message"]
    session.append(user("c"))
    session.append(user("d"))
    assert next(follower).body == user("c")
    assert next(follower).body == user("d")
    session.append(user("e"))
    entry = next(follower)
    assert (entry.body, entry.status) == (user("e"), "ok")
    assert follower.after == entry.seq
    follower.close()


def test_without_wait_a_follower_ends_at_the_end(store):
    session = store.create()
    with session.follow(wait=False) as follower:
        assert list(follower) == []
    session.append(user("a"))
    assert texts(session.follow(wait=False)) == ["a"]


def test_after_skips_what_was_seen(store):
    session = store.create()
    first = session.append(user("a"))
    second = session.append(user("b"))
    session.append(user("c"))
    assert texts(session.follow(after=first, wait=False)) == ["b", "c"]
    assert texts(session.follow(after=second.seq, wait=False)) == ["c"]
    assert texts(session.follow(after=10_000, wait=False)) == []
    assert texts(session.follow(after=None, wait=False)) == ["a", "b", "c"]


def test_a_follower_outlives_deletion_and_restoring(store):
    session = store.create()
    session.append(user("a"))
    follower = session.follow(wait=False)
    assert texts(follower.poll()) == ["a"]
    session.close()
    store.delete(session.id)
    assert follower.poll() == []
    assert follower.poll() == []
    store.restore(session.id)
    with store.open(session.id) as again:
        again.append(user("b"))
        assert texts(follower.poll()) == ["b"]


def test_a_follower_waits_for_a_session_that_is_not_there_yet(store):
    session = store.create()
    follower = session.follow()
    assert follower.poll() == []
    thread = threading.Timer(0.02, lambda: session.append(user("a")))
    thread.start()
    assert next(follower).type == "header"
    assert next(follower).body == user("a")
    thread.join()
    follower.close()


def test_a_follower_can_be_iterated_asynchronously(store):
    async def main() -> None:
        session = store.create()
        await session.submit(user("a"))
        ended = [entry async for entry in session.follow(wait=False)]
        assert texts(ended) == ["a"]
        follower = session.follow(after=ended[-1].seq)

        async def one() -> holdfast.Entry:
            async for entry in follower:
                assert isinstance(entry, holdfast.Entry)
                return entry
            raise AssertionError

        task = asyncio.create_task(one())
        await asyncio.sleep(0)
        await session.submit(user("b"))
        assert (await task).body == user("b")
        follower.close()

    asyncio.run(main())
