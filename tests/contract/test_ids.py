"""Ids: what was appended is appended once, with the content it had; a head that must not move."""

from __future__ import annotations

import asyncio
import threading

import pytest

import holdfast
from holdfast import Custom, Head, IdConflict, Meta, assistant, user


def texts(session):
    return [message.text for message in session.messages]


def test_a_position_tells_whether_the_entry_was_there(store):
    session = store.create()
    first = session.append(user("a"), id="one")
    again = session.append(user("a"), id="one")
    assert (first.known, again.known) == (False, True)
    assert first == again
    assert hash(first) == hash(again)
    assert first != session.append(user("b"))
    assert first != first.seq


def test_the_same_id_with_other_content_is_a_conflict(store):
    with store.create() as session:
        first = session.append(user("a"), id="one")
        with pytest.raises(IdConflict, match=f"belongs to entry {first.seq}") as caught:
            session.append(user("b"), id="one")
        assert (caught.value.id, caught.value.seq) == ("one", first.seq)
        with pytest.raises(IdConflict):
            session.append(assistant("a"), id="one")
        with pytest.raises(IdConflict):
            session.append(Meta({"a": 1}), id="one")
    with store.open(session.id) as again:
        with pytest.raises(IdConflict):
            again.append(user("b"), id="one")
        assert again.append(user("a"), id="one").known
        assert texts(again) == ["a"]


def test_the_order_of_fields_is_not_content(store):
    session = store.create()
    session.append(Custom("e", {"a": 1, "b": [{"x": 1, "y": 2}]}), id="one")
    assert session.append(Custom("e", {"b": [{"y": 2, "x": 1}], "a": 1}), id="one").known
    with pytest.raises(IdConflict):
        session.append(Custom("e", {"b": [{"y": 2, "x": 1}], "a": True}), id="one")
    tickets = [
        session.submit(Custom("e", data), id="two") for data in ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    ]
    assert [ticket.wait().known for ticket in tickets] == [False, True]


def test_an_id_stands_for_its_whole_batch(store):
    session = store.create()
    session.append([user("a"), user("b")], id="both")
    assert session.append([user("a"), user("b")], id="both").known
    for other in ([user("x"), user("b")], [user("b")], [user("z"), user("a"), user("b")]):
        with pytest.raises(IdConflict):
            session.append(other, id="both")
    session.append(user("c"), id="c")
    with pytest.raises(IdConflict):
        session.append([user("b"), user("c")], id="c")
    assert texts(session) == ["a", "b", "c"]


def test_what_a_compaction_dropped_of_a_batch_is_not_compared(store):
    session = store.create()
    first = session.append([user("a"), Meta({"n": 1})], id="both")
    session.append(user("b"), id="b")
    session.checkpoint("so far")
    session.compact()
    assert session.append([user("a"), Meta({"n": 1})], id="both").seq == first.seq
    assert session.append(Meta({"n": 1}), id="both").seq == first.seq
    with pytest.raises(IdConflict):
        session.append([user("a"), Meta({"n": 2})], id="both")
    assert session.append(user("b"), id="b").known
    with pytest.raises(IdConflict):
        session.append(user("other"), id="b")


def test_an_entry_that_was_compacted_away_has_its_old_number(store):
    with store.create() as session:
        first = session.append(user("a"), id="a")
        session.checkpoint("so far")
        session.compact()
        assert session.append(user("a"), id="a").seq == first.seq
    with store.open(session.id) as again:
        position = again.append(user("a"), id="a")
        assert (position.seq, position.known) == (first.seq, True)
        assert (position.offset, position.segment) == (None, None)  # in no file of the journal
        again.compact()
        assert again.append(user("a"), id="a").known


def test_a_duplicate_of_what_still_waits_has_its_own_ticket(store):
    session = store.create()
    first = session.submit([user("a"), user("b")], ids=["a", "b"])
    second = session.submit([user("a"), user("b")], ids=["a", "b"])
    part = session.submit(user("a"), id="a")
    assert second is not first
    positions = [ticket.wait() for ticket in (first, second, part)]
    assert [position.known for position in positions] == [False, True, True]
    assert positions[1] == positions[0]
    assert positions[2].seq == positions[0].seq - 1
    assert (first.known, second.known, part.known) == (False, True, True)
    assert all(ticket.done for ticket in (first, second, part))
    assert texts(session) == ["a", "b"]


