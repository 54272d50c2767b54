"""Fixtures for the tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.tools.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A place to call tools from."""
    return Desk(tmp_path)
