"""The importers there are; other packages register theirs in the group ``holdfast.importers``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from holdfast.errors import UsageError
from holdfast.exchange.importers.base import Importer
from holdfast.exchange.importing.source_files import SourceReader
from holdfast.exchange.plugins import Registry

_LOG = logging.getLogger("holdfast")

BUILT_IN = {
    "claude-code": "claude_code:ClaudeCodeImporter",
    "codex": "codex:CodexImporter",
    "gemini-cli": "gemini_cli:GeminiCliImporter",
    "qwen-code": "qwen_code:QwenCodeImporter",
    "copilot-cli": "copilot_cli:CopilotCliImporter",
    "goose": "goose:GooseImporter",
    "opencode": "opencode:OpencodeImporter",
    "zot": "zot:ZotImporter",
    "ggcode": "ggcode:GgcodeImporter",
    "pi": "pi:PiImporter",
    "kimi-code": "kimi_code:KimiCodeImporter",
    "kimi-cli": "kimi_cli:KimiCliImporter",
    "cline": "cline:ClineImporter",
    "openhands": "openhands:OpenHandsImporter",
    "reasonix": "reasonix:ReasonixImporter",
    "picoclaw": "picoclaw:PicoclawImporter",
    "aider": "aider:AiderImporter",
}
"""Each importer's name, module and class."""

_registry = Registry("importer", __name__, BUILT_IN)


def names() -> list[str]:
    """Return the names of all importers, built-in ones first."""
    return _registry.names()


def importer(name: str) -> Importer:
    """Load an importer.

    Raises:
        UsageError: there is none of that name, or it cannot be loaded.
    """
    loaded: Importer = _registry.load(name)
    return loaded


def installed(home: Path, environment: Mapping[str, str]) -> list[tuple[Importer, Path]]:
    """Return which agents have sessions on this machine, and where."""
    return [
        (one, place)
        for one in everybody()
        for place in one.found(home, environment)
        if _is_there(place)
    ]


def _is_there(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:  # nobody may look: that is said when it is read
        return True


def recognised(
    path: Path, reading: SourceReader, among: Iterable[Importer] | None = None
) -> Importer | None:
    """Return the first importer that takes a file or folder for its own, ``None`` if none does."""
    return next((one for one in among or everybody() if one.sniff(path, reading)), None)


def everybody() -> Iterator[Importer]:
    """Yield every importer that can be loaded; another package's mistake is logged."""
    for name in names():
        try:
            yield importer(name)
        except UsageError as error:
            _LOG.warning("%s", error)