def test_a_ticket_tells_whether_the_entries_were_there(store):
    with store.create() as session:
        session.append(user("a"), id="one")
    with store.open(session.id) as again:
        ticket = again.submit(user("a"), id="one")
        assert ticket.wait(10).known
        assert ticket.known


def test_awaiting_a_duplicate_and_a_conflict(store):
    async def main(session):
        first = session.submit(user("a"), id="one")
        assert (await session.submit(user("a"), id="one")).known
        assert not (await first).known
        ticket = session.submit(user("a"), id="one")
        assert (await ticket).known
        with pytest.raises(IdConflict):
            await session.submit(user("b"), id="one")
        return await session.submit(user("c"))

    session = store.create()
    asyncio.run(main(session))
    assert texts(session) == ["a", "c"]
    session.close()  # everybody knows of the conflict


def test_a_conflict_that_nobody_waited_for_is_raised_by_close(store):
    session = store.create()
    session.append(user("a"), id="one")
    session.submit(user("b"), id="one")
    session.append(user("c"))  # is not to blame
    with pytest.raises(IdConflict):
        session.close()
    session.close()
    assert texts(store.open(session.id, "read")) == ["a", "c"]


def test_each_entry_of_a_batch_has_its_id(store):
    with store.create() as session:
        position = session.append([user("a"), assistant("b")], ids=["a", "b"])
        assert not position.known
        again = session.append([user("a"), assistant("b")], ids=["a", "b"])
        assert again == position
        assert again.known
        assert session.append(assistant("b"), id="b") == position
        assert session.append(user("a"), ids=["a"]).seq == position.seq - 1
    found = [entry.id for entry in session.entries(types=["message"])]
    assert found == ["a", "b"]


def test_known_entries_at_the_beginning_are_passed_over(store):
    with store.create() as session:
        session.append([user("a"), user("b")], ids=["a", "b"])
    with store.open(session.id) as again:
        position = again.append([user(text) for text in "abcd"], ids=list("abcd"))
        assert not position.known
        assert texts(again) == ["a", "b", "c", "d"]
        assert [entry.batch for entry in again.entries(types=["message"])][-2:] == [(0, 2), (1, 2)]
        assert again.append([user("d"), user("e")], ids=["d", "e"]).seq == position.seq + 1
    assert store.verify(session.id).ok


def test_a_batch_that_overlaps_what_still_waits(store):
    session = store.create()
    tickets = [
        session.submit([user("a"), user("b")], ids=["a", "b"]),
        session.submit([user("b"), user("c")], ids=["b", "c"]),
        session.submit([user("a"), user("b"), user("c")], ids=["a", "b", "c"]),
        session.submit(user("d")),
    ]
    assert [ticket.wait().known for ticket in tickets] == [False, False, True, False]
    assert texts(session) == ["a", "b", "c", "d"]
    assert store.verify(session.id).ok


def test_a_known_entry_after_a_new_one_is_a_conflict(store):
    session = store.create()
    known = session.append(user("b"), id="b")
    with pytest.raises(IdConflict, match="ids before it in the list are new") as caught:
        session.append([user("a"), user("b")], ids=["a", "b"])
    assert caught.value.seq == known.seq
    assert texts(session) == ["b"]


def test_a_conflict_with_what_still_waits_has_no_number_yet(store):
    session = store.create()
    with session._recorder.mutex:  # nothing is settled meanwhile
        waiting = session.submit([user("a"), user("b")], id="one")
        for other in (user("b"), [user("a"), user("c")], [user("z"), user("a"), user("b")]):
            with pytest.raises(IdConflict, match="being written") as caught:
                session.submit(other, id="one")
            assert caught.value.seq is None
    assert not waiting.wait().known


