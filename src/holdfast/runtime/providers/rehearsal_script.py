r"""What the rehearsal model does: steps, from a prompt or from a script file.

A **prompt** is a list of commands, one a line:

    run: ls -l              calls the tool bash
    read: notes.txt         calls read; grep: and glob: take a pattern likewise
    write: notes.txt        calls write; the lines that follow are the content
    say: some words         says them; lines that follow go on
    think: some words       thinks them
    fail: 529               fails with that status, or: disconnect, timeout, end
    pace: 0.1               waits so many seconds before each word from here on
    parallel:               the calls down to the next empty line are made at once

Commands run one after the other, each after the result of the one before. A prompt whose first
line is no command is not for the rehearsal model.

A **script** is a TOML file of ``[[step]]`` tables, or JSON Lines with one step an object:

    {"think": "First a look around."}
    {"say": "I list the files."}
    {"call": "bash", "arguments": {"command": "ls"}}
    {"calls": [{"call": "read", "arguments": {"path": "a"}}, {"call": "read", "arguments": …}]}
    {"fail": 529, "after": 2, "times": 3}
    {"say": "The tool said: {result}"}
    {"pace": 0.1}
    {"stop": "end"}

A call, or calls that are made at once, end a response, and so does ``stop``; the next response goes
on behind it. ``{result}`` in a text is what the last tools said. ``fail`` breaks the response where
it stands, or ``after`` so many deltas, and lets it pass once it has done so ``times`` times.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from holdfast.errors import UsageError
from holdfast.files import Files

TOOLS = {
    "run": ("bash", ["command"]),
    "read": ("read", ["path"]),
    "write": ("write", ["path", "content"]),
    "grep": ("grep", ["pattern"]),
    "glob": ("glob", ["pattern"]),
}
_COMMAND = re.compile(
    r"\s*(run|read|write|grep|glob|say|think|fail|pace|parallel):[ \t]*(.*)", re.IGNORECASE
)
_STDIN = re.compile(r"\n*<stdin>\n.*</stdin>\s*\Z", re.DOTALL)
_GOES_ON = {"say", "think", "write"}
_FAILURES = {"disconnect", "timeout", "end"}


class ScriptedCall(Struct, frozen=True):
    """A call: arguments by name, or values in the order in which the tool requires them."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)


class ScriptStep(Struct, frozen=True):
    """One step. ``kind`` is say, think, calls, fail, pace or stop; ``text`` what it is about."""

    kind: str
    text: str = ""
    calls: list[ScriptedCall] = field(default_factory=list)
    after: int | None = None
    times: int = 1


def responses(steps: list[ScriptStep]) -> list[list[ScriptStep]]:
    """Return the steps of each response: calls and stops end one."""
    groups: list[list[ScriptStep]] = [[]]
    for step in steps:
        groups[-1].append(step)
        if step.kind in {"calls", "stop"}:
            groups.append([])
    return groups


def parse_prompt(prompt: str) -> list[ScriptStep] | None:
    """Return the steps that a prompt asks for, ``None`` if it is not for the rehearsal model."""
    lines: list[list[str]] = []  # command, text, and the lines that go on
    together: list[bool] = []
    parallel = False
    for line in _STDIN.sub("", prompt).strip("\n").split("\n"):
        found = _COMMAND.fullmatch(line)
        if found and (word := found[1].lower()) == "parallel":
            parallel = True
        elif found:
            lines.append([word, found[2]])
            together.append(parallel)
        elif lines and lines[-1][0] in _GOES_ON and not (parallel and not line.strip()):
            lines[-1].append(line)
        elif not line.strip():
            parallel = False
        else:
            return None
    return _grouped([_command(*line) for line in lines], together) if lines else None


def _command(word: str, first: str, *rest: str) -> ScriptStep:
    if word not in TOOLS:
        return ScriptStep(word, "\n".join([first, *rest]).strip())
    values = [first.strip()]
    if word == "write":
        values.append("\n".join(rest) + "\n" if rest else "")
    return ScriptStep("calls", calls=[ScriptedCall(TOOLS[word][0], values=values)])


def _grouped(steps: list[ScriptStep], together: list[bool]) -> list[ScriptStep]:
    """Return the steps with calls that are made at once in one, behind what is said with them."""
    grouped: list[ScriptStep] = []
    group: ScriptStep | None = None
    for step, joined in zip(steps, together, strict=True):
        if not joined:
            group = None
        if step.kind == "calls" and group is not None:
            merged = ScriptStep("calls", calls=[*group.calls, *step.calls])
            grouped[grouped.index(group)] = group = merged
        elif group is not None:
            grouped.insert(grouped.index(group), step)
        else:
            grouped.append(step)
            group = step if joined and step.kind == "calls" else None
    return grouped


def read_script(path: Path, files: Files | None = None) -> list[ScriptStep]:
    """Return the steps of a script file.

    Raises:
        UsageError: it cannot be read, or is not a script.
    """
    try:
        text = (files or Files()).read_whole(path).decode()
        if path.suffix == ".toml":
            rows = tomllib.loads(text).get("step", [])
        else:
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        return [_step(row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is not a script for the rehearsal model ({type(error).__name__}: {error})."
        ) from error


def _step(row: dict[str, Any]) -> ScriptStep:
    match row:
        case {"say": str(text)} | {"think": str(text)}:
            return ScriptStep("say" if "say" in row else "think", text)
        case {"call": str(_)}:
            return ScriptStep("calls", calls=[_wanted(row)])
        case {"calls": [_, *_] as calls}:
            return ScriptStep("calls", calls=[_wanted(call) for call in calls])
        case {"fail": int() | str() as what} if str(what).isdigit() or what in _FAILURES:
            return ScriptStep("fail", str(what), after=row.get("after"), times=row.get("times", 1))
        case {"pace": int() | float() as seconds}:
            return ScriptStep("pace", str(seconds))
        case {"stop": str(word)}:
            return ScriptStep("stop", word)
    raise ValueError(f"not a step: {json.dumps(row)}")


def _wanted(row: dict[str, Any]) -> ScriptedCall:
    return ScriptedCall(row["call"], arguments=dict(row.get("arguments", {})))
