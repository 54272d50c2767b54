"""Sessions that a caller names by a key of its own."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.model.ids import key_session_id
from tests.disk import snapshot

KEYS = [
    "a:b",
    "a_b",
    "a/b",
    "A:B",
    "telegram:42",
    "../../etc/passwd",
    "/absolute",
    "nul\0byte",
    "new\nline",
    " ",
    "ключ",
    "\u00e9",  # é as one character
    "e\u0301",  # é as two
    "\ud800",
    "\ud801",
    "k" * 10240,
]


def test_no_two_keys_share_a_session(store, home):
    for key in KEYS:
        with store.session(key) as session:
            session.append(holdfast.user(f"of {key!r}"))
            assert session.id == key_session_id(key)
            assert session.path.parent == home / "sessions" / "keyed"
    assert len(list((home / "sessions" / "keyed").iterdir())) == len(KEYS)
    for key in KEYS:
        with store.session(key, mode="read") as session:
            assert session.messages == [holdfast.user(f"of {key!r}")]
    assert {summary.key for summary in store.list()} == set(KEYS)


def test_reading_the_session_of_a_key_that_has_none_makes_none(store, home):
    with pytest.raises(holdfast.SessionNotFound, match="telegram"):
        store.session("telegram:42", mode="read")
    assert not home.exists()


@pytest.mark.parametrize("key", ["", None, 42, b"key", ["key"]])
def test_what_cannot_be_a_key_is_refused(store, home, key):
    with pytest.raises(holdfast.UsageError):
        store.session(key)
    assert not home.exists()


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_session_whose_header_has_another_key_is_refused(store, home, mode):
    with store.session("mine") as session:
        session.append(holdfast.user("hello"))
    session.path.rename(session.path.with_name(key_session_id("yours")))
    before = snapshot(home)
    with pytest.raises(holdfast.DamagedJournal) as caught:
        store.session("yours", mode=mode)
    assert caught.value.kind == "the session of key 'mine'"
    after = snapshot(home)
    for name in before:
        if name.endswith("/lock"):  # says who looked last
            before[name] = after[name]
    assert after == before


def test_a_key_whose_header_cannot_be_read_still_opens(store):
    with store.session("mine") as session:
        session.append(holdfast.user("hello"))
    journal = session.path / "journal.jsonl"
    data = journal.read_bytes()
    journal.write_bytes(b"?" * data.index(b"\n") + data[data.index(b"\n") :])
    with store.session("mine") as session:
        session.append(holdfast.user("more"))
        assert [message.text for message in session.messages] == ["hello", "more"]
        assert len(session.recovery.damage) == 1
