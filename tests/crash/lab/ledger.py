"""What a witness heard, put in order: what each session must have, may have, and must not have.

``Life`` follows one actor of the scenario. Where a call neither returned nor was refused before
anything was written, it may have taken effect or not; ``endings`` lists every state that the
session may then be in, by a model so simple that it cannot share a mistake with the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, field

INTENT = " intent"
"""Added to a call's label, it is the label of the tool's intent."""

HERE, TRASH = "here", "in the trash"
"""Where a session may be."""

_MOST_ENDINGS = 1024
_ALL_SYNCED = (-1, 10**9)
_MADE = frozenset({"stage", "receive", "batch"})
"""Calls that make whole sessions of what comes from elsewhere."""

_ENTRIES = frozenset(
    {"append", "tool", "usage", "submit", "wait", "finish", "checkpoint", "rename", "rewind", "put"}
)
"""Calls that add to the session's own journal."""


class Ending(Struct, frozen=True):
    """One state that a session may be in."""

    branch: tuple[str, ...] = ()
    kept: int = 0  # where the branch starts that the checkpoint keeps
    summary: str | None = None
    title: str | None = None
    input: int = 0
    snapshot: str | None = None


class Call(Struct):
    """One call of the scenario and what came of it: open (None), promised or refused."""

    op: str
    facts: dict[str, Any]
    outcome: str | None = None
    result: Any = None

    @property
    def gave_up(self) -> bool:
        """Whether the session said that it takes nothing more until it is opened again."""
        refused = self.outcome == "refused" and str(self.result).startswith("WriteFailed:")
        return refused and self.op in _ENTRIES


class Streamed(Struct):
    """What is known of a stream: how many pieces it was given, and how far its end got."""

    call_id: str | None = None  # of the tool whose output it is
    pieces: int = 0
    may_be_finished: bool = False
    finished: bool = False


