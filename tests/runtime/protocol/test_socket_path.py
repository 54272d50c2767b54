"""Where runners listen, and who may be there."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import StorageError
from holdfast.model.ids import new_session_id
from holdfast.runtime.protocol.socket_path import listens, run_folder
from holdfast.runtime.runner.spawn import StartFailed, start
from tests.runtime.runner.runner_clients import Office, run


def test_a_home_with_a_long_path_has_its_sockets_elsewhere(tmp_path):
    office = Office(tmp_path / ("long" * 30))
    folder = run_folder(office.home)
    assert folder.parent == Path(f"/tmp/holdfast-{os.getuid()}")
    other = new_session_id()

    async def work():
        caller = await office.call()
        await caller.attach()
        await caller.submit("say: hi")
        await caller.hears(type="turn", text="hi")
        with pytest.raises(StartFailed, match="1 runners are already running"):
            await office.call(session=other, most=1)
        with holdfast.open_store(office.home) as store, store.session(key="telegram:42") as keyed:
            keyed.append(holdfast.user("hello"))
        await office.begin(session=keyed.id)
        assert len(list(folder.glob("*.sock"))) == 2

    try:
        run(work())
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder.parent.stat().st_mode & 0o777 == 0o700
    finally:
        office.close()
        shutil.rmtree(folder)


def test_a_folder_that_is_not_ours_alone_is_not_used(office):
    office.home.mkdir()
    run_folder(office.home).mkdir(mode=0o755)
    run_folder(office.home).chmod(0o755)
    with pytest.raises(StorageError, match="not a folder that only you"):
        start(office.launch())
    run_folder(office.home).rmdir()
    run_folder(office.home).symlink_to(office.workspace)
    with pytest.raises(StorageError, match="not a folder that only you"):
        start(office.launch())
    run_folder(office.home).unlink()
    run_folder(office.home).write_text("in the way")
    with pytest.raises(StorageError, match=r"only you|cannot be made"):
        start(office.launch())


_FOREIGN = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
listener.listen()
print("ready", flush=True)
heard = b""
for _ in range(2):  # one only looks whether anybody listens
    line, _ = listener.accept()
    line.settimeout(60)
    heard += line.recv(65536)
print(heard, flush=True)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="Another user was NOT tried: this needs root")
def test_a_client_tells_nothing_to_a_listener_of_another_user(office, monkeypatch):
    """Whoever makes a socket where ours should be would be handed keys."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    office.socket().parent.mkdir(parents=True, mode=0o700)
    foreign = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _FOREIGN, str(office.socket())],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert foreign.stdout is not None
    try:
        assert foreign.stdout.readline() == "ready\n"
        with pytest.raises(StorageError, match="belongs to a process of another user"):
            run(office.begin())
        assert foreign.stdout.readline() == "b''\n"
    finally:
        foreign.kill()
        foreign.wait()
        foreign.stdout.close()


def test_whether_somebody_listens_is_known_also_from_a_crowd(tmp_path):
    path = Path(f"/tmp/crowd-{os.getpid()}.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        try:
            assert not listens(path)
            listener.listen(0)
            assert all(listens(path) for _ in range(10))
        finally:
            path.unlink()
    assert not listens(path)
