"""Values that a store returns."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Store
from holdfast.store.memory import MemoryBackend
from holdfast.store.types import Migrated, Migration


def test_a_migration_tells_what_was_migrated_and_what_was_left():
    done, left = Migrated("a", "migrated"), Migrated("b", "left", reason="not a session")
    assert Migration("there", [done, left]).migrated == [done]
    assert Migration("there", [done, left]).left == [left]


def test_a_store_that_was_not_opened_by_the_package_cannot_migrate(tmp_path):
    with pytest.raises(holdfast.UsageError, match="open_store"):
        Store(MemoryBackend()).migrate(tmp_path)
