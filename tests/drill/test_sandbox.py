import os
import signal
import subprocess
import sys

import pytest

from holdfast.drill.sandbox import Scratch
from holdfast.errors import StorageError
from holdfast.runtime.protocol.socket_path import prepare_folder


@pytest.fixture(params=["short", "long " * 30])
def scratch(tmp_path, monkeypatch, request):
    folder = tmp_path / request.param.strip()
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return Scratch()


def test_programs_are_given_no_keys_and_nothing_of_the_user(scratch, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("HOLDFAST_HOME", "/home/me/sessions")
    monkeypatch.setenv("HOLDFAST_CONFIG", "/home/me/config")
    monkeypatch.setenv("PYTHONPATH", f"src{os.pathsep}/elsewhere")
    with scratch.ground("one") as ground:
        given = ground.environment
    assert "secret" not in given.values()
    assert not [value for value in given.values() if value.startswith("/home/me")]
    assert given["HOLDFAST_HOME"] == str(ground.home)
    assert given["PYTHONPATH"] == f"{os.getcwd()}/src{os.pathsep}/elsewhere"


def test_everything_is_removed_also_where_sockets_are_elsewhere(scratch):
    with scratch.ground("one") as ground:
        sockets = prepare_folder(ground.home)
        ground.put("file")
        assert ground.has("file")
    scratch.remove()
    assert not scratch.folder.exists()
    assert not sockets.exists()


def test_a_process_of_the_ground_is_ended_whoever_started_it(scratch):
    sleeping = [sys.executable, "-c", "import time; print('there', flush=True); time.sleep(600)"]
    with scratch.ground("one") as ground:
        process = subprocess.Popen(
            sleeping, env=ground.environment, stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None
        with process.stdout as pipe:
            assert pipe.readline() == b"there\n"
    assert process.wait() == -signal.SIGKILL


def test_a_place_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/proc")
    with pytest.raises(StorageError, match="A temporary home cannot be created in /proc"):
        Scratch()
