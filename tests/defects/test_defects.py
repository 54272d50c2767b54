"""Defects that other session stores have had. One test each shows that this one has not."""

from __future__ import annotations

import os
import shutil
import stat
import threading

import pytest

import holdfast
from holdfast import assistant, user
from holdfast.journal.format import seal
from tests.processes import running

FIRST = "20260102-030405-aaaabbbb"


def texts(session) -> list[str]:
    return [message.text for message in session.messages]


def journal_of(session):
    return session.path / "journal.jsonl"


def last_sum(data: bytes) -> bytes:
    return data[-11:-3]


def test_defect_01_an_append_overwrites_what_came_through_a_second_descriptor(store):
    with store.create(session_id=FIRST) as session:
        session.append(user("one"))
        data = journal_of(session).read_bytes()
        at = "2026-01-02T03:04:05.000Z"
        rename = seal(90, at, "meta", b'{"title":"renamed"}', last_sum(data)) + b"\n"
        descriptor = os.open(journal_of(session), os.O_WRONLY)
        os.pwrite(descriptor, rename, len(data))
        os.close(descriptor)
        # Somebody wrote beside us: nothing is overwritten, and nobody is told that it was saved.
        with pytest.raises(holdfast.WriteFailed):
            session.append(user("two"))
        assert journal_of(session).read_bytes() == data + rename
    with store.open(FIRST) as session:
        assert session.meta["title"] == "renamed"
        session.append(user("two"))
    assert journal_of(session).read_bytes().startswith(data + rename)
    with store.open(FIRST, mode="read") as session:
        assert session.meta["title"] == "renamed"
        assert texts(session) == ["one", "two"]


def test_defect_02_a_torn_last_line_fuses_with_the_next_append(store):
    with store.create(session_id=FIRST) as session:
        session.append(user("one"))
        session.append(user("two"))
    data = journal_of(session).read_bytes()
    journal_of(session).write_bytes(data[:-30])
    with store.open(FIRST) as session:
        session.append(user("three"))
    with store.open(FIRST) as session:
        assert texts(session) == ["one", "three"]
        assert session.recovery.clean


def test_defect_03_one_full_disk_ends_persistence_for_the_rest_of_the_run(fragile, files):
    with fragile.create(session_id=FIRST) as session:
        session.append(user("one"))
        with files.full_disk(), pytest.raises(holdfast.DiskFull):
            session.append(user("two"))
        session.append(user("three"))
        session.append(user("four"))
    with fragile.open(FIRST, mode="read") as session:
        assert texts(session) == ["one", "two", "three", "four"]


def test_defect_05_a_model_switch_after_a_rename_erases_the_title(store):
    with store.create(session_id=FIRST, model="m1", provider="p") as session:
        session.append(user("one"))
        session.update(title="my title")
        session.update(model="m2")
    (summary,) = store.list()
    assert (summary.title, summary.model, summary.provider) == ("my title", "m2", "p")


@pytest.mark.parametrize("trouble", ["a bad byte", "a line of 21 MB", "both"])
def test_defect_07_one_bad_byte_or_long_line_makes_a_session_unloadable(store, trouble):
    with store.create(session_id=FIRST) as session:
        session.append(user("one"))
        session.event("filler", "x" * (21_000_000 if trouble != "a bad byte" else 10))
        session.append(user("two"))
    if trouble != "a line of 21 MB":
        data = journal_of(session).read_bytes()
        place = data.index(b'"filler"')
        journal_of(session).write_bytes(data[:place] + b"\xff" + data[place + 1 :])
    (summary,) = store.list()
    assert (summary.id, summary.messages) == (FIRST, 2)
    with store.open(FIRST) as session:
        assert texts(session) == ["one", "two"]
        session.append(user("three"))
    with store.open(FIRST) as session:
        assert texts(session) == ["one", "two", "three"]


def test_defect_08_listing_deletes_sessions_that_fail_to_load(store, home):
    kinds = {"empty": b"", "garbage": b"\xff" * 99, "half a header": b'{"seq":0,"at":"2026-'}
    ids = []
    for content in kinds.values():
        with store.create() as session:
            session.append(user("hello"))
        journal_of(session).write_bytes(content)
        ids.append(session.id)
    for _ in range(2):
        listed = store.list()
        assert {summary.id for summary in listed} == set(ids)
        assert {summary.state for summary in listed} == {"damaged"}
    assert store.cleanup(0) == 0
    left = {path.read_bytes() for path in home.glob("sessions/*/*/journal.jsonl")}
    assert left == set(kinds.values())


