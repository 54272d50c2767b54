"""Values that a store returns."""

from __future__ import annotations

from holdfast.store.types import Migrated, Migration


def test_a_migration_tells_what_was_migrated_and_what_was_left():
    done, left = Migrated("a", "migrated"), Migrated("b", "left", reason="not a session")
    assert Migration("there", [done, left]).migrated == [done]
    assert Migration("there", [done, left]).left == [left]
