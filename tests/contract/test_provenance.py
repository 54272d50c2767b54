"""Where entries came from is recorded outside what their sender controls."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.model.entry import Meta, Turn
from holdfast.store.types import IMPORT, Provenance
from holdfast.store.write.encode import ImportedEntry, encode_all

AT = "2026-11-15T19:40:12.001Z"


FUTURE = "2099-01-01T00:00:00.000Z"


@pytest.fixture
def ours(store):
    with store.create(title="ours") as session:
        session.append(holdfast.user("hello"))
    return session


def past(seq, body, at=AT):
    return ImportedEntry(seq, at, encode_all([body])[0][0])


def staged(store, *, at=AT):
    with store.stage("20261115-194012-k3v9q2ab", started=at, source="an agent: /x") as staging:
        staging.add(past(1, holdfast.user("from elsewhere"), at))
        return staging.publish()


def test_what_was_written_here_is_ours(store, ours):
    assert store.provenance(ours.id) == Provenance()
    with store.open(ours.id) as again:
        again.append(holdfast.user("more"))
        assert not again.provenance().any_foreign
        assert not again.provenance().is_foreign(0)
    assert not store.list()[0].foreign


def test_a_session_without_an_entry_is_ours(store):
    with store.create() as session:
        assert session.provenance() == Provenance()
        session.append(holdfast.user("hello"))
        assert session.provenance() == Provenance()


def test_a_session_by_key_is_ours(store):
    with store.session("telegram:42") as session:
        session.append(holdfast.user("hello"))
        assert not session.provenance().any_foreign


def test_a_session_that_was_staged_is_foreign(store):
    session_id = staged(store)
    found = store.provenance(session_id)
    assert found.foreign[0][0] == 0
    assert found.is_foreign(1)
    assert found.source == "imported from an agent: /x"
    assert [each.kind for each in found.received] == [IMPORT]
    with store.open(session_id) as session:
        seq = session.append(holdfast.user("mine")).seq
        assert not session.provenance().is_foreign(seq)
        assert session.provenance().is_foreign(1)
    assert store.list()[0].foreign


def test_what_an_import_adds_later_is_foreign(store, ours):
    with store.open(ours.id) as session:
        before = session.append(holdfast.user("mine")).seq
        session.adopt([past(50, holdfast.user("theirs"))], "an agent: /y")
        after = session.append(holdfast.user("mine again")).seq
        found = session.provenance()
    assert found.is_foreign(50)
    assert not found.is_foreign(before)
    assert not found.is_foreign(after)
    assert found.source == "imported from an agent: /y"


def test_accepting_is_for_good_and_for_what_is_there(store):
    session_id = staged(store)
    assert store.list()[0].foreign
    before = store.accept(session_id)
    assert before.is_foreign(1)
    assert not store.provenance(session_id).any_foreign
    assert not store.list()[0].foreign
    assert store.accept(session_id) == store.provenance(session_id)
    with store.open(session_id) as session:
        session.adopt([past(50, holdfast.user("more of theirs"))], "an agent: /x")
        assert session.provenance().is_foreign(50)
        assert not session.provenance().is_foreign(1)


def test_only_what_was_looked_at_is_accepted(store):
    session_id = staged(store)
    store.accept(session_id, upto=0)
    found = store.provenance(session_id)
    assert (found.is_foreign(0), found.is_foreign(1)) == (False, True)


def test_a_time_in_the_future_does_not_make_a_session_the_newest(store):
    staged(store, at=FUTURE)
    assert store.list()[0].updated < FUTURE
    with store.create() as session:
        session.append([holdfast.user("mine"), Turn("started"), Meta({"title": "newer"})])
    assert [summary.id for summary in store.list(limit=1)] == [session.id]