def test_defect_10_summarising_in_the_background_drops_messages_that_arrive_meanwhile(store):
    with store.create(session_id=FIRST) as session:
        session.append(user("one"))
        upto = session.append(assistant("two"))
        arrived = threading.Event()

        def summarise() -> None:
            arrived.wait()
            session.checkpoint("one and two", upto=upto)

        summariser = threading.Thread(target=summarise)
        summariser.start()
        session.append(user("three, while the summary is made"))
        arrived.set()
        summariser.join()
        expected = ["one and two", "three, while the summary is made"]
        assert [message.text for message in session.context()] == expected
    with store.open(FIRST) as session:
        assert [message.text for message in session.context()] == expected
        assert texts(session) == ["one", "two", "three, while the summary is made"]


def test_defect_11_two_processes_interleave_or_overwrite(store, home):
    source = f"""
session = store.create(session_id={FIRST!r})
session.append(user("theirs"))
ready()
session.append(user("theirs again"))
print("done", flush=True)
sys.stdin.readline()
"""
    with running(source, home) as process:
        with pytest.raises(holdfast.SessionLocked):
            store.open(FIRST)
        with pytest.raises(holdfast.SessionExists):
            store.create(session_id=FIRST)
        assert process.tell("go on") == "done"
        process.kill()
    with store.open(FIRST) as session:
        session.append(user("ours"))
        assert texts(session) == ["theirs", "theirs again", "ours"]
    assert store.verify(FIRST).ok


