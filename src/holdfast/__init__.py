"""Holdfast: agent sessions that survive anything.

    import holdfast

    store = holdfast.open_store()
    with store.create(workspace=".") as session:
        session.append(holdfast.user("fix the build"))

The journal is the session: whatever a call has returned for is on the disk, and everything else
(messages, context, totals, lists) is derived from it.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.errors import (
    BadStatus,
    ConnectFailed,
    DamagedJournal,
    DiskFull,
    EmptyReply,
    FormatTooNew,
    HoldfastError,
    ImportRejected,
    KeyRefused,
    ProviderError,
    ProviderUnavailable,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    StorageError,
    TimedOut,
    UsageError,
    WriteFailed,
)
from holdfast.journal.files import Files
from holdfast.journal.reader import Damage
from holdfast.journal.repair import SetAside
from holdfast.journal.ticket import Ticket
from holdfast.model.entry import (
    Approval,
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
from holdfast.model.holder import Holder
from holdfast.model.message import (
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
from holdfast.store.contract import Compaction, Problem, Recovery, Report, Summary
from holdfast.store.follower import Follower
from holdfast.store.home import default_home
from holdfast.store.local import LocalStore
from holdfast.store.search import Hit
from holdfast.store.session import Session
from holdfast.store.streams import Stream
from holdfast.version import __version__

__all__ = [
    "Approval",
    "BadStatus",
    "Checkpoint",
    "Compaction",
    "ConnectFailed",
    "Custom",
    "Damage",
    "DamagedJournal",
    "DiskFull",
    "EmptyReply",
    "Entry",
    "Event",
    "File",
    "FileChange",
    "Follower",
    "FormatTooNew",
    "Head",
    "Hit",
    "Holder",
    "HoldfastError",
    "Image",
    "ImportRejected",
    "KeyRefused",
    "Label",
    "LocalStore",
    "Message",
    "Meta",
    "Opaque",
    "Position",
    "Problem",
    "ProviderError",
    "ProviderUnavailable",
    "Queued",
    "Recovery",
    "Report",
    "Session",
    "SessionExists",
    "SessionLocked",
    "SessionNotFound",
    "SetAside",
    "State",
    "StorageError",
    "Stream",
    "Summary",
    "Text",
    "Thinking",
    "Ticket",
    "TimedOut",
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


def open_store(
    path: str | os.PathLike[str] | None = None, *, force: bool = False, files: Files | None = None
) -> LocalStore:
    """Open the store at ``path``, or the default home (``HOLDFAST_HOME``).

    Nothing is made on disk before the first append.

    Args:
        path: the home folder.
        force: write even on a network file system, where locks and syncs cannot be relied on.
        files: the file system to use; tests pass one that fails on purpose.
    """
    if isinstance(path, str) and "://" in path:
        raise UsageError(f"{path.partition('://')[0]}:// stores are not supported by this version.")
    if path is not None and (not isinstance(path, str | os.PathLike) or not os.fspath(path)):
        raise UsageError(f"{path!r} is not the path of a folder.")
    root = default_home() if path is None else Path(path)
    if "\0" in str(root):
        raise UsageError(f"{path!r} is not the path of a folder.")
    return LocalStore(files or Files(), root.absolute(), force=force)
