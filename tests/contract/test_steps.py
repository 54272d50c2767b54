"""Durable steps: recorded before they run, their results returned ever after."""

from __future__ import annotations

import asyncio
import functools
import threading
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast import StepDone, StepUncertain, StorageError, Tool, UsageError, user
from holdfast.model.message import BlobRef
from holdfast.store import steps
from holdfast.store.types import Provenance

LARGE = {"rows": ["value " * 20 for _ in range(1000)]}


@pytest.fixture
def session(store):
    with store.create() as session:
        yield session


class Crash(BaseException):
    """Stands for the end of a process: no result is recorded."""


def crashed(run, name="charge", **options):
    """Start a step that does not come to an end."""

    def function(*_):
        raise Crash

    function.__name__ = name
    with pytest.raises(Crash):
        run.step(**options)(function)()


def states(session):
    tools = session.entries(types=["tool"])
    return [(entry.body.state, entry.body.step) for entry in tools]


@pytest.mark.parametrize("value", [None, 0, "text", [1, {"deep": [True, None]}], LARGE])
def test_the_second_call_returns_the_first_result(store, value):
    calls = []

    def look(number):
        calls.append(number)
        return value

    with store.create() as session:
        assert session.run("order-7").step()(look)(1) == value
        assert session.run("order-7").step()(look)(2) == value
    with store.open(session.id) as again:
        assert again.run("order-7").step()(look)(3) == value
        assert states(again) == [("begun", None), ("started", "look"), ("completed", "look")]
    assert calls == [1]
    assert store.verify(session.id).ok


def test_the_first_call_returns_what_later_calls_will(session):
    assert session.run("a").step()(lambda: (1, {2: "two"}.get(2)))() == [1, "two"]


def test_steps_are_no_messages_and_do_not_move_the_head(store, session):
    place = session.append(user("hello"))
    session.run("order-7").step()(lambda: 1)()
    assert session.head == place.seq
    assert [m.text for m in session.messages] == ["hello"]
    assert all(entry.parent == -1 for entry in session.entries(types=["tool"]))
    session.append(user("again"))
    with pytest.raises(UsageError, match="no message or checkpoint"):
        session.rewind(place.seq + 1)
    session.close()
    with store.open(session.id) as again:
        assert [m.text for m in again.messages] == ["hello", "again"]
        assert [entry.type for entry in again.branch()] == ["message", "message"]


def test_each_call_of_a_function_is_a_step(session):
    calls = []

    def program():
        run = session.run("order-7")

        @run.step()
        def ship(parcel):
            calls.append(parcel)
            return f"shipped {parcel}"

        return [ship(parcel) for parcel in "abc"]

    assert program() == program() == ["shipped a", "shipped b", "shipped c"]
    assert calls == ["a", "b", "c"]
    assert [step for state, step in states(session) if state == "started"] == [
        "ship",
        "ship#2",
        "ship#3",
    ]


def test_all_calls_of_a_step_with_a_name_are_one(session):
    calls = []

    def charge(number):
        calls.append(number)
        return number

    step = session.run("order-7").step(name="charge")(charge)
    assert (step(1), step(2), calls) == (1, 1, [1])


def test_runs_do_not_share_steps(session):
    for run, step in (("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c")):
        assert session.run(run).step(name=step)(lambda value: value)(run + step) == run + step


def test_a_callable_without_a_name_is_named_by_its_type(session):
    session.run("a").step()(functools.partial(int, "7"))()
    assert states(session)[1:] == [("started", "partial"), ("completed", "partial")]


# A step that was started and has no result


def test_never_raises_step_uncertain(store):
    with store.create() as session:
        crashed(session.run("order-7"))
    with store.open(session.id) as again:
        started = next(e for e in again.entries(types=["tool"]) if e.body.state == "started")
        for _ in range(2):
            step = again.run("order-7").step(name="charge")(lambda: pytest.fail("was run"))
            with pytest.raises(StepUncertain, match="'charge' of run 'order-7'") as raised:
                step()
            assert (raised.value.step, raised.value.started) == ("charge", started.at)
            assert (raised.value.run, raised.value.key) == ("order-7", started.body.key)


