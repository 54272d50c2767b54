"""Codex: packed files, forks, and prompts taken back."""

from __future__ import annotations

import json
import sys

import pytest

from holdfast.errors import ImportRejected
from holdfast.exchange.importers import importer
from holdfast.exchange.importing.source_files import SourceReader
from tests.exchange.sources import copied, outcome, take_all

zstd = pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")


def packed(path):
    target = path.with_name(path.name + ".zst")
    target.write_bytes(zstd.compress(path.read_bytes()))
    path.unlink()
    return target


def test_a_packed_session_is_the_same_session(store, tmp_path):
    source = copied("codex/turns", tmp_path)
    (first,) = take_all(store, "codex", source)
    before = outcome(store, first, source)
    (path,) = source.rglob("*.jsonl")
    packed(path)
    (again,) = take_all(store, "codex", source)
    assert again.session == first.session
    assert again.action == "unchanged"
    assert outcome(store, again, source) == {**before, "action": "unchanged"}
    assert importer("codex").sniff(source, SourceReader())


def test_a_packed_session_alone(store, tmp_path):
    source = copied("codex/turns", tmp_path)
    (path,) = source.rglob("*.jsonl")
    packed(path)
    (done,) = take_all(store, "codex", source)
    assert done.action == "created"
    assert done.counts.messages == 11


def test_what_is_no_packed_session_is_refused(store, tmp_path):
    source = copied("codex/turns", tmp_path)
    (path,) = source.rglob("*.jsonl")
    target = packed(path)
    target.write_bytes(b"nonsense" * 10)
    with pytest.raises(ImportRejected, match="cannot be unpacked"):
        take_all(store, "codex", source)
    assert store.list() == []


def test_a_packed_session_that_breaks_off_is_read_up_to_there(store, tmp_path):
    source = copied("codex/turns", tmp_path)
    (path,) = source.rglob("*.jsonl")
    line = path.read_bytes().splitlines(keepends=True)[4]
    path.write_bytes(path.read_bytes() + line * 5000)
    target = packed(path)
    target.write_bytes(target.read_bytes()[:-20])
    (done,) = take_all(store, "codex", source)
    assert done.action == "created"
    assert done.counts.messages > 11
    reasons = [each.reason for each in done.problems]
    assert "cannot be unpacked from here on (it breaks off in the middle)" in reasons


def test_without_the_package_the_error_says_what_to_install(store, tmp_path, monkeypatch):
    source = copied("codex/turns", tmp_path)
    (path,) = source.rglob("*.jsonl")
    packed(path)
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportRejected, match=r"holdfast\[zstd\]"):
        take_all(store, "codex", source)


def test_a_fork_counts_only_its_own_requests(store, tmp_path):
    source = copied("codex/turns", tmp_path)
    (path,) = source.rglob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    old = lines[0]["payload"]["id"]
    new = old[:-4] + "9999"
    meta = {**lines[0], "payload": {**lines[0]["payload"], "id": new, "forked_from_id": old}}
    more = {
        "timestamp": "2026-02-04T00:00:00.000Z",
        "type": "event_msg",
        "payload": {
            "type": "token_count",
            "info": {
                "total_token_usage": {
                    "input_tokens": 400,
                    "cached_input_tokens": 150,
                    "output_tokens": 50,
                }
            },
        },
    }
    fork = path.with_name(f"rollout-2026-02-04T00-00-00-{new}.jsonl")
    fork.write_text("".join(json.dumps(line) + "\n" for line in [meta, *lines, more]))
    done = take_all(store, "codex", source)
    assert [each.counts.requests for each in done] == [3, 1]
    assert sum(each.totals.output for each in store.list()) == 50
