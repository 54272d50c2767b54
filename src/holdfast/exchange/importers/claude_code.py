"""Claude Code: ``~/.claude/projects/<folder>/<session>.jsonl``, one JSON object a line.

Lines form a tree through ``parentUuid``. Two things keep it from being taken as it stands: a reply
is written block by block, one line each, all with the same ``message.id``; and the results of
parallel calls are siblings, of which a walk along parents meets only one. So a *round* (the lines
of one reply, and the results that answer it) is gathered and said in a row, and whoever hangs on
any line of it hangs on its end. Lines that are no messages wait until the round is said: otherwise
a reply would stand at another place when the file is read again. A round whose reply has not ended,
or that waits for results, may still change.

A compaction keeps the messages that its boundary names (``preservedSegment``,
``preservedMessages``): they stay on the branch, and the summary comes before them. If they were
anchored at the boundary itself, the summary follows them.

A subagent's lines (``isSidechain``) are a branch of their own, or a file of their own. What a
request cost stands on every line of its reply; the last word counts, once, also if a copy of the
conversation has it too. Prices come from ``costUSD``, or from what ``cost-state`` grew by.

Lost: fields of lines that say how the screen looked (``userType``, ``slug`` …), and
``toolUseResult``, which repeats a result in the shape of the tool; ``requestId``, beside the id of
the reply; the mark that a branch is a subagent's; lines whose ``uuid`` was there already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.exchange.importers.base import MOST_SNIFFED, document_beside
from holdfast.exchange.importing.content_blocks import anthropic_parts
from holdfast.exchange.importing.items import (
    FOLLOWS,
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
from holdfast.exchange.importing.json_fields import amount, count, parse_time, record, rows, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, Message, Text, ToolCall, ToolResult

_MOST_LINES_A_ROUND = 2000
_MOST_WAITING = 500
_MOST_LINES_SNIFFED = 50
_MOST_REMEMBERED = 50_000
_TITLE_CHARACTERS = 200
_LEAST_COST_USD = 1e-9
_STOPS = {"end_turn": "end", "tool_use": "tools", "max_tokens": "length", "stop_sequence": "end"}
_GENERATED = re.compile(
    r"\s*(<(command-|local-command-|bash-|system-reminder|task-notification|user-prompt-submit-hook)"
    r"|\[Request interrupted by user|Caveat: The messages below were generated)"
)
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}


class ClaudeCodeImporter:
    """Sessions of Claude Code."""

    name = "claude-code"
    title = "Claude Code"

    def found(self, home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
        """Return the folder of projects."""
        configured = environment.get("CLAUDE_CONFIG_DIR")
        return [(Path(configured) if configured else home / ".claude") / "projects"]

    def sniff(self, path: Path, reading: SourceReader) -> bool:
        """Look at the first lines of the first files."""
        for file in islice(reading.files_below(path, ".jsonl"), MOST_SNIFFED):
            for line in reading.first_records(file, _MOST_LINES_SNIFFED):
                if _is_message(line) and line.get("type") == line["message"].get("role"):
                    return True
        return False

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session a file; its name is the session's id."""
        for file in reading.files_below(path, ".jsonl"):
            agent = file.stem.startswith("agent-")
            id = f"{_folder_of_agents(file)}/{file.stem}" if agent else file.stem
            others = [_meta_of(file)] if agent else []
            yield reading.source(self.name, id, file, *others)

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the lines, a round at a time."""
        if source.others:
            meta = document_beside(_meta_of(Path(source.path)), reading)
            yield MetaItem({"title": text(meta, "description"), "role": text(meta, "agentType")})
        yield from _Conversation().items(reading.records(source.path), reading)


def _meta_of(file: Path) -> Path:
    return file.with_suffix(".meta.json")


def _is_message(line: dict[str, Any]) -> bool:
    return line.get("type") in ("user", "assistant") and "content" in record(line, "message")


def _folder_of_agents(file: Path) -> str:
    folder = file.parent
    return folder.parent.name if folder.name == "subagents" else folder.name


class _Conversation:
    def __init__(self) -> None:
        self._where: tuple[Any, Any, Any] | None = None
        self._main, self._side = _Lane(), _Lane()
        self._lane = self._main
        self._all_side: bool | None = None
        self._title = 0
        self._unnamed: bool | None = None
        self._seen: dict[str, None] = {}
        self._family = ""
        self._number = 0

    def items(self, lines: Iterator[dict[str, Any]], reading: SourceReader) -> Iterator[Item]:
        for line in lines:
            self._number += 1
            uuid = line.get("uuid")
            if type(uuid) is not str:
                if not _is_message(line):
                    yield from self._aside(line)
                    continue
                uuid = f"#{self._number}"  # of older versions: each line follows the one before
                line = {**line, "parentUuid": FOLLOWS}  # noqa: PLW2901  the same line, completed
            if uuid in self._seen:
                reading.report(f"repeats the line {uuid}")
                continue
            self._seen[uuid] = None
            if len(self._seen) > _MOST_REMEMBERED:
                del self._seen[next(iter(self._seen))]
            yield from self._facts(line, uuid)
            side = line.get("isSidechain") is True and not self._all_side
            lane = self._side if side else self._main
            if lane is not self._lane:
                if self._lane.is_unanswered:  # a subagent works on a call: that reply is whole
                    yield from self._lane.flush()
                self._lane = lane
            yield from self._in_lane(lane, line, uuid)
        if self._main.is_open or self._side.is_open:
            yield OpenItem()
        yield from self._side.flush()
        yield from self._main.flush()
        if self._side.last is not None and self._main.last is not None:
            yield HeadItem(self._main.last)

    def _facts(self, line: dict[str, Any], uuid: str) -> Iterator[Item]:
        where = (line.get("cwd"), line.get("gitBranch"), line.get("version"))
        if where != self._where:
            yield self._about(line)
            self._where = where
        if self._all_side is None:
            self._all_side = line.get("isSidechain") is True  # a subagent's own file
            if self._all_side:
                yield MetaItem({"parent": text(line, "sessionId")})
        if not self._family and line.get("type") == "assistant":
            # Copies of a conversation may begin with lines of their own, but share its replies.
            self._family = text(record(line, "message"), "id") or uuid
            yield MetaItem({"family": self._family})

    def _in_lane(self, lane: _Lane, line: dict[str, Any], uuid: str) -> Sequence[Item]:
        kind = line.get("type")
        if kind == "assistant":
            return lane.replied(line, uuid)
        if kind != "user":
            return lane.noted(line, uuid)
        message = record(line, "message")
        if _is_results(message):
            return lane.answered(line, uuid, message)
        if line.get("isCompactSummary") is True:
            return [*lane.flush(), lane.condensed(line, uuid, message)]
        return [*lane.flush(), *self._titled(lane.asked(line, uuid, message))]

    def _aside(self, line: dict[str, Any]) -> Iterator[Item]:
        """Lines that hang on nothing: titles, snapshots of files, a queue of prompts."""
        kind = text(line, "type")
        title = text(line, _TITLES.get(kind, ""))
        if title:
            rank = 2 if kind == "custom-title" else 1
            if rank >= self._title:  # a name that a person gave outlives one that was made up
                self._title = rank
                yield MetaItem({"title": title})
            return
        if kind == "cost-state":
            yield from self._lane.wait(*self._lane.priced(line))
        note = RawItem(f"claude-code.{kind}", line, parse_time(line.get("timestamp")))
        yield from self._lane.wait(note if kind else RawItem("claude-code", line))

    def _titled(self, asked: MessageItem) -> list[Item]:
        """Name a session that begins with what the program itself said to the model."""
        if asked.message.extra:
            self._unnamed = self._unnamed is not False
        else:
            unnamed, self._unnamed = self._unnamed, False
            if unnamed and self._title == 0:
                title = " ".join(asked.message.text.split())[:_TITLE_CHARACTERS]
                return [asked, MetaItem({"title": title})]
        return [asked]

    def _about(self, line: dict[str, Any]) -> MetaItem:
        facts = {"git_branch": text(line, "gitBranch"), "agent_version": text(line, "version")}
        if self._where is None:
            # Where a session began is where it belongs, wherever its tools went.
            facts |= {"provider": "anthropic", "workspace": text(line, "cwd")}
        return MetaItem(facts)


class _Lane:
    """One thread of the conversation: the main one, or that of subagents."""

    def __init__(self) -> None:
        self._id = ""  # of the reply that is being gathered
        self._parent: str | None = None
        self._lines: dict[str, None] = {}  # in order, and looked up often
        self._said: list[str] = []  # the lines of the reply itself
        self._parts: list[AnyPart] = []
        self._reply: dict[str, Any] = {}
        self._is_aborted = False
        self._is_live = False  # the agent writes block by block, as the reply comes in
        self._at: str | None = None
        self._usage: dict[str, Any] = {}
        self._cost: float | None = None
        self._answers: list[MessageItem] = []
        self._waiting: list[Item] = []  # lines that are no messages, met within the round
        self._compaction = _Compaction()
        self._total_cost = 0.0
        self._request: str | None = None  # of the last reply that was said
        self._model: str | None = None
        self.last: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether an agent is still writing the round: no end of the reply, calls without result.

        What was exported from here is finished, whatever it says.
        """
        if not self._is_live or self._is_aborted:
            return False
        calls = any(type(part) is ToolCall for part in self._parts)
        if calls:
            return self.is_unanswered
        stop = self._reply.get("stop_reason", "")
        return stop in (None, "tool_use") or not any(type(part) is Text for part in self._parts)

    @property
    def is_unanswered(self) -> bool:
        """Whether the reply has calls without a result."""
        calls = {part.id for part in self._parts if type(part) is ToolCall}
        answered = {
            part.call_id
            for answer in self._answers
            for part in answer.message.content
            if type(part) is ToolResult
        }
        return bool(calls - answered)

    def wait(self, *items: Item) -> Sequence[Item]:
        """Return lines that are no messages, or let them wait for the round that they follow."""
        if not self._lines or self.is_open or self.is_unanswered:
            return items
        self._waiting += items
        return self.flush() if len(self._waiting) >= _MOST_WAITING else ()

    def replied(self, line: dict[str, Any], uuid: str) -> Sequence[Item]:
        """Take one block of a reply."""
        message = record(line, "message")
        id = text(message, "id") or uuid
        done: Sequence[Item] = ()
        if id != self._id or len(self._lines) >= _MOST_LINES_A_ROUND:
            done = self.flush()
            self._id, self._parent = id, _parent(line)
            self._at, self._reply = parse_time(line.get("timestamp")), message
        self._parts += anthropic_parts(message.get("content"))
        self._lines[uuid] = None
        self._said.append(uuid)
        written = "requestId" in line or "stop_reason" in message
        self._is_live = written and not is_export(line)
        self._is_aborted |= line.get("isAbortedMidStream") is True
        if message.get("stop_reason") or not self._reply.get("stop_reason"):
            self._reply = message
        usage = record(message, "usage")
        if not self._usage or count(usage, "output_tokens") >= count(self._usage, "output_tokens"):
            self._usage = usage
        cost = amount(line, "costUSD")
        if cost is not None:
            self._cost = max(cost, self._cost or 0.0)
        return done

    def answered(self, line: dict[str, Any], uuid: str, message: dict[str, Any]) -> Sequence[Item]:
        """Take the result of a call; it waits for the reply to be whole."""
        parent = _parent(line)
        done: Sequence[Item] = ()
        inside = parent in self._lines or (parent == FOLLOWS and bool(self._lines))
        if not inside or len(self._lines) >= _MOST_LINES_A_ROUND:
            done = self.flush()  # it answers something else: an earlier round, or a damaged one
            self._parent = parent
        self._lines[uuid] = None
        parts = anthropic_parts(message.get("content"))
        results: list[AnyPart] = [part for part in parts if type(part) is ToolResult]
        at = parse_time(line.get("timestamp"))
        answer = Message(role="tool", content=results)
        self._answers.append(MessageItem(answer, at, uuid, own=(uuid,)))
        if len(results) < len(parts):
            rest = [part for part in parts if type(part) is not ToolResult]
            self._answers.append(MessageItem(Message(role="user", content=rest), at))
        return done

    def asked(self, line: dict[str, Any], uuid: str, message: dict[str, Any]) -> MessageItem:
        """Return a prompt; what the program itself says is marked as such."""
        content = anthropic_parts(message.get("content"))
        words = next((part.text for part in content if type(part) is Text), "")
        generated = line.get("isMeta") is True or _GENERATED.match(words) is not None
        self.last = uuid
        asked = Message(
            role="user", content=content, extra={"generated": True} if generated else {}
        )
        at = parse_time(line.get("timestamp"))
        return MessageItem(asked, at, uuid, _parent(line), own=(uuid,))

    def condensed(
        self, line: dict[str, Any], uuid: str, message: dict[str, Any]
    ) -> SummaryItem | MessageItem:
        """Return a compaction: the summary takes the place of what is not preserved."""
        content = anthropic_parts(message.get("content"))
        at = parse_time(line.get("timestamp"))
        kept, self._compaction = self._compaction, _Compaction()
        self.last = uuid
        if kept.is_prefix:
            told = Message(role="user", content=content, extra={"generated": True})
            return MessageItem(told, at, uuid, kept.tail, own=(uuid,))
        summary = [Message(role="user", content=content)]
        also = (kept.tail,) if kept.tail else ()  # what comes next may name the last message kept
        return SummaryItem(summary, kept.head, None, at, uuid, _parent(line), also)

    def noted(self, line: dict[str, Any], uuid: str) -> Sequence[Item]:
        """Keep a line that is no message; in the middle of a round it is a link of the round."""
        kind, parent = text(line, "type"), _parent(line)
        note = f"claude-code.{kind}" if kind else "claude-code"
        at = parse_time(line.get("timestamp"))
        if text(line, "subtype") == "compact_boundary":
            self._compaction = _Compaction(line, uuid)
            parent = self._compaction.tail or parent
            return [*self.flush(), RawItem(note, line, at, uuid, parent)]
        if parent in self._lines and len(self._lines) < _MOST_LINES_A_ROUND:
            self._lines[uuid] = None
            return self.wait(RawItem(note, line, at))
        return self.wait(RawItem(note, line, at, uuid, parent))

    def priced(self, line: dict[str, Any]) -> Iterator[Item]:
        """Yield what the session's price grew by, beyond what its lines say."""
        total = amount(line, "totalCostUSD")
        if total is None:
            return
        known = self._cost or 0.0
        if total < self._total_cost:
            self._total_cost = 0.0  # another process counts from the start
        grown, self._total_cost = total - self._total_cost - known, total - known
        request = self._id or self._request
        model = _model(self._reply) or self._model
        if grown > _LEAST_COST_USD and request:
            yield UsageItem(Usage(0, 0, grown, model=model, request=request))

    def flush(self) -> Sequence[Item]:
        """Return the round that was gathered."""
        if not self._lines:
            return ()
        lines, reply, items = list(self._lines), self._reply, list[Item]()
        parent: str | None = self._parent
        if reply:
            also = () if self._answers else lines
            said = MessageItem(self._message(), self._at, lines[0], parent, also, self._said)
            items.append(said)
            parent = FOLLOWS
            model = _model(reply)
            if self._usage and model:
                items.append(UsageItem(_usage(self._usage, model, self._id, self._cost), self._at))
                self._request, self._model = self._id, model
            self._total_cost += self._cost or 0.0
        for each in self._answers:
            also = lines if each is self._answers[-1] else ()
            items.append(MessageItem(each.message, each.at, each.id, parent, also, each.own))
            parent = FOLLOWS
        items += self._waiting
        self.last = lines[-1]
        self._id, self._lines, self._said, self._parts, self._answers = "", {}, [], [], []
        self._usage, self._reply, self._cost, self._is_aborted = {}, {}, None, False
        self._waiting = []
        return items

    def _message(self) -> Message:
        stop = text(self._reply, "stop_reason")
        return Message(
            role="assistant",
            content=self._parts,
            model=_model(self._reply),
            stop="interrupted" if self._is_aborted else _STOPS.get(stop, stop) or None,
            request=self._id,
        )


