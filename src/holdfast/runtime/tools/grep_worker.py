"""Looks for a regular expression in files, in a process of its own that can be killed.

An expression can take longer than the universe has; nothing inside Python can stop it. Started as
``python -I -S matcher.py SECONDS`` with one JSON object on standard input, it prints one JSON line
for each file with a match, ``{"at": path}`` before files that it may not come back from, and lives
for so many seconds at most. Uses the standard library only. Files are opened below the root
component by component, following no link.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from typing import Any, TextIO

LARGEST_FILE_BYTES = 32 * 1024 * 1024
LONGEST_LINE = 500
_SAMPLE_BYTES = 8000
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def main(source: TextIO, answers: TextIO) -> None:
    """Answer one request."""
    request = json.load(source)
    flags = re.IGNORECASE if request["ignore_case"] else 0
    try:
        expression = re.compile(request["pattern"], flags)
    except (re.error, RecursionError, OverflowError) as error:
        _say(answers, {"error": str(error)})
        return
    left = request["limit"]
    root = os.open(request["root"], os.O_RDONLY | os.O_DIRECTORY)
    for path in request["paths"]:
        _say(answers, {"at": path})
        found = _search(root, path, expression, request["context"], left)
        if found is None:
            continue
        _say(answers, {"path": path, **found})
        left -= 1 if request["files_only"] else found["count"]
        if left <= 0:
            _say(answers, {"limit": True})
            break
    else:
        _say(answers, {"end": True})
    os.close(root)


def _say(answers: TextIO, what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


def _search(
    root: int, path: str, expression: re.Pattern[str], context: int, limit: int
) -> dict[str, Any] | None:
    data = _data(root, path)
    if data is None:
        return None
    if len(data) > LARGEST_FILE_BYTES:
        return {"count": 0, "too_large": True, "lines": []}
    lines = _text(data)
    if lines is None:
        return None
    matching: list[int] = []
    for number, line in enumerate(lines):
        if expression.search(line):
            matching.append(number)
            if len(matching) == limit:
                break
    if not matching:
        return None
    return {"count": len(matching), "lines": _shown(lines, matching, context)}


def _shown(lines: list[str], matching: list[int], context: int) -> list[list[Any]]:
    """Return matching lines and those around them: number, whether it matches, text."""
    wanted: dict[int, bool] = {}
    for number in matching:
        for near in range(max(0, number - context), min(len(lines), number + context + 1)):
            wanted.setdefault(near, False)
        wanted[number] = True
    return [[number + 1, wanted[number], _cut(lines[number])] for number in sorted(wanted)]


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def _data(root: int, path: str) -> bytes | None:
    *folders, name = os.fsdecode(path).split("/")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    opened = os.dup(root)
    try:
        for folder in folders:
            below = os.open(folder, flags | os.O_DIRECTORY, dir_fd=opened)
            os.close(opened)
            opened = below
        file = os.open(name, flags, dir_fd=opened)
        os.close(opened)
        opened = file
        with os.fdopen(os.dup(opened), "rb") as stream:
            return stream.read(LARGEST_FILE_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(opened)


def _text(data: bytes) -> list[str] | None:
    """Return the lines of a file, ``None`` if it is binary."""
    if data[:2] in _UTF_16:
        text = data.decode("utf-16", "replace")
    elif b"\0" in data[:_SAMPLE_BYTES]:
        return None
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


if __name__ == "__main__":
    # Nobody else ends this process if its parent was killed.
    signal.alarm(int(sys.argv[1]))
    main(sys.stdin, sys.stdout)
