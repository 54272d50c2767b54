"""Codex: ``~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl``, packed after a while (zstd).

A line is an envelope (``timestamp``, ``type``, ``payload``); the oldest files have a bare line of
facts and then items without envelopes. What a model said comes as items of its own (reasoning,
text, calls): up to the next prompt or result they are one message. What requests cost is a running
total, written again whenever a limit changes: only what it grew by is counted.

A rollback takes prompts back, with all that followed; here the conversation goes on from before
them and they stay on a branch. So does a rewind, which begins another file of the same thread
(``rollout-<time>-<thread>_<segment>.jsonl``): all files of a thread are one session.
``history_base`` says where the thread is cut that a file goes on from; the past of a fork is read
from there.

Newer files say exactly what each request cost (``token_usage_record``); then totals are not looked
at. A thread's name stands beside the sessions, in ``session_index.jsonl``.

What a turn begins with (``turn_context``) is kept as an event when it changes.

A turn that was begun and has not ended may still change.

Lost: events that repeat an item for the screen (``user_message``, ``agent_message`` …); of
``token_count``, the size of the context window, how many tokens were reasoning, and the limits of
the account.
"""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

from msgspec.structs import replace

from holdfast.errors import ImportRejected
from holdfast.exchange.importers.base import MOST_SNIFFED
from holdfast.exchange.importing.content_blocks import call_of, openai_parts, result
from holdfast.exchange.importing.items import (
    HeadItem,
    Item,
    MessageItem,
    MetaItem,
    OpenItem,
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
_NAME = re.compile(r"rollout-.+-([0-9a-fA-F-]{36})_[0-9a-fA-F-]{36}")
_KINDS = frozenset(
    "session_meta response_item event_msg turn_context compacted world_state".split()  # noqa: SIM905  a list of names reads best as a list of names
)
_INDEX = "session_index.jsonl"
_ROOTS = ("sessions", "archived_sessions")
_MOST_LEVELS = 6  # from a file up to the agent's own folder
_MOST_FORKS = 32
_MOST_WAITING = 500
_EXITED = re.compile(r"^Process exited with code (-?\d+)$", re.MULTILINE)
_ABORTED = "<turn_aborted>"
_STARTS = frozenset({"task_started", "turn_started"})
_ENDS = frozenset({"task_complete", "turn_complete", "turn_aborted"})
_MOST_PARTS = 2000
_MOST_PROMPTS = 10_000
_TITLE_CHARACTERS = 200
_INJECTED = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "# AGENTS.md",
    "<skills",
    _ABORTED,
)
_REPEATS = frozenset(
    "user_message agent_message agent_reasoning agent_reasoning_raw_content item_completed".split()  # noqa: SIM905  a list of names reads best as a list of names
)
_NUMBERS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
)


class CodexImporter:
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
                if text(line, "type") in _KINDS and type(line.get("payload")) is dict:
                    return True
                if "instructions" in line and "id" in line and "type" not in line:
                    return True
        return False

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session per thread: its file, and those that rewinds have begun."""
        names = _names(path, reading)
        threads: dict[str, list[Path]] = {}
        for file in reading.files_below(path, *_ENDINGS):
            files = threads.setdefault(_thread_in(file), [])
            if file.with_name(file.name.removesuffix(".zst")) not in files:
                files.append(file)
        for id, files in threads.items():
            first, *others = sorted(files, key=_order)
            source = reading.source(self.name, id, first, *others)
            if id in names:  # a new name is a change, too
                mark = crc32(names[id].encode("utf-8", "surrogatepass")) % 1000
                source = replace(
                    source,
                    modified_ns=source.modified_ns + mark,
                    detail={"name": names[id]},
                )
            yield source

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the lines of all files, a message at a time."""
        rollout = _Rollout(source.id, text(source.detail, "name"))
        for number, file in enumerate((source.path, *source.others)):
            try:
                yield from _lines_of(rollout, Path(file), reading)
            except ImportRejected as error:
                if number == 0:
                    raise
                reading.path, reading.line = str(file), None
                reading.report(error.reason)
        if rollout.is_open:
            yield OpenItem()
        yield from rollout.flush()


def _thread_in(file: Path) -> str:
    stem = file.name.partition(".")[0]
    segment = _NAME.fullmatch(stem)
    if segment:
        return segment[1]
    return stem[-_UUID_CHARACTERS:] if len(stem) > _UUID_CHARACTERS else stem


def _order(file: Path) -> tuple[bool, str]:
    """The file of the thread itself comes first, then those of rewinds as they were begun."""
    return _NAME.fullmatch(file.name.partition(".")[0]) is not None, file.name


