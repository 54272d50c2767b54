"""What clients and a runner say to each other: JSON lines over a unix socket.

A client begins with ``hello``; the runner answers with its own. After that the client sends
requests, each with an ``id`` of its own making, and gets one reply to each; an id that was used
before, on whatever connection, gets the effect of the first time and not a second one. Whoever
attached gets entries from the number it asked for, then whatever happens.

A runner of another protocol version can still be followed, left, cancelled and asked to leave: what
does that never changes. ``docs/protocol.md`` describes every message.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from holdfast.errors import HoldfastError, UsageError
from holdfast.journal import format as journal
from holdfast.model.codec import dumps
from holdfast.model.event import Event
from holdfast.model.message import File, Image, Text
from holdfast.runtime.limits import Limits

PROTOCOL = 1
LONGEST_LINE_BYTES = journal.LONGEST_LINE_BYTES + 64 * 1024  # any entry, and what is around it
REFRESHED = frozenset({"PATH", "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"})
"""Variables that a client hands over when it attaches, beside providers' keys: never recorded."""


class _Request(Struct, frozen=True, tag_field="type", kw_only=True):
    id: str


class Hello(_Request, frozen=True, kw_only=True, tag="hello"):
    """The first words: which protocol the client speaks, and what of its environment counts."""

    protocol: int
    version: str
    environment: dict[str, str] = field(default_factory=dict)


class Attach(_Request, frozen=True, kw_only=True, tag="attach"):
    """Send entries numbered above ``after``, then everything that happens.

    ``answers`` tells that somebody is there who can approve; a session waits for nobody else.
    """

    after: int = -1
    live: bool = True
    answers: bool = False


class Detach(_Request, frozen=True, kw_only=True, tag="detach"):
    """Send nothing more but replies: the client leaves on purpose, and does not hang up."""


class Submit(_Request, frozen=True, kw_only=True, tag="submit"):
    """Take a prompt and run it when its turn comes."""

    content: list[Text | Image | File]
    limits: Limits = Limits()


class RunQueue(_Request, frozen=True, kw_only=True, tag="run_queue"):
    """Run the prompts that are held: they wait since a turn was cancelled, failed or died."""


class EditQueue(_Request, frozen=True, kw_only=True, tag="edit_queue"):
    """Put ``content`` in the place of a prompt that waits; without content it is taken out."""

    entry: int
    content: list[Text | Image | File] = field(default_factory=list)


class ContinueTurn(_Request, frozen=True, kw_only=True, tag="continue_turn"):
    """Go on with the turn that was interrupted, or that waits for an approval."""


class Cancel(_Request, frozen=True, kw_only=True, tag="cancel"):
    """End the turn that runs; the second time without asking."""


class Approve(_Request, frozen=True, kw_only=True, tag="approve"):
    """Answer a question; bound to the call and its arguments, and only the first answer counts."""

    call_id: str
    arguments_sha256: str
    allow: bool


class SetModel(_Request, frozen=True, kw_only=True, tag="set_model"):
    """Let another model go on, from the next request or the next turn on."""

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None


class Rename(_Request, frozen=True, kw_only=True, tag="rename"):
    """Give the session a title."""

    title: str


class Compact(_Request, frozen=True, kw_only=True, tag="compact"):
    """Sum up the context."""


class Rewind(_Request, frozen=True, kw_only=True, tag="rewind"):
    """Go on from an earlier entry: the conversation, what tools did to files since, or both."""

    to: int | None
    conversation: bool = True
    files: bool = False
    overwrite: bool = False


class StatusOf(_Request, frozen=True, kw_only=True, tag="status"):
    """Tell how things stand."""


class HandOver(_Request, frozen=True, kw_only=True, tag="hand_over"):
    """Let go of the session: somebody else wants to write to it. Refused while a turn runs."""


class Stop(_Request, frozen=True, kw_only=True, tag="stop"):
    """Leave: at once, a running turn cancelled and saved; or when the turn has ended."""

    after_turn: bool = False


Request = (
    Hello
    | Attach
    | Detach
    | Submit
    | RunQueue
    | EditQueue
    | ContinueTurn
    | Cancel
    | Approve
    | SetModel
    | Rename
    | Compact
    | Rewind
    | StatusOf
    | HandOver
    | Stop
)
FOR_ANY_VERSION = (Attach, Detach, Cancel, StatusOf, Stop)
"""What a client of another protocol version may ask for."""


class _Named(Struct, frozen=True):
    id: str = ""


_DECODER: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_NAMED = msgspec.json.Decoder(_Named)
_LONGEST_ID = 200


class RunnerStatus(Struct, frozen=True, kw_only=True):
    """How a runner stands. ``state`` is running, waiting (for an approval) or idle."""

    session: str
    pid: int
    version: str
    protocol: int
    state: str
    started: str
    memory_bytes: int
    clients: int
    queue: int
    model: str
    title: str | None
    workspace: str | None
    seq: int
    trouble: str | None


def decode_request(line: bytes) -> Request:
    """Return the request on a line.

    Raises:
        UsageError: it is none.
    """
    try:
        request = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"That is no request: {error}.") from None
    if not 0 < len(request.id) <= _LONGEST_ID:
        raise UsageError(f"The id of a request has 1 to {_LONGEST_ID} characters.")
    return request


def entry_id(request_id: str) -> str:
    """Return the id that an entry has which a request made."""
    return f"request:{request_id}"


def id_of(line: bytes) -> str:
    """Return the id on a line that is no request, so that whoever sent it hears of it."""
    try:
        return _NAMED.decode(line).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def encode(message: Struct | dict[str, Any]) -> bytes:
    """Return a message as a line."""
    if isinstance(message, Struct):
        return msgspec.json.encode(message) + b"\n"
    return dumps(message) + b"\n"


_BEFORE, _AFTER = b'{"type":"entry","entry":', b"}\n"


def entry_line(line: bytes) -> bytes:
    """Return the line that hands on an entry, exactly as it is in the journal."""
    return _BEFORE + line + _AFTER


def journal_line(line: bytes) -> bytes:
    """Return the entry of such a line, as it is in the journal."""
    return line.removeprefix(_BEFORE).removesuffix(_AFTER)


def live_line(event: Event, at: int) -> bytes:
    """Return the line that hands on a piece of text; ``at`` characters of its stream came before.

    By that number a client that comes back knows what it has already.
    """
    told = {"stream": event.stream, "at": at, "kind": event.kind, "text": event.text}
    return encode({"type": "live", **told, "call_id": event.call_id, "name": event.name})


def refusal(to: str, error: HoldfastError) -> bytes:
    """Return the reply to a request that is not carried out."""
    told = {"type": "reply", "to": to, "ok": False, "error": str(error)}
    return encode({**told, "kind": type(error).__name__, "exit_code": error.exit_code})
