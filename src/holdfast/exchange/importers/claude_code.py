"""Claude Code: ``~/.claude/projects/<folder>/<session>.jsonl``, one JSON object a line.

Lines form a tree through ``parentUuid``. Two things keep it from being taken as it stands: a reply
is written block by block, one line each, all with the same ``message.id``; and the results of
parallel calls are siblings, of which a walk along parents meets only one. So a *round* (the lines
of one reply, and the results that answer it) is gathered and said in a row, and whoever hangs on
any line of it hangs on its end.

A subagent's lines (``isSidechain``) are a branch of their own, or a file of their own. What a
request cost stands on every line of its reply; the last word counts, once, also if a copy of the
conversation has it too.

Lost: fields of lines that say how the screen looked (``userType``, ``slug`` …), and
``toolUseResult``, which repeats a result in the shape of the tool; ``requestId``, beside the id of
the reply; the mark that a branch is a subagent's; lines whose ``uuid`` was there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.exchange.importers.base import MOST_SNIFFED
from holdfast.exchange.importing.content_blocks import anthropic_parts
from holdfast.exchange.importing.items import (
    FOLLOWS,
    HeadItem,
    Item,
    MessageItem,
    MetaItem,
    RawItem,
    Source,
    SummaryItem,
    UsageItem,
)
from holdfast.exchange.importing.json_fields import count, parse_time, record, text
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.model.entry import Usage
from holdfast.model.message import AnyPart, Message, ToolResult

_MOST_LINES_A_ROUND = 2000
_MOST_REMEMBERED = 50_000
_TITLE_CHARACTERS = 200
_STOPS = {"end_turn": "end", "tool_use": "tools", "max_tokens": "length", "stop_sequence": "end"}
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}


class ClaudeCode:
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
            for line in reading.first_records(file):
                if "sessionId" in line and ("uuid" in line or "type" in line):
                    return True
        return False

    def sessions(self, path: Path, reading: SourceReader) -> Iterator[Source]:
        """Yield one session a file; its name is the session's id."""
        for file in reading.files_below(path, ".jsonl"):
            agent = file.stem.startswith("agent-")
            id = f"{_folder_of_agents(file)}/{file.stem}" if agent else file.stem
            yield reading.source(self.name, id, file)

    def read(self, source: Source, reading: SourceReader) -> Iterator[Item]:
        """Read the lines, a round at a time."""
        return _Conversation().items(reading.records(source.path), reading)


def _folder_of_agents(file: Path) -> str:
    folder = file.parent
    return folder.parent.name if folder.name == "subagents" else folder.name


