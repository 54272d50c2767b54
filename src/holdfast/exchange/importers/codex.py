"""Codex: ``~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``, packed after a while (zstd).

A line is an envelope (``timestamp``, ``type``, ``payload``); the oldest files have a bare line of
facts and then items without envelopes. What a model said comes as items of its own (reasoning,
text, calls): up to the next prompt or result they are one message. What requests cost is a running
total, written again whenever a limit changes: only what it grew by is counted.

A rollback takes prompts back, with all that followed; here the conversation goes on from before
them and they stay on a branch.

What a turn begins with (``turn_context``) is kept as an event when it changes.

Lost: events that repeat an item for the screen (``user_message``, ``agent_message`` …); of
``token_count``, the size of the context window, how many tokens were reasoning, and the limits of
the account.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.exchange.importers.base import MOST_SNIFFED
from holdfast.exchange.importing.content_blocks import call_of, openai_parts, result
from holdfast.exchange.importing.items import (
    HeadItem,
    Item,
    MessageItem,
    MetaItem,
    RawItem,
    Source,
    SummaryItem,
    UsageItem,
)
from holdfast.exchange.importing.json_fields import count, parse_time, parsed, record, records, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, Message, Opaque, Text, Thinking, ToolResult

_ENDINGS = (".jsonl", ".jsonl.zst")
_UUID_CHARACTERS = 36
_MOST_PARTS = 2000
_MOST_PROMPTS = 10_000
_TITLE_CHARACTERS = 200
_INJECTED = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "# AGENTS.md",
    "<skills",
)
_REPEATS = frozenset(
    "user_message agent_message agent_reasoning agent_reasoning_raw_content".split()  # noqa: SIM905  a list of names reads best as a list of names
)
_NUMBERS = ("input_tokens", "cached_input_tokens", "output_tokens")


class Codex:
    """Sessions of Codex."""

    name = "codex"
    title = "Codex"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folders of sessions, archived ones too."""
        configured = environment.get("CODEX_HOME")
        base = Path(configured) if configured else home / ".codex"
        return [base / "sessions", base / "archived_sessions"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look for an envelope, or for the facts that begin the oldest files."""
        for file in islice(reading.files_below(path, *_ENDINGS), MOST_SNIFFED):
            for line in reading.first_records(file):
                if type(line.get("payload")) is dict and "timestamp" in line:
                    return True
                if "instructions" in line and "id" in line and "type" not in line:
                    return True
        return False

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session a file; its id ends the file's name."""
        for file in reading.files_below(path, *_ENDINGS):
            stem = file.name.partition(".")[0]
            id = stem[-_UUID_CHARACTERS:] if len(stem) > _UUID_CHARACTERS else stem
            yield reading.source(self.name, id, file)

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the lines, a message at a time."""
        rollout = _Rollout(source.id)
        for line in reading.records(source.path):
            yield from rollout.take(line)
        yield from rollout.flush()


class _Rollout:
    def __init__(self, id: str) -> None:
        self._id = id
        self._at: str | None = None
        self._model: str | None = None
        self._parts: list[AnyPart] = []
        self._begun: str | None = None  # when the message that is being gathered began
        self._said = 0
        self._last: str | None = None
        self._prompts: deque[str | None] = deque(maxlen=_MOST_PROMPTS)  # what each one hangs on
        self._total: dict[str, int] = {}
        self._rules: dict[str, Any] = {}
        self._has_meta = False
        self._unnamed: bool | None = None

    def take(self, line: dict[str, Any]) -> Iterator[Item]:
        """Take one line."""
        payload, kind = record(line, "payload"), text(line, "type")
        if not payload:
            yield from self._bare(line, kind)
            return
        self._at = parse_time(line.get("timestamp")) or self._at
        if kind == "response_item":
            yield from self._item(payload)
        elif kind == "event_msg":
            yield from self._event(payload)
        elif kind == "turn_context":
            yield from self._turn(payload)
        elif kind == "session_meta":
            yield from self._about(payload)
        elif kind == "compacted":
            yield from self._compacted(payload)
        else:
            yield RawItem(f"codex.{kind}" if kind else "codex", line, self._at)

    def _turn(self, payload: dict[str, Any]) -> Iterator[Item]:
        """Take what a turn begins with: the model, and rules that seldom change."""
        self._model = text(payload, "model") or self._model
        rules = {name: value for name, value in payload.items() if name != "turn_id"}
        if rules != self._rules:
            self._rules = rules
            yield RawItem("codex.turn_context", payload, self._at)

    def _bare(self, line: dict[str, Any], kind: str) -> Iterator[Item]:
        """Take a line of the oldest files, which have no envelope."""
        if kind:
            yield from self._item(line)
        elif "id" in line and not self._has_meta:
            self._at = parse_time(line.get("timestamp"))
            yield from self._about(line)
        else:
            yield RawItem("codex", line, self._at)

    def _about(self, payload: dict[str, Any]) -> Iterator[Item]:
        if self._has_meta:  # of the session that this one was made from
            yield RawItem("codex.session_meta", payload, self._at)
            return
        self._has_meta = True
        git, forked = record(payload, "git"), text(payload, "forked_from_id")
        spawned = record(record(record(payload, "source"), "subagent"), "thread_spawn")
        yield MetaItem(
            {
                "workspace": text(payload, "cwd"),
                "provider": text(payload, "model_provider") or "openai",
                "agent_version": text(payload, "cli_version"),
                "git_branch": text(git, "branch"),
                "git_commit": text(git, "commit_hash"),
                "git_repository": text(git, "repository_url"),
                "originator": text(payload, "originator"),
                "source": text(payload, "source"),
                "parent": forked or text(spawned, "parent_thread_id"),
                "family": forked or self._id,
            },
            parse_time(payload.get("timestamp")),
        )
        prompt = text(record(payload, "base_instructions"), "text") or text(payload, "instructions")
        if prompt:
            yield self._say(Message(role="system", content=[Text(text=prompt)]))

    def _item(self, item: dict[str, Any]) -> Iterator[Item]:
        kind = text(item, "type")
        if kind == "message" and text(item, "role") != "assistant":
            yield from self.flush()
            yield from self._prompt(item)
        elif kind.endswith("_output"):
            yield from self.flush()
            yield self._say(Message(role="tool", content=[_output(item)]))
        else:
            part = _parts(item, kind)
            if not self._parts:
                self._begun = self._at
            self._parts += part
            if len(self._parts) >= _MOST_PARTS:
                yield from self.flush()

    def _prompt(self, item: dict[str, Any]) -> Iterator[Item]:
        parts = openai_parts(item.get("content"))
        if text(item, "role") != "user":
            yield self._say(Message(role="system", content=parts))
            return
        words = next((part.text for part in parts if isinstance(part, Text)), "")
        if words.lstrip().startswith(_INJECTED):
            self._unnamed = self._unnamed is not False
            yield self._say(Message(role="user", content=parts, extra={"generated": True}))
            return
        self._prompts.append(self._last)
        yield self._say(Message(role="user", content=parts))
        if self._unnamed:
            yield MetaItem({"title": " ".join(words.split())[:_TITLE_CHARACTERS]})
        self._unnamed = False

    def _say(self, message: Message, at: str | None = None) -> MessageItem:
        self._said += 1
        self._last = f"{self._said}"
        return MessageItem(message, at or self._at, self._last)

    def flush(self) -> Iterator[Item]:
        """Say what a model said since the last prompt or result."""
        if self._parts:
            message = Message(role="assistant", content=self._parts, model=self._model)
            self._parts = []
            yield self._say(message, self._begun)

    def _event(self, event: dict[str, Any]) -> Iterator[Item]:
        kind = text(event, "type")
        if kind == "token_count":
            yield from self._spent(record(event, "info"))
        elif kind == "thread_rolled_back":
            yield from self.flush()
            yield from self._rolled_back(count(event, "num_turns"))
        elif kind == "thread_name_updated" and text(event, "thread_name"):
            yield MetaItem({"title": text(event, "thread_name")})
        elif kind not in _REPEATS:
            yield RawItem(f"codex.{kind}" if kind else "codex", event, self._at)

    def _rolled_back(self, turns: int) -> Iterator[Item]:
        to: str | None = self._last
        for _ in range(min(turns, len(self._prompts))):
            to = self._prompts.pop()
        if to != self._last:
            self._last = to
            yield HeadItem(to)

    def _spent(self, info: dict[str, Any]) -> Iterator[Item]:
        total = {name: count(record(info, "total_token_usage"), name) for name in _NUMBERS}
        if not any(total.values()) or total == self._total:
            return
        before = self._total
        if any(total[name] < before.get(name, 0) for name in _NUMBERS):
            before = {}  # counted anew: by another process
        grown = [total[name] - before.get(name, 0) for name in _NUMBERS]
        self._total = total
        fresh, cached, output = max(0, grown[0] - grown[1]), grown[1], grown[2]
        # Copies of a conversation repeat the same totals: that is how they are told.
        request = f"total-{total['input_tokens']}-{total['output_tokens']}"
        usage = Usage(fresh, output, None, cached, model=self._model, request=request)
        yield UsageItem(usage, self._at)

    def _compacted(self, payload: dict[str, Any]) -> Iterator[Item]:
        yield from self.flush()
        history = [
            each for item in records(payload, "replacement_history") for each in _alone(item)
        ]
        words = text(payload, "message")
        summary = history or [Message(role="user", content=[Text(text=words)])]
        self._said += 1
        self._last = f"{self._said}"
        yield SummaryItem(summary, at=self._at, id=self._last)


def _parts(item: dict[str, Any], kind: str) -> list[AnyPart]:
    """Return the parts of a message that an item of a model's amounts to."""
    if kind == "message":
        return openai_parts(item.get("content"))
    if kind == "reasoning":
        words = openai_parts(item.get("summary")) or openai_parts(item.get("content"))
        shown = "\n".join(part.text for part in words if isinstance(part, Text))
        return [Thinking(text=shown, signature=text(item, "encrypted_content") or None)]
    if kind == "function_call":
        return [call_of(text(item, "call_id"), text(item, "name"), item.get("arguments"))]
    if kind == "custom_tool_call":
        wrapped = {"input": item.get("input")}
        return [call_of(text(item, "call_id"), text(item, "name"), wrapped)]
    if kind == "local_shell_call":
        id = text(item, "call_id") or text(item, "id")
        return [call_of(id, "local_shell", item.get("action", {}))]
    return [Opaque(vendor="openai", data=item)]


def _output(item: dict[str, Any]) -> ToolResult:
    output = item.get("output")
    failed = False
    if type(output) is dict:
        failed = output.get("success") is False
        output = output.get("content")
    elif type(output) is str and output.startswith("{"):
        failed = count(record(parsed(output), "metadata"), "exit_code") != 0
    return result(text(item, "call_id"), openai_parts(output), failed=failed)


def _alone(item: dict[str, Any]) -> list[Message]:
    """Return an item of a replaced history as a message of its own."""
    kind, role = text(item, "type"), text(item, "role")
    if kind.endswith("_output"):
        return [Message(role="tool", content=[_output(item)])]
    if kind == "message" and role in ("user", "developer", "system"):
        said = "user" if role == "user" else "system"
        return [Message(role=said, content=openai_parts(item.get("content")))]
    return [Message(role="assistant", content=_parts(item, kind))]
