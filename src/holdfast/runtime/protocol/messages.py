"""The messages between clients and a runner: requests, replies, events, and their JSON lines.

A client starts with ``hello``, and the runner answers with its own. After that the client sends
requests, each with an ``id`` that the client makes, and gets one reply per request, of the type
that the request's class names. A request sent again with the same id, on any connection, has no
second effect. A client that attached gets the
entries after the number it named, then every event as it happens.

The bytes of each message are frozen by ``tests/runtime/protocol/test_messages.py``. Clients ignore
event types and fields that they do not know, so a newer runner may add some. A runner of another
protocol version can still be followed, detached from, cancelled and stopped: those messages never
change. ``docs/protocol.md`` describes every message.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Generic, TypeVar, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from holdfast.errors import HoldfastError, UsageError
from holdfast.journal import bounded
from holdfast.model.codec import convert, dumps, loads
from holdfast.model.message import File, Image, Text
from holdfast.runtime.config.run_options import Limits

PROTOCOL = 1
LONGEST_LINE_BYTES = bounded.LONGEST_LINE_BYTES + 64 * 1024  # any entry, and the message around it
REFRESHED = frozenset({"PATH", "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"})
"""Variables that a client sends with hello, beside providers' keys; they are never recorded."""


# Replies


class Reply(Struct, frozen=True, kw_only=True):
    """The request was done; there is nothing more to say."""


class Greeting(Reply, frozen=True, kw_only=True):
    """The runner's own hello. ``pid`` is its process as it knows it, in a container perhaps."""

    protocol: int = 0
    version: str = ""
    session: str = ""
    pid: int | None = None


class PromptQueued(Reply, frozen=True, kw_only=True):
    """The prompt is durable as entry ``seq``; ``held`` if it waits for the next runner."""

    seq: int
    held: bool | UnsetType = UNSET


class QueueReleased(Reply, frozen=True, kw_only=True):
    """The held prompts with these numbers are run."""

    queue: list[int]


class TurnRunning(Reply, frozen=True, kw_only=True):
    """Whether a turn was running when the request came."""

    running: bool = False


class Scheduled(Reply, frozen=True, kw_only=True):
    """``after_turn``: a turn is running, and the request is done after it."""

    after_turn: bool = False


class TagsEdited(Reply, frozen=True, kw_only=True):
    """The tags that the session now has."""

    tags: list[str]


class RestoredFile(Struct, frozen=True, kw_only=True):
    """What a rewind did with one file: restore, remove, skip (``reason`` says why) or nothing.

    ``before`` and ``now`` are digests of its content: the earlier one, and that at the rewind.
    """

    path: str
    action: str
    before: str | None = None
    now: str | None = None
    reason: str = ""


class Rewound(Reply, frozen=True, kw_only=True):
    """What became of each file. With ``autorun`` nothing was done: the user has to decide first."""

    files: list[RestoredFile] = field(default_factory=list)
    autorun: list[str] | UnsetType = UNSET


class RunnerStatus(Struct, frozen=True, kw_only=True):
    """The status of a runner. ``state`` is running, waiting (for an approval) or idle.

    ``foreign``: the session has entries from elsewhere that the user has not accepted.
    """

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
    foreign: bool = False


class StatusReply(Reply, frozen=True, kw_only=True):
    """The status of the runner."""

    status: RunnerStatus


class RefusedReply(Struct, frozen=True, kw_only=True):
    """The request was not done. ``kind`` is the name of the error, ``error`` its sentence."""

    error: str = ""
    kind: str = ""
    exit_code: int = 1


# Requests

R = TypeVar("R", bound=Reply)
R_co = TypeVar("R_co", bound=Reply, covariant=True)


class RequestFor(Struct, Generic[R_co], frozen=True, tag_field="type", kw_only=True):
    """A request; ``R_co`` is the type of its reply."""

    id: str


class Hello(RequestFor[Greeting], frozen=True, kw_only=True, tag="hello"):
    """The first message: the client's protocol, and the variables that it passes on."""

    protocol: int
    version: str
    environment: dict[str, str] = field(default_factory=dict)


