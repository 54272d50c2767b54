"""zot: running totals, exports, and sessions that go on."""

from __future__ import annotations

import json

from tests.exchange.sources import copied, plain_totals, take_all


def usage(tokens, cost):
    total = {"input_tokens": tokens, "output_tokens": 1, "cost_usd": cost}
    return json.dumps({"type": "usage", "usage": total, "cumulative": total}) + "\n"


def totals(store, done):
    with store.open(done.session, mode="read") as session:
        return plain_totals(session)


def test_totals_that_begin_anew_are_added(store, tmp_path):
    source = copied("zot/turns", tmp_path)
    (path,) = source.rglob("*.jsonl")
    with path.open("a") as file:
        file.write(usage(7, 0.5) + usage(7, 0.5) + usage(9, 0.75))
    (done,) = take_all(store, "zot", source)
    found = totals(store, done)
    assert found["requests"] == 3 + 2
    assert found["input"] == 160 + 9
    assert round(found["cost_usd"], 6) == 0.035 + 0.75


def test_a_session_that_goes_on_is_continued(store, tmp_path):
    source = copied("zot/turns", tmp_path)
    (path,) = source.rglob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]))
    (first,) = take_all(store, "zot", source)
    path.write_bytes(b"".join(lines))
    (again,) = take_all(store, "zot", source)
    assert (first.action, again.action) == ("created", "grown")
    assert first.session == again.session
    assert totals(store, again)["input"] == 160


def test_an_export_is_the_session_that_it_was_made_from(store, tmp_path):
    source = copied("zot/turns", tmp_path)
    (first,) = take_all(store, "zot", source)
    (path,) = source.rglob("*.jsonl")
    export = tmp_path / "export.zotsession"
    first_line, _, rest = path.read_text("utf-8").partition("\n")
    meta = json.loads(first_line)
    meta["meta"]["cwd"] = ""
    export.write_text(json.dumps(meta) + "\n" + rest, "utf-8")
    (again,) = take_all(store, "zot", export)
    assert again.session == first.session
    assert again.action == "unchanged"
    with store.open(first.session, mode="read") as session:
        assert session.meta["workspace"] == "/srv/app"


def test_rows_without_a_total_count_by_themselves(store, tmp_path):
    source = copied("zot/turns", tmp_path)
    (path,) = source.rglob("*.jsonl")
    lines = [line for line in path.read_text().splitlines() if '"usage"' not in line]
    rows = [(10, 5, 0.01), (30, 7, 0.02), (30, 7, 0.02)]
    for read, written, cost in rows:
        spent = {"input_tokens": read, "output_tokens": written, "cost_usd": cost}
        lines.append(json.dumps({"type": "usage", "usage": spent}))
    path.write_text("\n".join(lines) + "\n")
    (done,) = take_all(store, "zot", source)
    found = totals(store, done)
    assert (found["requests"], found["input"], found["output"]) == (3, 70, 19)
    path.with_name(f"x{path.name}").write_text(path.read_text().replace('"id":"', '"id":"x', 1))
    take_all(store, "zot", source)
    assert sum(each.totals.requests for each in store.list()) == 3, "a fork repeats its rows"
