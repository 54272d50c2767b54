"""Fixtures for the program as a user has it, and for the vendors that it asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.program import Program, program_in
from tests.cli.vendor import Vendor, vendor_on_loopback
from tests.runtime.providers.wire import Reply


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with program_in(tmp_path / "user") as program:
        yield program


@pytest.fixture
def vendor() -> Iterator[Callable[..., Vendor]]:
    """Start a server that gives these replies, one a request."""
    with ExitStack() as stack:

        def start(*replies: Reply) -> Vendor:
            return stack.enter_context(vendor_on_loopback(*replies))

        yield start


@pytest.fixture
def session(program: Program) -> Iterator[str]:
    """Make a session whose tools may do anything; its runners are stopped at the end."""
    program.configure('mode = "allow-all"')
    assert program.run("-p", "say: hello").code == 0
    (folder,) = program.sessions()
    yield folder.name
    program.run("stop", "--all")