class _Compaction:
    """What the boundary of a compaction says about the messages that stay as they are."""

    def __init__(self, line: dict[str, Any] | None = None, uuid: str = "") -> None:
        metadata = record(line, "compactMetadata")
        segment = record(metadata, "preservedSegment")
        named = [each for each in rows(record(metadata, "preservedMessages"), "uuids") if each]
        kept = [each for each in named if type(each) is str]
        self.head = text(segment, "headUuid") or (kept[0] if kept else None)
        self.tail = text(segment, "tailUuid") or (kept[-1] if kept else None)
        anchor = text(segment, "anchorUuid")
        self.is_prefix = bool(self.tail) and bool(anchor) and anchor == uuid


def is_export(line: dict[str, Any]) -> bool:
    """Tell whether a line was exported by Holdfast: its ids are made from names, not by chance."""
    return text(line, "uuid")[14:15] == text(line, "sessionId")[14:15] == "5"


def _is_results(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return type(content) is list and any(text(each, "type") == "tool_result" for each in content)


def _parent(line: dict[str, Any]) -> str | None:
    """Return the line that this one hangs on; the boundary of a compaction says it elsewhere."""
    if line.get("parentUuid") == FOLLOWS:
        return FOLLOWS
    return text(line, "parentUuid") or text(line, "logicalParentUuid") or None


def _model(message: dict[str, Any]) -> str | None:
    """Return the model that replied; what the program says in its place has no real one."""
    model = text(message, "model")
    return None if not model or model.startswith("<") else model


def _usage(usage: dict[str, Any], model: str | None, request: str, cost: float | None) -> Usage:
    return Usage(
        input=count(usage, "input_tokens"),
        output=count(usage, "output_tokens"),
        cost_usd=cost,
        cache_read=count(usage, "cache_read_input_tokens"),
        cache_write=count(usage, "cache_creation_input_tokens"),
        model=model,
        request=request,
    )