def test_an_exception_is_no_result(session):
    with pytest.raises(ZeroDivisionError):
        session.run("a").step(name="x")(lambda: 1 / 0)()
    with pytest.raises(StepUncertain):
        session.run("a").step(name="x")(lambda: 1)()
    assert session.run("a").step(name="x", replay="safe")(lambda: 2)() == 2
    assert session.run("a").step(name="x")(lambda: 3)() == 2


def test_safe_runs_again(session):
    crashed(session.run("a"), replay="safe")
    assert session.run("a").step(name="charge", replay="safe")(lambda: "done")() == "done"
    assert session.run("a").step(name="charge")(lambda: pytest.fail("was run"))() == "done"


def test_key_runs_again_with_the_same_key(store):
    keys = []

    def charge(key, amount):
        keys.append((key, amount))
        if len(keys) == 1:
            raise Crash
        return amount

    with store.create() as session, pytest.raises(Crash):
        session.run("a").step(replay="key")(charge)(5)
    with store.open(session.id) as again:
        assert again.run("a").step(replay="key")(charge)(5) == 5
        again.run("b").step(replay="key")(charge)(6)
    with store.create() as other:
        other.run("a").step(replay="key")(charge)(7)
    assert keys[0] == keys[1]
    assert len({key for key, _ in keys}) == 3
    assert all(len(key) == 32 for key, _ in keys)


@pytest.mark.parametrize("outcome", [StepDone("by reconcile"), None])
def test_reconcile_says_what_became_of_it(session, outcome):
    asked = []

    def reconcile(key, amount):
        asked.append((key, amount))
        return outcome

    def charge(key, amount):
        asked.append((key, amount))
        return "by charge"

    crashed(session.run("a"), replay=reconcile)
    assert asked == []
    found = session.run("a").step(replay=reconcile)(charge)(5)
    assert found == ("by charge" if outcome is None else "by reconcile")
    assert session.run("a").step(replay=reconcile)(charge)(5) == found
    assert len(set(asked)) == 1
    assert len(asked) == (2 if outcome is None else 1)


def test_reconcile_returns_nothing_else(session):
    crashed(session.run("a"))
    with pytest.raises(UsageError, match=r"returns StepDone\(result\)"):
        session.run("a").step(name="charge", replay=lambda _: True)(lambda _: 1)()


def test_a_result_that_cannot_be_stored_leaves_the_step_uncertain(session):
    with pytest.raises(UsageError, match="was carried out, but its result cannot be stored"):
        session.run("a").step(name="x")(object)()
    with pytest.raises(StepUncertain):
        session.run("a").step(name="x")(lambda: 1)()


# Both kinds of functions


def test_coroutine_functions_are_steps(store):
    calls = []

    async def fetch(number):
        await asyncio.sleep(0)
        calls.append(number)
        return [number]

    async def program(session):
        run = session.run("a")
        step = run.step()(fetch)
        results = list(await asyncio.gather(step(1), step(2)))
        session.event("paid", {"by": "card"})
        results.append(await run.wait_for("paid"))
        await run.sleep_until(datetime.now(UTC) + timedelta(milliseconds=20))
        return results

    with store.create() as session:
        first = asyncio.run(program(session))
    with store.open(session.id) as again:
        assert asyncio.run(program(again)) == first == [[1], [2], {"by": "card"}]

        async def end():
            await again.run("a").end()

        asyncio.run(end())
        assert again.run("a").has_ended()
    assert calls == [1, 2]


@pytest.mark.parametrize("is_async", [True, False])
def test_coroutine_functions_may_be_asked_either_way(session, is_async):
    def told(_):
        return StepDone(8)

    async def told_later(_):
        return StepDone(8)

    async def fetch(_):
        raise Crash

    step = session.run("a").step(name="x", replay=told_later if is_async else told)(fetch)
    with pytest.raises(Crash):
        asyncio.run(step())
    assert asyncio.run(step()) == 8


def test_a_cancelled_task_may_call_again(session):
    async def program():
        started = asyncio.Event()
        calls = []

        async def wait():
            calls.append(1)
            started.set()
            if len(calls) == 1:
                await asyncio.Event().wait()
            return len(calls)

        step = session.run("a").step(name="x", replay="safe")(wait)
        task = asyncio.create_task(step())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await step()

    assert asyncio.run(program()) == 2