class Attach(RequestFor[Reply], frozen=True, kw_only=True, tag="attach"):
    """Send entries numbered above ``after``, then every event.

    ``answers`` tells that a person can approve tool calls here; questions wait for such clients.
    """

    after: int = -1
    live: bool = True
    answers: bool = False


class Detach(RequestFor[Reply], frozen=True, kw_only=True, tag="detach"):
    """Send only replies from now on; that the client then disconnects is no hang-up."""


class Submit(RequestFor[PromptQueued], frozen=True, kw_only=True, tag="submit"):
    """Queue a prompt and run it in its turn."""

    content: list[Text | Image | File]
    limits: Limits = Limits()


class RunQueue(RequestFor[QueueReleased], frozen=True, kw_only=True, tag="run_queue"):
    """Run the held prompts: those queued when a turn was cancelled, failed or died."""


class EditQueue(RequestFor[PromptQueued], frozen=True, kw_only=True, tag="edit_queue"):
    """Replace a queued prompt by ``content``; without content remove it."""

    entry: int
    content: list[Text | Image | File] = field(default_factory=list)


class ContinueTurn(RequestFor[Reply], frozen=True, kw_only=True, tag="continue_turn"):
    """Continue the turn that was interrupted, or that waits for an approval."""


class Cancel(RequestFor[TurnRunning], frozen=True, kw_only=True, tag="cancel"):
    """Cancel the running turn; the second time by force."""


class Approve(RequestFor[Reply], frozen=True, kw_only=True, tag="approve"):
    """Answer a question about one call and its arguments; only the first answer is taken."""

    call_id: str
    arguments_sha256: str
    allow: bool


class SetModel(RequestFor[Scheduled], frozen=True, kw_only=True, tag="set_model"):
    """Switch to another model, after the running turn."""

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None


class Rename(RequestFor[Reply], frozen=True, kw_only=True, tag="rename"):
    """Set the session's title; an empty one removes it."""

    title: str


class EditTags(RequestFor[TagsEdited], frozen=True, kw_only=True, tag="edit_tags"):
    """Add tags to the session and remove others; ``replace`` removes all that are not added."""

    add: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)
    replace: bool = False


class Compact(RequestFor[Scheduled], frozen=True, kw_only=True, tag="compact"):
    """Compact the context, after the running turn."""


class Rewind(RequestFor[Rewound], frozen=True, kw_only=True, tag="rewind"):
    """Continue from an earlier entry: undo the conversation, the file changes since, or both.

    ``autorun``: files that other programs run by themselves are put back, too. With ``None``
    nothing is done if there are such files; the reply names them under ``autorun``.
    """

    to: int | None
    conversation: bool = True
    files: bool = False
    overwrite: bool = False
    autorun: bool | None = False


class StatusOf(RequestFor[StatusReply], frozen=True, kw_only=True, tag="status"):
    """Return the runner's status."""


class HandOver(RequestFor[Reply], frozen=True, kw_only=True, tag="hand_over"):
    """Release the session for another process and stop. Refused while a turn runs."""


class Stop(RequestFor[TurnRunning], frozen=True, kw_only=True, tag="stop"):
    """Stop: at once, the running turn cancelled and saved; or after the turn."""

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
    | EditTags
    | Compact
    | Rewind
    | StatusOf
    | HandOver
    | Stop
)
FOR_ANY_VERSION = (Attach, Detach, Cancel, StatusOf, Stop)
"""The requests of a client of another protocol version that are done."""

# Events


class _Event(Struct, frozen=True, tag_field="type", kw_only=True):
    pass


class EntryEvent(_Event, frozen=True, kw_only=True, tag="entry", dict=True):
    """An entry is durable. ``entry`` is the journal's line, byte for byte."""

    entry: Raw

    @property
    def line(self) -> bytes:
        """The journal's line, without the line end."""
        return bytes(self.entry)

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The decoded entry."""
        decoded: dict[str, Any] = loads(self.line)
        return decoded

    @property
    def seq(self) -> int:
        """The entry's sequence number."""
        return int(self.fields["seq"])


