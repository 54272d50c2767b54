"""A file that Codex resumes: put it where ``file_name`` says, below ``~/.codex/sessions``.

Items in envelopes, and beside them the events from which the agent draws its screen. A compaction
becomes a replaced history where the kept messages begin, so that the context is the same.

Lost: names of models that are not OpenAI's, thinking that OpenAI did not encrypt, how a call ended,
how a reply ended, where one of two replies in a row ends, compactions before the last, prices;
attached files become text. A prompt that begins like what the agent adds by itself is taken for
such: it tells them by their first words, and there is no mark for the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.exchange.exporters.openai import words_of
from holdfast.exchange.exporters.portable_json import (
    data_url,
    inside,
    is_of,
    line,
    uuid_of,
    words_in,
)
from holdfast.exchange.exporting.transcript import Condensation, Line, Transcript
from holdfast.exchange.importing.json_fields import parsed, record, text
from holdfast.model.entry import Usage
from holdfast.model.message import (
    AnyPart,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

_VERSION = "0.98.0"  # of the agent whose lines these could be
_ROLES = {"user": "user", "assistant": "assistant", "system": "developer"}
# Items that parts of ours stand for: as opaque ones they would come back as something else.
_OURS = {"message", "reasoning", "function_call", "custom_tool_call", "local_shell_call"}
_TIME_CHARACTERS = 19


class CodexExporter:
    """Sessions of Codex."""

    name = "codex"
    title = "Codex"

    def file_name(self, transcript: Transcript) -> str:
        """Return folder and name under which the agent looks for it."""
        at = transcript.started[:_TIME_CHARACTERS]
        day = at[:10].replace("-", "/")
        return f"{day}/rollout-{at.replace(':', '-')}-{uuid_of(transcript.id)}.jsonl"

    def chunks(self, transcript: Transcript) -> Iterator[bytes]:
        """Yield the lines."""
        writer = _Writer(transcript)
        yield writer.about(transcript)
        for item in transcript.as_seen():
            if isinstance(item, Line):
                yield from writer.said(item)
            else:
                yield writer.condensed(item)
        if transcript.fact("title"):
            yield writer.named(transcript.fact("title"), transcript.updated)


def _envelope(at: str, kind: str, payload: dict[str, Any]) -> bytes:
    return line({"timestamp": at, "type": kind, "payload": payload})


class _Writer:
    def __init__(self, transcript: Transcript) -> None:
        self._id = uuid_of(transcript.id)
        self._provider = transcript.fact("provider")
        self._is_own = text(record(transcript.meta, "imported"), "agent") == CodexExporter.name
        self._workspace = transcript.fact("workspace") or "/"
        self._model: str | None = None
        self._total = dict.fromkeys(_counts(Usage(0, 0, None)), 0)

    def about(self, transcript: Transcript) -> bytes:
        """Return the line that begins the file.

        No provider is named: the agent takes the configured one, and resumes with no other.
        """
        at = transcript.started
        facts: dict[str, Any] = {
            "id": self._id,
            "timestamp": at,
            "cwd": self._workspace,
            "originator": "holdfast",
            "cli_version": _VERSION,
            "instructions": None,
            "source": "cli",
        }
        git = {
            "commit_hash": transcript.fact("git_commit") or None,
            "branch": transcript.fact("git_branch") or None,
        }
        if any(git.values()):
            facts["git"] = git
        return _envelope(at, "session_meta", facts)

    def said(self, item: Line) -> Iterator[bytes]:
        """Write a message as items, with the events that show it."""
        message, at = item.message, item.at
        if message.role == "assistant":
            yield from self._model_now(message, at)
        for each in items(message, self._provider):
            yield _envelope(at, "response_item", each)
        event = _event(message)
        if event is not None:
            yield _envelope(at, "event_msg", event)
        if item.usage is not None:
            yield self._spent(item.usage, at)

    def _model_now(self, message: Message, at: str) -> Iterator[bytes]:
        """Say which model speaks, if that is news; with the least that an agent may do.

        A model that the agent cannot reach is not named: it would try to go on with it.
        """
        known = self._is_own or is_of("openai", message, self._provider)
        if known and message.model and message.model != self._model:
            self._model = message.model
            context = {
                "cwd": self._workspace,
                "approval_policy": "on-request",
                "sandbox_policy": {"type": "read-only"},
                "model": message.model,
                "summary": "auto",
            }
            yield _envelope(at, "turn_context", context)

    def _spent(self, usage: Usage, at: str) -> bytes:
        last = _counts(usage)
        self._total = {name: self._total[name] + number for name, number in last.items()}
        info = {
            "total_token_usage": self._total,
            "last_token_usage": last,
            "model_context_window": None,
        }
        event = {"type": "token_count", "info": info, "rate_limits": None}
        return _envelope(at, "event_msg", event)

    def condensed(self, item: Condensation) -> bytes:
        """Return the line of a compaction."""
        history = [each for message in item.summary for each in items(message, self._provider)]
        payload = {"message": words_in(item.summary), "replacement_history": history}
        return _envelope(item.at, "compacted", payload)

    def named(self, title: str, at: str) -> bytes:
        """Return the line of a title."""
        event = {"type": "thread_name_updated", "thread_id": self._id, "thread_name": title}
        return _envelope(at, "event_msg", event)


def _counts(usage: Usage) -> dict[str, int]:
    whole = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": whole,
        "cached_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "reasoning_output_tokens": 0,
        "total_tokens": whole + usage.output,
    }


def items(message: Message, provider: str) -> Iterator[dict[str, Any]]:
    """Yield a message as items of the Responses API."""
    own = is_of("openai", message, provider)
    content: list[dict[str, Any]] = []
    for part in message.content:
        item = _item(part, own=own)
        if item is None:
            content += _content(part, message.role)
            continue
        if content:
            yield _message(message.role, content)
            content = []
        yield item
    if content:
        yield _message(message.role, content)


def _message(role: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": _ROLES.get(role, "user"), "content": content}


def _item(part: AnyPart, *, own: bool) -> dict[str, Any] | None:
    """Return the item that a part is by itself, ``None`` if it belongs into a message."""
    match part:
        case Thinking(signature=str(signature)) if own and signature:
            summary = [{"type": "summary_text", "text": part.text}] if part.text else []
            shown = {"summary": summary, "content": None, "encrypted_content": signature}
            return {"type": "reasoning", **shown}
        case ToolCall() if part.partial is None or _is_broken(part.partial):
            given = inside(part.arguments) if part.partial is None else part.partial
            named = {"name": part.name, "arguments": given, "call_id": part.id}
            return {"type": "function_call", **named}
        case ToolResult():
            return {
                "type": "function_call_output",
                "call_id": part.call_id,
                "output": _output(part),
            }
        case Opaque(vendor="openai", data={"type": str(kind)}):
            is_item = kind.endswith("_call") and kind not in _OURS
            return dict(part.data) if is_item else None
        case _:
            return None


def _is_broken(arguments: str) -> bool:
    """Tell whether nobody can take what arrived of a call for all of it."""
    return parsed(arguments) is arguments


def _content(part: AnyPart, role: str) -> list[dict[str, Any]]:
    if isinstance(part, Image) and role != "assistant":
        url = data_url(part)
        return [{"type": "input_image", "image_url": url}] if url else []
    words = words_of(part)
    kind = "output_text" if role == "assistant" else "input_text"
    return [{"type": kind, "text": words}] if words else []


def _output(part: ToolResult) -> str | list[dict[str, Any]]:
    content = [block for inner in part.content for block in _content(inner, "user")]
    if not content:
        return ""
    alone = content[0] if len(content) == 1 else {}
    words: str | None = alone.get("text")
    if words is None or (words.startswith("{") and part.outcome == "completed"):
        return content  # text alone could be taken for what a command returned, exit code and all
    return words


def _event(message: Message) -> dict[str, Any] | None:
    words = "\n".join(part.text for part in message.content if isinstance(part, Text))
    if not words or message.extra.get("generated") is True:
        return None
    if message.role == "user":
        return {"type": "user_message", "message": words}
    return {"type": "agent_message", "message": words} if message.role == "assistant" else None