class Life(Struct):
    """All that one actor said."""

    session: str | None = None
    calls: dict[int, Call] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    fell: str | None = None
    done: bool = False

    @property
    def promised(self) -> dict[str, int | None]:
        """Labels of the session itself that must be there, with their number where it is known."""
        found: dict[str, int | None] = {}
        for call in self.calls.values():
            if call.outcome == "promised":
                if call.op == "append":
                    labels = call.facts["labels"]
                    found |= dict.fromkeys(labels) | {labels[-1]: call.result["seq"]}
                elif call.op == "tool":
                    found[call.facts["call_id"] + INTENT] = call.result["seq"]
                elif call.op in ("finish", "wait"):
                    found[call.facts["label"]] = call.result["seq"]
        return {label: seq for label, seq in found.items() if label not in self.erased}

    @property
    def erased(self) -> dict[str, Call]:
        """Labels of entries that may be erased, with the call; no file may then have them."""
        return {call.facts["label"]: call for call in self._calls("erase")}

    @property
    def erased_sessions(self) -> list[Call]:
        """Calls that erase whole sessions."""
        return self._calls("erase-session")

    @property
    def shown(self) -> dict[str, int]:
        """Labels that a follower was shown, with their numbers: no power cut may take them."""
        return {
            label: seq
            for call in self._promised("look")
            for label, seq in call.result["shown"].items()
        }

    @property
    def settled(self) -> dict[str, int]:
        """Labels of streams with the number of pieces that must be on the disk."""
        return {call.facts["label"]: call.facts["pieces"] for call in self._promised("settle")}

    @property
    def torn(self) -> list[str]:
        """Torn lines that were on the disk: they may be set aside, not thrown away."""
        return [call.facts["text"] for call in self._promised("tear")]

    @property
    def effects(self) -> dict[str, str]:
        """Tool calls that have had their effect on the world, with what kind of effect it is."""
        return {call.facts["call_id"]: call.facts["effect"] for call in self._promised("effect")}

    @property
    def places(self) -> set[str]:
        """Where the session may be."""
        places = {HERE}
        for call in self.calls.values():
            if call.op in ("delete", "restore"):
                target = {TRASH if call.op == "delete" else HERE}
                places = target if call.outcome == "promised" else places | target
        return places

    @property
    def batched(self) -> set[str]:
        """Sessions that were published together."""
        return {each for call in self._calls("batch") for each in call.facts["sessions"]}

    @property
    def owes_note(self) -> bool:
        """Whether a batch was published whose note nobody was to remove."""
        return bool(self._promised("batch")) and not self._calls("forget")

    def _calls(self, op: str) -> list[Call]:
        return [call for call in self.calls.values() if call.op == op]

    def _promised(self, op: str) -> list[Call]:
        return [call for call in self._calls(op) if call.outcome == "promised"]

    @property
    def synced(self) -> list[tuple[int, int]]:
        """Spans of numbers, one for each opening, in which every line was synced.

        They reach from the first number that was promised to the last, and in the beginning from
        the first line of all.
        """
        spans: list[tuple[int, int]] = []
        first: int | None = -1
        for call in self.calls.values():
            seq = (call.result or {}).get("seq") if call.outcome == "promised" else None
            if call.op == "open":
                first = None
            elif call.op in _ENTRIES and seq is not None:
                first = seq if first is None else first
                spans.append((first, seq))
        return spans

    @property
    def attempted(self) -> list[list[str]]:
        """Groups of labels that are there whole or not at all, if they are not promised."""
        promised = self.promised
        groups: list[list[str]] = []
        for call in self._calls_with_effect:
            if call.op in ("append", "submit", "abandon"):
                groups.append(call.facts["labels"])
            elif call.op in ("tool", "turn"):
                groups.append([call.facts["call_id"] + INTENT])
        return [group for group in groups if group[0] not in promised]

    @property
    def streams(self) -> dict[str, int]:
        """Labels of streams with the number of pieces that may be there at most."""
        return {label: stream.pieces for label, stream in self.streamed.items()}

    @property
    def streamed(self) -> dict[str, Streamed]:
        """What is known of each stream, by label; text may be kept even of one that was refused."""
        found: dict[str, Streamed] = {}
        call_id = None
        with_effect = {id(call) for call in self._calls_with_effect}
        for call in self.calls.values():
            if call.op == "tool":
                call_id = call.facts["call_id"]
            elif call.op == "stream":
                label = call.facts["label"]
                found[label] = Streamed(call_id if label.endswith("output") else None)
            elif call.op == "piece":
                found[call.facts["label"]].pieces = call.facts["number"] + 1
            elif call.op == "finish":
                stream = found[call.facts["label"]]
                stream.may_be_finished = id(call) in with_effect
                stream.finished = call.outcome == "promised"
        return found

    @property
    def _calls_with_effect(self) -> list[Call]:
        """All calls but those that came after the session had given up: nothing comes of them."""
        found: list[Call] = []
        gave_up = False
        for call in self.calls.values():
            if call.op == "open" or (call.op in _ENTRIES and call.outcome == "promised"):
                gave_up = False
            if not gave_up or call.op not in _ENTRIES:
                found.append(call)
            gave_up = gave_up or call.gave_up
        return found

    @property
    def forks(self) -> dict[str, Fork]:
        """Sessions beside the actor's own, with what must be in each."""
        found: dict[str, Fork] = {}
        endings = [Ending()]
        calls = self._calls_with_effect
        forked = [call.op == "fork" and call.outcome == "promised" for call in calls]
        for number, call in enumerate(calls):
            if forked[number]:
                branches = {ending.branch for ending in endings}
                found[call.result["session"]] = Fork(branches, self.streamed)
            elif call.op in _MADE:
                found |= _made(call)
            elif call.op == "fork-append":
                fork = found[call.facts["session"]]
                longer = {(*branch, *call.facts["labels"]) for branch in fork.branches}
                if call.outcome == "promised":
                    fork.branches = longer
                    seq = call.result["seq"]
                    fork.synced.append((seq if fork.synced else -1, seq))
                else:
                    fork.branches |= longer
            if any(forked[number:]):  # what comes after the last fork does not matter to any
                endings = _after(endings, call)
        return found

    @property
    def endings(self) -> list[Ending] | None:
        """Every state that the session may be in; ``None`` if there are too many to be told."""
        endings = [Ending()]
        loose: list[str] = []
        for call in self._calls_with_effect:
            if call.op == "stream":
                loose.append(call.facts["label"])
            elif call.op == "finish" and call.outcome == "promised":
                loose.remove(call.facts["label"])
            elif call.op == "open":
                endings = _with_loose_streams(endings, loose)
            endings = _after(endings, call)
            if len(endings) > _MOST_ENDINGS:
                return None
        return _with_loose_streams(endings, loose)


