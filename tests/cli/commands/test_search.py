"""``holdfast search``: what it prints, what it hides and says so, and what text cannot do to it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

import holdfast
from tests.cli.program import PROGRAM, Program, until

HOSTILE = "\x1b]0;owned\x07\x1b[2J needle \u202e\x9b31m \r over\n\n  there"


@pytest.fixture
def store(program: Program) -> holdfast.Store:
    return holdfast.open_store(program.home)


def put(store: holdfast.Store, *messages: holdfast.Message | str, **meta) -> str:
    with store.create(**meta) as session:
        for each in messages:
            session.append(holdfast.user(each) if isinstance(each, str) else each)
    return session.id


def test_a_hit_names_the_message_and_shows_the_words_around(program, store):
    put(store, "nothing here")
    session = put(store, "first", holdfast.assistant("the Build is\n broken"), title="Monday")
    done = program.run("search", "build")
    assert done.code == 0
    head, snippet = done.out.splitlines()
    (hit,) = store.search("build")
    assert head.startswith(f"{session}  seq {hit.seq}  assistant  20")
    assert head.endswith("Monday")
    assert snippet == "    the Build is broken"
    assert f"holdfast show {session} --seq {hit.seq}" in done.err
    shown = program.run("show", session, "--seq", str(hit.seq))
    assert "the Build is" in shown.out


def test_nothing_found_exits_1(program, store):
    done = program.run("search", "nowhere")
    assert (done.code, done.out, done.err) == (1, "", "0 messages found\n")
    assert not program.home.exists()
    put(store, "hello")
    done = program.run("search", "nowhere", "--json")
    assert (done.code, done.out, done.err) == (1, "", "")


def test_as_json_it_has_every_field(program, store):
    session = put(store, "the needle \ud800")
    (shown,) = program.run("search", "needle", "--json").lines
    (hit,) = store.search("needle")
    assert set(shown) == set(hit.__struct_fields__)
    assert (shown["session"], shown["seq"], shown["role"]) == (session, hit.seq, "user")
    assert shown["highlights"] == [[4, 10]]
    assert shown["snippet"] == "the needle \ud800"


def test_words_and_phrases(program, store):
    put(store, "fix the build", "the fix for a build", 'say "cheese" -now')
    assert len(program.run("search", "fix", "build", "--json").lines) == 2
    assert len(program.run("search", "fix the build", "--json").lines) == 1
    assert len(program.run("search", '"cheese"', "--json").lines) == 1
    assert len(program.run("search", "--json", "--", "-now").lines) == 1
    assert len(program.run("search", "uil", "--json").lines) == 2
    assert len(program.run("search", "uil fi", "--json", "--substring").lines) == 0
    for strange in ('"', "AND", "(", "a*", "NEAR(", "'", "\\", "%", "text:x"):
        assert program.run("search", "--json", "--", strange).code in (0, 1)


def test_conditions_and_what_they_hide(program, store):
    call = holdfast.ToolCall(id="1", name="bash", arguments={"command": "needle"})
    put(store, "needle", holdfast.assistant([call], model="big-1"), workspace=program.folder)
    put(store, "needle", imported={"agent": "codex"}, workspace="/elsewhere")
    for words, expected in (
        (["--role", "user"], 2),
        (["--role", "user", "--role", "assistant"], 3),
        (["--tool", "bash"], 1),
        (["--model", "big"], 1),
        (["--agent", "codex"], 1),
        (["--agent", "holdfast"], 2),
        (["--here"], 2),
        (["--workspace", "/elsewhere"], 1),
        (["--since", "1d"], 3),
        (["--until", "yesterday"], 0),
        (["--since", "1d", "--here", "--role", "user"], 1),
    ):
        done = program.run("search", "needle", *words)
        assert done.code == (0 if expected else 1)
        assert len(done.out.splitlines()) == 2 * expected
        if expected < 3:
            assert f"{expected} shown · {3 - expected} elsewhere (without --" in done.err
        else:
            assert "shown" not in done.err


def test_a_limit_and_more(program, store):
    put(store, *(f"needle {number}" for number in range(4)))
    done = program.run("search", "needle", "--limit", "3")
    assert len(done.out.splitlines()) == 6
    assert "3 shown · there is more (--limit)" in done.err
    done = program.run("search", "needle", "--limit", "4")
    assert "more" not in done.err


def test_newest_or_best_first(program, store):
    put(store, "needle " + "and much else " * 100, title="old")
    put(store, "needle needle needle", title="best")
    put(store, "needle " + "and much else " * 100, title="new")
    best = [each["title"] for each in program.run("search", "needle", "--json").lines]
    assert best[0] == "best"
    newest = [each["title"] for each in program.run("search", "needle", "--newest", "--json").lines]
    assert sorted(newest) == ["best", "new", "old"]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["x", "--limit", "0"],
        ["x", "--role", "nobody"],
        ["x", "--since", "someday"],
        ["x", "--here", "--workspace", "/"],
        [" "],
    ],
)
def test_mistakes_get_one_sentence_and_exit_2(program, words):
    done = program.run("search", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("holdfast: ")
    assert done.err.count("\n") == 1


def test_a_folder_that_is_gone(program, store):
    put(store, "needle")
    program.folder.joinpath("gone").mkdir()
    code = 'cd gone && rmdir ../gone && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", code, "sh", *PROGRAM, "search", "needle", "--here"],
        cwd=program.folder,
        env=program.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "The current folder no longer exists" in done.stderr


@pytest.mark.parametrize("colour", [False, True])
def test_hostile_text_is_harmless(program, store, colour):
    tool = holdfast.ToolCall(id="1", name="\x1b[31mbash", arguments={"c": HOSTILE})
    put(store, HOSTILE, holdfast.assistant([tool]), title=HOSTILE)
    done = program.run("search", "needle", CLICOLOR_FORCE="1" if colour else "0")
    assert done.code == 0
    plain = done.out
    if colour:
        assert "\x1b[1;33mneedle\x1b[0m" in plain
        for known in ("\x1b[1;33m", "\x1b[36m", "\x1b[0m"):
            plain = plain.replace(known, "")
    assert len(plain.splitlines()) == 6
    assert all(each.isprintable() or each == "\n" for each in plain)


def on_a_terminal(program: Program, *words: str, **environment: str) -> str:
    """Run with a terminal as standard output and error; return what is on it."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [*PROGRAM, *words],
            cwd=program.folder,
            env={**program.environment, "PAGER": "cat", "TERM": "xterm", **environment},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        assert process.wait(60) == 0
    finally:
        os.close(ours)
    return seen.decode()


