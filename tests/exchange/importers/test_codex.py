"""Codex: packed files, forks, rewinds, names, usage, and prompts taken back."""

from __future__ import annotations

import json
import sys

import pytest

from holdfast.errors import ImportRejected
from holdfast.exchange.importers import importer
from holdfast.exchange.importing.source_files import SourceReader
from tests.exchange.growth import check_growth
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
    assert "cannot be unpacked from here on (it ends in the middle)" in reasons


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


THREAD = "0199aa00-1111-7222-8333-44445555"


def thread(number):
    return f"{THREAD}{number:04d}"


class Rollout:
    """Writes the lines of a thread, numbered as the agent numbers them."""

    def __init__(self, id, ordinal=0, **meta):
        self.ordinal, self.lines = ordinal, []
        self.line("session_meta", id=id, timestamp="2026-11-01T00:00:00Z", cwd="/p", **meta)

    def line(self, kind, **payload):
        at = f"2026-11-01T00:{self.ordinal // 60:02d}:{self.ordinal % 60:02d}.000Z"
        self.lines.append(
            {"timestamp": at, "ordinal": self.ordinal, "type": kind, "payload": payload}
        )
        self.ordinal += 1
        return self

    def event(self, kind, **more):
        return self.line("event_msg", type=kind, **more)

    def said(self, role, words):
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": words}]
        return self.line("response_item", type="message", role=role, content=content)

    def called(self, id):
        call = {"name": "exec_command", "arguments": "{}", "call_id": id}
        return self.line("response_item", type="function_call", **call)

    def answered(self, output, **more):
        return self.line("response_item", type="function_call_output", output=output, **more)

    def used(self, response, total, output=10):
        usage = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": output}
        self.line("token_usage_record", response_id=response, usage=usage)
        self.event("token_count", info={"total_token_usage": total, "last_token_usage": usage})
        return self

    def turn(self, words, reply, response=None):
        self.event("task_started").said("user", words).event("item_completed", item={})
        self.said("assistant", reply).event("item_completed", item={})
        if response:
            number = int(response[1:])
            total = {"input_tokens": 100 * number, "cached_input_tokens": 40 * number}
            self.used(response, {**total, "output_tokens": 10 * number})
        return self.event("task_complete")

    def write(self, folder, name, time="00-00-00"):
        path = folder / f"rollout-2026-11-01T{time}-{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path


@pytest.fixture
def sessions(tmp_path):
    made = tmp_path / ".codex" / "sessions" / "2026" / "11" / "01"
    made.mkdir(parents=True)
    return made


def texts(store, session_id):
    with store.open(session_id, mode="read") as session:
        return [message.text for message in session.messages]


def test_a_turn_as_it_is_written_today(store, sessions):
    talk = Rollout(thread(1), history_mode="paginated")
    talk.event("task_started").said("user", "list").event("item_completed", item={"a": 1})
    talk.line("response_item", type="reasoning", summary=[], encrypted_content="gA")
    talk.said("assistant", "Looking.").called("c1").called("c2")
    total = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 10}
    talk.line("token_usage_record", response_id="r1", usage=total)
    talk.answered("Chunk ID: 1\nProcess exited with code 0\nOutput:\nok", call_id="c1")
    bad = "Chunk ID: 2\nProcess exited with code 2\nOutput:\nProcess exited with code 0\n"
    talk.answered(bad, call_id="c2")
    talk.event("token_count", info={"total_token_usage": total})
    talk.line("world_state", full=True).event("thread_settings_applied", model="m")
    talk.said("assistant", "Done.")
    talk.used("r2", {"input_tokens": 200, "cached_input_tokens": 80, "output_tokens": 20})
    talk.event("task_complete")
    path = talk.write(sessions, thread(1))
    (done,) = take_all(store, "codex", sessions)
    with store.open(done.session, mode="read") as session:
        roles = [message.role for message in session.messages]
        assert roles == ["user", "assistant", "tool", "tool", "assistant"]
        outcomes = [message.content[0].outcome for message in session.messages[2:4]]
        assert outcomes == ["completed", "failed"]
        assert (session.totals.requests, session.totals.output) == (2, 20)
        assert (session.totals.input, session.totals.cache_read) == (120, 80)
    check_growth("codex", path)


def test_totals_count_where_there_are_no_records(store, sessions):
    talk = Rollout(thread(1))
    for number in (1, 2):
        talk.said("user", f"{number}?").said("assistant", f"{number}.")
        total = {"input_tokens": 100 * number, "output_tokens": 10 * number}
        talk.event("token_count", info={"total_token_usage": total})
        talk.event("token_count", info={"total_token_usage": total})
    talk.write(sessions, thread(1))
    take_all(store, "codex", sessions)
    (summary,) = store.list()
    assert (summary.totals.requests, summary.totals.input, summary.totals.output) == (2, 200, 20)


def test_a_result_that_names_no_call_is_no_result(store, sessions):
    talk = Rollout(thread(1)).said("user", "go").said("assistant", "Waiting.")
    talk.answered("the other agent is done", name="wait", namespace="agent")
    talk.write(sessions, thread(1))
    (done,) = take_all(store, "codex", sessions)
    with store.open(done.session, mode="read") as session:
        last = session.messages[-1]
        assert (last.role, last.text) == ("user", "the other agent is done")
        assert last.extra == {"generated": True}


