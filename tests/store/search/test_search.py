"""Finding text in all sessions."""

from __future__ import annotations

import holdfast
from holdfast.store.local.layout import JOURNAL_NAME


def put(store: holdfast.Store, *messages: holdfast.Message) -> str:
    with store.create() as session:
        for message in messages:
            session.append(message)
    return session.id


def test_damage_does_not_hide_what_can_be_read(store):
    broken = put(store, holdfast.user("needle one"), holdfast.user("needle two"))
    journal = store.open(broken, mode="read").path / JOURNAL_NAME
    journal.write_bytes(journal.read_bytes().replace(b"needle one", b"needle\0one"))
    gone = put(store, holdfast.user("needle"))
    (store.open(gone, mode="read").path / JOURNAL_NAME).unlink()
    assert [hit.snippet for hit in store.search("needle")] == ["needle two"]
