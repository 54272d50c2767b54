"""Checkpoints, truncation, replacement, rewinding, branches. Nothing is ever destroyed."""

from __future__ import annotations

import threading

import pytest

import holdfast
from holdfast import Turn, assistant, user
from holdfast.model.entry import Checkpoint


def texts(messages):
    return [message.text for message in messages]


@pytest.fixture(params=["as written", "reopened", "read-only"])
def view(request, store):
    """Return the session as somebody sees it: the writer, a later writer, a reader."""

    def look(session):
        if request.param == "as written":
            return session
        session.close()
        return store.open(session.id, "read" if request.param == "read-only" else "write")

    return look


@pytest.fixture
def session(store):
    """A session with messages 0 to 5."""
    session = store.create()
    for number in range(6):
        session.append(user(str(number)) if number % 2 == 0 else assistant(str(number)))
    return session


def numbers(session):
    return [entry.seq for entry in session.follow(wait=False) if entry.type == "message"]


def test_a_checkpoint_covers_everything_so_far(session, view):
    session.checkpoint("so far", tokens=12)
    session.append(user("next"))
    seen = view(session)
    assert texts(seen.context()) == ["so far", "next"]
    assert texts(seen.messages) == ["0", "1", "2", "3", "4", "5", "next"]
    assert seen.summary == [user("so far")]
    entry = next(each for each in seen.follow(wait=False) if each.type == "checkpoint")
    assert entry.body.tokens == 12


def test_a_summary_is_text_a_message_or_several(session):
    session.checkpoint(assistant("one"))
    assert session.summary == [assistant("one")]
    session.checkpoint([user("one"), assistant("two")])
    assert session.summary == [user("one"), assistant("two")]
    session.checkpoint([])
    assert session.summary == []
    assert session.context() == []


def test_a_checkpoint_keeps_the_last_messages(session, view):
    session.checkpoint("so far", keep_last=2)
    seen = view(session)
    assert texts(seen.context()) == ["so far", "4", "5"]


def test_keep_last_may_be_more_than_there_is(session):
    session.checkpoint("so far", keep_last=100)
    assert texts(session.context()) == ["so far", "0", "1", "2", "3", "4", "5"]


def test_a_negative_keep_last_is_refused(session):
    with pytest.raises(holdfast.UsageError, match="0 or more"):
        session.checkpoint("so far", keep_last=-1)


def test_a_message_that_arrives_while_a_summary_is_made_is_kept(session, view):
    upto = session.append(user("last one that the summary covers"))
    session.append(user("arrived meanwhile"))
    session.append(user("this one too"))
    session.checkpoint("so far", upto=upto)
    seen = view(session)
    assert texts(seen.context()) == ["so far", "arrived meanwhile", "this one too"]


def test_keep_last_counts_from_upto(session, view):
    upto = numbers(session)[3]
    session.checkpoint("so far", upto=upto, keep_last=1)
    assert texts(view(session).context()) == ["so far", "3", "4", "5"]


def test_keep_from_never_goes_below_the_previous_one(session, view):
    all_numbers = numbers(session)
    session.checkpoint("first", upto=all_numbers[3])
    session.append(user("6"))
    session.checkpoint("second", upto=all_numbers[0], keep_last=5)
    assert texts(session.context()) == ["second", "4", "5", "6"]
    session.checkpoint("third", keep_last=100)
    assert texts(view(session).context()) == ["third", "4", "5", "6"]


def test_upto_must_be_on_the_current_branch(session):
    all_numbers = numbers(session)
    session.rewind(all_numbers[1])
    session.append(user("other branch"))
    before = session.state
    for wrong in (all_numbers[4], 10_000, 0):
        with pytest.raises(holdfast.UsageError, match="not on the current branch"):
            session.checkpoint("so far", upto=wrong)
    with pytest.raises(holdfast.UsageError, match="number"):
        session.checkpoint("so far", upto="3")
    with pytest.raises(holdfast.UsageError, match="number"):
        session.checkpoint("so far", upto=True)
    assert session.state == before
    session.checkpoint("so far", upto=all_numbers[0])
    assert texts(session.context()) == ["so far", "1", "other branch"]


def test_a_checkpoint_of_an_empty_session_is_one(store):
    session = store.create()
    with pytest.raises(holdfast.UsageError, match="not on the current branch"):
        session.checkpoint("so far", upto=1)
    session.checkpoint("from elsewhere", keep_last=3)
    session.append(user("a"))
    assert texts(session.context()) == ["from elsewhere", "a"]
    assert texts(session.messages) == ["a"]


def test_truncate_keeps_the_last_messages_and_the_summary(session, view):
    session.checkpoint("so far", keep_last=4)
    session.truncate(2)
    seen = view(session)
    assert texts(seen.context()) == ["so far", "4", "5"]
    assert seen.summary == [user("so far")]


def test_truncate_without_a_summary(session):
    session.truncate(1)
    assert texts(session.context()) == ["5"]
    session.truncate(0)
    assert session.context() == []
    assert len(session.messages) == 6