class LiveText(_Event, frozen=True, kw_only=True, tag="live"):
    """A piece of text that is being streamed; ``at`` characters of its stream came before.

    ``kind`` is text, thinking, tool_call or tool_output.
    """

    stream: str
    at: int = 0
    kind: str
    text: str
    call_id: str | None = None
    name: str | None = None


class CaughtUp(_Event, frozen=True, kw_only=True, tag="caught_up"):
    """All earlier entries have been sent."""

    seq: int


class StateChanged(_Event, frozen=True, kw_only=True, tag="state"):
    """The runner's state: sent after ``caught_up``, and whenever it changes.

    ``state`` is running, waiting (for an approval) or idle. ``queue`` has the numbers of the queued
    prompts; ``held`` tells that some of them wait for a request to run them. ``trouble`` says why
    entries cannot become durable. ``foreign``: some entries came from elsewhere and the user has
    not accepted them.
    """

    state: str
    queue: list[int] = field(default_factory=list)
    held: bool = False
    model: str = ""
    title: str | None = None
    cost_usd: float | None = None
    context_tokens: int | None = None
    context_window: int | None = None
    seq: int = -1
    trouble: str | None = None
    foreign: bool = False

    @property
    def at_rest(self) -> bool:
        """Whether nothing runs and, as far as this event tells, nothing is about to."""
        return self.state == "idle" and (not self.queue or self.held)


class QuestionAsked(_Event, frozen=True, kw_only=True, tag="question"):
    """A tool call waits for approval.

    ``queued`` is the number of the prompt whose turn asks, ``None`` in a continued turn.
    """

    call_id: str
    tool: str
    subject: str
    arguments: Any = None
    arguments_sha256: str
    queued: int | None = None


class QuestionAnswered(_Event, frozen=True, kw_only=True, tag="answered"):
    """A question needs no answer any more. ``allow`` is ``None`` if it never got one."""

    call_id: str
    allow: bool | None = None


class DeniedCall(Struct, frozen=True, kw_only=True):
    """A tool call that was denied, and the rule that denied it."""

    tool: str
    subject: str
    rule: str | None = None


class TurnEnded(_Event, frozen=True, kw_only=True, tag="turn"):
    """A turn has ended; all of its entries have been sent. ``queued`` as in ``QuestionAsked``."""

    queued: int | None = None
    state: str
    cause: str | None = None
    limit: bool = False
    exit_code: int = 0
    text: str = ""
    denied: list[DeniedCall] = field(default_factory=list)


class SessionRepaired(_Event, frozen=True, kw_only=True, tag="recovered"):
    """Opening the session found damage, or cut off a torn end."""

    report: str


class InterruptedCall(Struct, frozen=True, kw_only=True):
    """A tool call of an interrupted turn, and what is known of it."""

    call_id: str
    tool: str
    subject: str
    state: str
    pid: int | None = None


class TurnInterrupted(_Event, frozen=True, kw_only=True, tag="interrupted"):
    """The last turn has no end: its runner died, or it was recorded on another machine."""

    report: str
    calls: list[InterruptedCall] = field(default_factory=list)
    foreign: bool = False


class Notice(_Event, frozen=True, kw_only=True, tag="note"):
    """A sentence for the user that is in no journal: a retry, a full disk, a compaction."""

    text: str


class RunnerExited(_Event, frozen=True, kw_only=True, tag="bye"):
    """The runner has released the session and closes the connection."""

    why: str = ""


RunnerEvent = (
    EntryEvent
    | LiveText
    | CaughtUp
    | StateChanged
    | QuestionAsked
    | QuestionAnswered
    | TurnEnded
    | SessionRepaired
    | TurnInterrupted
    | Notice
    | RunnerExited
)


class _Named(Struct, frozen=True):
    id: str = ""


class Envelope(Struct, frozen=True):
    """What every line from a runner has; ``to`` is the id of the request that it replies to.

    Every line without one is an event. ``ok``: the request was done.
    """

    type: str
    to: str | None = None
    ok: bool = True


