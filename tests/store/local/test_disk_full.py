"""A full disk, end to end: nothing is lost, nothing is written twice, nothing pretends."""

from __future__ import annotations

import asyncio
import errno

import pytest

import holdfast
from holdfast import assistant, user


@pytest.fixture
def session(fragile):
    session = fragile.create()
    session.append(user("before"))
    return session


def texts(session):
    return [message.text for message in session.messages]


def insist(call):
    """Call until there is room: an attempt that began earlier may still report a full disk."""
    while True:
        try:
            return call()
        except holdfast.DiskFull:
            continue


def on_disk(session):
    lines = (session.path / "journal.jsonl").read_bytes().splitlines()
    return [line for line in lines if b'"type":"message"' in line]


def test_a_call_with_an_id_is_another_one_than_the_refused_without(session, files):
    """Else its entry could not be found by the id, and a third call would write it again."""
    with files.full_disk(), pytest.raises(holdfast.DiskFull):
        session.append(user("x"))
    positions = [insist(lambda: session.append(user("x"), id="k")) for _ in range(3)]
    assert len(set(positions)) == 1
    assert texts(session) == ["before", "x", "x"]


def test_append_says_what_waits(session, files):
    with files.full_disk():
        with pytest.raises(holdfast.DiskFull) as caught:
            session.append([user("a"), user("b")])
        assert caught.value.pending == (2, 3)
        with pytest.raises(holdfast.DiskFull) as caught:
            session.append(user("c"))
        assert caught.value.pending[:2] == (2, 3)
        assert texts(session) == ["before"]
        assert len(on_disk(session)) == 1
        assert isinstance(session.trouble, holdfast.DiskFull)
        assert session.trouble.pending[:2] == (2, 3)


def test_the_background_completes_what_waits_by_itself(session, files, eventually):
    with files.full_disk(), pytest.raises(holdfast.DiskFull):
        session.append(user("a"))
    eventually(lambda: texts(session) == ["before", "a"])
    assert session.trouble is None
    assert len(on_disk(session)) == 2


def test_the_same_append_again_does_not_duplicate(session, files):
    with files.full_disk():
        for _ in range(3):
            with pytest.raises(holdfast.DiskFull) as caught:
                session.append(user("a"))
            assert caught.value.pending == (2,)
    assert insist(lambda: session.append(user("a"))).seq == 2
    assert texts(session) == ["before", "a"]


def test_the_same_append_after_the_background_was_faster_does_not_duplicate(
    session, files, eventually
):
    with files.full_disk(), pytest.raises(holdfast.DiskFull):
        session.append(user("a"))
    eventually(lambda: len(session.messages) == 2)
    assert session.append(user("a")).seq == 2
    assert texts(session) == ["before", "a"]
    session.append(user("a"))  # this one is new
    assert texts(session) == ["before", "a", "a"]


def test_an_equal_message_after_something_else_is_a_new_one(session, files, eventually):
    with files.full_disk(), pytest.raises(holdfast.DiskFull):
        session.append(user("go on"))
    eventually(lambda: len(session.messages) == 2)
    session.append(assistant("gone on"))
    session.append(user("go on"))
    assert texts(session) == ["before", "go on", "gone on", "go on"]


def test_two_refused_appends_are_both_taken_up_again(session, files, eventually):
    with files.full_disk():
        for text in ("a", "b"):
            with pytest.raises(holdfast.DiskFull):
                session.append(user(text))
    eventually(lambda: len(session.messages) == 3)
    assert session.append(user("b")).seq == 3
    assert session.append(user("a")).seq == 2
    assert texts(session) == ["before", "a", "b"]


def test_the_same_append_with_an_id_does_not_duplicate(session, files, eventually):
    with files.full_disk(), pytest.raises(holdfast.DiskFull):
        session.append(user("a"), id="one")
    eventually(lambda: len(session.messages) == 2)
    assert session.append(user("a"), id="one").seq == 2
    assert texts(session) == ["before", "a"]


