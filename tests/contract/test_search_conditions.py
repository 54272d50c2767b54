"""Which messages are searched: by role, tool, model, folder, project, agent, session and time."""

from __future__ import annotations

import holdfast


def test_strange_facts_are_no_obstacle(store):
    with store.create(agent="mine", workspace="/x/\udcff", model=7) as session:
        session.append(holdfast.user("needle"))
        session.update(imported="no", agent=3)
        session.update(model="\ud800")
        session.append(holdfast.assistant("needle"))
    with store.create(agent="theirs") as session:
        session.append(holdfast.user("needle"))
    hits = store.search("needle")
    assert {hit.agent for hit in hits} == {"holdfast", "theirs"}
    assert {hit.model for hit in hits} == {None, "\ud800"}
    assert len(store.search("needle", workspace="/x/\udcff")) == 2
    assert len(store.search("needle", model="\ud800")) == 1


def test_many_calls_are_remembered_to_a_limit(store):
    with store.create() as session:
        for number in range(300):
            call = holdfast.ToolCall(id=str(number), name="bash", arguments={})
            session.submit(holdfast.assistant([call]))
        session.append(holdfast.tool_result("0", "needle"))
        session.append(holdfast.tool_result("299", "needle"))
        assert [hit.tool for hit in store.search("needle")] == [None, "bash"]
