"""Golden sources, and what an import makes of them, as plain data that can be compared.

    golden/<importer>/<case>/source/…        what the agent left on disk
    golden/<importer>/<case>/expected.json   what has to come of it

A file that ends in ``.sql`` is the dump of a database: the copy has the database in its place.
``python -m tests.exchange.sources <importer>/<case>`` writes what comes of a source now; read it
with care before it is kept.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import holdfast
from holdfast.exchange.importers import importer
from holdfast.exchange.importing.importer import Imported, ImportRun
from holdfast.model.codec import plain

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(str(path.parent.relative_to(GOLDEN)) for path in GOLDEN.glob("*/*/source"))
LAST_WRITTEN_NS = 1_800_000_000 * 10**9  # where nothing in a source names a time


def copied(case: str, folder: Path) -> Path:
    """Copy a golden source; what is a dump becomes a database."""
    target = folder / "source"
    shutil.copytree(GOLDEN / case / "source", target)
    for dump in target.rglob("*.sql"):
        database = sqlite3.connect(dump.with_suffix(""))
        database.executescript(dump.read_text("utf-8"))
        database.close()
        dump.unlink()
    for path in target.rglob("*"):
        os.utime(path, ns=(LAST_WRITTEN_NS, LAST_WRITTEN_NS))
    return target


def take_all(store: holdfast.Store, name: str, path: Path) -> list[Imported]:
    """Import everything below ``path``."""
    one = importer(name)
    with ImportRun(store) as importing:
        sources = list(one.sessions(path, importing.reading()))
        return [importing.take(one, source) for source in sources]


def outcome(store: holdfast.Store, done: Imported, path: Path) -> dict[str, Any]:
    """Return what became of one source."""
    result: dict[str, Any] = {
        "id": done.source.id,
        "action": done.action,
        "problems": [[each.line, each.reason] for each in done.problems],
    }
    if done.session is None:
        return result
    with store.open(done.session, mode="read") as session:
        imported = session.meta["imported"]
        entries = [
            entry for entry in session.follow(wait=False) if isinstance(entry, holdfast.Entry)
        ]
        assert store.verify(done.session).ok
        result |= {
            "session": _without_place(done),
            "meta": {k: _placed(v, path) for k, v in session.meta.items() if k != "imported"},
            "imported": {k: imported.get(k) for k in ("family", "parent") if imported.get(k)},
            "totals": plain_totals(session),
            "context": [message.text for message in session.context()],
            "events": [
                entry.body.name for entry in entries if isinstance(entry.body, holdfast.Custom)
            ],
            "recorded": session.state.messages,
            "messages": [
                {"at": entry.at, **plain(entry.body)}
                for entry in reversed(list(session.branch()))
                if isinstance(entry.body, holdfast.Message)
            ],
        }
    return result


def _without_place(done: Imported) -> str | None:
    """Return the session's id; its end depends on where the source is, if the source's id does."""
    session = done.session
    return session and (session[:-8] + "<folder>" if done.source.local else session)


def _placed(value: Any, path: Path) -> Any:
    """Return a fact with the folder of the copy left out."""
    return value.replace(str(path), "<source>") if isinstance(value, str) else value


def plain_totals(session: holdfast.Session) -> dict[str, Any]:
    totals = session.totals
    names = ("requests", "input", "output", "cache_read", "cache_write", "cost_usd")
    return {name: getattr(totals, name) for name in names}


def _main(case: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = copied(case, folder)
        with holdfast.open_store(folder / "home") as store:
            done = take_all(store, case.partition("/")[0], source)
            result = [outcome(store, each, source) for each in done]
        text = json.dumps(result, indent=1, ensure_ascii=False)
        (GOLDEN / case / "expected.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    _main(sys.argv[1])
