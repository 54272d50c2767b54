"""Tool calls put together from the fragments of a Chat Completions stream.

The documented way is an index, an id with the first fragment and arguments in many. Servers differ:
no index, or 0 for every call; no id, an empty one, the same for all, or again in every fragment;
arguments in one piece, in many, or as an object. Whatever comes, each call ends up with an id that
no other call of the message has, and it keeps the id that its first delta showed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.model.message import ToolCall
from holdfast.runtime.providers.contract import ToolCallDelta
from holdfast.runtime.providers.outgoing import arguments_of, new_id


class _Open:
    """One call, as far as it has arrived."""

    def __init__(self, call_id: str, given_id: str) -> None:
        self.id = call_id
        self.given_id = given_id
        self.name = ""
        self.text = ""

    @property
    def whole(self) -> bool:
        """Whether the arguments are complete, so that what follows must be another call."""
        try:
            return isinstance(json.loads(self.text), dict)
        except ValueError:
            return False


class Calls:
    """The calls of one message."""

    def __init__(self, make_id: Callable[[], str] = new_id) -> None:
        self._make_id = make_id
        self._calls: list[_Open] = []
        self._at: dict[int | None, _Open] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, fragment: dict[str, Any]) -> Iterator[ToolCallDelta]:
        """Take one element of ``delta.tool_calls``; yield what it adds."""
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        index = fragment.get("index")
        given_id = fragment.get("id") or ""
        name = function.get("name") or ""
        text = _text(function.get("arguments"))
        call = self._at.get(index if isinstance(index, int) else None)
        if call is None or _another(call, given_id, name, text):
            call = self._open(given_id)
            if isinstance(index, int):
                self._at[index] = call
        self._at[None] = call  # a fragment without an index goes on with the last call
        fresh = bool(name) and not call.name
        if fresh:
            call.name = name
        call.text += text
        if text or fresh:
            yield ToolCallDelta(call_id=call.id, text=text, name=name if fresh else None)

    def parts(self, *, cut: bool) -> list[ToolCall]:
        """Return the calls; with ``cut``, one whose arguments are not whole is partial."""
        return [_part(call, cut=cut) for call in self._calls]

    def _open(self, given_id: str) -> _Open:
        taken = {call.id for call in self._calls}
        call_id = given_id
        while not call_id or call_id in taken:
            call_id = self._make_id()
        call = _Open(call_id, given_id)
        self._calls.append(call)
        return call


def _another(call: _Open, given_id: str, name: str, text: str) -> bool:
    """Tell whether a fragment begins a call of its own, although it came in the place of ``call``.

    It does if its id is another, or if it names a function again when nothing more can follow.
    """
    if given_id and call.given_id and given_id != call.given_id:
        return True
    return bool(name) and bool(text.strip()) and call.whole


def _text(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments)


def _part(call: _Open, *, cut: bool) -> ToolCall:
    arguments = arguments_of(call.text)
    if cut and isinstance(arguments, str):
        return ToolCall(id=call.id, name=call.name, arguments={}, partial=call.text)
    return ToolCall(id=call.id, name=call.name, arguments=arguments)