def test_a_function_is_called_once_if_the_wait_for_its_start_was_given_up(session, monkeypatch):
    """The disk was full, say: what was not run may run, what was run is not run again."""
    calls = []

    def charge():
        calls.append(1)
        return 7

    step = session.run("a").step(name="x")(charge)
    real = holdfast.Ticket.wait
    failing = ["started", "completed"]

    def wait(ticket, timeout_seconds=None):
        position = real(ticket, timeout_seconds)
        body = ticket.drafts[-1][1]
        if isinstance(body, Tool) and body.state in failing:
            failing.remove(body.state)
            raise holdfast.DiskFull("/", (1,))
        return position

    monkeypatch.setattr(holdfast.Ticket, "wait", wait)
    with pytest.raises(holdfast.DiskFull):
        step()
    assert calls == []
    with pytest.raises(holdfast.DiskFull):
        step()
    assert (calls, step(), step(), calls) == ([1], 7, 7, [1])


def test_a_step_runs_once_at_a_time(session):
    inside, go_on = threading.Event(), threading.Event()

    def slow():
        inside.set()
        assert go_on.wait(60)
        return 1

    results = []
    step = session.run("a").step(name="slow", replay="safe")(slow)
    thread = threading.Thread(target=lambda: results.append(step()))
    thread.start()
    assert inside.wait(60)
    with pytest.raises(UsageError, match="is running already"):
        session.run("a").step(name="slow", replay="safe")(slow)()
    with pytest.raises(UsageError, match="'slow' is not finished"):
        session.run("a").end()
    go_on.set()
    thread.join()
    assert results == [1]
    session.run("a").end()


# Waiting


def test_events_are_returned_once_and_in_order(store):
    with store.create() as session:
        session.event("paid", "before the run")
        session.run("a").step()(lambda: 1)()
        session.event("paid", 1)
        session.event("other", 0)
        session.event("paid", 2)
        run = session.run("a")
        assert [run.wait_for("paid"), run.wait_for("paid")] == [1, 2]
        with pytest.raises(TimeoutError):
            run.wait_for("paid", timeout_seconds=0)
    with store.open(session.id) as again:
        run = again.run("a")
        again.event("paid", 3)
        assert [run.wait_for("paid") for _ in range(3)] == [1, 2, 3]


def test_an_event_that_comes_later_is_waited_for(session, monkeypatch):
    run = session.run("a")
    run.step()(lambda: 1)()
    original = steps._Arrival.wait

    def wait(request):
        threading.Thread(target=session.event, args=("paid", {"by": "card"})).start()
        return original(request)

    monkeypatch.setattr(steps._Arrival, "wait", wait)
    assert run.wait_for("paid") == {"by": "card"}


def test_a_task_waits_for_an_event(session):
    async def program():
        run = session.run("a")
        waiting = asyncio.create_task(run.wait_for("paid"))
        await asyncio.sleep(0.02)
        await session.submit(holdfast.Custom("other"))
        await session.submit(holdfast.Custom("paid", 9))
        await session.submit(holdfast.Custom("paid", 10))
        with pytest.raises(TimeoutError):
            await run.wait_for("never", timeout_seconds=0.01)
        return await waiting

    assert asyncio.run(program()) == 9


def test_a_wait_ends_with_the_session(store):
    session = store.create()
    run = session.run("a")
    run.step()(lambda: 1)()
    errors = []

    def wait():
        try:
            run.wait_for("paid")
        except UsageError as error:
            errors.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    session.close()
    thread.join()
    assert len(errors) == 1
    assert "closed" in errors[0]


def test_the_first_time_counts(store):
    past = datetime(2026, 1, 1, tzinfo=UTC)
    with store.create() as session:
        session.run("a").sleep_until(past)
        session.run("a").sleep_until(datetime(2099, 1, 1, tzinfo=UTC))
        session.run("a").sleep_until(past)
        begun = datetime.now(UTC)
        moment = begun + timedelta(milliseconds=30)
        session.run("b").sleep_until(moment)
        assert datetime.now(UTC) >= moment


# The end, compactions, forks


