"""Waiting for an append: blocking, with a time-out, from asyncio; and errors nobody awaited."""

from __future__ import annotations

import asyncio
import errno
import gc
import threading

import pytest

from holdfast.errors import DiskFull, WriteFailed
from holdfast.files import Files
from holdfast.journal.ticket import LoopWaker, Ticket
from tests.journal.writer_on_files import Desk


@pytest.fixture
def desk(tmp_path, files):
    desk = Desk(files, tmp_path / "session")
    desk.append("a")
    files.calls.clear()
    yield desk
    files.heal()
    desk.writer.close()


def break_for_good(desk) -> None:
    """Let the next sync fail, and the change to another file too."""
    desk.files.fail("sync", name="journal.jsonl")
    desk.files.fail("open_append", name=".2.")


@pytest.fixture
def slow_sync(desk):
    """Let the next sync wait for an event; return (entered, go on)."""
    inside, gate = threading.Event(), threading.Event()
    descriptor = desk.log.place.descriptor

    def slow() -> None:
        inside.set()
        gate.wait()
        Files().sync(descriptor)

    desk.files.on("sync", slow)
    yield inside, gate
    gate.set()


class TestWaiting:
    def test_a_done_ticket_answers_at_once_and_again(self, desk):
        ticket = desk.append("b")
        assert ticket.done
        assert ticket.wait() == ticket.wait(0) == ticket.position

    def test_a_ticket_without_a_writer_is_done(self, desk):
        entry = desk.on_disk()[-1]
        assert Ticket(None, [], entries=[entry]).wait() == entry.position

    def test_a_time_out_does_not_withdraw_the_entry(self, desk, slow_sync):
        inside, gate = slow_sync
        leader = threading.Thread(target=desk.append, args=("b",))
        leader.start()
        inside.wait()
        ticket = desk.submit("c")
        for seconds in (0, 0.001):
            with pytest.raises(TimeoutError, match="still being written"):
                ticket.wait(seconds)
        assert not ticket.done
        gate.set()
        leader.join()
        other = threading.Thread(target=desk.writer.drain)
        other.start()
        assert ticket.wait(1e100).seq == 3
        other.join()
        assert desk.texts() == ["a", "b", "c"]

    def test_whoever_has_a_time_out_does_not_write(self, desk):
        """On a disk that hangs it could not leave in time."""
        ticket = desk.submit("b")
        for seconds in (-1, 0, 0.01):
            with pytest.raises(TimeoutError, match="still being written"):
                ticket.wait(seconds)
        assert desk.texts() == ["a"]
        desk.writer.drain()
        assert ticket.wait(0).seq == 2

    def test_a_full_disk_is_told_before_the_time_is_over(self, desk, eventually):
        ticket = desk.submit("b")
        told: list[BaseException] = []

        def wait() -> None:
            try:
                ticket.wait(60)
            except DiskFull as error:
                told.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        eventually(lambda: ticket.callbacks)
        with desk.files.full_disk():
            desk.writer.drain()
        waiting.join()
        assert told
        desk.writer.drain()

    def test_disk_full_then_room(self, desk):
        ticket = desk.submit("b")
        with desk.files.full_disk():
            for _ in range(3):
                with pytest.raises(DiskFull):
                    ticket.wait()
        assert ticket.refusals == 3
        assert ticket.wait().seq == 2


class TestUnseenErrors:
    def test_an_error_nobody_waited_for_is_raised_by_the_next_call_once(self, desk):
        break_for_good(desk)
        desk.submit("b")
        desk.submit("c")
        desk.writer.drain()
        with pytest.raises(WriteFailed):
            desk.writer.raise_unseen()
        desk.writer.raise_unseen()

    def test_by_the_next_append(self, desk):
        break_for_good(desk)
        desk.submit("b")
        desk.writer.drain()
        with pytest.raises(WriteFailed):
            desk.submit("c")
        desk.writer.raise_unseen()

    def test_an_error_that_was_seen_is_not_told_again(self, desk):
        break_for_good(desk)
        ticket = desk.submit("b")
        with pytest.raises(WriteFailed):
            ticket.wait()
        desk.writer.raise_unseen()
        with pytest.raises(WriteFailed):  # but whoever asks is told
            ticket.wait()

    def test_entries_queued_meanwhile_fail_too(self, desk):
        descriptor_sync = threading.Event()
        tickets: list[Ticket] = []

        def fail() -> None:
            tickets.append(desk.submit("queued meanwhile"))
            descriptor_sync.set()
            raise OSError(errno.EIO, "broken")

        desk.files.on("sync", fail)
        desk.files.fail("open_append", name=".2.")
        with pytest.raises(WriteFailed):
            desk.append("b")
        (late,) = tickets
        assert late.done
        with pytest.raises(WriteFailed) as caught:
            late.wait()
        assert caught.value.last_durable == 1