class Fork(Struct):
    """A forked session, every branch that it may have, and the streams of where it came from.

    Or one that came from elsewhere, which is ``foreign``. One that is not ``certain`` may be
    missing, but is whole if it is there.
    """

    branches: set[tuple[str, ...]]
    streams: dict[str, Streamed] = field(default_factory=dict)
    synced: list[tuple[int, int]] = field(default_factory=list)
    certain: bool = True
    foreign: bool = False


def _made(call: Call) -> dict[str, Fork]:
    """Return the sessions that a call has made, or may have."""
    facts = call.facts
    given = facts["sessions"] if call.op == "batch" else {facts["session"]: facts["labels"]}
    certain = call.outcome == "promised"
    return {
        session_id: Fork({tuple(labels)}, synced=[_ALL_SYNCED], certain=certain, foreign=True)
        for session_id, labels in given.items()
    }


def read(said: Iterable[list[Any]]) -> dict[str, Life]:
    """Return the lives of all actors that were heard of."""
    lives: dict[str, Life] = {}
    for kind, actor, *words in said:
        life = lives.setdefault(actor, Life())
        if kind == "intends":
            number, op, facts = words
            if op == "create":
                life.session = facts["session"]
            else:
                life.calls[number] = Call(op, facts)
        elif kind == "promised":
            number, life.calls[number].result = words
            life.calls[number].outcome = "promised"
        elif kind == "refused":
            number, life.calls[number].result = words
            life.calls[number].outcome = "refused"
        elif kind == "written":
            life.written[words[0]] = words[1]
        elif kind == "ran":
            life.ran.append(words[0])
        elif kind == "fell":
            life.fell = words[0]
        elif kind == "done":
            life.done = True
    return lives


def _with_loose_streams(endings: list[Ending], loose: list[str]) -> list[Ending]:
    """Return the states after an opening, which keeps what was left of unfinished streams."""
    for label in loose:
        added = [
            msgspec.structs.replace(ending, branch=(*ending.branch, label))
            for ending in endings
            if label not in ending.branch
        ]
        endings = list(dict.fromkeys([*endings, *added]))
    return endings


def _after(endings: list[Ending], call: Call) -> list[Ending]:
    """Return the states after one more call: with its effect, and without if it is not certain."""
    promised = call.outcome == "promised"
    if call.op == "wait":
        there = [ending for ending in endings if call.facts["label"] in ending.branch]
        return there if promised else endings
    moved = [_applied(ending, call) for ending in endings]
    # A submitted entry is certain only once it was waited for, and one that was not synced never.
    certain = promised and call.op not in ("submit", "abandon")
    return list(dict.fromkeys(moved if certain else [*endings, *moved]))


def _applied(ending: Ending, call: Call) -> Ending:
    facts, branch = call.facts, ending.branch
    change: dict[str, Any] = {}
    match call.op:
        case "append" | "submit" | "finish" | "abandon":
            labels = facts.get("labels") or [facts["label"]]
            # The second append of one id changes nothing.
            change["branch"] = (*branch, *(label for label in labels if label not in branch))
        case "rewind" if facts["to"] in branch:
            change["branch"] = branch[: branch.index(facts["to"]) + 1]
        case "checkpoint":
            change["kept"] = max(len(branch) - facts["keep_last"], ending.kept)
            change["summary"] = facts["summary"]
        case "compact":
            change |= {"branch": branch[ending.kept :], "kept": 0}
        case "erase" if facts["label"] in branch:
            change["branch"] = tuple(label for label in branch if label != facts["label"])
        case "put":
            change["snapshot"] = facts["label"]
        case "rename":
            change["title"] = facts["title"]
        case "usage":
            change["input"] = ending.input + facts["input"]
    return msgspec.structs.replace(ending, **change)
