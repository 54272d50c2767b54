"""What is done on a stage, and when the picture is taken."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import holdfast
from holdfast.model.entry import Turn
from scripts.pictures.stage import Stage, written_ago
from scripts.pictures.svg import Screen

_SESSION = "20261116-090000-k3v9q2ab"
_MODULE = '''\
def total(prices):
    """Add prices up."""
    return sum(prices[1:])
'''
_CHAT = """
[[step]]
think = "The test says that one and two make two, so a price is left out. First a look."

[[step]]
say = "I look at the function that the test calls."

[[step]]
call = "read"
arguments = { path = "totals.py" }

[[step]]
say = "The slice drops the first price:"

[[step]]
call = "edit"
arguments = { path = "totals.py", old = "prices[1:]", new = "prices" }

[[step]]
say = '''
`total` now adds **every** price:

- `[1, 2]` makes 3, as the test wants
- an empty list makes 0, as before

I run the tests to be sure.'''

[[step]]
call = "bash"
arguments = { command = "python -m pytest -q" }
"""
_MAKEFILE = """\
check:
\t@echo 14 tables, none locked
migrate:
\t@echo migrating orders …; sleep 600
"""
_MIGRATION = """
[[step]]
say = "A check and one step. I run both, then I note it down."

[[step]]
calls = [
  { call = "bash", arguments = { command = "make check" } },
  { call = "bash", arguments = { command = "make migrate" } },
  { call = "write", arguments = { path = "NOTES.md", content = "migrated\\n" } },
]
"""
_SPENT = (
    (4, "app", "read prices from a file", "claude-sonnet-4-5", 0.0375),
    (11, "app", "which dates do our logs have?", "claude-sonnet-4-5", 0.0375),
    (2, "site", "a page for the release", "gpt-5", 0.0183),
    (7, "app", "why does test_totals fail?", "claude-opus-4-5", 0.0625),
    (15, "site", "a feed, and a test for it", "gpt-5", 0.0183),
    (9, "app", "migrate the database", "claude-sonnet-4-5", 0.0375),
    (6, "app", "the flaky test", "claude-opus-4-5", 0.0625),
)
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_SESSIONS = (
    (
        0.41 * _HOUR,
        ".",
        "migrate the database",
        [("migrate the database", "A check and one step. I run both, then I note it down.")],
        "started",
    ),
    (
        2.4 * _HOUR,
        ".",
        "which dates do our logs have?",
        [
            ("which dates do our logs have?", "Two kinds: ISO 8601, and seconds since 1970."),
            ("read them with datetime", "Done: `fromisoformat`, else `fromtimestamp`."),
        ],
        "completed",
    ),
    (
        1.4 * _DAY,
        ".",
        "why does test_totals fail?",
        [("why does test_totals fail?", "The slice drops the first price.")] * 3,
        "completed",
    ),
    (
        3.4 * _DAY,
        ".",
        "read prices from a file",
        [("read the prices from a file", "Which format has it?")] * 9,
        "completed",
    ),
    (
        5.4 * _DAY,
        "site",
        "a page for the release",
        [("write a page for the release", "Done.")],
        "completed",
    ),
)


@dataclass(frozen=True)
class Scene:
    """A picture: what is played for it, and what it says to those who cannot see it."""

    title: str
    description: str
    play: Callable[[Stage], Screen]
    columns: int = 80
    rows: int = 40


def _chat(stage: Stage) -> Screen:
    (stage.folder / "totals.py").write_text(_MODULE, encoding="utf-8")
    with holdfast.open_store(stage.home).create(
        workspace=stage.folder, title="read prices from a file"
    ) as session:
        session.append(holdfast.user("read the prices from a file"))
    stage.open(
        "--script", stage.script(_CHAT), "--allow", "edit", "--session-id", _SESSION, "-n", "totals"
    )
    stage.until("saved ✓")
    stage.type("why does test_totals fail?", "Enter")
    stage.until("wants: python -m pytest")
    stage.type("then add a line to the changelog", "Enter")
    stage.until("queued: “then add")
    return stage.screen()


def _tree(stage: Stage) -> Screen:
    with holdfast.open_store(stage.home).create(
        workspace=stage.folder, session_id=_SESSION, title="dates"
    ) as session:
        session.append(holdfast.user("which dates do our logs have?"))
        kinds = session.append(holdfast.assistant("Two kinds: ISO 8601, and seconds since 1970."))
        session.append(holdfast.user("read them with regular expressions"))
        session.append(holdfast.assistant("Done: four patterns, and a test for each."))
        session.append(holdfast.user("one of them takes 2026-13-01 for a date"))
        session.append(
            holdfast.assistant("It does. The fifth pattern would be the third too many.")
        )
        session.rewind(kinds.seq)
        session.append(holdfast.user("read them with datetime instead"))
        session.append(holdfast.assistant("Done: `fromisoformat`, else `fromtimestamp`."))
    stage.open("-r", _SESSION)
    stage.until("saved ✓")
    stage.type("/tree", "Enter")
    stage.until("continues from that entry")
    return stage.screen()


def _recovery(stage: Stage) -> Screen:
    (stage.folder / "Makefile").write_text(_MAKEFILE, encoding="utf-8")
    words = ["--script", stage.script(_MIGRATION), "--allow-all", "--session-id", _SESSION]
    stage.open(*words)
    stage.until("saved ✓")
    stage.type("migrate the database", "Enter")
    stage.until("│ 14 tables", "│ migrating orders …")
    stage.until_saved("14 tables, none locked")
    stage.crash()
    stage.open("-r", _SESSION)
    stage.until("[c] continue", "saved ✓")
    return stage.screen()


def _picker(stage: Stage) -> Screen:
    store = holdfast.open_store(stage.home)
    for age, folder, title, prompts, state in _SESSIONS:
        place = stage.folder / folder
        place.mkdir(exist_ok=True)
        with written_ago(age), store.create(workspace=place, title=title) as session:
            for prompt, answer in prompts:
                session.append([Turn(state="started"), holdfast.user(prompt)])
                session.append(holdfast.assistant(answer))
                session.usage(input=9000, output=700, cost_usd=0.0375, model="some-model")
                session.append(Turn(state=state))
    damaged = store.path / "sessions" / "2026-11" / "20261102-101500-w7m2rr4c"
    damaged.mkdir()
    (damaged / "journal.jsonl").write_bytes(b"\0" * 4096)
    os.utime(damaged / "journal.jsonl", times=(time.time() - 14.5 * _DAY.total_seconds(),) * 2)
    stage.open("-r")
    stage.until("which dates", "damaged")
    stage.press("Down")
    return stage.screen()


def _stats(stage: Stage) -> Screen:
    store = holdfast.open_store(stage.home)
    for day, (requests, folder, title, model, price) in enumerate(_SPENT):
        place = stage.folder / folder
        place.mkdir(exist_ok=True)
        age = (len(_SPENT) - 1 - day) * _DAY
        with (
            written_ago(age),
            store.create(workspace=place, title=title, model=model) as session,
        ):
            for _ in range(requests):
                session.append([Turn(state="started"), holdfast.user("go on")])
                session.append(holdfast.assistant("Done."))
                session.usage(input=9000, output=700, cost_usd=price, model=model)
                session.append(Turn(state="completed"))
    stage.open("stats", stays=True)
    stage.until("by day", "by model", "longest")
    return stage.screen()


SCENES: dict[str, Scene] = {
    "chat": Scene(
        "A chat",
        "A prompt, a folded thought, a file that was read, a change as a diff, an answer, a tool "
        "that waits for approval, a prompt in the queue, and the status line: saved.",
        _chat,
    ),
    "tree": Scene(
        "The branches of a session",
        "The command /tree: prompts and answers with their numbers, two branches behind the first "
        "answer, and a star at each entry of the one that the conversation is on.",
        _tree,
    ),
    "recovery": Scene(
        "After a crash",
        "A session that was resumed after everything was killed in the middle of a turn: what was "
        "on the screen, what completed, what may have run, and two choices.",
        _recovery,
    ),
    "picker": Scene(
        "The picker",
        "The sessions of a folder, newest first, with state, age, messages and cost; one was "
        "interrupted, one is damaged. Above the list its scopes and the search, below it what is "
        "not shown, and the keys.",
        _picker,
        columns=100,
        rows=18,
    ),
    "stats": Scene(
        "Tokens and cost",
        "The command holdfast stats: bars of tokens, with cost, by day, by model, by project and "
        "by agent, and the longest sessions.",
        _stats,
        columns=100,
        rows=40,
    ),
}
