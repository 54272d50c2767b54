"""A page that needs nothing but a browser: no network, no script, no fonts of others.

Calls, results, thinking and system prompts are folded. Text is what others wrote: it is rendered as
text (``html_text``), and a content security policy lets the page load nothing but its own style and
the images inside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.exchange.exporters.html_css import POLICY, STYLE
from holdfast.exchange.exporters.html_markdown import (
    HtmlRenderer,
    code_of,
    is_address,
    link,
    plain_of,
    text_of,
)
from holdfast.exchange.exporting.transcript import Condensation, Line, Transcript
from holdfast.exchange.redaction.messages import text_in
from holdfast.model.codec import dumps
from holdfast.model.message import (
    AnyPart,
    File,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from holdfast.version import __version__

_ROLES = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System prompt"}
_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_TELLING = ("command", "cmd", "path", "file_path", "pattern", "query", "url", "description")
_SHOWN_CHARACTERS = 120
_MOST_NAMES = 1000


class HtmlExporter:
    """A conversation as a page."""

    name = "html"
    title = "HTML"

    def file_name(self, transcript: Transcript) -> str:
        """Return the session's id with the usual ending."""
        return f"{transcript.id}.html"

    def chunks(self, transcript: Transcript) -> Iterator[bytes]:
        """Yield the page, message by message."""
        page = _Page()
        yield _head(transcript).encode()
        for item in transcript.items():
            html = page.said(item) if isinstance(item, Line) else page.condensed(item)
            yield html.encode()
        yield _foot(transcript).encode()


def _head(transcript: Transcript) -> str:
    title = text_of(" ".join((transcript.title or f"Session {transcript.id}").split()))
    facts = "".join(
        f"<dt>{name}</dt><dd>{text_of(value)}</dd>" for name, value in _facts(transcript) if value
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="robots" content="noindex">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<div class="top"><h1>{title}</h1>\n<dl>{facts}</dl></div>\n<main>\n'
    )


def _facts(transcript: Transcript) -> Iterator[tuple[str, str]]:
    totals = transcript.state.totals
    yield "Session", transcript.id
    yield "Workspace", transcript.fact("workspace")
    yield "Model", transcript.fact("model")
    yield "Began", _moment(transcript.started)
    yield "Last entry", _moment(transcript.updated)
    if totals.requests:
        given = totals.input + totals.cache_read + totals.cache_write
        yield "Tokens", f"{given:,} in, {totals.output:,} out"
    if totals.cost_usd:
        more = " and more" if totals.unpriced else ""
        yield "Cost", f"${totals.cost_usd:.2f}{more}"


def _moment(at: str) -> str:
    return f"{at[:10]} {at[11:16]} UTC"


def _foot(transcript: Transcript) -> str:
    redactor = transcript.options.redactor
    found = len(redactor.findings) if redactor is not None else 0
    replaced = f" Secrets replaced: {found}." if found else ""
    return (
        f'</main>\n<div class="foot">Exported by Holdfast {__version__}.{replaced}</div>\n'
        "</body>\n</html>\n"
    )