def test_colours_and_a_bar_on_a_terminal(program, store):
    put(store, "a needle in hay", *("filler " * 5000 for _ in range(100)))
    seen = on_a_terminal(program, "search", "needle")
    assert "\x1b[1;33mneedle\x1b[0m" in seen
    assert "% indexing new sessions" in seen
    assert "reading" not in on_a_terminal(program, "search", "needle").split("needle")[-1]
    assert "\x1b[1;33m" not in on_a_terminal(program, "search", "needle", NO_COLOR="1")


def test_an_interrupted_index_is_gone_on_with(program, store):
    for number in range(3):
        put(store, *(f"needle {number} " + "filler " * 3000 for _ in range(60)))
    running = program.start("search", "needle")
    until((program.home / "search.db").exists)
    running.send(signal.SIGINT)
    assert running.wait() in (0, 130, -signal.SIGINT)  # the last if it had not begun
    assert "Traceback" not in running.err
    assert len(program.run("search", "needle", "--json", "--limit", "500").lines) == 180


def test_a_damaged_session_and_a_corrupt_index(program, store):
    good, bad = put(store, "needle one"), put(store, "needle two", "needle three")
    journal = Path(store.open(bad, mode="read").path) / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"needle two", b"needle\0two"))
    assert len(program.run("search", "needle", "--json").lines) == 2
    (program.home / "search.db").write_bytes(b"nonsense" * 1000)
    found = program.run("search", "needle", "--json").lines
    assert {each["session"] for each in found} == {good, bad}
    assert json.dumps(found)


def test_what_conditions_hide_is_counted_with_the_same_look(program, store):
    put(store, "needles", "needlework", workspace=program.folder)
    put(store, "the needle", "eedle", workspace="/elsewhere")
    # Nothing of this folder begins with it, so it is looked for inside of words.
    done = program.run("search", "eedle", "--here")
    assert len(done.out.splitlines()) == 4
    assert "2 shown · 2 elsewhere (without --here)" in done.err
    done = program.run("search", "eedle", "--workspace", str(program.folder), "--role", "user")
    assert "2 shown · 2 elsewhere (without --workspace, --role)" in done.err


def test_as_json_it_says_what_it_hides_beside_the_objects(program, store):
    put(store, *(f"needle {number}" for number in range(4)), workspace="/elsewhere")
    done = program.run("search", "needle", "--json", "--limit", "3")
    assert len(done.lines) == 3
    assert done.err == "3 shown · there is more (--limit)\n"
    done = program.run("search", "needle", "--json", "--here")
    assert (done.code, done.out) == (1, "")
    assert done.err == "0 shown · 4 elsewhere (without --here)\n"
    assert program.run("search", "needle", "--json").err == ""


@pytest.mark.parametrize(
    "kind", ["text", "thinking", "tool_call", "tool_result", "system", "title"]
)
def test_what_it_says_to_read_a_hit_with_shows_the_hit(program, store, kind):
    long = "\n".join(f"line {number}" for number in range(1000)) + "\nneedle"
    call = holdfast.ToolCall(id="1", name="bash", arguments={"command": long})
    messages: dict[str, holdfast.Message | str] = {
        "text": holdfast.assistant(long),
        "thinking": holdfast.assistant([holdfast.Thinking(text="a needle")]),
        "tool_call": holdfast.assistant([call]),
        "tool_result": holdfast.tool_result("1", long),
        "system": holdfast.Message(role="system", content=[holdfast.Text(text="needle")]),
        "title": "nothing",
    }
    put(store, "first", messages[kind], title="the needle" if kind == "title" else None)
    (hint,) = [
        line
        for line in program.run("search", "needle").err.splitlines()
        if line.startswith("Read one with: holdfast show ")
    ]
    words = hint.partition("holdfast ")[2].split()
    shown = program.run(*words)
    assert shown.code == 0
    # The heading has the title in any case: what counts is what stands under it.
    assert "needle" in shown.out.split("\n", 2)[2]
    assert "needle" in json.dumps(program.run(*words, "--json").lines)
    assert ("--depth" in words) == (kind not in ("text", "title"))
