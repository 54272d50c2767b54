"""What callers give to a session, as values: entries, places, messages.

Says what is wrong with it in the caller's words; whether it can be stored is told when it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.model.entry import Position
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
