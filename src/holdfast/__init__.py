"""Holdfast: agent sessions that survive anything.

    import holdfast

    store = holdfast.open_store()
    with store.create(workspace=".") as session:
        session.append(holdfast.user("fix the build"))

The journal is the session: whatever a call has returned for is on the disk, and everything else
(messages, context, totals, lists) is derived from it.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.errors import (
        BadStatus,
        ConnectFailed,
        DamagedJournal,
        DiskFull,
        EmptyReply,
        ForeignSession,
        FormatTooNew,
        HeadMoved,
        HoldfastError,
        IdConflict,
        ImportRejected,
        KeyRefused,
        ProviderError,
        ProviderUnavailable,
        SessionExists,
        SessionLocked,
        SessionNotFound,
        StepUncertain,
        StorageError,
        TimedOut,
        WriteFailed,
    )
    from holdfast.files import Files
    from holdfast.journal.damage import Damage
    from holdfast.journal.ticket import Ticket
    from holdfast.model.entry import (
        Approval,
        Body,
        Checkpoint,
        Custom,
        Entry,
        Head,
        Label,
        Meta,
        Position,
        Queued,
        Tool,
        Turn,
        Usage,
    )
    from holdfast.model.event import Event
    from holdfast.model.lock_holder import Holder
    from holdfast.model.message import (
        AnyPart,
        File,
        FileChange,
        Image,
        Message,
        Opaque,
        Text,
        Thinking,
        ToolCall,
        ToolResult,
        assistant,
        system,
        tool_result,
        user,
    )
    from holdfast.model.state import State, Totals
    from holdfast.store.local.repair import SetAside
    from holdfast.store.read.follower import Follower
    from holdfast.store.session import Session
    from holdfast.store.steps import Run, StepDone
    from holdfast.store.store import LocalStore, Store
    from holdfast.store.types import (
        Compaction,
        Erased,
        Hit,
        Migrated,
        Migration,
        Page,
        Problem,
        Recovery,
        Report,
        Summary,
        Tombstone,
    )
    from holdfast.store.write.streams import Stream

__all__ = [
    "AnyPart",
    "Approval",
    "BadStatus",
    "Body",
    "Checkpoint",
    "Compaction",
    "ConnectFailed",
    "Custom",
    "Damage",
    "DamagedJournal",
    "DiskFull",
    "EmptyReply",
    "Entry",
    "Erased",
    "Event",
    "File",
    "FileChange",
    "Files",
    "Follower",
    "ForeignSession",
    "FormatTooNew",
    "Head",
    "HeadMoved",
    "Hit",
    "Holder",
    "HoldfastError",
    "IdConflict",
    "Image",
    "ImportRejected",
    "KeyRefused",
    "Label",
    "LocalStore",
    "Message",
    "Meta",
    "Migrated",
    "Migration",
    "Opaque",
    "Page",
    "Position",
    "Problem",
    "ProviderError",
    "ProviderUnavailable",
    "Queued",
    "Recovery",
    "Report",
    "Run",
    "Session",
    "SessionExists",
    "SessionLocked",
    "SessionNotFound",
    "SetAside",
    "State",
    "StepDone",
    "StepUncertain",
    "StorageError",
    "Store",
    "Stream",
    "Summary",
    "Text",
    "Thinking",
    "Ticket",
    "TimedOut",
    "Tombstone",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Totals",
    "Turn",
    "Usage",
    "UsageError",
    "WriteFailed",
    "__version__",
    "assistant",
    "open_store",
    "system",
    "tool_result",
    "user",
]


# Where each name is. They are imported when they are first asked for: a command that lists sessions
# starts in half the time.
_NAMES = {
    "errors": (
        "BadStatus ConnectFailed DamagedJournal DiskFull EmptyReply ForeignSession FormatTooNew "
        "HeadMoved HoldfastError IdConflict ImportRejected KeyRefused ProviderError "
        "ProviderUnavailable SessionExists SessionLocked SessionNotFound StepUncertain "
        "StorageError TimedOut WriteFailed"
    ),
    "files": "Files",
    "journal.damage": "Damage",
    "store.local.repair": "SetAside",
    "journal.ticket": "Ticket",
    "model.entry": (
        "Approval Body Checkpoint Custom Entry Head Label Meta Position Queued Tool Turn Usage"
    ),
    "model.event": "Event",
    "model.lock_holder": "Holder",
    "model.message": (
        "AnyPart File FileChange Image Message Opaque Text Thinking ToolCall ToolResult assistant "
        "system tool_result user"
    ),
    "model.state": "State Totals",
    "store.types": (
        "Compaction Erased Hit Migrated Migration Page Problem Recovery Report Summary Tombstone"
    ),
    "store.read.follower": "Follower",
    "store.store": "LocalStore Store",
    "store.session": "Session",
    "store.steps": "Run StepDone",
    "store.write.streams": "Stream",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


if not TYPE_CHECKING:  # or a checker would believe in any name

    def __getattr__(name: str) -> Any:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
        found = getattr(importlib.import_module(f"holdfast.{module}"), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


def open_store(
    path: str | os.PathLike[str] | None = None,
    *,
    force: bool = False,
    files: Files | None = None,
    migrate: str | os.PathLike[str] | None = None,
) -> Store:
    """Open the store at ``path``, or the default home (``HOLDFAST_HOME``).

    Nothing is made on disk before the first append.

    Args:
        path: the home folder; ``memory://`` for a new store in memory, which ends with the process.
        force: write even on a network file system, where locks and syncs cannot be relied on.
        files: the file system to use; tests pass one that fails on purpose.
        migrate: a legacy store that is taken over first, if it is there (``store.migrate``); for
            the default home, ``HOLDFAST_MIGRATE`` says the same.

    Raises:
        StorageError: the legacy store could not be taken over; it is as it was, and can be used.
    """
    if path == "memory://":
        from holdfast.store.memory import MemoryBackend  # noqa: PLC0415  as all names above
        from holdfast.store.store import Store  # noqa: PLC0415  as above

        return Store(MemoryBackend())
    if isinstance(path, str) and "://" in path:
        raise UsageError(f"{path.partition('://')[0]}:// stores are not supported by this version.")
    if path is not None and (not isinstance(path, str | os.PathLike) or not os.fspath(path)):
        raise UsageError(f"{path!r} is not the path of a folder.")
    from holdfast.files import Files as RealFiles  # noqa: PLC0415  as all names above
    from holdfast.files import default_home  # noqa: PLC0415  as above
    from holdfast.store.local.backend import FileBackend  # noqa: PLC0415  as above
    from holdfast.store.local.layout import Home  # noqa: PLC0415  as above
    from holdfast.store.store import Store  # noqa: PLC0415  as above

    root = default_home() if path is None else Path(path)
    if "\0" in str(root):
        raise UsageError(f"{path!r} is not the path of a folder.")
    home = Home(files or RealFiles(), root.absolute(), force=force)
    store = Store(FileBackend(home), migration=_migrate)
    if path is None and migrate is None:
        migrate = os.environ.get("HOLDFAST_MIGRATE") or None
    if migrate is not None and os.path.lexists(migrate):
        store.migrate(migrate)
    return store


def _migrate(store: Store, path: str | os.PathLike[str], **options: Any) -> Migration:
    from holdfast.exchange.migrate.migrate import migrate  # noqa: PLC0415  few need the importers

    return migrate(store, path, **options)
