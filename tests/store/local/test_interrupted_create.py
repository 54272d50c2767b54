"""An interrupt right after a session was made on disk, before anybody was told."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import user


def texts(session):
    return [message.text for message in session.messages]


@pytest.fixture
def session(store, monkeypatch):
    """A session whose making is interrupted once, when it is done."""
    session = store.create(title="t")
    home = session._backend.home
    real = home.make_session

    def make_session(*args):
        monkeypatch.setattr(home, "make_session", real)
        real(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(home, "make_session", make_session)
    return session


def test_the_session_has_its_first_entry_once(store, session):
    with pytest.raises(KeyboardInterrupt):
        session.append(user("a"))
    session.append(user("b"))
    assert texts(session) == ["a", "b"]
    session.close()
    with store.open(session.id) as again:
        assert again.recovery.clean
        assert texts(again) == ["a", "b"]
        assert again.meta["title"] == "t"
    assert store.verify(session.id).ok
    assert [summary.id for summary in store.list()] == [session.id]


def test_closing_writes_what_was_accepted(store, session):
    with pytest.raises(KeyboardInterrupt):
        session.append(user("a"))
    session.close()
    assert texts(store.open(session.id, "read")) == ["a"]


def test_what_somebody_else_wrote_to_it_meanwhile_is_not_discarded(store, home, session):
    """It was on disk and unlocked for a moment: what was acknowledged there has to stay."""
    with pytest.raises(KeyboardInterrupt):
        session.append(user("a"))
    with holdfast.open_store(home) as other, other.open(session.id) as theirs:
        theirs.append(user("theirs"))
    with pytest.raises(holdfast.HoldfastError):
        session.append(user("b"))
    assert texts(store.open(session.id, "read")) == ["a", "theirs"]
    with pytest.raises(holdfast.SessionExists):
        session.close()  # nobody was told of "a" yet


def test_a_folder_of_somebody_else_is_left_alone(store):
    session = store.create(session_id="20261115-194012-k3v9q2ab")
    folder = session._backend.home.folder(session.id)
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("not a session")
    with pytest.raises(holdfast.SessionExists):
        session.append(user("mine"))
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_two_that_make_a_session_of_one_id(store):
    first = store.create(session_id="20261115-194012-k3v9q2ab")
    second = store.create(session_id="20261115-194012-k3v9q2ab")
    first.append(user("first"))
    with pytest.raises(holdfast.SessionExists):
        second.append(user("second"))
    first.append(user("more"))
    assert texts(first) == ["first", "more"]


def test_what_somebody_writes_while_we_look_is_not_discarded(store, session, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        session.append(user("a"))
    looks = iter([True, False])  # ours at the first look, no more when we have the lock
    monkeypatch.setattr("holdfast.store.local.log_writer._is_leaving", lambda *_: next(looks))
    with pytest.raises(holdfast.SessionExists):
        session.append(user("b"))
    assert texts(store.open(session.id, "read")) == ["a"]
    with pytest.raises(holdfast.SessionExists):
        session.close()