def test_replace_is_a_new_branch_with_exactly_these_messages(session, view):
    old_head = session.state.head
    session.checkpoint("so far")
    session.replace([user("x"), assistant("y")])
    assert texts(session.messages) == texts(session.context()) == ["x", "y"]
    session.append(user("z"))
    assert session.summary == []
    session.rewind(old_head)
    assert texts(view(session).messages) == ["0", "1", "2", "3", "4", "5"]


def test_clear_begins_an_empty_branch(session, view):
    old_head = session.state.head
    session.clear()
    assert session.messages == []
    assert session.context() == []
    session.append(user("fresh"))
    assert texts(session.messages) == ["fresh"]
    session.rewind(old_head)
    assert len(view(session).messages) == 6


def test_rewind_goes_on_from_an_earlier_message(session, view):
    all_numbers = numbers(session)
    session.rewind(all_numbers[2])
    assert texts(session.messages) == ["0", "1", "2"]
    session.append(user("other"))
    assert texts(view(session).messages) == ["0", "1", "2", "other"]


def test_rewind_takes_a_position(session):
    position = session.append(user("here"))
    session.append(user("there"))
    session.rewind(position)
    assert session.messages[-1].text == "here"


def test_rewind_to_before_the_last_checkpoint_brings_the_context_back(session, view):
    all_numbers = numbers(session)
    session.checkpoint("first", upto=all_numbers[1])
    middle = session.append(user("6"))
    session.checkpoint("second")
    session.append(user("7"))
    session.rewind(middle)
    assert texts(session.context()) == ["first", "2", "3", "4", "5", "6"]
    session.rewind(all_numbers[3])
    assert texts(session.context()) == ["0", "1", "2", "3"]
    session.append(user("new"))
    assert session.summary == []
    assert texts(view(session).context()) == ["0", "1", "2", "3", "new"]


def test_rewind_back_to_the_old_branch_finds_it_whole(session, view):
    all_numbers = numbers(session)
    checkpoint = session.checkpoint("so far", keep_last=1)
    tip = session.append(user("tip"))
    session.rewind(all_numbers[0])
    session.append(user("elsewhere"))
    session.rewind(tip)
    assert texts(session.messages) == ["0", "1", "2", "3", "4", "5", "tip"]
    assert texts(session.context()) == ["so far", "5", "tip"]
    session.rewind(checkpoint)
    assert texts(view(session).context()) == ["so far", "5"]


def test_rewind_to_nothing_and_to_what_is_no_place(session):
    usage = session.usage(input=1, output=1)
    for wrong in (usage, 0, 10_000):
        with pytest.raises(holdfast.UsageError, match="no message or checkpoint"):
            session.rewind(wrong)
    session.rewind(None)
    assert session.messages == []


def test_rewind_in_a_session_without_entries(store):
    session = store.create()
    with pytest.raises(holdfast.UsageError, match="no message or checkpoint"):
        session.rewind(1)


def test_a_session_that_is_always_busy_comes_to_rest_for_a_checkpoint(session):
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            session.append(user("busy"))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(5):
            session.checkpoint(f"{number}")
            session.rewind(session.state.head)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert session.summary == [user("4")]


def test_turns_and_tools_are_on_the_branch_but_are_no_messages(session, view):
    turn = session.append(Turn("started"))
    session.append(holdfast.Tool(call_id="1", name="sh", state="started", effect="writes"))
    session.append(user("6"))
    session.rewind(turn)
    session.append(user("again"))
    assert texts(view(session).messages) == ["0", "1", "2", "3", "4", "5", "again"]


def test_what_was_read_stays_in_step_with_what_is_appended(session):
    assert len(session.messages) == 6
    session.append([user("6"), Checkpoint([user("sum")], keep_from=0)])
    session.append(user("7"))
    assert texts(session.messages) == ["0", "1", "2", "3", "4", "5", "6", "7"]
    assert texts(session.context()) == ["sum", "0", "1", "2", "3", "4", "5", "6", "7"]
    session.append([holdfast.Head(None), user("a"), user("b")])
    session.append(user("c"))
    assert texts(session.messages) == ["a", "b", "c"]


def test_a_list_that_was_handed_out_does_not_change(session):
    messages = session.messages
    messages.append(user("mine"))
    assert len(session.messages) == 6
    before = session.messages
    session.append(user("6"))
    assert len(before) == 6


def test_what_slips_in_at_the_last_moment_is_waited_for(session, monkeypatch):
    monkeypatch.setattr("holdfast.journal.pool.BackgroundTask.wake", lambda _: None)
    monkeypatch.setattr("holdfast.store.write.recorder._RETRY_SECONDS", 0.01)
    writer = session._recorder._writer
    flush = writer.flush
    calls: list[None] = []

    def flush_later() -> None:
        calls.append(None)
        if len(calls) > 1:
            flush()

    monkeypatch.setattr(writer, "flush", flush_later)
    session.submit(user("slipped in"))
    session.checkpoint("so far", keep_last=1)
    assert texts(session.context()) == ["so far", "slipped in"]
