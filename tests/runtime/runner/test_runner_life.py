"""How runners begin and end: one for a session, not too many, and no longer than needed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

import holdfast
from holdfast.errors import SessionLocked, StorageError
from holdfast.model.ids import new_session_id
from holdfast.model.lock_holder import Holder
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.client import RunnerGone
from holdfast.runtime.runner import main as process
from holdfast.runtime.runner import spawn as launching
from holdfast.runtime.runner.spawn import Launch, StartFailed, start
from tests.cli.program import alive, turns, until
from tests.runtime.runner.runner_clients import gate, run

_START = """
import msgspec, sys
from holdfast.runtime.runner.spawn import Launch, start
print(start(msgspec.json.decode(sys.argv[1], type=Launch)).state)
"""
SOURCE = Path(holdfast.__file__).parents[1]


def test_of_twenty_starts_at_once_one_wins_and_the_others_attach(office):
    async def race():
        callers = await asyncio.gather(*(office.call() for _ in range(20)))
        assert len({caller.pid for caller in callers}) == 1
        seqs = await asyncio.gather(
            *(caller.submit("run: echo x >> done", id="same") for caller in callers)
        )
        assert len(set(seqs)) == 1
        await callers[0].attach()
        await callers[1].rests()

    run(race())
    assert office.lines("done") == ["x"]


def test_starts_that_all_go_through_leave_one_runner(office):
    """The processes themselves race, not only those who look before they start one."""

    async def race():
        await asyncio.gather(*(asyncio.to_thread(start, office.launch()) for _ in range(6)))
        return [await asyncio.to_thread(start, office.launch()), (await office.call()).pid]

    last, pid = run(race())
    assert last.state == "taken"
    until(lambda: [each for each in _runners() if each[1] == office.id] == [(pid, office.id)])


def _runners() -> list[tuple[int, str]]:
    """The runners of this machine: process and session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if launching._MODULE in words:
            found.append((int(path.parent.name), words[words.index(launching._MODULE) + 1]))
    return [each for each in found if alive(each[0])]


def _is_set(pid: int, variable: str) -> bool:
    given = Path(f"/proc/{pid}/environ").read_bytes()
    return any(each.startswith(f"{variable}=".encode()) for each in given.split(b"\0"))


def test_nothing_but_the_session_is_on_the_command_line(office):
    secret = "http://me:password@127.0.0.1:9/v1"
    pid = run(office.begin(provider="openai", model="m", base_url=secret))
    words = Path(f"/proc/{pid}/cmdline").read_bytes()
    assert office.id.encode() in words
    assert b"password" not in words
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")


def test_there_is_a_cap_on_runners(office):
    others = [new_session_id() for _ in range(2)]

    async def fill():
        await office.begin()
        await office.begin(session=others[0], most=2)
        with pytest.raises(StartFailed, match="2 runners are already running") as failed:
            await office.call(session=others[1], most=2)
        assert failed.value.exit_code == 2
        caller = await office.call(most=1)  # this one is there already
        await caller.ask(protocol.Stop)
        await caller.hung_up()
        await office.begin(session=others[1], most=2)

    run(fill())


def test_how_long_and_how_many_is_configured(office):
    folder = Path(os.environ["HOLDFAST_CONFIG"])
    folder.mkdir()
    (folder / "config.toml").write_text("idle_seconds = 1\nmost_runners = 1\n")

    def as_configured(session: str) -> Launch:
        launch: Launch = office.launch(session)
        return msgspec.structs.replace(launch, patience=None, most_runners=None)

    async def fill():
        first = await office.call(as_configured(office.id))
        with pytest.raises(StartFailed, match=r"1 runners are .* most_runners"):
            await office.call(as_configured(new_session_id()))
        await first.close()
        office.ended(first.pid)  # long before the minute that it would stay else

    run(fill())


def test_a_socket_that_a_dead_runner_left_is_replaced(office):
    async def revive():
        office.kill(await office.begin())
        assert office.socket().exists()
        with pytest.raises(RunnerGone):  # refused, or hung up on
            await office.call_again()
        await (await office.call()).ask(protocol.StatusOf)

    run(revive())


def test_an_idle_runner_leaves_but_not_while_somebody_is_there(office):
    async def idle():
        caller = await office.call(idle=0.05)
        await caller.attach()
        await caller.submit("say: hi")
        await caller.hears(type="turn")
        for _ in range(5):  # far longer than it would stay alone
            await caller.ask(protocol.StatusOf)
            await asyncio.sleep(0.05)
        await caller.close()
        office.ended(caller.pid)

    run(idle())
    assert not office.socket().exists()
    assert [path.name for path in office.socket().parent.iterdir()] == ["starting"]