def test_an_interrupted_turn(store, sessions):
    talk = Rollout(thread(1)).event("task_started").said("user", "go").said("assistant", "I am")
    talk.said("user", "<turn_aborted>\nThe user interrupted.\n</turn_aborted>")
    talk.event("turn_aborted", reason="interrupted").turn("again", "Done.")
    path = talk.write(sessions, thread(1))
    (done,) = take_all(store, "codex", sessions)
    with store.open(done.session, mode="read") as session:
        assert [message.stop for message in session.messages[:2]] == [None, "interrupted"]
        assert session.messages[2].extra == {"generated": True}
    (summary,) = store.list()
    assert summary.title == "go"
    check_growth("codex", path)


def test_names_stand_beside_the_sessions(store, sessions, tmp_path):
    index = tmp_path / ".codex" / "session_index.jsonl"
    lines = [
        {"id": thread(1), "thread_name": "old", "updated_at": "2026-11-01T00:00:00Z"},
        {"id": thread(2), "thread_name": "other", "updated_at": "2026-11-01T00:00:00Z"},
        {"id": thread(1), "thread_name": "Slow builds", "updated_at": "2026-11-02T00:00:00Z"},
    ]
    index.write_text("".join(json.dumps(line) + "\n" for line in lines))
    Rollout(thread(1)).turn("why?", "So.").write(sessions, thread(1))
    (done,) = take_all(store, "codex", sessions)
    assert done.action == "created"
    (summary,) = store.list()
    assert summary.title == "Slow builds"
    with index.open("a") as file:
        file.write(json.dumps({"id": thread(1), "thread_name": "Fast builds"}) + "\n")
    take_all(store, "codex", sessions)
    (summary,) = store.list()
    assert summary.title == "Fast builds"


def test_a_rewind_is_a_branch_of_the_same_session(store, sessions):
    talk = Rollout(thread(1)).turn("one", "1.", "r1")
    cut = talk.ordinal
    talk.turn("two", "2.", "r2")
    talk.write(sessions, thread(1))
    take_all(store, "codex", sessions)
    base = {"thread_id": thread(1), "end_ordinal_exclusive": cut, "end_byte_offset": 99}
    segment = Rollout(thread(1), cut, history_base=base).turn("three", "3.", "r3")
    path = segment.write(sessions, f"{thread(1)}_{thread(7)}", "01-00-00")
    (again,) = take_all(store, "codex", sessions)
    assert (again.source.id, again.action) == (thread(1), "grown")
    assert texts(store, again.session) == ["one", "1.", "three", "3."]
    with store.open(again.session, mode="read") as session:
        assert session.state.messages == 6
        assert (session.totals.requests, session.totals.output) == (3, 30)
    check_growth("codex", path)


def test_two_rewinds(store, sessions):
    talk = Rollout(thread(1)).turn("one", "1.")
    cut = talk.ordinal
    talk.turn("two", "2.").write(sessions, thread(1))
    base = {"thread_id": thread(1), "end_ordinal_exclusive": cut}
    second = Rollout(thread(1), cut, history_base=base).turn("three", "3.")
    later = second.ordinal
    second.turn("four", "4.").write(sessions, f"{thread(1)}_{thread(7)}", "01-00-00")
    base = {"thread_id": thread(1), "end_ordinal_exclusive": later}
    third = Rollout(thread(1), later, history_base=base).turn("five", "5.")
    third.write(sessions, f"{thread(1)}_{thread(6)}", "02-00-00")
    (done,) = take_all(store, "codex", sessions)
    assert texts(store, done.session) == ["one", "1.", "three", "3.", "five", "5."]


def forked(sessions, *, depth=1):
    talk = Rollout(thread(1)).turn("one", "1.", "r1")
    cut = talk.ordinal
    talk.turn("two", "2.", "r2").write(sessions, thread(1))
    base = {"thread_id": thread(1), "end_ordinal_exclusive": cut, "end_byte_offset": 99}
    more = {"forked_from_id": thread(1), "forked_from_ordinal_exclusive": cut}
    fork = Rollout(thread(2), cut, history_base=base, **more).turn("three", "3.", "r3")
    path = fork.write(sessions, thread(2), "01-00-00")
    if depth == 1:
        return path
    base = {"thread_id": thread(2), "end_ordinal_exclusive": fork.ordinal}
    again = Rollout(thread(3), fork.ordinal, history_base=base, forked_from_id=thread(2))
    return again.turn("four", "4.", "r4").write(sessions, thread(3), "02-00-00")


def test_a_fork_has_its_whole_past_and_counts_it_once(store, sessions):
    path = forked(sessions)
    first, second = take_all(store, "codex", sessions)
    assert texts(store, first.session) == ["one", "1.", "two", "2."]
    assert texts(store, second.session) == ["one", "1.", "three", "3."]
    assert sum(each.totals.output for each in store.list()) == 30
    check_growth("codex", path)


def test_a_fork_of_a_fork(store, sessions):
    forked(sessions, depth=2)
    done = take_all(store, "codex", sessions)
    assert texts(store, done[2].session) == ["one", "1.", "three", "3.", "four", "4."]
    assert sum(each.totals.output for each in store.list()) == 40


def test_a_fork_imported_alone_finds_its_past(store, sessions):
    path = forked(sessions)
    (done,) = take_all(store, "codex", path)
    assert texts(store, done.session) == ["one", "1.", "three", "3."]


def test_a_fork_whose_past_is_gone(store, sessions):
    path = forked(sessions)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [line for line in lines if line["type"] != "token_usage_record"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    next(each for each in sessions.iterdir() if thread(1) in each.name).unlink()
    (done,) = take_all(store, "codex", sessions)
    assert texts(store, done.session) == ["three", "3."]
    assert "which was not found" in done.problems[0].reason
    (summary,) = store.list()
    assert summary.totals.output == 10, "the total has what the past cost, too"
