"""A store with several sessions against its model, in any order that hypothesis thinks of.

Every operation of a history is a rule; here are the rules that concern the store as a whole: more
sessions, deletion and return, lists and searches. The process may die at any step.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.store.random_sessions import OPERATIONS, History, World, tiny_marks_and_blocks

STEPS = 30
_MOST_SESSIONS = 3
_LOOK_AT_DISK_EVERY = 10
_numbers = st.integers(0, 1000)
_sessions = st.sampled_from([0, 0, 0, 1, 2])  # mostly one: what needs several steps must happen


class StoreMachine(RuleBasedStateMachine):
    """Rules of the store. Those of a session are added below."""

    scratch = Path(tempfile.gettempdir())
    taken: dict[str, int] = {}  # noqa: RUF012  how often each rule was taken, over all examples

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=self.scratch))
        self.world = World(self.folder)
        self.steps = 0

    def count(self, name: str) -> None:
        self.taken[name] = self.taken.get(name, 0) + 1
        self.steps += 1

    def history(self, which: int) -> History:
        return self.world.histories[which % len(self.world.histories)]

    @precondition(lambda self: len(self.world.histories) < _MOST_SESSIONS)
    @rule()
    def create(self) -> None:
        self.world.histories.append(History(self.world))
        self.count("create")

    @precondition(lambda self: len(self.world.histories) > 1)
    @rule(which=_numbers)
    def delete(self, which: int) -> None:
        history = self.history(which)
        if history.born:
            history.session.close()
            assert self.world.store.delete(history.session.id) == history.session.id
            self.world.histories.remove(history)
            self.world.deleted.append(history)
            self.count("delete")

    @precondition(lambda self: self.world.deleted)
    @rule(which=_numbers)
    def restore(self, which: int) -> None:
        history = self.world.deleted.pop(which % len(self.world.deleted))
        assert self.world.store.restore(history.session.id) == history.session.id
        history.return_to()
        self.world.histories.append(history)
        self.count("restore")

    @rule(number=_numbers)
    def list_and_search(self, number: int) -> None:
        self._list()
        self._search(number)
        self.count("list and search")

    def _list(self) -> None:
        found = {summary.id: summary for summary in self.world.store.list()}
        born = {history.session.id: history for history in self.world.histories if history.born}
        assert found.keys() >= born.keys()
        for name, history in born.items():
            summary, model = found[name], history.model
            assert (summary.messages, summary.totals.input) == (model.count, model.input)
            assert summary.totals == history.session.totals
            assert summary.title == history.session.state.title
        deleted = {history.session.id for history in self.world.deleted}
        assert not found.keys() & deleted

    def _search(self, number: int) -> None:
        wanted = f"<{number % (self.world.number + 1)}>"
        hits = {(hit.session, hit.seq) for hit in self.world.store.search(wanted, limit=1000)}
        expected = {
            (history.session.id, seq)
            for history in self.world.histories
            for seq, node in history.model.nodes.items()
            if node.text is not None and node.text.startswith(wanted)
        }
        ours = {history.session.id for history in self.world.histories}
        assert {hit for hit in hits if hit[0] in ours} == expected

    @invariant()
    def session_and_model_agree(self) -> None:
        for history in self.world.histories:
            history.check()
        if self.steps % _LOOK_AT_DISK_EVERY == _LOOK_AT_DISK_EVERY - 1:
            self.steps += 1
            for history in self.world.histories:
                history.check_disk()

    def teardown(self) -> None:
        try:
            for history in self.world.histories:
                history.check_disk()
        finally:
            self.world.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def _session_rule(name: str) -> Any:
    def step(self: StoreMachine, which: int, pick: int, other: int) -> None:
        getattr(self.history(which), name)(pick, other)
        self.count(name)

    step.__name__ = name  # as a failing example will call it
    return rule(which=_sessions, pick=_numbers, other=_numbers)(step)


for _name in OPERATIONS:
    assert not hasattr(StoreMachine, _name), _name
    setattr(StoreMachine, _name, _session_rule(_name))


def run(scratch: Path, number: int, examples: int) -> dict[str, int]:
    """Run so many examples; return how often each rule was taken.

    Raises whatever the last, smallest example that fails raises; its notes tell the steps.
    """
    StoreMachine.scratch, StoreMachine.taken = scratch, {}
    seed(number)(StoreMachine)
    with tiny_marks_and_blocks():
        run_state_machine_as_test(
            StoreMachine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=STEPS,
                deadline=None,
                database=None,
                print_blob=False,
                report_multiple_bugs=False,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )
    return StoreMachine.taken
