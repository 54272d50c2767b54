"""What is trusted: kept safely, and bound to path and content."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys

import pytest

from holdfast.errors import StorageError, UsageError
from holdfast.runtime.config.private_file import PrivateFile
from holdfast.runtime.config.trust import TRUST_NAME, Trust, digest


@pytest.fixture
def file(tmp_path):
    return tmp_path / "project" / ".holdfast" / "config.toml"


def test_trust_is_bound_to_path_and_content(home, file):
    trust = Trust(home)
    assert trust.standing(file, b"a") == "unknown"
    assert not home.exists()
    trust.add(file, b"a")
    assert trust.standing(file, b"a") == "trusted"
    assert trust.standing(file, b"b") == "changed"
    assert trust.standing(file.with_name("other"), b"a") == "unknown"
    assert trust.known() == {file: digest(b"a")}
    trust.add(file, b"b")
    assert trust.standing(file, b"a") == "changed"
    assert trust.remove(file)
    assert not trust.remove(file)
    assert trust.standing(file, b"b") == "unknown"


def test_nobody_else_can_read_or_write_it(home, file):
    mask = os.umask(0)
    try:
        Trust(home).add(file, b"a")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    for path in home.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o604, 0o666])
def test_one_that_others_can_get_at_is_refused(home, file, mode):
    trust = Trust(home)
    trust.add(file, b"a")
    (home / TRUST_NAME).chmod(mode)
    with pytest.raises(UsageError, match="others can get at it: chmod 600"):
        trust.standing(file, b"a")
    with pytest.raises(UsageError, match="others can get at it"):
        trust.add(file, b"b")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"7", b'{"a": 7}', b'{"a": {}}', b"\xff", b"[" * 100_000, b"{" * 9]
)
def test_one_that_is_damaged_trusts_nothing_and_says_so(home, file, content):
    trust = Trust(home)
    trust.add(file, b"a")
    (home / TRUST_NAME).write_bytes(content)
    with pytest.raises(UsageError, match=r"trust\.json was not written by Holdfast"):
        trust.standing(file, b"a")


def test_what_stands_in_its_place_is_refused(home, file, tmp_path):
    home.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(json.dumps({str(file): digest(b"a")}))
    elsewhere.chmod(0o600)
    (home / TRUST_NAME).symlink_to(elsewhere)
    with pytest.raises(UsageError, match="symbolic link"):
        Trust(home).standing(file, b"a")
    (home / TRUST_NAME).unlink()
    (home / TRUST_NAME).mkdir()
    with pytest.raises(UsageError, match="was not written by Holdfast"):
        Trust(home).standing(file, b"a")


@pytest.mark.parametrize("method", ["open_lock", "open_append", "write", "sync", "rename"])
def test_a_failure_leaves_what_was_there(home, file, files, method):
    trust = Trust(home, files)
    trust.add(file, b"a")
    files.fail(method, times=None)
    with pytest.raises(StorageError, match=r"trust\.json cannot be written: "):
        trust.add(file, b"b")
    files.heal()
    assert trust.standing(file, b"a") == "trusted"
    assert files.left_open == []
    assert sorted(os.listdir(home)) == [".trust.json.lock", TRUST_NAME]


def test_it_is_synced_before_it_has_its_name(home, file, files):
    Trust(home, files).add(file, b"a")
    assert files.first("sync", TRUST_NAME) < files.first("rename", TRUST_NAME)
    assert files.last("sync_folder") > files.first("rename", TRUST_NAME)


def test_paths_that_are_no_text_are_kept(home, tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9")
    Trust(home).add(path, b"a")
    assert Trust(home).standing(path, b"a") == "trusted"


def test_one_process_at_a_time_changes_it(home):
    with PrivateFile(home / TRUST_NAME).changing():
        descriptor = os.open(home / f".{TRUST_NAME}.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


def test_two_processes_do_not_lose_each_others_trust(home, tmp_path):
    code = """
import sys
from pathlib import Path
from holdfast.runtime.config.private_file import PrivateFile
from holdfast.runtime.config.trust import Trust
for number in range(20):
    Trust(Path(sys.argv[1])).add(Path(f"/{sys.argv[2]}/{number}"), b"a")
"""
    others = [
        subprocess.Popen([sys.executable, "-c", code, str(home), name]) for name in ("one", "two")
    ]
    assert [each.wait() for each in others] == [0, 0]
    assert len(Trust(home).known()) == 40