class TestAwait:
    """``await ticket`` never blocks the loop; a thread does the writing, as the pool would."""

    def test_it_returns_the_position(self, desk):
        async def main():
            ticket = desk.submit("b")
            writing = asyncio.create_task(asyncio.to_thread(desk.writer.drain))
            position = await ticket
            await writing
            assert await ticket == position
            return position

        assert asyncio.run(main()).seq == 2

    def test_many_await_one_ticket(self, desk):
        async def main():
            ticket = desk.submit("b")

            async def wait():
                return await ticket

            waiters = [asyncio.create_task(wait()) for _ in range(5)]
            await asyncio.sleep(0)
            await asyncio.to_thread(desk.writer.drain)
            return {position.seq for position in await asyncio.gather(*waiters)}

        assert asyncio.run(main()) == {2}

    def test_a_cancelled_await_does_not_withdraw_the_entry(self, desk):
        async def main():
            ticket = desk.submit("b")

            async def wait():
                await ticket

            waiter = asyncio.create_task(wait())
            await asyncio.sleep(0)
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
            assert not ticket.done
            await asyncio.to_thread(desk.writer.drain)
            await asyncio.sleep(0)  # the wake-up finds a cancelled future
            return await ticket

        assert asyncio.run(main()).seq == 2
        assert desk.texts() == ["a", "b"]

    def test_a_time_out_of_asyncio(self, desk):
        async def main():
            ticket = desk.submit("b")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await ticket
            await asyncio.to_thread(desk.writer.drain)
            return await ticket

        assert asyncio.run(main()).seq == 2

    def test_a_full_disk_is_raised_and_the_ticket_can_be_awaited_again(self, desk):
        async def main():
            ticket = desk.submit("b")
            with desk.files.full_disk():
                for _ in range(3):
                    writing = asyncio.create_task(asyncio.to_thread(desk.writer.drain))
                    with pytest.raises(DiskFull) as caught:
                        await ticket
                    assert caught.value.pending == (2,)
                    await writing
            writing = asyncio.create_task(asyncio.to_thread(desk.writer.drain))
            position = await ticket
            await writing
            return position

        assert asyncio.run(main()).seq == 2
        assert desk.texts() == ["a", "b"]

    def test_a_failure_is_raised(self, desk):
        break_for_good(desk)

        async def main():
            ticket = desk.submit("b")
            writing = asyncio.create_task(asyncio.to_thread(desk.writer.drain))
            with pytest.raises(WriteFailed):
                await ticket
            await writing
            with pytest.raises(WriteFailed):
                await ticket

        asyncio.run(main())
        desk.writer.raise_unseen()

    def test_an_interrupted_round_is_waited_for_until_it_is_durable(self, desk):
        """Whoever leads may be interrupted: that wakes the task, but nothing is durable yet."""

        def interrupt() -> None:
            raise KeyboardInterrupt

        desk.files.on("sync", interrupt)

        def lead() -> bool:
            try:
                desk.writer.drain()
            except KeyboardInterrupt:
                return True
            return False

        async def main():
            ticket = desk.submit("b")

            async def wait():
                return await ticket

            waiter = asyncio.create_task(wait())
            await asyncio.sleep(0)
            assert await asyncio.to_thread(lead)
            for _ in range(5):
                await asyncio.sleep(0)
            assert not waiter.done()
            await asyncio.to_thread(desk.writer.drain)
            return await waiter

        assert asyncio.run(main()).seq == 2

    def test_a_loop_that_was_closed_before_the_end_harms_nobody(self, desk):
        loop = asyncio.new_event_loop()
        ticket = desk.submit("b")

        async def wait():
            await ticket

        task = loop.create_task(wait())
        loop.run_until_complete(asyncio.sleep(0))
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()
        desk.append("c")
        assert ticket.done
        assert desk.texts() == ["a", "b", "c"]
        del task, loop
        gc.collect()

    def test_a_ticket_that_is_settled_before_it_is_subscribed_to(self, desk):
        """Between the look and the subscription another thread may be faster."""

        async def main():
            ticket = desk.submit("b")
            real = desk.writer.subscribe

            def late(ticket, callback):
                desk.writer.drain()
                return real(ticket, callback)

            desk.writer.subscribe = late
            return await ticket

        assert asyncio.run(main()).seq == 2


class TestLoopWaker:
    @pytest.fixture
    def loop(self):
        loop = asyncio.new_event_loop()
        yield loop
        loop.close()

    @pytest.fixture
    def wakes(self, loop, monkeypatch):
        """Count how often the loop is woken."""
        calls: list[object] = []
        real = loop.call_soon_threadsafe

        def call(callback, *given):
            calls.append(callback)
            return real(callback, *given)

        monkeypatch.setattr(loop, "call_soon_threadsafe", call)
        return calls

    def test_futures_that_end_together_wake_the_loop_once(self, loop, wakes):
        waker = LoopWaker()
        futures = [loop.create_future() for _ in range(100)]
        for future in futures:
            waker.wake(loop, future)
        assert len(wakes) == 1
        loop.run_until_complete(asyncio.gather(*futures))
        later = loop.create_future()
        waker.wake(loop, later)
        assert len(wakes) == 2
        loop.run_until_complete(later)

    def test_a_loop_that_is_woken_twice_finds_nothing_the_second_time(self, loop, wakes):
        """As after an interrupt between waking it and taking note of that."""
        waker = LoopWaker()
        futures = [loop.create_future() for _ in range(2)]
        for future in futures:
            waker.wake(loop, future)
            waker._inboxes[loop].announced = False
        assert len(wakes) == 2
        loop.run_until_complete(asyncio.gather(*futures))
        loop.run_until_complete(asyncio.sleep(0))

    def test_a_cancelled_future_does_not_harm_the_others(self, loop):
        waker = LoopWaker()
        futures = [loop.create_future() for _ in range(2)]
        futures[0].cancel()
        for future in futures:
            waker.wake(loop, future)
        loop.run_until_complete(futures[1])

    def test_closed_loops_are_forgotten(self, loop):
        waker = LoopWaker()
        before, after = asyncio.new_event_loop(), asyncio.new_event_loop()
        waker.wake(before, before.create_future())
        before.close()
        closed = after.create_future()
        after.close()
        waker.wake(after, closed)
        waker.wake(loop, loop.create_future())
        assert list(waker._inboxes) == [loop]

    def test_a_forked_child_forgets_what_was_to_be_woken(self, loop):
        waker = LoopWaker()
        waker.wake(loop, loop.create_future())
        waker.reset()
        assert not waker._inboxes