def test_a_runner_that_is_leaving_is_waited_for_by_the_next(office):
    async def again_and_again():
        for number in range(6):
            caller = await office.call(idle=0.05 + 0.03 * number)
            await caller.attach()
            await caller.submit(f"say: {number}")
            await caller.hears(type="turn", text=str(number))
            if number % 2:
                await caller.ask(protocol.Stop)
            await caller.close()

    run(again_and_again())
    assert turns(office.journal()) == ["started", "completed"] * 6


def test_a_session_that_somebody_else_holds_is_not_waited_for(office):
    with holdfast.open_store(office.home) as store, store.create(session_id=office.id) as session:
        session.append(holdfast.user("mine"))
        with pytest.raises(StartFailed, match="is being written by") as failed:
            run(office.begin())
        assert failed.value.exit_code == 75


def test_a_socket_that_a_dead_runner_left_makes_nobody_wait_for_another_writer(office, monkeypatch):
    async def begin():
        caller = await office.call()
        await caller.attach()
        await caller.submit("say: hi")
        await caller.hears(type="turn")
        return caller.pid

    def wait(_: float) -> None:
        raise AssertionError("it is waited for")

    office.kill(run(begin()))
    assert office.socket().exists()
    with holdfast.open_store(office.home) as store, store.open(office.id):
        monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=time.monotonic, sleep=wait))
        with pytest.raises(SessionLocked):
            process._opened(office.launch(), office.socket())


def test_who_holds_a_session_since_before_its_socket_was_made_is_its_runner(office):
    run(office.begin())
    made = office.socket().stat().st_mtime
    before, after = (
        Holder(1, "here", datetime.fromtimestamp(made + seconds, UTC).isoformat())
        for seconds in (-1, 1)
    )
    assert process._is_leaving(before, office.socket())
    assert not process._is_leaving(after, office.socket())
    assert not process._is_leaving(Holder(), office.socket())
    assert not process._is_leaving(before, office.file("none"))


@pytest.mark.parametrize("busy", [False, True])
def test_a_runner_leaves_when_its_session_is_deleted(office, busy):
    async def delete():
        caller = await office.call()
        await caller.attach()
        await caller.submit("say: hi")
        await caller.hears(type="turn")
        if busy:
            await caller.submit(f"run: {gate('x')}\nrun: echo more >> done")
            until(office.file("x.begun").exists)
        (folder,) = office.home.glob("sessions/*/*")
        shutil.rmtree(folder)
        office.file("x.go").touch()
        await caller.hung_up()
        assert any("gone" in each for each in [*caller.notes, caller.heard[-1].get("why", "")])
        office.ended(caller.pid)
        assert not folder.exists()

    run(delete())
    assert office.lines("done") == []


@pytest.mark.parametrize("born", [False, True])
def test_a_runner_leaves_when_the_home_is_removed_and_makes_nothing_anew(office, born):
    async def remove():
        caller = await office.call()
        await caller.attach()
        if born:
            await caller.submit(f"run: {gate('x')}\nrun: echo more >> done")
            until(office.file("x.begun").exists)
        office.home.rename(office.home.with_name("away"))
        shutil.rmtree(office.home.with_name("away"))
        office.file("x.go").touch()
        if not born:
            (office.home / "sessions").parent.mkdir(exist_ok=True)
            office.home.rmdir()
        await caller.hung_up()
        told = [*caller.notes, *(each["why"] for each in caller.all(type="bye"))]
        assert any("gone" in each for each in told), told
        office.ended(caller.pid)
        assert not office.home.exists()
        with pytest.raises(RunnerGone, match="There is no runner"):
            await office.call_again()

    run(remove())
    assert office.lines("done") == []


def test_a_signal_saves_and_leaves_and_a_hang_up_means_nothing(office):
    async def end():
        caller = await office.call()
        await caller.attach()
        await caller.submit(f"run: echo out; {gate('x')}")
        held = await caller.submit("run: echo later >> done")
        until(office.file("x.begun").exists)
        os.kill(caller.pid, signal.SIGHUP)
        await caller.ask(protocol.StatusOf)
        os.kill(caller.pid, signal.SIGTERM)
        await caller.hung_up()
        assert caller.all(type="bye")[0]["why"] == "SIGTERM"
        office.ended(caller.pid)
        return held

    held = run(end())
    assert turns(office.journal()) == ["started", "cancelled"]
    with holdfast.open_store(office.home) as store, store.open(office.id) as session:
        assert session.state.queue == [held]
        assert session.recovery.interrupted == []
    assert office.lines("done") == []


