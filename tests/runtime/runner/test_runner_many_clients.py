"""Many clients, and bad ones: all see the same, and none of them slows a turn."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

from tests.cli.program import until
from tests.runtime.runner.runner_clients import gate, run

_FOLLOWS = """
import json, socket, sys
line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
line.connect(sys.argv[1])
line.sendall(b'{"type":"hello","id":"h","protocol":1,"version":"1"}\\n')
line.sendall(b'{"type":"attach","id":"a","after":%d}\\n' % int(sys.argv[2]))
try:
    for each in line.makefile("rb"):
        if not each.endswith(b"\\n"):
            break
        heard = json.loads(each)
        if heard["type"] in ("entry", "state"):
            print(heard["entry"]["seq"] if heard["type"] == "entry" else heard["state"], flush=True)
except OSError:
    pass
print("gone", flush=True)
"""


def _follower(path: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", _FOLLOWS, path, "-1"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_a_stopped_client_never_slows_the_turn_is_dropped_and_catches_up(office):
    """Many megabytes are streamed past it, and past another that never reads at all."""
    much = {"call": "bash", "arguments": {"command": "yes 0123456789 | head -c 1000000; sleep 0.1"}}
    first = {"call": "bash", "arguments": {"command": gate("x")}}
    script = office.script(
        first, {"calls": [much] * 8}, {"calls": [much] * 8}, {"say": "all of it"}
    )

    async def stall():
        caller = await office.call(script=script)
        await caller.attach(live=False)
        follower = _follower(str(office.socket()))
        never_reads = await asyncio.open_unix_connection(office.socket(), limit=1)
        never_reads[1].write(b'{"type":"hello","id":"h","protocol":1,"version":"1"}\n')
        never_reads[1].write(b'{"type":"attach","id":"a"}\n')
        assert follower.stdout is not None
        assert follower.stdout.readline() == "idle\n"
        await caller.submit("go")
        until(office.file("x.begun").exists)
        os.kill(follower.pid, signal.SIGSTOP)
        office.file("x.go").touch()
        ended = await caller.hears(type="turn")
        assert (ended["state"], ended["text"]) == ("completed", "all of it")
        clients = (await caller.ask_status())["clients"]
        assert clients == 1, "those who do not read are still there"
        os.kill(follower.pid, signal.SIGCONT)
        printed = follower.stdout.read().split()
        assert printed[-1] == "gone"
        follower.wait()
        follower.stdout.close()
        never_reads[1].close()
        got = [int(word) for word in printed if word.isdigit()]
        again = await office.call_again()
        await again.attach(got[-1], live=False)
        assert got + again.seqs == [each["seq"] for each in office.journal()]

    run(stall())


def test_fifty_clients_all_see_the_same(office):
    async def follow():
        first = await office.call()
        callers = [first, *[await office.call_again() for _ in range(24)]]
        for caller in callers:
            await caller.attach()
        await first.submit(f"run: for i in $(seq 200); do echo line $i; done; {gate('x')}")
        until(office.file("x.begun").exists)
        late = await asyncio.gather(*(office.call_again() for _ in range(25)))
        for caller in late:
            await caller.attach()
        office.file("x.go").touch()
        heard = []
        for caller in [*callers, *late]:
            await caller.hears(type="turn", state="completed")
            heard.append(
                ([each["line"] for each in caller.all(type="entry")], caller.live("tool_output"))
            )
        lines, output = heard[0]
        assert len(lines) == len(office.journal())
        assert output == "".join(f"line {number}\n" for number in range(1, 201))
        assert all(each == heard[0] for each in heard)

    run(follow())


def test_who_attaches_in_mid_stream_sees_every_character_once(office):
    """A command's output, piece by piece, with clients that come, go, and come back."""
    fifo = office.file("fifo")
    os.mkfifo(fifo)

    async def follow():
        watcher = await office.call()
        await watcher.attach()
        await watcher.submit("run: cat fifo")
        writing = await asyncio.to_thread(os.open, fifo, os.O_WRONLY)
        said = ""
        pieces: list[str] = []
        for number in range(12):
            piece = f"piece {number} äöü 🙂\n"
            os.write(writing, piece.encode())
            said += piece
            await watcher.until(lambda so_far=said: watcher.live("tool_output") == so_far)
            late = await office.call_again()
            await late.attach()
            await late.until(lambda late=late: late.live("tool_output"))
            pieces.append(late.live("tool_output"))
            assert pieces[-1] == said
            ats = [each["at"] for each in late.all(type="live", kind="tool_output")]
            assert ats == sorted(set(ats))
            await late.close()
        os.close(writing)
        await watcher.hears(type="turn", state="completed")
        assert watcher.live("tool_output") == said

    run(follow())