def test_defect_12_files_are_readable_by_everybody(store, home):
    before = os.umask(0o022)
    try:
        with store.create() as session:
            session.append(user("x" * 300_000))
            with session.stream() as live:
                live.write("text")
        store.list()
        store.delete(session.id)
        store.list()
    finally:
        os.umask(before)
    for path in [home, *home.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_defect_13_names_of_files_collide(store):
    keys = ["a:b", "a_b", "a/b", "a b", "A:B", "a:b ", "a\0b"]
    for key in keys:
        with store.session(key) as session:
            session.append(user(f"of {key!r}"))
    for key in keys:
        with store.session(key, mode="read") as session:
            assert texts(session) == [f"of {key!r}"]


def test_defect_14_an_index_that_disagrees_with_the_files_hides_sessions(store, home):
    ids = set()
    for number in range(3):
        with store.create() as session:
            session.append(user(str(number)))
        ids.add(session.id)
        if number == 0:
            store.list()
            shutil.copy(home / "index.db", home / "old.db")
    store.list()
    shutil.copy(home / "old.db", home / "index.db")  # as after a restored backup
    assert {summary.id for summary in store.list()} == ids
    (home / "index.db").write_bytes(b"nonsense" * 1000)
    assert {summary.id for summary in store.list()} == ids
    assert all(store.open(session_id, mode="read").messages for session_id in ids)


def test_defect_15_checkpoints_throw_away_cost_and_events(store):
    with store.create(session_id=FIRST) as session:
        session.append(user("one"))
        session.usage(input=100, output=10, cost_usd=0.5, model="m")
        session.event("tunnel", {"event_id": 7}, complete=True)
        session.checkpoint("so far")
        session.append(user("two"))
        session.usage(input=1, output=1, cost_usd=0.25, model="m")
        session.compact()
    with store.open(FIRST) as session:
        assert session.totals.cost_usd == 0.75
        assert session.totals.requests == 2
        events = [
            entry.body
            for entry in session.follow(wait=False)
            if isinstance(entry.body, holdfast.Custom)
        ]
        assert events == [holdfast.Custom("tunnel", {"event_id": 7}, True)]
    assert store.list()[0].cost_usd == 0.75


def test_defect_17_nothing_is_on_disk_until_the_first_reply(store, home):
    source = f"""
session = store.create(session_id={FIRST!r})
session.append(user("my prompt"))
ready()
"""
    with running(source, home) as process:
        process.kill()
    with store.open(FIRST) as session:
        assert texts(session) == ["my prompt"]


def test_defect_18_listeners_are_told_before_the_write_is_durable(fragile, files, eventually):
    with fragile.create(session_id=FIRST) as session:
        told = []

        def listen(entry: holdfast.Entry) -> None:
            synced = files.last("sync", "journal.jsonl") > files.last("write", "journal.jsonl")
            on_disk = entry.line in journal_of(session).read_bytes()
            told.append((getattr(entry.body, "text", ""), synced, on_disk))

        session.on_entry(listen)
        session.append(user("one"))
        session.submit(user("two")).wait()
        eventually(lambda: "two" in [text for text, *_ in told])
        with files.full_disk(), pytest.raises(holdfast.DiskFull):
            session.append(user("three"))
        assert [text for text, *_ in told if text == "three"] == []
        session.append(user("four"))
    messages = [each for each in told if each[0]]
    assert messages == [(text, True, True) for text in ("one", "two", "three", "four")]


def test_defect_19_an_append_cursor_in_another_file_duplicates_messages(store):
    with store.create(session_id=FIRST) as session:
        session.append(user("one"))
        lock = session.path / "lock"
        stale = lock.read_bytes()
        session.append(user("two"))
    for content in (stale, b"", b"\xff" * 600, None):
        if content is None:
            lock.unlink()
        else:
            lock.write_bytes(content)  # as after a crash between the two files
        with store.open(FIRST) as session:
            assert texts(session)[:2] == ["one", "two"]
            assert session.recovery.clean
            session.append(user("more"))
        entries = list(session.follow(wait=False))
        assert len({entry.seq for entry in entries}) == len(entries)
    with store.open(FIRST) as session:
        assert texts(session) == ["one", "two", *["more"] * 4]
    assert store.verify(FIRST).ok


STRANGE = {
    "U+2028": b'{"seq":50,"type":"message","role":"user","content":'
    b'[{"type":"text","text":"a\xe2\x80\xa8b\xc2\x85c"}]}\n',
    "NUL run": b"\0" * 5000 + b"\n",
    "NUL run before a record": b"\0" * 5000
    + b'{"seq":50,"type":"message","role":"user","content":[{"type":"text","text":"x"}]}\n',
    "glued records": b'{"seq":50,"type":"event","name":"a"}{"seq":51,"type":"event","name":"b"}\n',
    "lone surrogate": b'{"seq":50,"type":"message","role":"user","content":'
    b'[{"type":"text","text":"\\ud800"}]}\n',
    "invalid UTF-8": b'{"seq":50,"type":"event","name":"\xff\xfe"}\n',
    "very deep": b'{"seq":50,"type":"event","name":"x","data":'
    + b"[" * 100_000
    + b"]" * 100_000
    + b"}\n",
    "very long number": b'{"seq":50,"type":"event","name":"x","data":' + b"9" * 10_000 + b"}\n",
    "not a number": b'{"seq":50,"type":"usage","input":NaN,"output":Infinity,"cost_usd":-1e999}\n',
    "not an object": b'[]\n"text"\n7\nnull\n',
    "no newline but a carriage return": b'{"seq":50,"type":"event","name":"x"}\r\n',
}


@pytest.mark.parametrize("line", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("where", ["middle", "end"])
def test_defect_20_strange_bytes_break_the_reader(store, line, where):
    with store.create(session_id=FIRST) as session:
        session.append(user("one"))
        size = journal_of(session).stat().st_size
        if where == "middle":
            session.update(filler="a line to be written over")
    data = journal_of(session).read_bytes()
    later = b'{"seq":60,"type":"message","role":"user","content":[{"type":"text","text":"two"}]}\n'
    journal_of(session).write_bytes(data[:size] + line + (later if where == "middle" else b""))
    expected = ["one", "two"] if where == "middle" else ["one"]

    def ours(session) -> list[str]:
        return [text for text in texts(session) if text in ("one", "two", "three")]

    for mode in ("read", "write"):
        with store.open(FIRST, mode=mode) as session:
            assert ours(session) == expected
    assert store.list()[0].id == FIRST
    assert isinstance(store.search("one"), list)
    store.verify(FIRST)
    with store.open(FIRST) as session:
        session.append(user("three"))
        list(session.follow(wait=False))
        session.export()
    with store.open(FIRST) as session:
        assert ours(session) == [*expected, "three"]


@pytest.mark.parametrize(
    "text",
    ["a\u2028b\u2029c\x85d", "a\0b", "\ud800 lone", "}{", "\r\n\x1e\x1c", "🚀", "9" * 10_000],
)
def test_defect_20_strange_text_comes_back_as_it_was(store, text):
    with store.create(session_id=FIRST) as session:
        session.append(user(text))
        session.append(user("after"))
    with store.open(FIRST) as session:
        assert texts(session) == [text, "after"]
        assert session.recovery.clean
