"""Every call of the library on every odd journal: an error of ours or none, never another.

A healthy session stands beside the odd one, and has to be found by whatever lists or searches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import holdfast
from holdfast import Store, user
from tests.hostile import SESSION
from tests.odd_journals import FILES, put_odd

HEALTHY = "20260102-030405-aaaabbbb"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with holdfast.open_store(tmp_path / "home") as store:
        with store.create(session_id=HEALTHY) as session:
            session.append(user("needle of the healthy one"))
        return store


def _reading(store: Store) -> Iterator[Callable[[], object]]:
    def read() -> None:
        with store.open(SESSION, mode="read") as session:
            _ = session.messages, session.context(), session.state, session.totals
            session.export("markdown")
            session.export("json")

    yield lambda: store.verify(SESSION)
    yield lambda: list(store.checkup(fix=False))
    yield store.activity
    yield read


def _writing(store: Store) -> Iterator[Callable[[], object]]:
    def write() -> None:
        with store.open(SESSION) as session:
            session.append(user("more"), id="an id")
            session.checkpoint([user("so far")], keep_last=1)
            session.fork().close()
            session.compact()

    yield write
    yield lambda: store.compress(SESSION)
    yield lambda: store.verify(SESSION)
    yield lambda: list(store.checkup(fix=True))
    yield lambda: store.delete(SESSION)
    yield lambda: store.restore(SESSION)


@pytest.mark.parametrize("name", FILES)
def test_no_call_raises_an_error_that_is_not_ours(name: str, store: Store):
    put_odd(store.path, name)
    for call in (*_reading(store), *_writing(store)):
        with suppress(holdfast.HoldfastError):
            call()
        assert HEALTHY in {summary.id for summary in store.list()}
        assert HEALTHY in {hit.session for hit in store.search("needle")}
