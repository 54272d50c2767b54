"""opencode: forks, which have copies of messages under new ids."""

from __future__ import annotations

import json
from typing import Any

from tests.exchange.sources import take_all


def exported(session, *replies):
    messages: list[Any] = []
    for number in replies:
        times = {"created": 1_793_000_000_000 + number * 1000}
        user = {"id": f"msg_{session}{number}a", "role": "user", "time": times}
        text = {"id": f"prt_{session}{number}a", "type": "text", "text": f"{number}?"}
        messages.append({"info": user, "parts": [text]})
        reply = {"id": f"msg_{session}{number}b", "role": "assistant", "time": times}
        tokens = {"input": 100, "output": 10 * number, "reasoning": 0, "cache": {"read": 5}}
        parts = [
            {"id": f"prt_{session}{number}b", "type": "text", "text": f"{number}."},
            {"id": f"prt_{session}{number}c", "type": "step-finish", "tokens": tokens, "cost": 1},
        ]
        messages.append({"info": reply, "parts": parts})
    return {"info": {"id": f"ses_{session}", "directory": "/p"}, "messages": messages}


def test_a_fork_counts_only_its_own_requests(store, tmp_path):
    folder = tmp_path / "exports"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(exported("one", 1, 2)))
    (folder / "b.json").write_text(json.dumps(exported("two", 1, 3)))
    (folder / "c.json").write_text(json.dumps(exported("other", 5)))
    first, second, _ = take_all(store, "opencode", folder)
    assert (first.counts.requests, second.counts.requests) == (2, 1)
    assert sum(each.totals.output for each in store.list()) == 10 + 20 + 30 + 50
    (folder / "b.json").write_text(json.dumps(exported("two", 1, 3, 4)))
    _, again, _ = take_all(store, "opencode", folder)
    assert (again.action, again.counts.requests) == ("grown", 1)
