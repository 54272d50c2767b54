"""What callers give to a session, as values: entries, places, messages, facts.

Says what is wrong with it in the caller's words; whether it can be stored is told when it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.model.codec import encode_body
from holdfast.model.entry import Meta, Position
from holdfast.model.message import Message, user

if TYPE_CHECKING:
    from collections.abc import Sequence

Place = Position | int | None
"""An entry, by the position that ``append`` returned or by its number; ``None`` for none."""


def as_list(item: Any) -> list[Any]:
    """Return what is to be appended as one batch."""
    return list(item) if isinstance(item, list | tuple) else [item]


def number_of(place: Place) -> int | None:
    """Return the number of an entry."""
    if isinstance(place, Position):
        return place.seq
    if place is None or (isinstance(place, int) and not isinstance(place, bool)):
        return place
    raise UsageError("An entry is named by its number or by the Position that append returned.")


def summary_of(given: Message | str | Sequence[Message]) -> list[Message]:
    """Return the messages of a summary, which may be given as a text."""
    if isinstance(given, str):
        return [user(given)]
    return [given] if isinstance(given, Message) else messages_of(given)


def messages_of(given: Sequence[Message]) -> list[Message]:
    """Return messages as a list of its own."""
    if not isinstance(given, list | tuple) or not all(isinstance(m, Message) for m in given):
        raise UsageError("Give a list of messages, such as [holdfast.user('…')].")
    return list(given)


def check_callable(callback: object) -> None:
    """Refuse what could not be called back."""
    if not callable(callback):
        raise UsageError(f"A listener is a function, not {callback!r}.")


def stored_facts(meta: dict[str, Any]) -> dict[str, Any]:
    """Return facts about a session as they will be read, sharing nothing with the caller's own.

    Raises:
        UsageError: they cannot be stored; says why.
    """
    _, body = encode_body(Meta(meta))
    assert isinstance(body, Meta)
    return body.fields


def with_project(meta: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Return facts about a session, a workspace among them as it is recorded, with its project.

    A project that is given stays. One that is ``known``, of the folder before, does not outlive it.

    Raises:
        UsageError: the workspace is not a path.
    """
    if "workspace" not in meta:
        return meta
    workspace, project = meta["workspace"], None
    if workspace is not None:
        from holdfast.store.project import project_of, workspace_path  # noqa: PLC0415  subprocess

        workspace = workspace_path(workspace)
        project = None if "project" in meta else project_of(workspace)
    found = {"project": project} if project is not None or "project" in known else {}
    return {**found, **meta, "workspace": workspace}


def bytes_of(data: bytes) -> bytes:
    """Return what is to be kept as it is; text would have to be encoded first."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(f"Give bytes to keep, not {type(data).__name__}: encode it first.")
    return bytes(data)