def test_submitted_tickets_complete(session, files, eventually):
    with files.full_disk():
        tickets = [session.submit(user(str(number))) for number in range(3)]
        with pytest.raises(holdfast.DiskFull):
            tickets[0].wait()
        assert not any(ticket.done for ticket in tickets)
    assert [insist(ticket.wait).seq for ticket in tickets] == [2, 3, 4]
    assert texts(session) == ["before", "0", "1", "2"]


def test_an_awaited_ticket_says_so_and_completes(session, files):
    async def main() -> None:
        with files.full_disk():
            ticket = session.submit(user("a"))
            with pytest.raises(holdfast.DiskFull):
                await ticket
        while True:
            try:
                assert (await ticket).seq == 2
                return
            except holdfast.DiskFull:
                continue

    asyncio.run(main())


def test_close_says_so_and_works_later(session, files, fragile):
    with files.full_disk():
        session.submit(user("a"))
        with pytest.raises(holdfast.DiskFull):
            session.close()
        with pytest.raises(holdfast.DiskFull):
            session.close()
    insist(lambda: session.append(user("still open")))
    session.close()
    assert texts(fragile.open(session.id, "read")) == ["before", "a", "still open"]


def test_a_full_disk_at_the_very_first_append(fragile, files, eventually):
    session = fragile.create(title="t")
    with files.full_disk():
        with pytest.raises(holdfast.DiskFull) as caught:
            session.append(user("first"))
        assert caught.value.pending
        assert not session.path.exists()
    eventually(lambda: texts(session) == ["first"])
    assert session.meta == {"title": "t"}


def test_a_short_write_leaves_no_trace(session, files):
    before = (session.path / "journal.jsonl").read_bytes()
    files.tear(7, name="journal.jsonl")
    files.fail("write", errno.ENOSPC, name="journal.jsonl", times=None)
    with pytest.raises(holdfast.DiskFull):
        session.append(user("a"))
    assert (session.path / "journal.jsonl").read_bytes() == before
    files.heal()
    assert insist(lambda: session.append(user("a"))).seq == 2
    assert texts(session) == ["before", "a"]


def test_one_moment_without_room_does_not_end_persistence(session, files, fragile):
    files.fail("write", errno.ENOSPC, name="journal.jsonl")
    with pytest.raises(holdfast.DiskFull):
        session.append(user("a"))
    for number in range(5):
        session.append(user(str(number)))
    session.close()
    assert texts(fragile.open(session.id, "read")) == ["before", "a", "0", "1", "2", "3", "4"]


def test_history_calls_say_so_too(session, files):
    with files.full_disk():
        for call in (
            lambda: session.checkpoint("so far"),
            lambda: session.rewind(None),
            lambda: session.usage(input=1, output=1),
            lambda: session.update(title="t"),
            session.fork,
            session.compact,
        ):
            with pytest.raises(holdfast.DiskFull):
                call()


def test_marks_are_not_multiplied_by_attempts_that_fail(session, files, fragile, eventually):
    with files.full_disk():
        for call in (
            lambda: session.checkpoint("one"),
            lambda: session.append(user("a")),
            lambda: session.append(user("b")),
        ):
            with pytest.raises(holdfast.DiskFull):
                call()
        later = session.submit(user("c"))
        for _ in range(3):
            with pytest.raises(holdfast.DiskFull):
                later.wait()
    eventually(lambda: later.done)
    session.checkpoint("two")
    kinds = [entry.type for entry in session.follow(wait=False)]
    # The first one had to do without: what followed had its number already.
    assert kinds.count("mark") == 1
    assert kinds.count("checkpoint") == 2
    assert texts(session) == ["before", "a", "b", "c"]
    session.close()
    assert fragile.verify(session.id).ok


def test_an_awaited_ticket_behind_a_checkpoint_is_told_too(session, files):
    async def main() -> None:
        with files.full_disk():
            with pytest.raises(holdfast.DiskFull):
                session.checkpoint("one")
            ticket = session.submit(user("a"))
            with pytest.raises(holdfast.DiskFull):
                await ticket

    asyncio.run(main())


def test_a_reader_is_not_disturbed(session, files, fragile):
    with files.full_disk():
        with pytest.raises(holdfast.DiskFull):
            session.append(user("a"))
        assert texts(fragile.open(session.id, "read")) == ["before"]