class _Page:
    def __init__(self) -> None:
        self._renderer = HtmlRenderer()
        self._names: dict[str, str] = {}  # of calls that were not answered yet

    def said(self, item: Line) -> str:
        """Return a message."""
        message = item.message
        role = message.role if message.role in _ROLES else "tool"
        inside = "".join(self._part(part) for part in message.content)
        if role == "system":
            inside = _folded("What the model was told", inside)
        number = "" if item.seq is None else f' id="e{item.seq}"'
        return f'<article class="{role}"{number}>{_heading(item, role)}{inside}</article>\n'

    def condensed(self, item: Condensation) -> str:
        """Return a compaction."""
        inside = "".join(self._part(part) for message in item.summary for part in message.content)
        summary = "From here on the model sees a summary of what came before"
        return f'<article class="condensed">{_folded(summary, inside)}</article>\n'

    def _part(self, part: AnyPart) -> str:
        match part:
            case Text():
                html = self._renderer.html(part.text)
            case Thinking():
                html = _folded("Thinking", plain_of(part.text)) if part.text else ""
            case ToolCall():
                html = self._call(part)
            case ToolResult():
                html = self._result(part)
            case Image():
                html = _image(part)
            case File():
                html = _file(part)
            case Opaque():
                html = _note(f"data of {part.vendor}")
            case _:
                html = _note(str(part.fields.get("type")))
        return html

    def _call(self, part: ToolCall) -> str:
        if len(self._names) < _MOST_NAMES:
            self._names[part.id] = part.name
        told = _telling(part.arguments)
        shown = f"<b>{text_of(part.name)}</b> <code>{text_of(told)}</code>"
        if part.partial is not None:
            return _folded(f"{shown} (broke off)", code_of(part.partial), bad=True)
        return _folded(shown, _arguments(part.arguments))

    def _result(self, part: ToolResult) -> str:
        name = self._names.pop(part.call_id, "")
        words = part.outcome.replace("_", " ")
        of = f" of {text_of(name)}" if name else ""
        shown = f'Result{of}: <span class="outcome">{text_of(words)}</span>'
        inside = "".join(
            code_of(inner.text) if isinstance(inner, Text) else self._part(inner)
            for inner in part.content
        )
        return _folded(shown, inside or _note("no output"), bad=part.outcome != "completed")


def _heading(item: Line, role: str) -> str:
    message: Message = item.message
    broken = " (interrupted)" if message.stop == "interrupted" else ""
    at = text_of(item.at)
    model = f"<span>{text_of(message.model)}</span>" if message.model else ""
    number = "" if item.seq is None else f'<a href="#e{item.seq}">#{item.seq}</a>'
    when = f'<time datetime="{at}">{text_of(_moment(item.at))}</time>'
    return f"<header><h2>{_ROLES[role]}{broken}</h2>{model}{when}{number}</header>"


def _folded(summary: str, inside: str, *, bad: bool = False) -> str:
    """Return a fold; ``summary`` is HTML already."""
    kind = ' class="bad"' if bad else ""
    return f"<details{kind}><summary>{summary}</summary>{inside}</details>"


def _note(words: str) -> str:
    return f'<p class="note">[{text_of(words)}]</p>'


def _telling(arguments: Any) -> str:
    """Return what of a call's arguments says most, in a few words."""
    given = arguments if isinstance(arguments, dict) else {}
    found = next((given[n] for n in _TELLING if isinstance(given.get(n), str)), None)
    words = dumps(arguments).decode() if found is None else found
    line = " ".join(words[: 4 * _SHOWN_CHARACTERS].split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


def _arguments(value: Any) -> str:
    """Return arguments to read: what has several lines is shown as such."""
    if not isinstance(value, dict):
        return code_of(dumps(value).decode(), "json")
    long = {name: held for name, held in value.items() if isinstance(held, str) and "\n" in held}
    rows = [
        f"  {dumps(name).decode()}: {dumps(held).decode()}"
        for name, held in value.items()
        if name not in long
    ]
    html = code_of("{\n" + ",\n".join(rows) + "\n}", "json") if rows or not long else ""
    return html + "".join(_note(name) + code_of(held) for name, held in long.items())


def _image(part: Image) -> str:
    if part.data and part.media_type in _IMAGES and _BASE64.fullmatch(part.data):
        return f'<p><img src="data:{part.media_type};base64,{part.data}" alt="image"></p>'
    return _elsewhere(f"image, {part.media_type}", part.url)


def _file(part: File) -> str:
    words = f"{part.name}, {part.media_type}"
    text = text_in(part)
    return _elsewhere(words, part.url) if text is None else _folded(text_of(words), code_of(text))


def _elsewhere(words: str, url: str | None) -> str:
    if url and is_address(url):
        return f'<p class="note">{link(url, text_of(f"[{words}]"))}</p>'
    return _note(words)
