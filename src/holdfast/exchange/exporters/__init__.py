"""The exporters there are; other packages register theirs in the group ``holdfast.exporters``."""

from __future__ import annotations

from pathlib import PurePath

from holdfast.exchange.exporters.base import Exporter
from holdfast.exchange.plugins import Registry

BUILT_IN = {
    "markdown": "markdown:MarkdownExporter",
    "html": "html:HtmlExporter",
    "json": "json:JsonExporter",
    "jsonl": "json:JsonLinesExporter",
    "openai": "openai:OpenAIExporter",
    "anthropic": "anthropic:AnthropicExporter",
    "archive": "holdfast.exchange.archive.write:ArchiveExporter",
    "claude-code": "claude_code:ClaudeCodeExporter",
    "codex": "codex:CodexExporter",
    "pi": "pi:PiExporter",
}
"""Each exporter's name, module and class."""

_registry = Registry("exporter", __name__, BUILT_IN)

_BY_ENDING = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".jsonl": "jsonl",
    ".holdfast": "archive",
}


def names() -> list[str]:
    """Return the names of all exporters, built-in ones first."""
    return _registry.names()


def name_for(path: str | None) -> str:
    """Return the name of the exporter that the ending of a file asks for; else it is Markdown."""
    return _BY_ENDING.get(PurePath(path or "").suffix.lower(), "markdown")


def exporter(name: str) -> Exporter:
    """Load an exporter.

    Raises:
        UsageError: there is none of that name, or it cannot be loaded.
    """
    loaded: Exporter = _registry.load(name)
    return loaded