def test_a_runner_is_in_a_process_session_of_its_own_and_leaves_no_zombie(office):
    async def look():
        caller = await office.call()
        assert os.getsid(caller.pid) == caller.pid != os.getsid(0)
        await caller.ask(protocol.Stop)
        until(lambda: not Path(f"/proc/{caller.pid}").exists(), "the zombie is buried")

    run(look())


def test_a_start_that_cannot_be_says_why(office, monkeypatch):
    with pytest.raises(StartFailed, match="anthropic") as failed:
        run(office.begin(provider="anthropic"))
    assert failed.value.exit_code == 4
    monkeypatch.setattr(launching, "_BEGIN", "raise SystemExit('no interpreter of ours')")
    assert "did not start. For details see" in start(office.launch()).error
    assert "no interpreter of ours" in office.log()
    monkeypatch.setattr(launching, "_BEGIN", "import time; time.sleep(600)")
    monkeypatch.setattr(launching, "_START_SECONDS", 0.05)
    assert "did not start" in start(office.launch()).error
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(StorageError, match="cannot be started"):
        start(office.launch())


def test_a_program_that_is_run_from_its_source_folder_starts_runners_from_there(office, tmp_path):
    """No path of the interpreter's leads there but the folder that the program is run in."""
    shutil.copytree(SOURCE / "holdfast", tmp_path / "holdfast")
    environment = {name: each for name, each in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", _START, msgspec.json.encode(office.launch()).decode()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "ready", done.stderr + done.stdout

    async def ask():
        caller = await office.call_again()
        assert not _is_set(caller.pid, "PYTHONPATH"), "commands would inherit it"
        await caller.ask(protocol.Stop)
        await caller.hung_up()

    run(ask())


def test_the_package_may_be_removed_in_mid_turn(office, tmp_path):
    """The turn, further tools of every kind, further prompts, a compaction: all go on."""
    shutil.copytree(SOURCE / "holdfast", tmp_path / "installed" / "holdfast")
    done = subprocess.run(
        [sys.executable, "-c", _START, msgspec.json.encode(office.launch()).decode()],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "ready", done.stderr

    async def go_on():
        caller = await office.call_again()
        await caller.attach()
        await caller.submit(f"run: {gate('x')}\nwrite: new.txt\nhello\n")
        until(office.file("x.begun").exists)
        shutil.rmtree(tmp_path / "installed")
        office.file("x.go").touch()
        assert (await caller.hears(type="turn"))["state"] == "completed"
        office.file("x.go").unlink()
        await caller.submit("read: new.txt\ngrep: hell\nglob: *.txt\nrun: echo out\nsay: {result}")
        ended = await caller.hears(type="turn", times=2)
        assert (ended["state"], ended["text"]) == ("completed", "out")
        await caller.ask(protocol.Compact)
        await caller.until(lambda: caller.notes)
        with pytest.raises(Exception, match="key"):
            await caller.ask(protocol.SetModel, provider="openai")
        await caller.submit("fail: 400")
        assert (await caller.hears(type="turn", times=3))["state"] == "failed"
        late = await office.call_again()
        await late.attach()
        assert late.seqs == caller.seqs
        await caller.ask(protocol.Stop)
        await caller.hung_up()
        assert caller.heard[-1]["type"] == "bye"

    run(go_on())
    assert not office.socket().with_suffix(".log").exists(), office.log()
    assert office.file("new.txt").read_text() == "hello\n"


def test_twenty_runners_at_once_stay_small(office, record_property):
    sessions = [new_session_id() for _ in range(20)]

    async def work():
        callers = await asyncio.gather(*(office.call(session=each) for each in sessions))
        for caller in callers:
            await caller.attach()
            await caller.submit("run: echo x >> done\nsay: {result}")
        sizes = []
        for caller in callers:
            await caller.hears(type="turn", state="completed")
            sizes.append((await caller.ask(protocol.StatusOf))["status"]["memory_bytes"])
        for caller in callers:
            await caller.ask(protocol.Stop)
        return sizes

    sizes = run(work())
    record_property("largest_runner_mb", max(sizes) / 1e6)
    print(f"20 runners: {min(sizes) / 1e6:.0f} to {max(sizes) / 1e6:.0f} MB each")
    assert max(sizes) < 60e6
    assert len(office.lines("done")) == 20


def test_a_stopped_runner_is_alive(office):
    """It is not taken for dead: a second one would fight it for the session."""

    async def stopped():
        pid = await office.begin()
        os.kill(pid, signal.SIGSTOP)
        try:
            assert start(office.launch()).state == "taken"
        finally:
            os.kill(pid, signal.SIGCONT)

    run(stopped())
