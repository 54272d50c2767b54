"""Durable steps: functions with effects whose calls survive the end of the process.

A run is a row of steps under one id. Each step is recorded before it runs (started) and after it
(completed, with its result), as entries with fixed ids; a program that is started again calls the
same steps in the same order and gets the results that there are. What is done about a step that
was started and has no result is the caller's choice: see ``Run.step``.

Everything that may wait is a generator of requests. One driver waits for each request, another one
awaits it, so that there is one implementation for functions and for coroutine functions.
"""

from __future__ import annotations

import functools
import inspect
import sys
import time
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from msgspec import Struct

from holdfast.errors import ForeignSession, StepUncertain, StorageError, UsageError
from holdfast.model.codec import dumps, encode_body, loads, plain
from holdfast.model.entry import Custom, Entry, Tool
from holdfast.model.message import BlobRef
from holdfast.model.sanitize import is_one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterator

    from holdfast.journal.ticket import Ticket
    from holdfast.store.session import Session
    from holdfast.store.write.recorder import Recorder

    Requests = Generator["_Request", Any, Any]

LARGEST_INLINE_BYTES = 64 * 1024
"""A result that is larger is stored as a blob."""

LONGEST_NAME = 100
"""Characters in the id of a run, and in a name that is given to a step."""

_KEY_DIGITS = 32
_LOOK_AGAIN_SECONDS = 1.0  # for the close of a session, and for a clock that was set
_P = ParamSpec("_P")
_R = TypeVar("_R")

Replay = Literal["never", "safe", "key"]


class StepDone(Struct, frozen=True):
    """What a replay function returns for a step that was carried out: its result."""

    value: Any = None


