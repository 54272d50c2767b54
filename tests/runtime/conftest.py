"""Fixtures for the agent loop, and for what speaks to runners."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import FakeFiles
from tests.runtime.bench import Bench
from tests.runtime.interrupted_session import Wreck
from tests.runtime.runner.runner_clients import office_on_disk

office = pytest.fixture(office_on_disk)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A place to run turns."""
    return Bench(tmp_path)


@pytest.fixture
def fragile_bench(tmp_path: Path, files: FakeFiles) -> Iterator[Bench]:
    """The same on a file system that fails on command."""
    yield Bench(tmp_path, files)
    files.heal()


@pytest.fixture
def wreck(bench: Bench) -> Wreck:
    """A session to be left in the middle of a turn."""
    return Wreck(bench)
