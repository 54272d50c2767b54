"""Entries to state: one pure function, used for what is appended and for what is opened.

The state is session-wide and of bounded size. What depends on the branch (messages, the effective
checkpoint) is not in it: it is walked from ``state.head`` when somebody asks (see ``branch``).

A mark holds the whole state, so folding may start at any mark; folding over one sets the state to
what it says. In an untouched journal that changes nothing; in a compacted one it restores what the
lines left out had added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.errors import UsageError
from holdfast.model.codec import convert
from holdfast.model.entry import (
    BODIES,
    FORMAT,
    Entry,
    Gap,
    Head,
    Header,
    Label,
    Mark,
    Meta,
    Queued,
    Snapshot,
    Turn,
    Unknown,
    Usage,
    in_tree,
)
from holdfast.model.message import Message
from holdfast.model.state import ModelTotals, OpenTurn, State, Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_QUEUED = 10_000
"""Prompts that wait; each change looks through them."""

MOST_SNAPSHOTS = 256
"""Names that a session may have snapshots under."""

LONGEST_NAME = 100
"""Characters in the name of a snapshot."""

_MOST_FOLDED = MOST_SNAPSHOTS + 64  # calls that run at the same time may go over the limit
_FIRST_TEXT_CHARACTERS = 200
_AnyTotals = TypeVar("_AnyTotals", ModelTotals, Totals)


def fold(
    entries: Iterable[Entry], state: State | None = None, owned: set[str] | None = None
) -> State:
    """Return the state after ``entries``, starting from ``state``, which is not changed.

    ``owned`` names containers of ``state`` that only the caller holds: those are changed in place,
    and the names of what was copied are added. So folding line by line does not copy every time.
    """
    result = State() if state is None else msgspec.structs.replace(state)
    owned = set() if owned is None else owned
    for entry in entries:
        body = entry.body
        step = _STEPS.get(type(body))
        if step is not None:
            step(result, entry, body, owned)
        if in_tree(entry.type, entry.body):
            result.head = entry.seq
        result.seq = entry.seq
        result.updated = entry.at
    return result


def mark_of(state: State) -> Mark:
    """Return the mark that holds ``state``.

    Raises:
        UsageError: no mark can hold it.
    """
    try:
        # A number that Python cannot hold stands in the state as it was read.
        return Mark(state=msgspec.to_builtins(state, builtin_types=(msgspec.Raw,)))
    except RecursionError:
        raise UsageError(
            "The state of this session is nested too deeply to be saved as a checkpoint."
        ) from None


def state_in(entry: Entry) -> State | None:
    """Return the state that a mark holds.

    ``None`` if it is no mark, was altered or cannot be verified, or if another version gave it
    another shape: then the lines before it have to say.
    """
    if not isinstance(entry.body, Mark) or entry.status != "ok":
        return None
    try:
        state = convert(entry.body.state, State)
    except msgspec.ValidationError:
        return None
    for type_name in state.must:
        if type_name not in BODIES:  # whoever wrote the mark knew it, and we do not
            state.unsupported = f"entries of type {type_name!r}"
    return state


def _own(state: State, name: str, owned: set[str]) -> Any:
    """Return a container of the state to be changed in place; copied once, others may hold it."""
    if name not in owned:
        owned.add(name)
        setattr(state, name, getattr(state, name).copy())
    return getattr(state, name)


def _header(state: State, entry: Entry, body: Header, _: set[str]) -> None:
    state.started = entry.at
    if body.format > FORMAT:
        state.unsupported = f"format {body.format}"


def _meta(state: State, _: Entry, body: Meta, owned: set[str]) -> None:
    _own(state, "meta", owned).update(body.fields)


def _message(state: State, _: Entry, body: Message, owned: set[str]) -> None:
    state.messages += 1
    if state.first_text is None:
        state.first_text = first_text_of(body)
    if body.queued is not None and body.queued in state.queue:
        _own(state, "queue", owned).remove(body.queued)


def first_text_of(body: Message) -> str | None:
    """Return the beginning of a user's text, as a title; ``None`` if it is no user's, or empty."""
    if body.role != "user":
        return None
    return " ".join(body.text.split())[:_FIRST_TEXT_CHARACTERS] or None


def _usage(state: State, _: Entry, body: Usage, owned: set[str]) -> None:
    model = body.model or ""
    models = _own(state, "totals", owned).models
    models[model] = _added(models.get(model, ModelTotals()), body)
    state.totals = _added(state.totals, body)


def _added(totals: _AnyTotals, usage: Usage) -> _AnyTotals:
    return msgspec.structs.replace(
        totals,
        requests=totals.requests + 1,
        input=totals.input + usage.input,
        output=totals.output + usage.output,
        cache_read=totals.cache_read + usage.cache_read,
        cache_write=totals.cache_write + usage.cache_write,
        cost_usd=totals.cost_usd + (usage.cost_usd or 0.0),
        unpriced=totals.unpriced + (usage.cost_usd is None),
    )


def _turn(state: State, entry: Entry, body: Turn, _: set[str]) -> None:
    state.turn = OpenTurn(entry.seq, body.state, body.cause)


def _head(state: State, _: Entry, body: Head, __: set[str]) -> None:
    state.head = body.to


def _queued(state: State, entry: Entry, body: Queued, owned: set[str]) -> None:
    queue: list[int] = _own(state, "queue", owned)
    if body.replaces is None:
        if len(queue) < MOST_QUEUED:
            queue.append(entry.seq)
    elif body.replaces in queue:
        place = queue.index(body.replaces)
        queue[place : place + 1] = [entry.seq] if body.content else []


def _label(state: State, _: Entry, body: Label, owned: set[str]) -> None:
    labels: dict[str, int] = _own(state, "labels", owned)
    labels.pop(body.name, None)
    if body.to is not None:
        labels[body.name] = body.to


def _snapshot(state: State, entry: Entry, body: Snapshot, owned: set[str]) -> None:
    snapshots: dict[str, int] = _own(state, "snapshots", owned)
    snapshots.pop(body.name, None)
    fits = len(body.name) <= LONGEST_NAME and len(snapshots) < _MOST_FOLDED
    if body.encoding != "none" and fits:
        snapshots[body.name] = entry.seq


def _gap(state: State, _: Entry, body: Gap, owned: set[str]) -> None:
    if body.reason == "damage":
        _own(state, "gaps", owned).append(body.place)


def _mark(state: State, entry: Entry, _: Mark, owned: set[str]) -> None:
    restored = state_in(entry)
    if restored is not None:
        owned.update(State.__struct_fields__)
        for name in State.__struct_fields__:
            setattr(state, name, getattr(restored, name))


def _unknown(state: State, _: Entry, body: Unknown, owned: set[str]) -> None:
    if body.must:
        _own(state, "must", owned).append(body.type)
        state.unsupported = f"entries of type {body.type!r}"


_STEPS: dict[type, Callable[[State, Entry, Any, set[str]], None]] = {
    Header: _header,
    Meta: _meta,
    Message: _message,
    Usage: _usage,
    Turn: _turn,
    Head: _head,
    Queued: _queued,
    Label: _label,
    Snapshot: _snapshot,
    Gap: _gap,
    Mark: _mark,
    Unknown: _unknown,
}
