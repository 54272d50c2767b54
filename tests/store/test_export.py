"""Exporting: the conversation as text, with what the disk did not take."""

from __future__ import annotations

import errno
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
from holdfast.model.message import UnknownPart
from holdfast.store.export import text_of


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


def exported(session):
    return [
        message["content"][0]["text"]
        for message in map(json.loads, session.export("jsonl").split())
    ]


def test_messages_that_wait_for_room_are_in_it(fragile, files):
    session = fragile.create()
    session.append(user("safe"))
    with files.full_disk():
        with pytest.raises(holdfast.DiskFull):
            session.append(user("waiting"))
        session.submit(user("submitted"))
        assert exported(session) == ["safe", "waiting", "submitted"]


@pytest.mark.parametrize("text", ["small", "x" * 300_000])
def test_messages_that_could_not_be_written_are_in_it(fragile, files, monkeypatch, text):
    monkeypatch.setattr("holdfast.journal.pump.Pump.wake", lambda _: None)
    session = fragile.create()
    session.append(user("safe"))
    files.fail("sync", errno.EIO, name="journal", times=None)
    ticket = session.submit([user(text), holdfast.Meta({"n": 1})])
    session.submit(user("two"))
    with pytest.raises(holdfast.WriteFailed):
        ticket.wait()
    with pytest.raises(holdfast.WriteFailed):
        session.append(user("never accepted"))
    assert exported(session) == ["safe", text, "two"]
    session.close()
    assert exported(session) == ["safe", text, "two"]


def nested(levels):
    value: list[object] = []
    for _ in range(levels):
        value = [value]
    return value


def test_what_is_nested_deep_is_exported_all_the_same(store):
    session = store.create()
    call = ToolCall(id="1", name="x", arguments=nested(700))
    session.append([user("a"), assistant([call])])
    arguments = "[" * 701 + "]" * 701
    for format_name in ("json", "jsonl", "markdown"):
        assert arguments in session.export(format_name)
    first, second = session.export("jsonl").splitlines()
    assert f'"messages":[{first},{second}]' in session.export()


@pytest.mark.parametrize("format_name", ["json", "jsonl", "markdown"])
def test_what_is_nested_too_deep_is_refused_in_words(format_name):
    call = ToolCall(id="1", name="x", arguments=nested(100_000))
    with pytest.raises(holdfast.UsageError, match="nested too deep"):
        text_of(format_name, "20260102-030405-aaaabbbb", {}, [assistant([call])], None)
