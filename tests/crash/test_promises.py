"""The judge of babbling writers: content with what they were promised, and with nothing less."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from tests.crash.lab.babbler import label_text, piece_text
from tests.crash.lab.promises import Promises
from tests.crash.lab.tally import Tally

Entries = list[tuple[int, holdfast.Message]]

# One is acknowledged, so is a stream; a batch is under way; another stream is cut off.
SAID: list[list[Any]] = [
    ["sent", 1.00, ["s1-1"]],
    ["acked", 1.01, ["s1-1"], 2],
    ["text", 1.02, "s1-2", 0],
    ["text", 1.03, "s1-2", 1],
    ["sent", 1.04, ["s1-2"]],
    ["acked", 1.05, ["s1-2"], 3],
    ["delivered", 1.06, "s1-2", 3],
    ["sent", 1.07, ["s1-3", "s1-4"]],
    ["text", 1.08, "s1-5", 1],
    ["shown", 1.09, piece_text("s1-5", 0)],
    ["text", 1.10, "s1-5", 2],
    ["tick", 1.16],
]


def streamed(label: str, pieces: int, stop: str) -> holdfast.Message:
    text = "".join(piece_text(label, number) for number in range(pieces))
    return holdfast.Message(role="assistant", content=[holdfast.Text(text=text)], stop=stop)


def kept() -> Entries:
    return [
        (2, holdfast.user(label_text("s1-1"))),
        (3, streamed("s1-2", 1, "end")),
        (4, holdfast.user(label_text("s1-3"))),
        (5, holdfast.user(label_text("s1-4"))),
        (6, streamed("s1-5", 2, "interrupted")),
    ]


def judged(entries: Entries, said: list[list[Any]] = SAID) -> Tally:
    promises = Promises()
    promises.hear(said)
    tally = Tally()
    promises.judge(entries, tally)
    return tally


def without(*numbers: int) -> Entries:
    return [(seq, message) for seq, message in kept() if seq not in numbers]


def test_all_that_was_promised_is_enough():
    assert not judged(kept()).failed
    assert not judged(without(4, 5)).failed  # the batch was not acknowledged


@pytest.mark.parametrize(
    ("number", "what"),
    [
        (2, "s1-1 was acknowledged and is not there"),
        (3, "s1-2 was acknowledged and is not there"),
        (4, "of the batch ['s1-3', 's1-4'] only a part is there"),
        (6, "s1-5: 2 pieces are older than 50 ms, 0 are there"),
    ],
)
def test_a_missing_entry_is_noticed(number, what):
    tally = judged(without(number))
    assert tally.failed
    assert what in [failure.what for failure in tally.failures]


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        ([*kept(), (7, kept()[0][1])], "duplicates"),
        ([(9, kept()[0][1]), *kept()[1:]], "lost"),  # another number than was promised
        ([(2, holdfast.user(label_text("s1-1") + "!")), *kept()[1:]], "lost"),
        ([kept()[0], (3, streamed("s1-2", 0, "end")), *kept()[2:]], "lost"),
        ([kept()[0], (3, streamed("s1-2", 1, "interrupted")), *kept()[2:]], "broken"),
        ([*kept()[:4], (6, streamed("s1-5", 1, "interrupted"))], "lost"),  # of two pieces
        ([*kept()[:4], (6, streamed("s1-5", 4, "interrupted"))], "broken"),  # never streamed
        ([*kept(), (7, holdfast.user(label_text("s1-6")))], "broken"),
        ([*kept(), (7, holdfast.user("by nobody"))], "broken"),
        ([kept()[1], kept()[0], *kept()[2:]], "broken"),
    ],
)
def test_what_is_twice_or_altered_or_foreign_or_out_of_order_is_noticed(entries, kind):
    assert getattr(judged(entries), kind) > 0


def test_text_that_a_follower_was_shown_must_be_there_however_young_it_is():
    said = [words for words in SAID if words[0] != "tick"]  # nothing is 50 ms old
    assert not judged(kept(), said).failed
    assert not judged([*kept()[:4], (6, streamed("s1-5", 1, "interrupted"))], said).failed
    assert judged(without(6), said).lost == 1
    assert not judged(without(6), [words for words in said if words[0] != "shown"]).failed


def test_the_last_piece_may_be_one_more_than_was_told():
    entries = kept()
    entries[-1] = (6, streamed("s1-5", 3, "interrupted"))
    assert not judged(entries).failed


def test_nothing_said_means_nothing_promised():
    promises = Promises()
    assert promises.none
    promises.hear([["sent", 1.0, ["s1-1"]], ["text", 1.0, "s1-2", 1]])
    assert promises.none
    promises.hear(SAID[:2])
    assert not promises.none


def test_an_ended_stream_keeps_its_stop():
    entries = kept()
    entries[1] = (3, replace(entries[1][1], stop="length"))
    assert judged(entries).broken


def test_an_onlooker_that_fell_is_not_one_that_saw_nothing():
    promises, tally = Promises(), Tally()
    promises.hear([["fell", 1.0, "Traceback …"]])
    promises.judge([], tally)
    assert tally.broken == 1
