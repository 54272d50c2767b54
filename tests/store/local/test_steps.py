"""Durable steps in processes that are killed, and in sessions that were copied."""

from __future__ import annotations

import shutil

import pytest

import holdfast
from tests.processes import run, running

# It dies at one point of its only step, and prints what the step came to if it does not.
PROGRAM = """
import os, signal
_, home, log, point, replay = sys.argv
print("ready", flush=True)

def die(where):
    if where == point:
        os.kill(os.getpid(), signal.SIGKILL)

def told(key):
    with open(log) as lines:
        done = key in lines.read().split()
    return holdfast.StepDone("charged") if done else None

with store.session("orders") as session:
    run = session.run("order-7")

    @run.step(replay=told if replay == "reconcile" else replay, name="charge")
    def charge(key="no"):
        die("after the start")
        with open(log, "a") as lines:
            lines.write(key + "\\n")
        die("after the effect")
        return "charged"

    session.append(user("hello"), id="hello")
    die("before the start")
    try:
        result = charge()
    except holdfast.StepUncertain as error:
        result = f"uncertain {error.step}"
    die("after the result")
    print(result, flush=True)
"""

# What the second process gets, and how often the effect took place.
OUTCOMES = {
    ("never", "before the start"): ("charged", 1),
    ("never", "after the start"): ("uncertain charge", 0),
    ("never", "after the effect"): ("uncertain charge", 1),
    ("never", "after the result"): ("charged", 1),
    ("safe", "after the start"): ("charged", 1),
    ("safe", "after the effect"): ("charged", 2),
    ("safe", "after the result"): ("charged", 1),
    ("key", "after the start"): ("charged", 1),
    ("key", "after the effect"): ("charged", 2),
    ("key", "after the result"): ("charged", 1),
    ("reconcile", "before the start"): ("charged", 1),
    ("reconcile", "after the start"): ("charged", 1),
    ("reconcile", "after the effect"): ("charged", 1),
    ("reconcile", "after the result"): ("charged", 1),
}


@pytest.mark.parametrize(("replay", "point"), OUTCOMES)
def test_a_killed_process_is_continued(home, tmp_path, replay, point):
    log = tmp_path / "effects"
    log.touch()
    with running(PROGRAM, home, log, point, replay) as first:
        assert first.read() == ""  # it was killed
    _, result = run(PROGRAM, home, log, "at no point", replay).splitlines()
    effects = log.read_text().split()
    assert (result, len(effects)) == OUTCOMES[replay, point]
    assert len(set(effects)) <= 1  # the same operation key
    with holdfast.open_store(home) as store:
        assert store.verify(store.list()[0].id).ok


def test_a_run_that_was_copied_here_is_not_continued(home, tmp_path):
    with holdfast.open_store(home) as store, store.create() as session:
        session.run("a").step(name="x")(lambda: 1)()
    shutil.copytree(session.path, tmp_path / "there" / session.path.relative_to(home))
    with holdfast.open_store(tmp_path / "there") as other:
        with (
            other.open(session.id) as copy,
            pytest.raises(holdfast.ForeignSession, match="run 'a'"),
        ):
            copy.run("a").step(name="x")(lambda: pytest.fail("was run"))()
        other.accept(session.id)
        with other.open(session.id) as copy:
            assert copy.run("a").step(name="x")(lambda: pytest.fail("was run"))() == 1