@pytest.mark.parametrize(
    ("items", "given"),
    [
        ([user("a")], {"ids": ["a", "b"]}),
        ([user("a"), user("b")], {"ids": ["a", "a"]}),
        ([user("a")], {"ids": ["a"], "id": "b"}),
        ([user("a")], {"ids": "a"}),
        ([user("a")], {"ids": [""]}),
        ([user("a")], {"ids": [None]}),
        ([user("a")], {"id": ""}),
        ([user("a")], {"id": "x" * 1001}),
        ([user("a")], {"expect_head": "1"}),
    ],
)
def test_ids_that_cannot_be_are_rejected(store, items, given):
    session = store.create()
    for call in (session.append, session.submit):
        with pytest.raises(holdfast.UsageError):
            call(items, **given)
    assert session.seq == -1


def test_an_append_that_expects_the_head(store):
    session = store.create()
    assert session.head is None
    first = session.append(user("a"), expect_head=None)
    assert session.head == first.seq
    session.append(Meta({"title": "t"}))  # moves no head
    second = session.append(user("b"), expect_head=first)
    with pytest.raises(holdfast.HeadMoved) as caught:
        session.append(user("c"), expect_head=first.seq)
    assert (caught.value.expected, caught.value.head) == (first.seq, second.seq)
    with pytest.raises(holdfast.HeadMoved, match="not an empty branch"):
        session.append(user("c"), expect_head=None)
    session.append(Head(None), expect_head=second)
    session.append(user("d"), expect_head=None)
    assert texts(session) == ["d"]


def test_a_retry_with_an_id_succeeds_though_the_head_moved(store):
    session = store.create()
    head = session.append(user("a")).seq
    first = session.append(user("b"), id="b", expect_head=head)
    assert session.append(user("b"), id="b", expect_head=head) == first


def test_of_many_threads_that_expect_the_same_head_one_appends(store):
    session = store.create()
    head = session.append(user("a")).seq
    outcomes: list[str] = []
    barrier = threading.Barrier(8)

    def work(name: int) -> None:
        barrier.wait()
        try:
            session.append(user(str(name)), expect_head=head)
            outcomes.append("appended")
        except holdfast.HeadMoved:
            outcomes.append("moved")

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["appended"] + ["moved"] * 7
    assert len(texts(session)) == 2


def test_expectations_that_are_queued_are_compared_in_order(store):
    session = store.create()
    head = session.append(user("a")).seq
    tickets = [session.submit(user(name), expect_head=head) for name in "bcd"]
    moved = [session.submit(Head(head)), session.submit(user("e"), expect_head=head)]
    assert tickets[0].wait().seq == head + 1
    for ticket in tickets[1:]:
        with pytest.raises(holdfast.HeadMoved):
            ticket.wait()
    for ticket in moved:
        ticket.wait()
    assert texts(session) == ["a", "e"]
    assert store.verify(session.id).ok


def test_what_an_interrupt_left_of_a_known_ticket_is_settled_by_the_next_append(store):
    session = store.create()
    session.append(user("a"), id="a")
    writer = session._recorder._writer
    with writer.mutex:
        first, second = (session.submit(user("a"), id="a") for _ in range(2))
        tickets = [ticket for ticket in writer._queue if ticket.ids]
        assert tickets == [first]
        assert second is not first
        writer._rejecting = first.known = True  # and no entries yet: it is looked up again
    assert first.wait().known
    with writer.mutex:
        third = session.submit(user("a"), id="a")
        third.entries, third.known, writer._rejecting = first.entries, True, True
    assert session.append(user("b")).seq == first.position.seq + 1
    assert third.wait().known
    assert texts(session) == ["a", "b"]


def test_either_one_id_or_one_for_each_entry(store):
    session = store.create()
    with pytest.raises(holdfast.UsageError):
        session.append([user("a"), user("b")], id="x", ids=["y", "z"])
    assert session.messages == []


def test_an_id_of_another_type_of_entry_is_a_conflict(store):
    session = store.create()
    session.append(user("a"), id="x")
    session.close()
    with store.open(session.id) as session, pytest.raises(IdConflict):
        session.append(Meta({"title": "a"}), id="x")
