"""Sessions that are not open: listed by page, counted, deleted, restored, measured, verified."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast import Turn, user
from holdfast.store.write.encode import ImportedEntry, encode_all

ID = "20261115-194012-k3v9q2ab"
AT = "2026-11-15T19:40:12.001Z"


def made(store, text="hello", **meta):
    with store.create(**meta) as session:
        session.append(user(text))
    return session


def test_a_session_has_one_writer(store):
    session = made(store)
    with store.open(session.id) as first:
        with pytest.raises(holdfast.SessionLocked) as caught:
            store.open(session.id)
        assert caught.value.session == session.id
        with pytest.raises(holdfast.SessionLocked):
            store.delete(session.id)
        with store.open(session.id, mode="read") as beside:
            assert beside.read_only
        first.append(user("more"))
    store.open(session.id).close()


def test_a_page_says_what_it_leaves_out(store):
    for number in range(3):
        made(store, workspace="/", title=f"here {number}")
    made(store, title="elsewhere")
    page = store.page(workspace="/", limit=2)
    assert (len(page.sessions), page.fitting, page.placed, page.total) == (2, 3, 3, 4)
    later = datetime.now(UTC) + timedelta(days=1)
    page = store.page(workspace="/", since=later)
    assert (page.sessions, page.fitting, page.placed, page.total) == ([], 0, 3, 4)
    assert store.page(project="git:nothing").placed == 0
    assert store.list(until=later, limit=1) == store.list()[:1]


def test_a_turn_that_did_not_end_is_told(store):
    session = made(store)
    with store.open(session.id) as again:
        again.append(Turn("started"))
        assert store.list()[0].state == "running"
    assert store.list()[0].state == "interrupted"


def test_activity_is_counted(store):
    with store.create() as session:
        session.append(user("a"))
        session.usage(input=10, output=5, cost_usd=0.5, model="m")
    found = store.activity()
    assert sum(each.prompts for each in found) == 1
    assert [(each.model, each.requests, each.input) for each in found if each.requests] == [
        ("m", 1, 10)
    ]


def test_a_message_is_found_by_part_of_a_word_too(store):
    made(store, "reading the manual")
    made(store, "something else")
    assert [hit.snippet for hit in store.search("manu")] == ["reading the manual"]
    assert [hit.snippet for hit in store.search("anua")] == ["reading the manual"]
    assert store.search("anua", substring=False) == []
    assert store.search("manual", role="assistant") == []
    assert len(store.search("e", substring=True, once=True)) == 2
    assert len(store.search("e", substring=True, limit=1)) == 1
    assert store.search("manual", order="rank", session=ID) == []


def test_what_is_deleted_can_be_restored_or_removed_for_good(store):
    first, second = made(store), made(store)
    store.delete(first.id)
    store.delete(second.id)
    assert store.ids() == set()
    assert store.deleted_ids() == {first.id, second.id}
    with pytest.raises(holdfast.SessionNotFound, match="More than one"):
        store.restore("-")
    with pytest.raises(holdfast.SessionNotFound, match="No session"):
        store.restore("zzzz")
    gone = next(each for each in store.deleted() if each.id == second.id)
    assert store.size_bytes(gone) > 0
    store.erase(gone)
    with pytest.raises(holdfast.UsageError, match="not in the trash"):
        store.erase(gone)
    assert store.half_erased(remove=True).count == 0
    assert store.restore(first.id) == first.id
    with store.open(first.id) as again:
        assert [message.text for message in again.messages] == ["hello"]


def test_a_session_is_not_restored_over_another(store):
    with store.session("key") as session:
        session.append(user("old"))
    store.delete(session.id)
    with store.session("key") as session:
        session.append(user("new"))
    with pytest.raises(holdfast.SessionExists):
        store.restore(session.id)
    assert store.deleted_ids() == {session.id}


def test_old_sessions_are_cleaned_up_unless_somebody_writes(store):
    old, busy = made(store), made(store)
    with store.open(busy.id):
        assert store.cleanup(timedelta(days=1)) == 0
        assert store.cleanup(datetime.now(UTC) + timedelta(days=1)) == 1
    assert store.ids() == {busy.id}
    assert store.deleted_ids() == {old.id}


def test_a_sound_session_is_verified(store):
    session = made(store, title="t")
    told = []
    report = store.verify(session.id, progress=lambda done, total: told.append((done, total)))
    assert report.ok
    assert (report.entries, report.messages) == (3, 1)
    assert told
    assert told[-1][0] == told[-1][1]
    assert store.size_bytes(session.id) >= report.size_bytes


def test_a_session_is_found_by_part_of_its_id(store):
    session = made(store)
    assert store.open(session.id[-6:], mode="read").id == session.id
    with pytest.raises(holdfast.SessionNotFound):
        store.open(ID)
    with pytest.raises(holdfast.SessionNotFound):
        store.open("zzzz")
    made(store)
    with pytest.raises(holdfast.UsageError, match="Use a longer part"):
        store.open("2")


def test_an_imported_session_has_its_large_texts(store):
    large = "long " * 100_000
    drafts, payloads = encode_all([user(large)])
    with store.stage(ID, started=AT) as staging:
        assert staging.next_seq == 1
        staging.add(ImportedEntry(1, AT, drafts[0], None, payloads))
        staging.publish()
    with store.open(ID, mode="read") as session:
        assert [message.text for message in session.messages] == [large]
    with pytest.raises(holdfast.SessionExists), store.stage(ID, started=AT) as staging:
        staging.publish()


def test_a_second_session_of_one_id_is_not_made(store):
    first, second = store.create(session_id=ID), store.create(session_id=ID)
    first.append(user("first"))
    with pytest.raises(holdfast.SessionExists):
        second.append(user("second"))
    with pytest.raises(holdfast.SessionExists):
        store.create(session_id=ID)
    assert [message.text for message in first.messages] == ["first"]


def test_many_entries_are_followed(store):
    with store.create() as session:
        assert list(session.follow(live=True, wait=False)) == []
        session.append([user(str(number)) for number in range(2500)])
        found = list(session.follow(wait=False))
    assert [entry.seq for entry in found] == list(range(2501))


def test_a_name_is_signed_the_same_way_every_time(store):
    session = made(store)
    name = session.signed_name("7")
    assert name.startswith("7-")
    assert name == store.open(session.id, mode="read").signed_name("7")
    assert name != session.signed_name("8")
    assert session.local_state.name == session.id
    assert session.local_state.is_relative_to(store.local_folder)
    assert session.folder in (None, session.local_state)
    assert session.id in session.location


def test_who_is_writing_to_a_session(store):
    with store.create() as session:
        session.append(holdfast.user("a"))
        holder = store.holder(session.id)
        assert holder is not None
        assert holder.pid == os.getpid()
    assert store.holder(session.id) is None
