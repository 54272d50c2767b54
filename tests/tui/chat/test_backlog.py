"""Who comes back sees a screenful, however long the session or its last answer is."""

from __future__ import annotations

import holdfast
from holdfast.tui.chat.backlog import tail


def text_of(entry):
    return "".join(part.get("text", "") for part in entry["content"])


def painted(tmp_path, *messages, rows=20):
    with holdfast.open_store(tmp_path) as store:
        with store.create() as session:
            for message in messages:
                session.append(message)
        with store.open(session.id, mode="read") as reading:
            return [entry for entry in tail(reading, rows) if entry["type"] == "message"]


def test_the_last_messages_in_their_order(tmp_path):
    said = [holdfast.user(str(number)) for number in range(100)]
    found = painted(tmp_path, *said)
    assert [text_of(entry) for entry in found] == [str(n) for n in range(90, 100)]


def test_of_a_long_answer_its_end_and_how_much_is_before_it(tmp_path):
    lines = [f"line {number}" for number in range(30_000)]
    (entry,) = painted(tmp_path, holdfast.assistant("\n".join(lines)))
    shown = text_of(entry).split("\n")
    assert shown[0] == "… 29980 earlier lines"
    assert shown[-20:] == lines[-20:]
    assert len(shown) == 22


def test_code_that_is_cut_is_still_code(tmp_path):
    fence = "\n".join(["```python", *["x = 1"] * 1000, "```", "Done."])
    (entry,) = painted(tmp_path, holdfast.assistant(fence))
    shown = text_of(entry).split("\n")
    assert shown[2] == "```"
    assert shown[-2:] == ["```", "Done."]


def test_output_of_a_tool_is_shortened_too(tmp_path):
    call = holdfast.assistant([holdfast.ToolCall(id="a", name="bash", arguments={})])
    result = holdfast.tool_result("a", "\n".join(map(str, range(1000))))
    _, entry = painted(tmp_path, call, result)
    (part,) = entry["content"]
    assert part["content"][0]["text"].endswith("999")
    assert part["content"][0]["text"].count("\n") < 30


def test_a_result_comes_with_its_call(tmp_path):
    call = holdfast.assistant([holdfast.ToolCall(id="a", name="bash", arguments={})])
    result = holdfast.tool_result("a", "\n" * 15 + "x")
    before = holdfast.user("before")
    found = painted(tmp_path, before, call, result, rows=10)
    assert [entry["role"] for entry in found] == ["assistant", "tool"]
