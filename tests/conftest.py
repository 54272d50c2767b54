"""Fixtures that every part of the suite may use."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import holdfast
from tests.fakes import FakeFiles

if "PYTEST_XDIST_WORKER" in os.environ:
    # This worker is being measured. What the tests start is not, and must not be slowed down.
    os.environ.pop("COVERAGE_PROCESS_START", None)

# A shell without job control ignores Ctrl+C for what it runs in the background, ``nohup`` ignores
# hang-ups. What the tests start would inherit that, and some tests interrupt themselves.
for _signal, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _usual)

# How long an example takes says nothing where tests share the processor with others. What decides
# whether a change lands says the same twice; new examples are found by those who run the tests.
settings.register_profile(
    "holdfast",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=bool(os.environ.get("HOLDFAST_NOTHING_SKIPPED")),
)
settings.load_profile("holdfast")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of a store that does not exist yet."""
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[holdfast.Store]:
    """A store on the real file system."""
    with holdfast.open_store(home) as store:
        yield store


@pytest.fixture
def files() -> FakeFiles:
    """A file system that fails on command."""
    return FakeFiles()


@pytest.fixture
def fragile(home: Path, files: FakeFiles) -> Iterator[holdfast.Store]:
    """A store on ``files``."""
    store = holdfast.open_store(home, files=files)
    yield store
    files.heal()
    try:
        store.close()
    except holdfast.HoldfastError:
        store.close()  # what the test broke was told; now everything is let go


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Wait until a condition holds; fail if it does not within a very long time."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            time.sleep(0.002)

    return wait
