"""Exporting: the conversation as text, with what the disk did not take."""

from __future__ import annotations

import json

import pytest

import holdfast
from holdfast import (
    File,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    assistant,
    tool_result,
    user,
)
from holdfast.model.codec import DEEPEST_LEVELS
from holdfast.model.message import UnknownPart


def test_json_is_one_object(store):
    session = store.create(title="t")
    session.append([user("a"), assistant([ToolCall(id="1", name="sh", arguments={"x": 1})])])
    whole = json.loads(session.export())
    assert whole["session"] == session.id
    assert whole["meta"] == {"title": "t"}
    assert whole["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_call", "id": "1", "name": "sh", "arguments": {"x": 1}}],
        },
    ]


def test_jsonl_is_a_message_a_line(store):
    session = store.create()
    session.append([user("a\u2028b"), user("c")])
    lines = session.export("jsonl").split("\n")
    assert lines[-1] == ""
    assert [json.loads(line)["content"][0]["text"] for line in lines[:-1]] == ["a\u2028b", "c"]
    assert store.open(session.id, "read").export("jsonl") == session.export("jsonl")


def test_markdown_is_a_page_to_read(store):
    session = store.create(title="Fix\nthe build", model="m")
    session.append(
        [
            user([Text(text="look"), Image(media_type="image/png", url="pic.png")]),
            assistant(
                [
                    Thinking(text="first\nthen"),
                    Text(text="I will *run* it."),
                    ToolCall(id="1", name="sh", arguments={"x": 1}),
                    ToolCall(id="2", name="odd`name", arguments=None, partial='{"y'),
                    Opaque(vendor="somebody", data=1),
                ],
                stop="interrupted",
            ),
            tool_result("1", [Text(text="a\n````\nb\n"), File(name="log", media_type="text/x")]),
            tool_result("2", [], outcome="never_ran"),
        ]
    )
    assert (
        session.export("markdown")
        == f"""# Fix the build

- session: `{session.id}`
- model: `m`

## User

look

*[image, image/png at pic.png]*

## Assistant (interrupted)

> first
> then

I will *run* it.

Calls `sh`:

```json
{{"x":1}}
```

Calls `` odd`name ``:

```
{{"y
```

*[data of somebody]*

## Tool

Result (completed):

`````
a
````
b
`````

*[log, text/x]*

## Tool

Result (never ran):
"""
    )


def test_markdown_names_what_it_does_not_know(store):
    session = store.create()
    session.append(user([UnknownPart(fields={"type": "hologram", "a": 1})]))
    page = session.export("markdown")
    assert page.startswith(f"# Session {session.id}\n")
    assert page.endswith("## User\n\n*[hologram]*\n")


def test_large_payloads_are_in_it(store):
    session = store.create()
    session.append(user("x" * 300_000))
    assert json.loads(session.export())["messages"][0]["content"][0]["text"] == "x" * 300_000


def test_an_unknown_format_is_refused(store):
    with pytest.raises(holdfast.UsageError, match="jsonl"):
        store.create().export("pdf")


def nested(levels):
    value: list[object] = []
    for _ in range(levels):
        value = [value]
    return value


def test_what_is_nested_deep_is_exported_all_the_same(store):
    session = store.create()
    levels = DEEPEST_LEVELS - 3  # the message, its content and the call are levels too
    call = ToolCall(id="1", name="x", arguments=nested(levels - 1))
    session.append([user("a"), assistant([call])])
    arguments = "[" * levels + "]" * levels
    for format_name in ("json", "jsonl", "markdown"):
        assert arguments in session.export(format_name)
    first, second = session.export("jsonl").splitlines()
    assert f'"messages":[{first},{second}]' in session.export()
    deeper = ToolCall(id="2", name="x", arguments=nested(levels))
    with pytest.raises(holdfast.UsageError, match="nested too deeply"):
        session.append(assistant([deeper]))
