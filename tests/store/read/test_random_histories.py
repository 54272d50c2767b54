"""Random histories: what is folded, what is in memory and what is read back are the same.

The crash laboratory runs longer ones, with several sessions in one store.
"""

from __future__ import annotations

import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.random_sessions import OPERATIONS, World, tiny_marks_and_blocks

steps = st.lists(
    st.tuples(
        st.sampled_from(["message", "message", "batch", "checkpoint", "rewind", *OPERATIONS]),
        st.integers(0, 1000),
        st.integers(0, 1000),
    ),
    min_size=1,
    max_size=40,
)


@pytest.fixture(scope="module", autouse=True)
def tiny():
    with tiny_marks_and_blocks():
        yield


@settings(
    deadline=None,
    max_examples=120,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=steps)
def test_memory_disk_fold_and_model_agree_after_any_history(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("history")
    world = World(folder)
    (history,) = world.histories
    try:
        for number, (name, pick, other) in enumerate(steps):
            getattr(history, name)(pick, other)
            history.check()
            if number % 7 == 6:
                history.check_disk()
        history.check_disk()
        history.check()
    finally:
        world.close()
        shutil.rmtree(folder)
