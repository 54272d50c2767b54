"""Append, kill -9, reopen: the promise of Holdfast, shown on this machine.

A child process appends messages and streams an answer. It reports every acknowledgement through a
pipe, which outlives it. This process watches the stream from outside, kills the child in the
middle of a word, opens the session again, and compares. Then it tears the end of the journal, as
a power cut would, and opens it once more. No key, no network, no server; everything happens in a
temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import holdfast

PROMPTS = [
    holdfast.system("You are a careful engineer."),
    holdfast.user("The build is broken since this morning. Please fix it."),
    holdfast.assistant("I will look at the log of the last build first.", model="demo"),
    holdfast.user("Go ahead."),
]
ANSWER = (
    "The log shows that the linker cannot find libz. The header is there, so the package is "
    "installed, but the library search path was changed last night: it lists the old tool chain "
    "first, and that one was removed. I will put the path back, build once from scratch to be "
    "sure, and then run the tests of the three modules that depend on it. While that runs, I "
    "will read the change that caused this, because the same edit was made in two other places."
)
SECONDS_PER_PIECE = 0.02
SEEN_CHARACTERS = 90

Check = tuple[str, bool]


# The child


def write_until_killed(home: str) -> None:
    """Append and stream; tell each acknowledgement to the pipe on standard output."""
    session = holdfast.open_store(home).create(workspace=".", provider="demo", model="demo")
    for message in PROMPTS:
        position = session.append(message)  # returns once the message is on the disk
        report = {"session": session.id, "seq": position.seq, "text": message.text}
        print(json.dumps(report), flush=True)
    with session.stream(model="demo") as live:
        for start in range(0, len(ANSWER), 4):
            live.write(ANSWER[start : start + 4])
            time.sleep(SECONDS_PER_PIECE)


# The parent


def main(arguments: list[str]) -> int:
    """Run the demonstration; return 0 only if nothing was lost."""
    parser = argparse.ArgumentParser(description="Append, kill -9, reopen.")
    parser.add_argument("--child", metavar="HOME", help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help="keep the folder, to look at the files")
    options = parser.parse_args(arguments)
    if options.child:
        write_until_killed(options.child)
        return 0
    if options.keep:
        home = tempfile.mkdtemp(prefix="holdfast demo ")
        try:
            return demonstrate(home)
        finally:
            say(f"The files are in {home}", "dim")
    with tempfile.TemporaryDirectory(prefix="holdfast demo ") as home:
        return demonstrate(home)


def demonstrate(home: str) -> int:
    """Kill a writer in mid-stream, open its session again, tear the journal, open it again."""
    store = holdfast.open_store(home)

    heading("1", "A child process writes")
    command = [sys.executable, str(Path(__file__).resolve()), "--child", home]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            acknowledged = list(acknowledgements(child, len(PROMPTS)))
            session_id = acknowledged[0]["session"]
            try:
                store.open(session_id)
            except holdfast.SessionLocked as locked:
                say(f"a second writer is refused: held by {locked.holder}", "dim")
            say("streaming, as seen from this process:")
            seen = watch(store, session_id)
        finally:
            child.send_signal(signal.SIGKILL)
    say(f"kill -9 {child.pid} in mid-word", "red")

    heading("2", "Open the session again")
    with store.open(session_id) as session:
        say(f"recovery: {session.recovery}")
        for message in session.messages:
            stop = f" [stop: {message.stop}]" if message.stop else ""
            say(f"{message.role:9} {shortened(message.text)}{stop}", "dim")
        checks = compare(acknowledged, seen, session)
        before = session.messages

    heading("3", "Tear the journal's last line, as a power cut would")
    journal = session.path / "journal.jsonl"
    torn = torn_line(session.state.seq + 1)
    with journal.open("ab") as file:
        file.write(torn)
    say(f"{len(torn)} bytes of a message that nobody was told about: {shortened(torn.decode())}")
    with store.open(session_id) as session:
        for piece in session.recovery.set_aside:
            kept = Path(piece.path)
            say(f"recovery: {piece.size_bytes} bytes at offset {piece.offset} ({piece.reason})")
            say(f"kept in {kept.relative_to(session.path)}", "dim")
            checks.append(("the torn bytes were kept", kept.read_bytes() == torn))
        checks.append(("the tear was reported", len(session.recovery.set_aside) == 1))
        checks.append(("every message is still there", session.messages == before))
        session.append(holdfast.user("And we go on."))
    report = store.verify(session_id)
    checks.append(("the session goes on and verifies from end to end", report.ok))
    return conclude(checks)


def acknowledgements(child: subprocess.Popen[str], count: int) -> Iterator[dict[str, str]]:
    """Yield what the child was told is durable, as it tells."""
    assert child.stdout is not None
    for _ in range(count):
        line = child.stdout.readline()
        if not line:
            raise SystemExit("The child process ended before it had written anything.")
        report = json.loads(line)
        say(f"acknowledged {report['seq']}: {report['text']}", "green")
        yield report


def watch(store: holdfast.LocalStore, session_id: str) -> str:
    """Show the stream as it grows, and return what was shown once that is enough."""
    seen = ""
    with (
        store.open(session_id, mode="read") as session,
        session.follow(after=session.state.seq, live=True) as follower,
    ):
        sys.stdout.write("  ")
        for item in follower:
            assert isinstance(item, holdfast.Event), "the stream was finished before the kill"
            seen += item.text
            sys.stdout.write(item.text)
            sys.stdout.flush()
            if len(seen) >= SEEN_CHARACTERS:
                break
    print()
    return seen


def torn_line(seq: int) -> bytes:
    """Return the first half of a line, as a write that was cut short leaves it."""
    start = f'{{"seq":{seq},"at":"2026-11-15T19:40:12.001Z","parent":{seq - 1},"type":"message",'
    return start.encode() + b'"role":"user","content":[{"type":"text","te'


def compare(
    acknowledged: list[dict[str, str]], seen: str, session: holdfast.Session
) -> list[Check]:
    """Compare what the child was told, and what was shown, with what the session has."""
    texts = [message.text for message in session.messages]
    wanted = [report["text"] for report in acknowledged]
    last = session.messages[-1] if texts else None
    kept = last.text if last is not None and last.stop == "interrupted" else ""
    return [
        (f"all {len(wanted)} acknowledged messages, in order, once", texts[:-1] == wanted),
        (f"all {len(seen)} characters that were shown of the stream", kept.startswith(seen)),
        ("nothing that was never written", ANSWER.startswith(kept)),
    ]


def conclude(checks: list[Check]) -> int:
    """Print the verdict; return the exit code."""
    heading("4", "Verdict")
    for what, good in checks:
        say(f"{'ok  ' if good else 'LOST'}  {what}", "green" if good else "red")
    lost = sum(not good for _, good in checks)
    print()
    if lost:
        say(f"{lost} of {len(checks)} checks failed.", "red")
    else:
        say("Nothing was lost.", "green")
    return 1 if lost else 0


# The terminal

COLOURS = {"red": "31", "green": "32", "dim": "2", "bold": "1"}


def heading(number: str, text: str) -> None:
    """Print a heading."""
    print()
    say(f"{number}. {text}", "bold", indent="")


def say(text: str, colour: str = "", indent: str = "  ") -> None:
    """Print a line, coloured if somebody reads it on a terminal and wants colour."""
    if colour and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        text = f"\033[{COLOURS[colour]}m{text}\033[0m"
    print(f"{indent}{text}", flush=True)


def shortened(text: str) -> str:
    """Return text that fits on a line."""
    return text if len(text) <= 70 else f"{text[:50]} … {text[-17:]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