class Run:
    """A row of durable steps under one id. Made by ``session.run(id)``.

    Nothing is written before the first step. Steps are named in the order in which they are
    called, so a program that is started again has to call the same steps in the same order; a step
    with a name of its own may be called at any time.
    """

    def __init__(self, session: Session, recorder: Recorder, id: str) -> None:
        self.id = _checked(id, "The id of a run")
        self._session = session
        self._recorder = recorder
        self._calls: dict[str, int] = {}  # of each name, in this process
        self._begun = False
        self._first_seq = -1
        self._events: dict[str, int] = {}  # of each name the last one that was waited for

    def __repr__(self) -> str:
        """Return the id of the run and of its session."""
        return f"Run({self.id!r} of session {self._session.id})"

    @overload
    def step(
        self, *, replay: Literal["never", "safe"] = "never", name: str | None = None
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...

    @overload
    def step(
        self,
        *,
        replay: Literal["key"] | Callable[..., StepDone | Coroutine[Any, Any, Any] | None],
        name: str | None = None,
    ) -> Callable[[Callable[Concatenate[str, _P], _R]], Callable[_P, _R]]: ...

    def step(
        self, *, replay: Replay | Callable[..., Any] = "never", name: str | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Make a function, or a coroutine function, a durable step.

        A call records that the step starts, calls the function, records the result, and returns
        it as it was recorded: JSON data. A later call of the same step, also in another process,
        returns that result. An exception of the function is no result.

        Args:
            replay: what to do if the step was started earlier and has no result. ``"never"``
                raises ``StepUncertain``. ``"safe"`` runs it again. ``"key"`` runs it again with
                the same operation key. A function is asked what became of it: it returns
                ``StepDone(result)`` if the step was carried out, ``None`` if it was not and has to
                run. With ``"key"`` and a function, both get the operation key as the first
                argument, before the arguments of the call.
            name: a name of its own. All calls are then one step. If not given, the name of the
                function, and from the second call on the number of the call.

        Raises:
            StepUncertain: by a call, with ``"never"``.
            ForeignSession: by a call, if the step was recorded elsewhere and is not accepted.
            UsageError: by a call, if the run has ended, the step is running, or the result cannot
                be stored; in the last case the step was carried out and has no result.
        """
        if not callable(replay) and replay not in ("never", "safe", "key"):
            raise UsageError(f"replay is 'never', 'safe', 'key' or a function, not {replay!r}.")
        if name is not None:
            _checked(name, "The name of a step")
            if "#" in name:
                raise UsageError(f"The name of a step has no '#', which counts calls: {name!r}.")

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            called = getattr(function, "__name__", type(function).__name__)
            own_name = _checked(called, "The name of a step") if name is None else name
            drive = _awaited if inspect.iscoroutinefunction(function) else _waited

            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                step = own_name if name is not None else self._numbered(own_name)
                return drive(self._carry_out(step, own_name, replay, function, args, kwargs))

            return call

        return decorate

    def wait_for(self, event: str, *, timeout_seconds: float | None = None) -> Any:
        """Wait for an event of this name and return its data; in asyncio, await the result.

        Events are those that ``session.event(name, data)`` records after the run has begun. Each
        is returned once for each time that this is called; which one it was is recorded.

        Raises:
            TimeoutError: there was none; the same call again waits again.
        """
        _checked(event, "The name of an event")
        if timeout_seconds is not None and not timeout_seconds >= 0:
            raise UsageError(f"timeout_seconds is 0 or more, not {timeout_seconds!r}.")
        step = self._numbered(f"wait_for {event}")
        return _now_or_later(self._wait_for(step, event, timeout_seconds))

    def sleep_until(self, moment: datetime) -> Any:
        """Wait until a time; in asyncio, await the result.

        The time is recorded: a program that is started again waits for what is left of it, even if
        it gives another time.
        """
        if not isinstance(moment, datetime) or moment.utcoffset() is None:
            raise UsageError(f"Give a time with its zone, such as datetime.now(UTC), not {moment}.")
        return _now_or_later(self._sleep(self._numbered("sleep_until"), moment))

    def end(self) -> Any:
        """Record that the run has ended; in asyncio, await the result.

        Its steps are left out by the next compaction. It cannot be continued.
        """
        return _now_or_later(self._end())

    def has_ended(self) -> bool:
        """Tell whether the run has ended; reads the journal."""
        return self._session.entry(_entry_id(self.id, "ended")) is not None

    # What the requests are

    def _begin(self) -> Requests:
        """Record that the run begins, once; see that it has not ended."""
        if self.id in self._recorder.ended_runs or (
            not self._begun and (yield _Blocking(self.has_ended))
        ):
            raise UsageError(f"Run {self.id!r} has ended: use another id for another run.")
        if self._begun:
            return
        begun = Tool(self.id, "run", "begun", "unknown", run=self.id)
        ticket = self._recorder.submit([begun], _entry_id(self.id, "begun"))
        self._first_seq = (yield _Durable(ticket)).seq
        if ticket.known:
            yield _Blocking(functools.partial(self._check_own, self._first_seq))
        self._begun = True

    def _carry_out(
        self,
        step: str,
        name: str,
        replay: Replay | Callable[..., Any],
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Requests:
        yield from self._begin()
        key = self._key(step)
        if callable(replay) or replay == "key":
            args = (key, *args)
        with self._attempt(step) as attempt:
            if attempt.result is None:
                if attempt.start is None:
                    started = Tool(key, name, "started", "unknown", run=self.id, step=step, key=key)
                    id = _entry_id(self.id, "started", step)
                    attempt.start = self._recorder.submit([started], id)
                yield from attempt.durable(attempt.start)
                done = None
                if attempt.start.known:
                    begun, found = yield _Blocking(functools.partial(self._recorded, step))
                    if found is not None:
                        return self._value_of(found)
                    if replay == "never":
                        raise StepUncertain(step, begun, run=self.id, key=key)
                    if callable(replay):
                        done = yield _Call(replay, args, kwargs)
                        if done is not None and not isinstance(done, StepDone):
                            raise UsageError(
                                f"The replay function of step {step!r} returns StepDone(result), "
                                f"or None if the step was not carried out, not {done!r}."
                            )
                if done is None:
                    done = StepDone((yield _Call(function, args, kwargs)))
                attempt.result = self._complete(step, name, done.value, attempt)
            yield from attempt.durable(attempt.result)
            return attempt.value

    def _wait_for(self, step: str, event: str, timeout_seconds: float | None) -> Requests:
        yield from self._begin()
        with self._attempt(step) as attempt:
            if attempt.result is None:
                _, known = yield _Blocking(functools.partial(self._recorded, step))
                if known is not None:
                    value = self._value_of(known)
                    self._events[event] = value["seq"]
                    return value["data"]
                arrived: Future[Entry] = Future()

                def look(entry: Entry) -> None:
                    if self._is_event(entry, event) and not arrived.done():
                        arrived.set_result(entry)

                stop = self._recorder.listeners.add(look)
                try:
                    found = yield _Blocking(functools.partial(self._find_event, event))
                    if found is None:
                        found = yield _Arrival(arrived, self._recorder, timeout_seconds)
                finally:
                    stop()
                yield _Blocking(functools.partial(self._check_own, found.seq))
                value = {"seq": found.seq, "data": found.body.data}
                attempt.result = self._complete(step, "wait_for", value, attempt)
            yield from attempt.durable(attempt.result)
            self._events[event] = attempt.value["seq"]
            return attempt.value["data"]

    def _sleep(self, step: str, moment: datetime) -> Requests:
        yield from self._begin()
        with self._attempt(step) as attempt:
            if attempt.result is None:
                _, known = yield _Blocking(functools.partial(self._recorded, step))
                if known is None:
                    text = moment.astimezone(UTC).isoformat()
                    attempt.result = self._complete(step, "sleep_until", text, attempt)
                else:
                    attempt.value = self._value_of(known)
            if attempt.result is not None:
                yield from attempt.durable(attempt.result)
            yield _Pause(datetime.fromisoformat(attempt.value))

    def _end(self) -> Requests:
        yield from self._begin()
        with self._recorder.mutex:
            busy = [name for run, name in self._recorder.steps if run == self.id]
        if busy:
            raise UsageError(f"Run {self.id!r} cannot end while step {busy[0]!r} is not finished.")
        ended = Tool(self.id, "run", "ended", "unknown", run=self.id)
        yield _Durable(self._recorder.submit([ended], _entry_id(self.id, "ended")))
        self._recorder.ended_runs.add(self.id)

    # What they do

    def _numbered(self, name: str) -> str:
        count = self._calls[name] = self._calls.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def _key(self, step: str) -> str:
        """Return the operation key: the same whenever this step of this session is run."""
        parts = "/".join(
            (self._recorder.uid or self._session.id, _escaped(self.id), _escaped(step))
        )
        return sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_DIGITS]

    def _check_own(self, *seqs: int) -> None:
        """Reject what was recorded elsewhere: it would decide what is done here."""
        provenance = self._session.provenance()
        if any(provenance.is_foreign(seq) for seq in seqs):
            raise ForeignSession(
                self._session.id,
                provenance.source,
                f"continue its run {self.id!r}",
                ("the steps of that run and their results",),
                None,
            )

    def _recorded(self, step: str) -> tuple[str, Tool | None]:
        """Return when a step was started, and the entry of its result, if there is one."""
        started = self._session.entry(_entry_id(self.id, "started", step))
        completed = self._session.entry(_entry_id(self.id, "completed", step))
        found = [entry for entry in (started, completed) if entry is not None]
        self._check_own(*(entry.seq for entry in found))
        if completed is not None and not isinstance(completed.body, Tool):
            raise StorageError(f"The result of step {step!r} cannot be read: its line is damaged.")
        body = completed.body if completed is not None else None
        return found[0].at if found else "", body if isinstance(body, Tool) else None

    def _complete(self, step: str, name: str, value: Any, attempt: _Attempt) -> Ticket:
        """Have the result of a step recorded."""
        key = self._key(step)
        try:
            _, body = encode_body(
                Tool(key, name, "completed", "unknown", None, self.id, step, key, value)
            )
        except UsageError as error:
            raise UsageError(
                f"Step {step!r} was carried out, but its result cannot be stored: {error}"
            ) from error
        assert isinstance(body, Tool)
        attempt.value = body.value
        data, payloads = dumps(plain(body.value)), []
        if len(data) > LARGEST_INLINE_BYTES:
            payloads = [data]
            ref = BlobRef(sha256(data).hexdigest(), len(data), "application/json", "json")
            body = Tool(key, name, "completed", "unknown", None, self.id, step, key, blob=ref)
        return self._recorder.submit(
            [body], _entry_id(self.id, "completed", step), payloads=payloads
        )

    def _value_of(self, body: Tool) -> Any:
        if body.blob is None:
            return body.value
        data = self._session.blob(body.blob.sha256)
        if data is None:
            raise StorageError(
                f"The result of step {body.step!r} cannot be read: blobs/{body.blob.sha256} is "
                "missing or altered."
            )
        return loads(data)

    def _is_event(self, entry: Entry, event: str) -> bool:
        after = self._events.get(event, self._first_seq)
        return isinstance(entry.body, Custom) and entry.body.name == event and entry.seq > after

    def _find_event(self, event: str) -> Entry | None:
        after = self._events.get(event, self._first_seq)
        events = self._session.entries(after=after, types=["event"])
        return next((entry for entry in events if self._is_event(entry, event)), None)

    @contextmanager
    def _attempt(self, step: str) -> Iterator[_Attempt]:
        """Give what this process has done for a step so far; one caller at a time."""
        steps, place = self._recorder.steps, (self.id, step)
        with self._recorder.mutex:
            attempt: _Attempt = steps.setdefault(place, _Attempt())
            if attempt.running:
                raise UsageError(f"Step {step!r} of run {self.id!r} is running already.")
            attempt.running = True
        try:
            yield attempt
        finally:
            with self._recorder.mutex:
                attempt.running = False
                if not attempt.is_pending:
                    del steps[place]


class _Attempt:
    """What this process has done for one step.

    It stays if a caller gave up on a ticket (the disk was full, a task was cancelled): the same
    call again waits for the same entry, and a function that was not called yet is called then.
    """

    def __init__(self) -> None:
        self.running = False
        self.start: Ticket | None = None
        self.result: Ticket | None = None
        self.value: Any = None
        self._waits_for: Ticket | None = None

    def durable(self, ticket: Ticket) -> Requests:
        """Wait for a ticket."""
        self._waits_for = ticket
        yield _Durable(ticket)
        self._waits_for = None

    @property
    def is_pending(self) -> bool:
        """Whether a caller gave up on an entry that will be durable, or is."""
        return self._waits_for is not None and self._waits_for.error is None


class _Request(Protocol):
    """Something that may take a while."""

    def wait(self) -> Any:
        """Return once it is done."""

    async def later(self) -> Any:
        """Return once it is done, without blocking the event loop."""


class _Durable(Struct, frozen=True):
    """A ticket that has to be durable; its position."""

    ticket: Any

    def wait(self) -> Any:
        return self.ticket.wait()

    async def later(self) -> Any:
        return await self.ticket


class _Blocking(Struct, frozen=True):
    """A function of ours that reads the disk."""

    function: Any

    def wait(self) -> Any:
        return self.function()

    async def later(self) -> Any:
        import asyncio  # noqa: PLC0415  whoever is here has it

        return await asyncio.to_thread(self.function)


class _Call(Struct, frozen=True):
    """A function of the caller."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def wait(self) -> Any:
        return self.function(*self.args, **self.kwargs)

    async def later(self) -> Any:
        result = self.function(*self.args, **self.kwargs)
        return await result if inspect.isawaitable(result) else result


class _Arrival(Struct, frozen=True):
    """An event that is recorded while the session is open."""

    arrived: Any
    recorder: Any
    timeout_seconds: float | None

    def wait(self) -> Any:
        pauses = self._pauses()
        while True:
            seconds = next(pauses)
            with suppress(TimeoutError):
                return self.arrived.result(seconds)

    async def later(self) -> Any:
        import asyncio  # noqa: PLC0415  whoever is here has it

        waiting = asyncio.wrap_future(self.arrived)
        pauses = self._pauses()
        while not waiting.done():
            await asyncio.wait([waiting], timeout=next(pauses))
        return waiting.result()

    def _pauses(self) -> Iterator[float]:
        """Yield how long to wait, again and again until the time is over."""
        end = None if self.timeout_seconds is None else time.monotonic() + self.timeout_seconds
        while not self.recorder.closed:
            rest = _LOOK_AGAIN_SECONDS if end is None else end - time.monotonic()
            yield max(0.0, min(rest, _LOOK_AGAIN_SECONDS))
            if end is not None and time.monotonic() >= end:
                raise TimeoutError("There was no such event in that time; wait again.")
        raise UsageError("The session was closed while a run waited for an event.")


class _Pause(Struct, frozen=True):
    """A time that has to come."""

    moment: datetime

    def wait(self) -> None:
        for seconds in self._pauses():
            time.sleep(seconds)

    async def later(self) -> None:
        import asyncio  # noqa: PLC0415  whoever is here has it

        for seconds in self._pauses():
            await asyncio.sleep(seconds)

    def _pauses(self) -> Iterator[float]:
        while (rest := (self.moment - datetime.now(UTC)).total_seconds()) > 0:
            yield min(rest, _LOOK_AGAIN_SECONDS)


def _waited(requests: Requests) -> Any:
    """Do what a generator asks for, and wait."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            request = requests.send(answer) if error is None else requests.throw(error)
        except StopIteration as end:
            return end.value
        answer = error = None
        try:
            answer = request.wait()
        except BaseException as raised:  # noqa: BLE001  the generator raises it
            error = raised


async def _awaited(requests: Requests) -> Any:
    """Do what a generator asks for without blocking the event loop."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            request = requests.send(answer) if error is None else requests.throw(error)
        except StopIteration as end:
            return end.value
        answer = error = None
        try:
            answer = await request.later()
        except BaseException as raised:  # noqa: BLE001  the generator raises it
            error = raised


def _now_or_later(requests: Requests) -> Any:
    """Return the result, or in a running event loop an awaitable of it."""
    if "asyncio" in sys.modules:
        import asyncio  # noqa: PLC0415  it is there already; others are spared 20 ms

        with suppress(RuntimeError):
            asyncio.get_running_loop()
            return _awaited(requests)
    return _waited(requests)


def _checked(name: str, what: str) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not is_one_line(name):
        raise UsageError(f"{what} is 1 to {LONGEST_NAME} characters on one line, not {name!r}.")
    return name


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")


def _entry_id(run: str, state: str, step: str | None = None) -> str:
    """Return the id that an entry of a run always has."""
    parts = ["run", _escaped(run), state] if step is None else ["run", _escaped(run), state, step]
    return "/".join(parts)
