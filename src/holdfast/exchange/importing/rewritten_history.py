"""A conversation as its agent has it now, for agents that write it anew, whole, when it changes.

What stayed the same is not said again: the conversation goes on from there (a rewind, an edited
prompt), or from a summary. Sixteen bytes a message are kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from holdfast.exchange.importing.items import HeadItem, MessageItem, SummaryItem
from holdfast.model.message import Message

_ROOT = 0


class HistoryDiff:
    """The messages that count now, in order. Makes the ids of what is said."""

    def __init__(self) -> None:
        self._hashes: array[int] = array("q")
        self._numbers: array[int] = array("Q")  # of the item that each message is, or is in
        self._last = _ROOT
        self._summary = (0, 0)  # the messages from and to which are inside one item

    def __len__(self) -> int:
        """Return how many messages count now."""
        return len(self._hashes)

    def says(self, index: int, message: Any) -> bool:
        """Tell whether this is the message at an index, from 0."""
        return index < len(self._hashes) and self._hashes[index] == _hash(message)

    def common(self, messages: list[Any]) -> int:
        """Return how many messages at the beginning are the same."""
        for index, message in enumerate(messages):
            if not self.says(index, message):
                return index
        return len(messages)

    def reachable(self, count: int) -> int:
        """Return how many of the first messages can be gone back to: a summary has no inside."""
        start, end = self._summary
        return start if start < count < end else count

    def go_back(self, count: int) -> list[HeadItem]:
        """Forget all but the first messages; ``count`` is ``reachable``."""
        if count >= len(self._hashes):
            return []
        del self._hashes[count:], self._numbers[count:]
        if count <= self._summary[0]:
            self._summary = (0, 0)
        return [HeadItem(str(self._numbers[-1]) if self._numbers else None)]

    def say(self, message: Message, at: str | None = None) -> MessageItem:
        """Say one more message."""
        self._last += 1
        self._hashes.append(_hash(message))
        self._numbers.append(self._last)
        return MessageItem(message, at, str(self._last))

    def pass_over(self, value: Any) -> None:
        """Count something among the messages that is none here."""
        self._hashes.append(_hash(value))
        self._numbers.append(self._numbers[-1] if self._numbers else self._last)

    def ends_with(self, messages: Sequence[Any], after: int) -> bool:
        """Tell whether messages are the last ones, none of the first ``after`` among them."""
        start = len(self._hashes) - len(messages)
        return start >= after and all(
            self.says(start + index, message) for index, message in enumerate(messages)
        )

    def condense(
        self,
        summary: list[Message],
        at: str | None = None,
        *,
        after: int = 0,
        counted: Sequence[Any] | None = None,
        keep: int = 0,
    ) -> SummaryItem:
        """Put messages in the place of all but the first few and the last ``keep``.

        ``counted`` is what stands there for the agent, if that is more than the messages.
        """
        self._last += 1
        kept_from = str(self._numbers[-keep]) if keep else None
        tail = self._hashes[len(self._hashes) - keep :]
        del self._hashes[after:], self._numbers[after:]
        for each in summary if counted is None else counted:
            self._hashes.append(_hash(each))
            self._numbers.append(self._last)
        for each in tail:
            self._hashes.append(each)
            self._numbers.append(self._last)
        self._summary = (after, len(self._hashes))
        return SummaryItem(summary, kept_from, at=at, id=str(self._last))


def _hash(message: Any) -> int:
    """Return a number that is the same for what is the same, within one process."""
    return hash(repr(message))
