"""Vendor SDKs: imported when first needed, in a thread, with a sentence if one is missing.

Importing one takes a second or more. Nothing here loads one at import time, and the event loop
never waits for it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from holdfast.errors import ProviderUnavailable

# What an SDK imports only when the first request is made.
_MORE = {
    "anthropic": ("anthropic.resources.messages", "anthropic._streaming"),
    "openai": ("openai.resources.chat.completions", "openai._streaming"),
}
CONNECT_SECONDS = 15.0
IDLE_SECONDS = 600.0
"""How long a server may be silent: a local one can take minutes over a long prompt."""
GRACE_SECONDS = 2.0
"""How long a stream may take to end when its answer is complete."""


def require(package: str) -> None:
    """Check, without loading it, that an SDK is installed.

    Raises:
        ProviderUnavailable: it is not; the message says what to install.
    """
    if find_spec(package) is None:
        raise ProviderUnavailable(
            f"This provider needs the package {package!r}, which is not installed: "
            "pip install 'holdfast[agent]'."
        )


def load(package: str) -> Any:
    """Return an SDK's module. This can take seconds: call it in a thread."""
    require(package)
    return import_module(package)


def preload(package: str) -> None:
    """Load an SDK with what it would load later, if it is one; takes seconds."""
    if find_spec(package) is not None and package in _MORE:
        for name in (package, *_MORE[package]):
            with suppress(ImportError):  # another version has it elsewhere
                import_module(name)


async def following(events: Any, *, complete: bool) -> Any:
    """Return the next event of a stream, ``None`` at its end.

    The end is read and not cut off, so that the connection can serve the next request. But once the
    answer is ``complete`` nothing that happens there can spoil it.
    """
    # Not `async for`: that would wrap the events once more, in a generator that nobody closes.
    if not complete:
        return await anext(events, None)
    with suppress(Exception):
        async with asyncio.timeout(GRACE_SECONDS):
            return await anext(events, None)
    return None


async def let_go(events: Any) -> None:
    """Close a stream, if there is one."""
    if events is not None:
        with suppress(Exception):  # a connection that cannot even be closed is gone already
            await events.close()