_DECODER: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_NAMED = msgspec.json.Decoder(_Named)
_ENVELOPE = msgspec.json.Decoder(Envelope)
_REPLIES: dict[type, type[Reply]] = {
    kind: get_args(kind.__orig_bases__[0])[0] for kind in get_args(Request)
}
_EVENTS: msgspec.json.Decoder[RunnerEvent] = msgspec.json.Decoder(RunnerEvent)
_ENTRY_START = b'{"type":"entry","entry":'
_LONGEST_ID = 200


def decode_request(line: bytes) -> Request:
    """Return the request on a line.

    Raises:
        UsageError: it is not a request.
    """
    try:
        request = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"This is not a valid request: {error}.") from None
    if not 0 < len(request.id) <= _LONGEST_ID:
        raise UsageError(f"The id of a request must have 1 to {_LONGEST_ID} characters.")
    return request


def decode_envelope(line: bytes) -> Envelope:
    """Return what a line from a runner is.

    Raises:
        ValueError: it is not a message.
    """
    try:
        return _ENVELOPE.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        fields = _fields(line)
        to, ok = fields.get("to"), fields.get("ok", True)
        return Envelope(fields["type"], None if to is None else str(to), bool(ok))


def decode_reply(line: bytes, request: RequestFor[R]) -> R | RefusedReply:
    """Return the reply to a request.

    Raises:
        ValueError: it is not of the type that this request's replies have.
    """
    wanted: type[Any] = _REPLIES[type(request)] if decode_envelope(line).ok else RefusedReply
    reply: R | RefusedReply
    try:
        reply = msgspec.json.decode(line, type=wanted)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        reply = convert(_fields(line), wanted)
    return reply


def decode_event(line: bytes) -> RunnerEvent | None:
    """Return the event on a line, ``None`` if this version does not know it.

    Raises:
        ValueError: it is not a message.
        RecursionError: it is nested too deep.
    """
    try:
        event: RunnerEvent | None = _EVENTS.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        event = _decode_slowly(line)
    if isinstance(event, EntryEvent) and not isinstance(event.fields, dict):
        raise ValueError("an entry must be a JSON object")
    return event


def _decode_slowly(line: bytes) -> RunnerEvent | None:
    """Decode what msgspec rejects as JSON, such as lone surrogates and NaN."""
    fields = _fields(line)
    if line.startswith(_ENTRY_START):
        return EntryEvent(entry=Raw(line.removeprefix(_ENTRY_START).removesuffix(b"}\n")))
    try:
        event: RunnerEvent = convert(fields, RunnerEvent)  # type: ignore[arg-type]  # a union
    except msgspec.ValidationError:
        return None
    return event


def _fields(line: bytes) -> dict[str, Any]:
    fields = loads(line)
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str):
        raise ValueError("a message must be a JSON object with a type")
    return fields


def entry_id(request_id: str) -> str:
    """Return the id of the entry that a request makes."""
    return f"request:{request_id}"


def id_of(line: bytes) -> str:
    """Return the id on a line that is not a request, for the refusal; empty if it has none."""
    try:
        return _NAMED.decode(line).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def encode(message: Struct | dict[str, Any]) -> bytes:
    """Return a message as a line."""
    if isinstance(message, Struct):
        try:
            return msgspec.json.encode(message) + b"\n"
        except UnicodeEncodeError:  # half a surrogate pair: dumps writes its escape
            message = msgspec.to_builtins(message)
    return dumps(message) + b"\n"


def encode_reply(request: Request, reply: Reply) -> bytes:
    """Return the reply to a request as a line."""
    if isinstance(reply, Greeting):
        start: dict[str, Any] = {"type": "hello", "to": request.id}
    else:
        start = {"type": "reply", "to": request.id, "ok": True}
    return encode({**start, **msgspec.to_builtins(reply)})


def refusal(to: str, error: HoldfastError) -> bytes:
    """Return the reply to a request that is refused."""
    refused = RefusedReply(error=str(error), kind=type(error).__name__, exit_code=error.exit_code)
    return encode({"type": "reply", "to": to, "ok": False, **msgspec.to_builtins(refused)})
