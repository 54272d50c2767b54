"""Another agent's sessions taken over, against a bare loop over their lines; and the memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from itertools import count
from typing import TYPE_CHECKING, Any

import holdfast
from benchmarks.conversation import messages
from benchmarks.harness import Bench, Result, at_least, at_most
from holdfast.exchange.importers import importer
from holdfast.exchange.importing.importer import CREATED, ImportRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_FULL_BYTES, _QUICK_BYTES = 32_000_000, 8_000_000
_LARGE_BYTES, _QUICK_LARGE_BYTES = 2_000_000_000, 200_000_000
_MOST_MEMORY_MB = 150
_AT = "2026-05-06T18:00:00.000Z"
_CHILD = """
import sys
from pathlib import Path
import holdfast
from benchmarks.exchange import take_all
from benchmarks.resume_child import peak_bytes
take_all(holdfast.open_store(sys.argv[1]), "claude-code", Path(sys.argv[2]))
print(peak_bytes())
"""


def exchange(bench: Bench) -> Iterator[Result]:
    """Import sessions of two agents into an empty home, and one that is larger than memory."""
    for agent, lines in (("claude-code", _claude_code), ("codex", _codex)):
        folder = bench.fresh(f"exchange-{agent}")
        source = _written(bench, folder, agent, lines, bench.amount(_FULL_BYTES, _QUICK_BYTES))
        yield _rate(bench, agent, source)
    folder = bench.fresh("exchange-large")
    size = bench.amount(_LARGE_BYTES, _QUICK_LARGE_BYTES)
    source = _written(bench, folder, "claude-code", _claude_code, size)
    name = f"import {size // 10**6:,} MB, most memory"
    yield Result(
        name, _peak(folder / "home", source) / 1e6, "MB", goal=at_most(_MOST_MEMORY_MB, "MB")
    )
    shutil.rmtree(folder)


def take_all(store: holdfast.LocalStore, agent: str, source: Path) -> int:
    """Import everything there; return how many messages."""
    one = importer(agent)
    with ImportRun(store) as importing:
        (found,) = one.sessions(source, importing.reading())
        done = importing.take(one, found)
    assert (done.action, done.problem_count) == (CREATED, 0)
    return done.counts.messages


def _rate(bench: Bench, agent: str, source: Path) -> Result:
    (path,) = source.rglob("*.jsonl")
    homes = count()

    def bare() -> float:
        began = time.perf_counter()
        with path.open("rb") as file:
            for line in file:
                json.loads(line)
        return time.perf_counter() - began

    def ours() -> float:
        home = bench.fresh(f"exchange-home-{next(homes)}")
        began = time.perf_counter()
        assert take_all(holdfast.open_store(home), agent, source)
        taken = time.perf_counter() - began
        shutil.rmtree(home)
        return taken

    name = f"import of {agent}"
    samples = bench.interleave(name, bench.amount(9, 5), {"floor": bare, "ours": ours})
    return samples.result(name, "seconds", at_least(0.5), inverse=True)


def _peak(home: Path, source: Path) -> float:
    words = [sys.executable, "-c", _CHILD, str(home), str(source)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def _written(
    bench: Bench,
    folder: Path,
    agent: str,
    lines: Callable[[], Iterator[dict[str, Any]]],
    size_bytes: int,
) -> Path:
    names = {"claude-code": "-home-me-app/9f1c2d3e-0000-4000-8000-000000000001.jsonl"}
    name = names.get(
        agent, "rollout-2026-05-06T18-00-00-0199aa00-1111-7222-8333-444455556666.jsonl"
    )
    path = folder / "source" / name
    path.parent.mkdir(parents=True)
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for line in lines():
            written += file.write(json.dumps(line, separators=(",", ":")) + "\n")
            bench.progress.step(
                f"writing sessions of {agent}", min(written, size_bytes), size_bytes
            )
            if written >= size_bytes:
                break
    return folder / "source"


def _claude_code() -> Iterator[dict[str, Any]]:
    """Yield turns of a prompt, a thought, a call, its result, and an answer."""
    texts = [message.text for message in messages()]
    parent = None
    for number in count():
        said, told = texts[number % 64], texts[(number + 1) % 64]
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash"}
        steps: list[dict[str, Any]] = [
            {"role": "user", "content": said},
            {"content": [{"type": "thinking", "thinking": told[:300], "signature": "c2ln" * 60}]},
            {"content": [{**call, "input": {"command": told[:100]}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": call["id"], "content": said * 3}
                ],
            },
            {"content": [{"type": "text", "text": told}]},
        ]
        for place, step in enumerate(steps):
            uuid = f"{number:08x}-{place:04x}-4000-8000-000000000001"
            is_user = "role" in step
            line: dict[str, Any] = {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": "/home/me/app",
                "sessionId": "9f1c2d3e-0000-4000-8000-000000000001",
                "version": "2.1.230",
                "gitBranch": "main",
                "type": "user" if is_user else "assistant",
                "message": step if is_user else _answer(number, place, step["content"]),
                "uuid": uuid,
                "timestamp": _AT,
            }
            if place == 3:
                line["toolUseResult"] = {"stdout": said * 3, "stderr": "", "interrupted": False}
            if not is_user:
                line["requestId"] = f"req_{number}_{place == 4}"
            parent = uuid
            yield line


def _answer(number: int, place: int, content: object) -> dict[str, Any]:
    return {
        "id": f"msg_{number}_{place == 4}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": "end_turn" if place == 4 else "tool_use",
        "usage": {
            "input_tokens": 10,
            "output_tokens": place,
            "cache_read_input_tokens": 5000,
            "cache_creation_input_tokens": 200,
        },
    }


def _codex() -> Iterator[dict[str, Any]]:
    """Yield the same turns as another agent writes them."""
    texts = [message.text for message in messages()]
    head = {"id": "0199aa00-1111-7222-8333-444455556666", "timestamp": _AT, "cwd": "/srv/app"}
    yield _rolled("session_meta", {**head, "originator": "codex_exec", "cli_version": "0.98.0"})
    for number in count():
        said, told = texts[number % 64], texts[(number + 1) % 64]
        call = f"call_{number}"
        yield _rolled(
            "turn_context", {"turn_id": f"t{number}", "cwd": "/srv/app", "model": "gpt-5"}
        )
        yield _said("user", "input_text", said)
        arguments = json.dumps({"command": ["bash", "-lc", told[:100]]})
        asked = {"type": "function_call", "name": "shell", "arguments": arguments, "call_id": call}
        yield _rolled("response_item", asked)
        answered = {"type": "function_call_output", "call_id": call, "output": said * 3}
        yield _rolled("response_item", answered)
        yield _said("assistant", "output_text", told)
        usage = {"input_tokens": 5010, "cached_input_tokens": 5000, "output_tokens": 20}
        info = {"last_token_usage": usage, "total_token_usage": usage}
        yield _rolled("event_msg", {"type": "token_count", "info": info})


def _said(role: str, kind: str, text: str) -> dict[str, Any]:
    content = [{"type": kind, "text": text}]
    return _rolled("response_item", {"type": "message", "role": role, "content": content})


def _rolled(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": _AT, "type": kind, "payload": payload}
