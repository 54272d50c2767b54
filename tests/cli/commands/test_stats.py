"""``holdfast stats``: sums that add up, charts for any terminal, and JSON."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.keeper.stats_chart import short_number
from tests.cli.program import Program


@pytest.fixture
def store(program: Program) -> holdfast.Store:
    return holdfast.open_store(program.home)


@pytest.fixture
def filled(store, monkeypatch):
    """Three days, three models, two projects, two agents."""

    def set_to(at: str) -> None:
        monkeypatch.setattr("holdfast.journal.format.timestamp", lambda: at)

    set_to("2026-01-01T12:00:00.000Z")
    with store.create(workspace="/home/me/app", title="first one") as session:
        session.append(holdfast.user("one"))
        session.usage(input=1000, output=500, cost_usd=1.5, model="big")
        set_to("2026-01-02T12:00:00.000Z")
        session.append(holdfast.assistant("two"))
        session.append(holdfast.user("three"))
        session.usage(input=100, output=0, cache_read=400, cache_write=10, model="small")
    set_to("2026-01-03T12:00:00.000Z")
    imported = {"agent": "codex"}
    with store.create(project="git:example.org/it", imported=imported, title="\x1b[2Jx") as other:
        other.append(holdfast.user("one"))
        other.usage(input=7, output=0, cost_usd=0.5)
    return session.id, other.id


@pytest.mark.usefixtures("filled")
def test_as_json_everything_adds_up(program, store, filled):
    first, second = filled
    shown = program.run("stats", "--json", TZ="UTC").object
    total = shown["total"]
    assert (total["sessions"], total["prompts"], total["messages"]) == (2, 3, 4)
    assert (total["requests"], total["input"], total["output"]) == (3, 1107, 500)
    assert (total["cache_read"], total["cache_write"], total["unpriced"]) == (400, 10, 1)
    assert total["cost_usd"] == 2.0
    for name in ("input", "output", "cost_usd", "requests"):
        for rows in shown["by"].values():
            assert sum(row[name] for row in rows) == total[name]
        assert total[name] == sum(getattr(each.totals, name) for each in store.list())
    names = {name: [row["name"] for row in rows] for name, rows in shown["by"].items()}
    assert names == {
        "day": ["2026-01-03", "2026-01-02", "2026-01-01"],
        "model": ["big", "small", "?"],
        "project": ["/home/me/app", "git:example.org/it"],
        "agent": ["holdfast", "codex"],
    }
    assert [each["session"] for each in shown["longest"]] == [first, second]
    assert shown["longest"][0]["title"] == "first one"


@pytest.mark.usefixtures("filled")
def test_days_are_those_of_the_time_zone(program):
    shown = program.run("stats", "--json", "--by", "day", TZ="XXX-13").object
    assert [row["name"] for row in shown["by"]["day"]] == ["2026-01-04", "2026-01-03", "2026-01-02"]


@pytest.mark.usefixtures("filled")
def test_of_a_time(program):
    def messages(*words: str) -> int:
        found: int = program.run("stats", "--json", *words, TZ="UTC").object["total"]["messages"]
        return found

    assert messages("--since", "2026-01-02") == 3
    assert messages("--until", "2026-01-02") == 3
    assert messages("--since", "2026-01-02", "--until", "2026-01-02") == 2
    assert messages("--since", "2026-01-02 12:10") == 3  # to the quarter of an hour
    assert messages("--since", "2026-01-02 12:15") == 1
    assert messages("--since", "1d") == 0


@pytest.mark.usefixtures("filled")
def test_on_a_screen(program):
    done = program.run("stats", TZ="UTC", PYTHONIOENCODING="utf-8")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:3] == [
        "2 sessions · 0 turns · 3 prompts · 4 messages · 3 requests",
        "1.1k tokens in · 500 out · 400 read from caches · 10 written to them",
        "$2.00 · 1 request without a price",
    ]
    assert [line for line in lines if line.startswith(("by ", "longest"))] == [
        "by day",
        "by model",
        "by project",
        "by agent",
        "longest",
    ]
    (big,) = [line for line in lines if line.startswith("big ")]
    (small,) = [line for line in lines if line.startswith("small ")]
    assert big.count("█") > small.count("█") > 0
    assert big.split()[-4:] == ["1.5k", "$1.50", "1", "session"]
    assert " ? " in small  # its price is not known
    assert any(line.startswith("app ") for line in lines)
    assert all(each.isprintable() or each == "\n" for each in done.out)
    only = program.run("stats", "--by", "model")
    assert "by model" in only.out
    assert "by day" not in only.out


@pytest.mark.usefixtures("filled")
def test_bars_of_plain_characters(program):
    done = program.run("stats", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.code == 0
    assert "####" in done.out
    assert "█" not in done.out


def test_many_rows_are_hidden_and_told(program, store, monkeypatch):
    with store.create() as session:
        for day in range(1, 21):
            at = f"2026-01-{day:02d}T12:00:00.000Z"
            monkeypatch.setattr("holdfast.journal.format.timestamp", lambda at=at: at)
            session.append(holdfast.user("hello"))
    done = program.run("stats", "--by", "day", TZ="UTC")
    assert "14 shown · 6 more (--all)" in done.out
    assert "2026-01-07" in done.out
    assert "2026-01-06" not in done.out
    done = program.run("stats", "--by", "day", "--all", TZ="UTC")
    assert "more" not in done.out
    assert "2026-01-01" in done.out


def test_nothing_at_all(program):
    done = program.run("stats")
    assert done.code == 0
    assert done.out.startswith("0 sessions")
    assert not program.home.exists()
    assert program.run("stats", "--json").object["by"] == {
        "day": [],
        "model": [],
        "project": [],
        "agent": [],
    }


def test_a_time_that_nobody_knows(program, store):
    with store.create() as session:
        session.append(holdfast.user("hello"))
    journal = session.path / "journal.jsonl"
    stamp = store.open(session.id, mode="read").state.updated.encode()
    journal.write_bytes(journal.read_bytes().replace(stamp, b"9999-99-99T99:99:99.999Z"))
    assert [row["name"] for row in program.run("stats", "--json").object["by"]["day"]] == ["?"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0k"),
        (12_345, "12.3k"),
        (123_456, "123k"),
        (999_600, "1.0M"),
        (4_500_000, "4.5M"),
        (10**16, "10000T"),
    ],
)
def test_numbers_are_short(number, text):
    assert short_number(number) == text


@pytest.mark.parametrize("words", [["--by", "hour"], ["--since", "someday"], ["x"]])
def test_mistakes_exit_2(program, words):
    done = program.run("stats", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1


def test_turns_are_counted_and_a_price_that_nobody_knows_is_no_zero(program, store):
    for number in range(2):
        with store.create(title=f"number {number}") as session:
            for _ in range(2):
                session.append([holdfast.Turn("started"), holdfast.user("hello")])
                session.append(holdfast.Turn("completed"))
            if number:
                session.usage(input=1, output=1, model="big")
            else:
                session.usage(input=1, output=1, model="big", cost_usd=0.0)
    shown = program.run("stats", "--json").object
    assert (shown["total"]["turns"], shown["total"]["prompts"]) == (4, 4)
    assert [each["turns"] for each in shown["longest"]] == [2, 2]
    done = program.run("stats", PYTHONIOENCODING="utf-8")
    assert done.out.startswith("2 sessions · 4 turns · 4 prompts · ")
    longest = done.out.partition("longest\n")[2].splitlines()
    costs = {line.rpartition("number ")[2]: line.split()[5] for line in longest}
    assert costs == {"0": "$0.00", "1": "?"}


def test_what_a_fork_has_copied_is_counted_once(program, store):
    with store.create() as session:
        session.append([holdfast.user("one"), holdfast.assistant("two")])
    before = program.run("stats", "--json").object["total"]
    with store.open(session.id) as opened:
        for _ in range(3):
            opened.fork().close()
    after = program.run("stats", "--json").object["total"]
    for total in (before, after):
        assert (total["messages"], total["prompts"]) == (2, 1)
    assert (before["sessions"], after["sessions"]) == (1, 4)
    assert len(program.run("stats", "--json").object["longest"]) == 1