def test_steps_stay_until_the_run_has_ended(store):
    with store.create() as session:
        session.append(user("hello"))
        for name in ("a", "b"):
            session.run(name).step(name="x")(lambda: LARGE)()
        crashed(session.run("b"))
        session.checkpoint("so far")
        session.compact()
        session.run("a").end()
        session.compact()
        assert states(session) == [
            ("begun", None),
            ("started", "x"),
            ("completed", "x"),
            ("started", "charge"),
            ("ended", None),
        ]
    with store.open(session.id) as again:
        assert again.run("b").step(name="x")(lambda: pytest.fail("was run"))() == LARGE
        with pytest.raises(StepUncertain):
            again.run("b").step(name="charge")(lambda: 1)()
        assert again.run("a").has_ended()
        assert not again.run("b").has_ended()
    assert store.verify(session.id).ok


def test_a_run_that_has_ended_is_not_continued(store):
    with store.create() as session:
        run, other = session.run("a"), session.run("a")
        other.step(name="x")(lambda: 1)()
        run.end()
        for each in (run, other, session.run("a")):
            with pytest.raises(UsageError, match="Run 'a' has ended"):
                each.step(name="y")(lambda: pytest.fail("was run"))()
    with store.open(session.id) as again, pytest.raises(UsageError, match="has ended"):
        again.run("a").wait_for("paid")


def test_forks_leave_steps_out(session):
    session.append(user("hello"))
    run = session.run("a")
    run.step(name="x")(lambda: 1)()
    session.append(user("again"))
    with session.fork(events=True) as fork:
        assert [m.text for m in fork.messages] == ["hello", "again"]
        assert states(fork) == []
        assert fork.run("a").step(name="x")(lambda: 2)() == 2


def test_runs_recorded_elsewhere_are_not_continued(session, monkeypatch):
    session.run("a").step(name="x")(lambda: 1)()
    event = session.event("paid", 1)
    monkeypatch.setattr(type(session), "provenance", lambda _: Provenance([(0, event.seq)]))
    with pytest.raises(holdfast.ForeignSession, match="continue its run 'a'"):
        session.run("a").step(name="x")(lambda: pytest.fail("was run"))()
    monkeypatch.setattr(type(session), "provenance", lambda _: Provenance([(event.seq, None)]))
    with pytest.raises(holdfast.ForeignSession):
        session.run("a").wait_for("paid")
    assert session.run("a").step(name="x")(lambda: pytest.fail("was run"))() == 1


# What is damaged or wrong


def test_a_result_whose_blob_is_missing_is_reported(session):
    crashed(session.run("a"))
    blob = BlobRef("0" * 64, 5, "application/json", "json")
    body = Tool("k", "charge", "completed", "unknown", run="a", step="charge", blob=blob)
    session.append(body, id="run/a/completed/charge")
    with pytest.raises(StorageError, match="blobs/0000"):
        session.run("a").step(name="charge")(lambda: 1)()


def test_a_result_that_is_none_is_reported(session):
    crashed(session.run("a"))
    session.append(user("x"), id="run/a/completed/charge")
    with pytest.raises(StorageError, match="its line is damaged"):
        session.run("a").step(name="charge")(lambda: 1)()


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", 7, None])
def test_the_id_of_a_run_is_checked(session, name):
    with pytest.raises(UsageError, match="The id of a run is 1 to 100 characters"):
        session.run(name)


def test_arguments_are_checked(store, session):
    run = session.run("a")
    for wrong in ("often", None, 7):
        with pytest.raises(UsageError, match="replay is 'never', 'safe', 'key' or a function"):
            run.step(replay=wrong)
    for wrong in ("", 7, "x" * 101):
        with pytest.raises(UsageError, match="The name of a step is"):
            run.step(name=wrong)
    with pytest.raises(UsageError, match="has no '#'"):
        run.step(name="x#2")
    with pytest.raises(UsageError, match="The name of an event is"):
        run.wait_for("")
    with pytest.raises(UsageError, match="timeout_seconds is 0 or more"):
        run.wait_for("x", timeout_seconds=-1)
    for moment in (datetime(2026, 1, 1), 7, "tomorrow"):  # noqa: DTZ001  that is what is wrong
        with pytest.raises(UsageError, match="a time with its zone"):
            run.sleep_until(moment)
    assert repr(run) == f"Run('a' of session {session.id})"
    session.append(user("x"))
    session.close()
    with pytest.raises(UsageError, match="is closed"):
        session.run("a")
    with store.open(session.id, mode="read") as again, pytest.raises(UsageError, match="read-only"):
        again.run("a")
