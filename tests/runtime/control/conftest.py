"""Fixtures for everything that speaks to runners."""

from __future__ import annotations

import pytest

from tests.runtime.control.office import office_on_disk

office = pytest.fixture(office_on_disk)
