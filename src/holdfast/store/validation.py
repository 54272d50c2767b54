"""What callers give to a session, as values: entries, places, messages, facts.

Says what is wrong with it in the caller's words; whether it can be stored is told when it is.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.model.codec import encode_body
from holdfast.model.entry import Meta, Position
from holdfast.model.message import Message, user
from holdfast.model.sanitize import is_one_line
from holdfast.store.read.fold import LONGEST_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

Moment = datetime | timedelta | float
EntryRef = Position | int | None
"""An entry, by the position that ``append`` returned or by its number; ``None`` for none."""

LARGEST_FACTS_BYTES = 256 * 1024
"""All facts about a session together."""
LONGEST_TITLE = 500
LONGEST_TAG = 100


def as_list(item: Any) -> list[Any]:
    """Return what is to be appended as one batch."""
    return list(item) if isinstance(item, list | tuple) else [item]


def number_of(place: EntryRef) -> int | None:
    """Return the number of an entry."""
    if isinstance(place, Position):
        return place.seq
    if place is None or (isinstance(place, int) and not isinstance(place, bool)):
        return place
    raise UsageError("Name an entry by its number or by the Position that append returned.")


def required_number(place: Position | int) -> int:
    """Return the number of an entry that has to be named."""
    number = number_of(place)
    if number is None:
        raise UsageError("Name an entry: its number, its Position, or the id it was appended with.")
    return number


def check_selection(types: object, limit: object) -> None:
    """Reject entry types that are one text, and a limit that is not a number of entries."""
    if isinstance(types, str):
        raise UsageError(f"types must be a list of entry types, such as [{types!r}], not a string.")
    if limit is not None and (not isinstance(limit, int) or limit < 0):
        raise UsageError(f"limit must be a number of entries, 0 or more, not {limit!r}.")


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
        raise UsageError(f"A listener must be a function, not {callback!r}.")


def check_facts(known: dict[str, Any], items: Sequence[Any]) -> None:
    """Reject facts that are too large together: every mark holds them.

    Raises:
        UsageError: says how large they are, and what to use instead.
    """
    new = [item.fields for item in items if isinstance(item, Meta)]
    if new:
        merged: dict[str, Any] = {}
        for fields in (known, *new):
            merged.update(fields)
        size = len(encode_body(Meta(merged))[0])
        if size > LARGEST_FACTS_BYTES:
            raise UsageError(
                f"The facts of a session have at most {LARGEST_FACTS_BYTES} bytes together, these "
                f"have {size}: store large data with session.put. Nothing was changed."
            )


def stored_facts(meta: dict[str, Any]) -> dict[str, Any]:
    """Return facts about a session as they will be read, sharing nothing with the caller's own.

    Raises:
        UsageError: they cannot be stored; says why.
    """
    _, body = encode_body(Meta(meta))
    assert isinstance(body, Meta)
    check_facts({}, [body])
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
        from holdfast.store.git_project import project_of, workspace_path  # noqa: PLC0415  subprocess

        workspace = workspace_path(workspace)
        project = None if "project" in meta else project_of(workspace)
    found = {"project": project} if project is not None or "project" in known else {}
    return {**found, **meta, "workspace": workspace}


def bytes_of(data: bytes) -> bytes:
    """Return what is to be kept as it is; text would have to be encoded first."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(f"Give bytes to store, not {type(data).__name__}: encode it first.")
    return bytes(data)


def valid_name(given: str) -> str:
    """Return the name of a snapshot: 1 to 100 characters on one line.

    Raises:
        UsageError: it is empty, too long, or has line ends or control characters.
    """
    if not isinstance(given, str) or not 0 < len(given) <= LONGEST_NAME or not is_one_line(given):
        raise UsageError(f"A snapshot's name must be one line of 1 to {LONGEST_NAME} characters.")
    return given


def valid_title(given: str, *, optional: bool = False) -> str:
    """Return a title without surrounding blanks: 1 to 500 characters on one line.

    With ``optional`` it may be empty, which removes the title.

    Raises:
        UsageError: it is empty, too long, or has line ends or control characters.
    """
    title = given.strip()
    if len(title) > LONGEST_TITLE or not (title or optional):
        raise UsageError(f"A title must have 1 to {LONGEST_TITLE} characters.")
    if not is_one_line(title):
        raise UsageError("A title must be one line of text without control characters.")
    return title


def valid_tag(given: str) -> str:
    """Return a tag without surrounding blanks: 1 to 100 characters on one line.

    Raises:
        UsageError: it is empty, too long, or has line ends or control characters.
    """
    tag = given.strip()
    if not tag or len(tag) > LONGEST_TAG or not is_one_line(tag):
        raise UsageError(f"A tag must be one line of 1 to {LONGEST_TAG} characters, not {given!r}.")
    return tag


def tags_in(meta: dict[str, Any]) -> list[str]:
    """Return the tags in a session's meta data; values that are no tags are left out."""
    found = meta.get("tags")
    return [tag for tag in found if isinstance(tag, str)] if isinstance(found, list) else []


def edited_tags(
    before: Sequence[str], added: Sequence[str], removed: Sequence[str], *, replace: bool = False
) -> list[str]:
    """Return tags after an edit, each once, in order; ``replace`` drops those not in ``added``.

    Raises:
        UsageError: a tag to remove is not there.
    """
    missing = sorted(set(removed) - set(before))
    if missing:
        raise UsageError(f"The session has no tag {missing[0]!r}. Nothing was changed.")
    kept = [] if replace else before
    return [tag for tag in dict.fromkeys([*kept, *added]) if tag not in removed]


def point_in_time(older_than: Moment) -> datetime:
    """Return the time before which a session is old.

    Raises:
        UsageError: it is not a time or an age, or it is negative.
    """
    if isinstance(older_than, datetime):
        return older_than
    try:
        age = older_than if isinstance(older_than, timedelta) else timedelta(seconds=older_than)
        moment = datetime.now(UTC) - age
    except (TypeError, ValueError, OverflowError):
        raise UsageError(
            f"{older_than!r} is not a valid age: give a timedelta, seconds, or a datetime."
        ) from None
    if age < timedelta(0):
        raise UsageError(f"{older_than!r} is negative. An age must be 0 or more.")
    return moment
