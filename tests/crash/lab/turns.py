"""Holds what several writers of one session said against the rule that they take turns.

    ["tries", who]                     begins to open, or to make, the session
    ["locked", who, holder]            was told that somebody else has it
    ["holds", who, turn]               has the lock
    ["intends", who, labels]           begins to append
    ["promised", who, labels, seq]     the store has acknowledged it
    ["failed", who, why]               the store has refused it
    ["leaves", who]                    is about to let go
    ["kills", who]                     (the director) is about to be killed
    ["dead", who]                      (the director) is dead

A label is ``p1-2-3``: entry 3 of the second turn of player ``p1``.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from msgspec import Struct

import holdfast
from holdfast.files import Files
from holdfast.journal.damage import Damage
from holdfast.store.local.reader import Journal
from tests.crash.lab.tally import Tally
from tests.disk import contents

Said = list[list[Any]]
AFTERWARDS = "after all of them"
_FILLER = "äöü \"'\\ "


def text_of(label: str) -> str:
    """Return the text that belongs to a label."""
    return f"{label}: " + _FILLER * (1 + sum(label.encode()) % 20)


class Line(Struct, frozen=True):
    """A message in the journal: its label, number, and the process that the journal names."""

    label: str
    seq: int
    text: str
    pid: int | None


def judge_turns(tally: Tally, said: Said) -> None:
    """Check that nobody has the session while another has it.

    Whoever is being killed has it until another says so; after that it must not speak.
    """
    holder: str | None = None
    doomed: set[str] = set()
    for kind, who, *words in said:
        if kind == "kills":
            doomed.add(who)
        elif kind == "holds":
            tally.count("turns")
            if holder is not None and holder not in doomed:
                tally.break_(f"{who} has the session while {holder} has it")
            holder = who
        elif kind == "promised" and holder != who:
            tally.break_(f"{words[0]} was acknowledged to {who} while {holder} had the session")
        elif kind == "leaves" and holder == who:
            holder = None


def judge_refusals(tally: Tally, said: Said, pids: dict[int, str]) -> None:
    """Check that whoever is refused hears the truth about who is in the way."""
    may_hold = _spans(said)
    for place, (kind, who, *words) in enumerate(said):
        if kind != "locked":
            continue
        tally.count("told who holds it")
        holder = words[0]
        begin = max(n for n in range(place) if said[n][:2] == ["tries", who])
        named = pids.get(holder["pid"], str(holder["pid"]))
        possible = {
            other
            for other, first, last in may_hold
            if other != who and first < place and last > begin
        }
        if named not in possible:
            tally.break_(f"{who} was told that {named} holds it, who cannot: {sorted(possible)}")
        if holder["host"] != socket.gethostname() or not holder["since"].endswith("Z"):
            tally.break_(f"{who} was told of a holder that there is not: {holder}")


def _spans(said: Said) -> list[tuple[str, int, int]]:
    """Return who may have had the lock between which places: from the try to the next word."""
    spans = []
    begun: dict[str, int] = {}
    left: set[str] = set()
    for place, (kind, who, *_) in enumerate(said):
        ended = kind in ("locked", "dead") or (who in left and kind != "kills")
        if ended and who in begun:
            spans.append((who, begun.pop(who), place))
            left.discard(who)
        if kind == "tries":
            begun.setdefault(who, place)
        elif kind == "leaves":
            left.add(who)
    return spans + [(who, place, len(said)) for who, place in begun.items()]


def lines_of(folder: Path) -> tuple[list[Line], list[Damage]]:
    """Read all messages with labels from a session's journal, and its damage."""
    lines: list[Line] = []
    damage: list[Damage] = []
    pid: int | None = None
    with Journal(Files(), folder) as journal:
        for record in journal.records():
            if isinstance(record, Damage):
                damage.append(record)
            elif record.type == "writer":
                pid = getattr(record.body, "pid", None)
            elif isinstance(record.body, holdfast.Message):
                text = record.body.text
                lines.append(Line(text.partition(":")[0], record.seq, text, pid))
    return lines, damage


def judge_lines(tally: Tally, said: Said, lines: list[Line], pids: dict[int, str]) -> None:
    """Check that what was acknowledged is there once, whole, and turn after turn."""
    there: dict[str, list[Line]] = {}
    for line in lines:
        there.setdefault(line.label, []).append(line)
    for kind, _, *words in said:
        if kind == "promised":
            _judge_promised(tally, there, *words)
        elif kind == "intends" and sum(label in there for label in words[0]) not in {
            0,
            len(words[0]),
        }:
            tally.break_(f"of the batch {words[0]} only a part is there")
    for label, found in there.items():
        if len(found) > 1:
            tally.repeat(f"{label} is there as {[line.seq for line in found]}")
        if found[0].text != text_of(label):
            tally.lose(f"{label} is altered: {found[0].text!r}")
        writer = found[0].pid
        if writer is not None and pids.get(writer) != label.partition("-")[0]:
            tally.break_(f"{label} stands behind the name of {pids.get(writer, writer)}")
    _judge_order(tally, said, lines)


def _judge_promised(
    tally: Tally, there: dict[str, list[Line]], labels: list[str], seq: int
) -> None:
    tally.acknowledged += len(labels)
    for label in labels:
        if label not in there:
            tally.lose(f"{label} was acknowledged and is not there")
    last = there.get(labels[-1])
    if last and seq not in [line.seq for line in last]:
        tally.lose(f"{labels[-1]} was acknowledged as {seq} and is {last[0].seq}")


def _judge_order(tally: Tally, said: Said, lines: list[Line]) -> None:
    """Check that entries stand in the order of the turns, each turn's together."""
    turns = [f"{who}-{words[0]}" for kind, who, *words in said if kind == "holds"]
    found: list[str] = []
    for line in lines:
        turn = line.label.rpartition("-")[0]
        if not found or found[-1] != turn:
            found.append(turn)
    killed = {who for kind, who, *_ in said if kind == "kills"}
    if found and found[0] not in turns and found[0].partition("-")[0] in killed:
        del found[0]  # it made the session, and was killed before it could say so
    expected = [turn for turn in turns if turn in found]
    if found != expected:
        tally.break_(f"entries stand in the order of turns {found}, which were {expected}")


def judge_session(
    tally: Tally, store: holdfast.Store, session_id: str, *, writes: bool = True
) -> None:
    """Check that the session opens, has no damage, and that a second opening changes nothing."""
    try:
        session = store.open(session_id)
    except Exception as error:  # noqa: BLE001  a traceback is a refusal, too
        tally.refuse(f"{session_id} does not open: {type(error).__name__}: {error}")
        return
    with session:
        if session.recovery.damage or session.recovery.edited or session.recovery.unverified:
            tally.break_(f"opening finds {session.recovery}")
    before = contents(session.path)
    with store.open(session_id) as again:
        if contents(session.path) != before or again.recovery.set_aside:
            tally.break_(f"a second opening changes files: {again.recovery}")
        if writes:
            again.append(holdfast.user(AFTERWARDS))
            if again.messages[-1].text != AFTERWARDS:
                tally.break_("what was appended after all is not there")
    problems = store.verify(session_id).problems
    if problems:
        tally.break_(f"verifying finds {problems}")


def judge_falls(tally: Tally, said: Said) -> None:
    """Check that nothing was raised but errors of Holdfast's own."""
    for kind, who, *words in said:
        if kind == "fell":
            tally.break_(f"{who} fell: {words[0]}")
