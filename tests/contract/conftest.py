"""What every medium has to do: each test runs on all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, home: Path) -> Iterator[holdfast.Store]:
    """An empty store on one of the media."""
    with holdfast.open_store(home if request.param == "local" else "memory://") as store:
        yield store