def _names(path: Path, reading: SourceReader) -> dict[str, str]:
    """Return the names of threads, from the list beside the folder of sessions."""
    for folder in (path, *islice(path.parents, _MOST_LEVELS)):
        if (folder / _INDEX).is_file():
            found: dict[str, str] = {}
            for line in reading.records(folder / _INDEX):
                if text(line, "id") and text(line, "thread_name"):
                    found[text(line, "id")] = text(line, "thread_name")
            return found
    return {}


def _lines_of(rollout: _Rollout, file: Path, reading: SourceReader) -> Iterator[Item]:
    """Yield what a file says, after the past that it refers to."""
    for number, line in enumerate(reading.records(file)):
        if number == 0 and text(line, "type") == "session_meta":
            base = record(record(line, "payload"), "history_base")
            if text(base, "thread_id") == rollout.id and rollout.has_meta:
                yield from rollout.rewound(count(base, "end_ordinal_exclusive"))
            elif text(base, "thread_id"):
                yield from rollout.take(line, number)  # facts first: they are this thread's
                yield from _past(rollout, base, file, reading)
                continue
        yield from rollout.take(line, number)


def _past(
    rollout: _Rollout, base: dict[str, Any], file: Path, reading: SourceReader
) -> Iterator[Item]:
    """Yield what a thread said up to where another one was made from it."""
    here = reading.path, reading.line
    own = SourceReader(reading.files)
    for thread, cut, files in reversed(_chain(base, file, own)):
        if not files:
            reading.path, reading.line = here
            reading.report(f"continues thread {thread}, which was not found")
            rollout.misses_past = True
            continue
        for each in files:
            yield from _lines_up_to(rollout, each, cut, own)
        yield from rollout.flush()
        yield from rollout.rewound(cut)
    reading.path, reading.line = here


def _chain(
    base: dict[str, Any], file: Path, reading: SourceReader
) -> list[tuple[str, int, list[Path]]]:
    """Return the threads that a past is made of, the latest first: id, where it is cut, files."""
    root = next((each for each in file.parents if each.name in _ROOTS), file.parent)
    places = [root, *(root.parent / name for name in _ROOTS if root.name in _ROOTS)]
    found: list[tuple[str, int, list[Path]]] = []
    while text(base, "thread_id") and len(found) < _MOST_FORKS:
        thread = text(base, "thread_id")
        files: dict[str, Path] = {}
        for place in dict.fromkeys(places):
            if place.is_dir():
                for each in reading.files_below(place, *_ENDINGS):
                    if _thread_in(each) == thread and each != file:
                        files.setdefault(each.name.partition(".")[0], each)
        ordered = sorted(files.values(), key=_order)
        cut = count(base, "end_ordinal_exclusive")
        if any(thread == each[0] for each in found):
            break
        found.append((thread, cut, ordered))
        first = reading.first_records(ordered[0], 1) if ordered else []
        base = record(record(first[0], "payload"), "history_base") if first else {}
    return found


def _lines_up_to(rollout: _Rollout, file: Path, cut: int, reading: SourceReader) -> Iterator[Item]:
    """Yield what a file of a past says before an ordinal; what it says about itself is not ours."""
    for number, line in enumerate(reading.records(file)):
        if text(line, "type") == "session_meta":
            if number == 0 and text(record(record(line, "payload"), "history_base"), "thread_id"):
                base = record(record(line, "payload"), "history_base")
                yield from rollout.rewound(count(base, "end_ordinal_exclusive"))
            continue
        if _ordinal(line, number) < cut:
            yield from rollout.take(line, number)


def _ordinal(line: dict[str, Any], number: int) -> int:
    found = line.get("ordinal")
    return found if type(found) is int else number


