"""What all babblers of one session were promised, and what their onlookers were shown.

``break_`` and its like are called on a tally for everything that the session does not keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import holdfast
from tests.crash.lab.babbler import label_in, label_text, piece_text
from tests.crash.lab.tally import Tally

WRITTEN_WITHIN_SECONDS = 0.05


class Promises:
    """Hears what writers said, one after the other; then judges what is there."""

    def __init__(self) -> None:
        self.acked: dict[str, int | None] = {}  # in the order of the promises; with their numbers
        self.delivered: dict[str, int] = {}
        self.shown: dict[str, str] = {}
        self.old_enough: dict[str, int] = {}  # pieces that were in the live file for certain
        self._whole_or_absent: list[list[str]] = []
        self._streamed: dict[str, int] = {}
        self._fell: list[str] = []

    def hear(self, said: Sequence[list[Any]]) -> None:
        """Take in all that one writer said before it was killed."""
        last_seen = max((words[1] for words in said), default=0.0)
        for kind, at, *words in said:
            if kind == "sent":
                self._whole_or_absent.append(words[0])
            elif kind == "acked":
                labels, seq = words
                self.acked |= dict.fromkeys(labels) | {labels[-1]: seq}
                self._whole_or_absent.remove(labels)
            elif kind == "text":
                stream, count = words
                self._streamed[stream] = count
                # By the child's own clock: what it did not live to see does not count as its life.
                if at < last_seen - WRITTEN_WITHIN_SECONDS:
                    self.old_enough[stream] = count
            elif kind == "shown":
                label = label_in(words[0]) or ""
                self.shown[label] = self.shown.get(label, "") + words[0]
            elif kind == "delivered":
                label, seq = words
                self.delivered[label] = seq
            elif kind == "fell":
                self._fell.append(words[0])

    @property
    def none(self) -> bool:
        """Whether nothing has to be there."""
        return not (self.acked or self.delivered or self.shown or self.old_enough)

    def judge(self, entries: Sequence[tuple[int, holdfast.Message]], tally: Tally) -> None:
        """Hold the messages of the session, with their numbers, against all that was promised."""
        for trace in self._fell:
            tally.break_(f"an onlooker fell: {trace}")
        there: dict[str, holdfast.Message] = {}
        numbers: dict[str, int] = {}
        for seq, message in entries:
            label = label_in(message.text)
            if label is None:
                tally.break_(f"a message that nobody wrote: {message.text[:80]!r}")
            elif label in there:
                tally.repeat(f"{label} is there as {numbers[label]} and as {seq}")
            else:
                there[label], numbers[label] = message, seq
        self._judge_acknowledged(numbers, tally)
        self._judge_order(list(there), tally)
        self._judge_the_rest(there, tally)
        for label, message in there.items():
            self._judge_content(label, message, tally)
        self._judge_live_text(there, tally)

    def _judge_acknowledged(self, numbers: dict[str, int], tally: Tally) -> None:
        for label, seq in self.acked.items():
            if label not in numbers:
                tally.lose(f"{label} was acknowledged and is not there")
            elif seq is not None and numbers[label] != seq:
                tally.lose(f"{label} was acknowledged as {seq} and is {numbers[label]}")
        for label, seq in self.delivered.items():
            if numbers.get(label) != seq:
                tally.lose(f"{label} was shown to a follower as {seq}: {numbers.get(label)}")

    def _judge_order(self, labels: list[str], tally: Tally) -> None:
        if [label for label in labels if label in self.acked] != [
            label for label in self.acked if label in labels
        ]:
            tally.break_("what was acknowledged is not in the order of the promises")
        # Writers are numbered, and so is what each of them makes.
        if labels != sorted(labels, key=lambda label: [*map(int, label[1:].split("-"))]):
            tally.break_(f"the order is not that of the calls: {labels}")

    def _judge_the_rest(self, there: dict[str, holdfast.Message], tally: Tally) -> None:
        for labels in self._whole_or_absent:
            if sum(label in there for label in labels) not in (0, len(labels)):
                tally.break_(f"of the batch {labels} only a part is there")
        sent = {label for labels in self._whole_or_absent for label in labels}
        for label in sorted(there.keys() - self.acked.keys() - sent - self._streamed.keys()):
            tally.break_(f"{label} is there and was never appended")

    def _judge_content(self, label: str, message: holdfast.Message, tally: Tally) -> None:
        if label not in self._streamed:
            if message.text != label_text(label):
                tally.lose(f"{label} is altered: {message.text[:80]!r}")
            return
        count = message.text.count("[")
        if message.text != "".join(piece_text(label, number) for number in range(count)):
            tally.break_(f"{label} has a text that was never streamed: {message.text[:80]!r}")
        if message.stop == "end":
            if count != self._streamed[label]:
                tally.lose(f"{label} ended with {self._streamed[label]} pieces and has {count}")
        elif message.stop != "interrupted" or label in self.acked:
            tally.break_(f"{label} came to its end and is {message.stop}")
        elif count > self._streamed[label] + 1:  # one the writer did not live to tell of
            tally.break_(f"{label} has {count} pieces, of {self._streamed[label]} streamed")

    def _judge_live_text(self, there: dict[str, holdfast.Message], tally: Tally) -> None:
        for label, count in self.old_enough.items():
            kept = there[label].text.count("[") if label in there else 0
            if kept < count:
                tally.lose(f"{label}: {count} pieces are older than 50 ms, {kept} are there")
        for label, text in self.shown.items():
            kept_text = there[label].text if label in there else ""
            if not kept_text.startswith(text):
                tally.lose(f"{label}: a follower was shown {text!r}; there is {kept_text!r}")
