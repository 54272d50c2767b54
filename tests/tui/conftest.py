"""Fixtures for screens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tui.pane import Desk, desk_of_its_own


@pytest.fixture
def desk() -> Iterator[Desk]:
    with desk_of_its_own() as desk:
        yield desk