class _Rollout:
    def __init__(self, id: str, name: str = "") -> None:
        self.id = id
        self.has_meta = False
        self.misses_past = False
        self._name = name
        self._at: str | None = None
        self._ordinal = 0
        self._model: str | None = None
        self._parts: list[AnyPart] = []
        self._waiting: list[Item] = []  # what is no message, met while one is gathered
        self._begun: str | None = None  # when the message that is being gathered began
        self._begun_ordinal = 0
        self._is_running = False
        self._is_whole = False  # what the message cost is known
        self._said = 0
        self._last: str | None = None
        self._places = array("q")  # the ordinal of each message on this branch
        self._numbers = array("q")  # its id
        self._prompts: deque[tuple[int, str | None]] = deque(maxlen=_MOST_PROMPTS)
        self._total: dict[str, int] = {}
        self._has_records = False
        self._rules: dict[str, Any] = {}
        self._unnamed: bool | None = None

    @property
    def is_open(self) -> bool:
        """Whether the agent is still writing the message that is being gathered."""
        return self._is_running and bool(self._parts) and not self._is_whole

    def take(self, line: dict[str, Any], number: int) -> Iterator[Item]:
        """Take one line; ``number`` is its place in the file."""
        payload, kind = record(line, "payload"), text(line, "type")
        self._ordinal = _ordinal(line, number)
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
        elif kind == "token_usage_record":
            yield from self._used(payload)
        else:
            yield from self._aside(RawItem(f"codex.{kind}" if kind else "codex", line, self._at))

    def _aside(self, item: Item) -> Iterator[Item]:
        """Keep what is no message; it must not come before a message that is being gathered."""
        if not self._parts:
            yield item
            return
        self._waiting.append(item)
        if len(self._waiting) >= _MOST_WAITING:
            yield from self.flush()

    def rewound(self, cut: int) -> Iterator[Item]:
        """Go back to before an ordinal: what was said from there on stays on a branch."""
        yield from self.flush()
        while self._prompts and self._prompts[-1][0] >= cut:
            self._prompts.pop()
        before = len(self._places)
        while self._places and self._places[-1] >= cut:
            self._places.pop()
            self._numbers.pop()
        if len(self._places) < before:
            self._last = f"{self._numbers[-1]}" if self._numbers else None
            yield HeadItem(self._last)

    def _turn(self, payload: dict[str, Any]) -> Iterator[Item]:
        """Take what a turn begins with: the model, and rules that seldom change."""
        self._model = text(payload, "model") or self._model
        rules = {name: value for name, value in payload.items() if name != "turn_id"}
        if rules != self._rules:
            self._rules = rules
            yield from self._aside(RawItem("codex.turn_context", payload, self._at))

    def _bare(self, line: dict[str, Any], kind: str) -> Iterator[Item]:
        """Take a line of the oldest files, which have no envelope."""
        if kind:
            yield from self._item(line)
        elif "id" in line and not self.has_meta:
            self._at = parse_time(line.get("timestamp"))
            yield from self._about(line)
        else:
            yield from self._aside(RawItem("codex", line, self._at))

    def _about(self, payload: dict[str, Any]) -> Iterator[Item]:
        if self.has_meta:  # of the session that this one was made from, or of a rewind
            yield from self._aside(RawItem("codex.session_meta", payload, self._at))
            return
        self.has_meta = True
        base = text(record(payload, "history_base"), "thread_id")
        git = record(payload, "git")
        forked = text(payload, "forked_from_id") or (base if base != self.id else "")
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
                "family": forked or self.id,
                "title": self._name,
            },
            parse_time(payload.get("timestamp")),
        )
        prompt = text(record(payload, "base_instructions"), "text") or text(payload, "instructions")
        if prompt:
            yield self._say(Message(role="system", content=[Text(text=prompt)]))

    def _item(self, item: dict[str, Any]) -> Iterator[Item]:
        kind = text(item, "type")
        if kind == "message" and text(item, "role") != "assistant":
            aborted = _words(item).startswith(_ABORTED)
            self._is_running &= not aborted
            yield from self.flush(stop="interrupted" if aborted else None)
            yield from self._prompt(item)
        elif kind.endswith("_output"):
            yield from self.flush()
            yield self._say(_answer(item))
        else:
            part = _parts(item, kind)
            if not self._parts:
                self._begun, self._begun_ordinal = self._at, self._ordinal
            self._parts += part
            self._is_whole = False
            if len(self._parts) >= _MOST_PARTS:
                yield from self.flush()

    def _prompt(self, item: dict[str, Any]) -> Iterator[Item]:
        parts = openai_parts(item.get("content"))
        if text(item, "role") != "user":
            yield self._say(Message(role="system", content=parts))
            return
        words = _words(item)
        if words.startswith(_INJECTED):
            self._unnamed = self._unnamed is not False
            yield self._say(Message(role="user", content=parts, extra={"generated": True}))
            return
        self._prompts.append((self._ordinal, self._last))
        yield self._say(Message(role="user", content=parts))
        if self._unnamed and not self._name:
            yield MetaItem({"title": " ".join(words.split())[:_TITLE_CHARACTERS]})
        self._unnamed = False

    def _next_id(self, ordinal: int) -> str:
        self._said += 1
        self._last = f"{self._said}"
        self._places.append(ordinal)
        self._numbers.append(self._said)
        return self._last

    def _say(self, message: Message) -> MessageItem:
        return MessageItem(message, self._at, self._next_id(self._ordinal))

    def flush(self, stop: str | None = None) -> Iterator[Item]:
        """Say what a model said since the last prompt or result, and what was met meanwhile."""
        if self._parts:
            message = Message(role="assistant", content=self._parts, model=self._model, stop=stop)
            self._parts = []
            at = self._begun or self._at
            yield MessageItem(message, at, self._next_id(self._begun_ordinal))
        yield from self._waiting
        self._waiting = []

    def _event(self, event: dict[str, Any]) -> Iterator[Item]:
        kind = text(event, "type")
        self._is_running = (self._is_running or kind in _STARTS) and kind not in _ENDS
        if kind == "token_count":
            self._is_whole = True
            yield from self._spent(record(event, "info"))
        elif kind == "thread_rolled_back":
            yield from self.flush()
            yield from self._rolled_back(count(event, "num_turns"))
        elif kind == "thread_name_updated" and text(event, "thread_name"):
            if not self._name:
                yield MetaItem({"title": text(event, "thread_name")})
        elif kind not in _REPEATS:
            yield from self._aside(RawItem(f"codex.{kind}" if kind else "codex", event, self._at))

    def _rolled_back(self, turns: int) -> Iterator[Item]:
        to: str | None = self._last
        for _ in range(min(turns, len(self._prompts))):
            ordinal, to = self._prompts.pop()
            while self._places and self._places[-1] >= ordinal:
                self._places.pop()
                self._numbers.pop()
        if to != self._last:
            self._last = to
            yield HeadItem(to)

    def _used(self, payload: dict[str, Any]) -> Iterator[Item]:
        """Take what one request cost: its reply is whole."""
        yield from self.flush()
        self._has_records = True
        used = record(payload, "usage")
        if used:
            numbers = {name: count(used, name) for name in _NUMBERS}
            yield self._usage(numbers, text(payload, "response_id") or None)

    def _usage(self, used: dict[str, int], request: str | None) -> UsageItem:
        read, written = used["cached_input_tokens"], used["cache_write_input_tokens"]
        fresh = max(0, used["input_tokens"] - read - written)
        usage = Usage(fresh, used["output_tokens"], None, read, written, self._model, request)
        return UsageItem(usage, self._at)

    def _spent(self, info: dict[str, Any]) -> Iterator[Item]:
        total = {name: count(record(info, "total_token_usage"), name) for name in _NUMBERS}
        if not any(total.values()) or total == self._total:
            return
        before, self._total = self._total, total
        if self._has_records:
            return
        if any(total[name] < before.get(name, 0) for name in _NUMBERS):
            before = {}  # counted anew: by another process
        grown = {name: total[name] - before.get(name, 0) for name in _NUMBERS}
        if self.misses_past and not before:  # the total has what is not here
            grown = {name: count(record(info, "last_token_usage"), name) for name in _NUMBERS}
        # Copies of a conversation repeat the same totals: that is how they are told.
        request = f"total-{total['input_tokens']}-{total['output_tokens']}"
        yield from self._aside(self._usage(grown, request))

    def _compacted(self, payload: dict[str, Any]) -> Iterator[Item]:
        yield from self.flush()
        history = [
            each for item in records(payload, "replacement_history") for each in _alone(item)
        ]
        words = text(payload, "message")
        summary = history or [Message(role="user", content=[Text(text=words)])]
        yield SummaryItem(summary, at=self._at, id=self._next_id(self._ordinal))