class _Conversation:
    def __init__(self) -> None:
        self._where: tuple[Any, Any, Any] | None = None
        self._main, self._side = _Lane(), _Lane()
        self._all_side: bool | None = None
        self._title = 0
        self._unnamed: bool | None = None
        self._seen: dict[str, None] = {}
        self._family = ""

    def items(self, lines: Iterator[dict[str, Any]], reading: SourceReader) -> Iterator[Item]:
        seen = self._seen
        for line in lines:
            uuid = line.get("uuid")
            if type(uuid) is not str:
                yield from self._aside(line)
                continue
            if uuid in seen:
                reading.report(f"repeats the line {uuid}")
                continue
            seen[uuid] = None
            if len(seen) > _MOST_REMEMBERED:
                del seen[next(iter(seen))]
            where = (line.get("cwd"), line.get("gitBranch"), line.get("version"))
            if where != self._where:
                yield self._about(line)
                self._where = where
            side = line.get("isSidechain") is True
            if self._all_side is None:
                self._all_side = side  # a subagent's own file
                if side:
                    yield MetaItem({"parent": text(line, "sessionId")})
            if not self._family and line.get("type") == "assistant":
                # Copies of a conversation may begin with lines of their own, but share its replies.
                self._family = text(record(line, "message"), "id") or uuid
                yield MetaItem({"family": self._family})
            lane = self._side if side and not self._all_side else self._main
            yield from self._in_lane(lane, line, uuid)
        yield from self._side.flush()
        yield from self._main.flush()
        if self._side.last is not None and self._main.last is not None:
            yield HeadItem(self._main.last)

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
        elif kind:
            yield RawItem(f"claude-code.{kind}", line, parse_time(line.get("timestamp")))
        else:
            yield RawItem("claude-code", line)

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
        self._parts: list[AnyPart] = []
        self._reply: dict[str, Any] = {}
        self._at: str | None = None
        self._usage: dict[str, Any] = {}
        self._answers: list[MessageItem] = []
        self.last: str | None = None

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
        if message.get("stop_reason"):
            self._reply = message
        usage = record(message, "usage")
        if not self._usage or count(usage, "output_tokens") >= count(self._usage, "output_tokens"):
            self._usage = usage
        return done

    def answered(self, line: dict[str, Any], uuid: str, message: dict[str, Any]) -> Sequence[Item]:
        """Take the result of a call; it waits for the reply to be whole."""
        parent = _parent(line)
        done: Sequence[Item] = ()
        if parent not in self._lines or len(self._lines) >= _MOST_LINES_A_ROUND:
            done = self.flush()  # it answers something else: an earlier round, or a damaged one
            self._parent = parent
        self._lines[uuid] = None
        parts = anthropic_parts(message.get("content"))
        results: list[AnyPart] = [part for part in parts if type(part) is ToolResult]
        at = parse_time(line.get("timestamp"))
        self._answers.append(MessageItem(Message(role="tool", content=results), at, uuid))
        if len(results) < len(parts):
            rest = [part for part in parts if type(part) is not ToolResult]
            self._answers.append(MessageItem(Message(role="user", content=rest), at))
        return done

    def asked(self, line: dict[str, Any], uuid: str, message: dict[str, Any]) -> MessageItem:
        """Return a prompt."""
        content = anthropic_parts(message.get("content"))
        extra = {"generated": True} if line.get("isMeta") is True else {}
        self.last = uuid
        asked = Message(role="user", content=content, extra=extra)
        return MessageItem(asked, parse_time(line.get("timestamp")), uuid, _parent(line))

    def condensed(self, line: dict[str, Any], uuid: str, message: dict[str, Any]) -> SummaryItem:
        """Return a compaction: the summary takes the place of all that came before."""
        content = anthropic_parts(message.get("content"))
        self.last = uuid
        summary = [Message(role="user", content=content)]
        at = parse_time(line.get("timestamp"))
        return SummaryItem(summary, at=at, id=uuid, parent=_parent(line))

    def noted(self, line: dict[str, Any], uuid: str) -> Sequence[Item]:
        """Keep a line that is no message; in the middle of a round it is a link of the round."""
        kind, parent = text(line, "type"), _parent(line)
        note = f"claude-code.{kind}" if kind else "claude-code"
        at = parse_time(line.get("timestamp"))
        if parent in self._lines and len(self._lines) < _MOST_LINES_A_ROUND:
            self._lines[uuid] = None
            return (RawItem(note, line, at),)
        return (RawItem(note, line, at, uuid, parent),)

    def flush(self) -> Sequence[Item]:
        """Return the round that was gathered."""
        if not self._lines:
            return ()
        lines, reply, items = list(self._lines), self._reply, list[Item]()
        parent: str | None = self._parent
        if reply:
            also = () if self._answers else lines
            items.append(MessageItem(self._message(), self._at, lines[0], parent, also))
            parent = FOLLOWS
            model = _model(reply)
            if self._usage and model:
                items.append(UsageItem(_usage(self._usage, model, self._id), self._at))
        for each in self._answers:
            also = lines if each is self._answers[-1] else ()
            items.append(MessageItem(each.message, each.at, each.id, parent, also))
            parent = FOLLOWS
        self.last = lines[-1]
        self._id, self._lines, self._parts, self._answers = "", {}, [], []
        self._usage, self._reply = {}, {}
        return items

    def _message(self) -> Message:
        stop = text(self._reply, "stop_reason")
        return Message(
            role="assistant",
            content=self._parts,
            model=_model(self._reply),
            stop=_STOPS.get(stop, stop) or None,
            request=self._id,
        )


def _is_results(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return type(content) is list and any(text(each, "type") == "tool_result" for each in content)


def _parent(line: dict[str, Any]) -> str | None:
    """Return the line that this one hangs on; the boundary of a compaction says it elsewhere."""
    return text(line, "parentUuid") or text(line, "logicalParentUuid") or None


def _model(message: dict[str, Any]) -> str | None:
    """Return the model that replied; what the program says in its place has no real one."""
    model = text(message, "model")
    return None if not model or model.startswith("<") else model


def _usage(usage: dict[str, Any], model: str | None, request: str) -> Usage:
    return Usage(
        input=count(usage, "input_tokens"),
        output=count(usage, "output_tokens"),
        cost_usd=None,
        cache_read=count(usage, "cache_read_input_tokens"),
        cache_write=count(usage, "cache_creation_input_tokens"),
        model=model,
        request=request,
    )