def _words(item: dict[str, Any]) -> str:
    """Return the first text of a message."""
    parts = openai_parts(item.get("content"))
    return next((part.text for part in parts if isinstance(part, Text)), "").lstrip()


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
    if not failed:
        failed = _exit_code(openai_parts(output)) not in (None, "0")
    return result(text(item, "call_id"), openai_parts(output), failed=failed)


def _answer(item: dict[str, Any]) -> Message:
    """Return the result of a call; one that names no call is what another agent reports."""
    if text(item, "call_id"):
        return Message(role="tool", content=[_output(item)])
    content = _output(item).content
    return Message(role="user", content=content, extra={"generated": True})


def _exit_code(parts: list[AnyPart]) -> str | None:
    """Return how a command ended, as it is said before its output."""
    words = next((part.text for part in parts if isinstance(part, Text)), "")
    found = _EXITED.search(words.partition("\nOutput:\n")[0])
    return found[1] if found else None


def _alone(item: dict[str, Any]) -> list[Message]:
    """Return an item of a replaced history as a message of its own."""
    kind, role = text(item, "type"), text(item, "role")
    if kind.endswith("_output"):
        return [_answer(item)]
    if kind == "message" and role in ("user", "developer", "system"):
        said = "user" if role == "user" else "system"
        return [Message(role=said, content=openai_parts(item.get("content")))]
    return [Message(role="assistant", content=_parts(item, kind))]
