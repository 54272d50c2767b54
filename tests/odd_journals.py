"""Journals that no version of ours writes, each sealed so that its checksums fit.

A name for each, and the bytes of its files. In a body the text ``"@name"`` stands for raw JSON that
Python's own encoder would not write: see ``RAW``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.journal.format import seal, stored_sum
from holdfast.model.entry import LARGEST_SEQ, NO_PARENT_FIELD, TREE
from tests.hostile import (
    AT,
    SESSION,
    Line,
    announced,
    approval,
    calls,
    header,
    live_file,
    meta,
    queued,
    said,
    turn,
)

RAW = {
    "@deep": b"[" * 5000 + b"]" * 5000,
    "@deep-objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "@nearly-deep": b"[" * 950 + b"]" * 950,
    "@some-depth": b"[" * 300 + b"]" * 300,
    "@allowed-depth": b"[" * 150 + b"]" * 150,
    "@deep-parts": b'[{"type":"tool_result","call_id":"c","outcome":"completed","content":' * 400
    + b"[]"
    + b"}]" * 400,
    "@long-integer": b"9" * 5000,
    "@integer": b"9" * 400,
    "@infinite": b"1e400",
    "@nan": b"NaN",
    "@surrogate": b'"\\ud800"',
    "@int64": b"9223372036854775807",
    "@beyond-int64": b"9223372036854775808",
    "@float": b"1.7976931348623157e308",
}
TEXT = {"type": "text", "text": "needle in a haystack"}
BLOB = {"sha256": "0" * 64, "size_bytes": 1, "media_type": "text/plain", "encoding": "text"}


def sealed(lines: list[Line], session_id: str = SESSION) -> bytes:
    """Return the bytes of a journal; ``batch`` and the names of ``RAW`` may stand in the fields."""
    written: list[bytes] = []
    previous, parent, next_seq = b"", None, 0
    for type_name, fields in lines:
        body: dict[str, Any] = {
            name: value.replace(SESSION, session_id) if isinstance(value, str) else value
            for name, value in fields.items()
        }
        seq = body.pop("seq", next_seq)
        above = body.pop("parent", parent if type_name in TREE else NO_PARENT_FIELD)
        at, name, batch = body.pop("at", AT), body.pop("id", None), body.pop("batch", None)
        data = json.dumps(body, separators=(",", ":")).encode()
        for word, raw in RAW.items():
            data = data.replace(b'"%s"' % word.encode(), raw)
        line = seal(seq, at, type_name, data, previous, above, name, batch)
        previous = stored_sum(line) or b""
        next_seq = seq + 1
        if type_name in TREE:
            parent = seq
        written.append(line)
    return b"".join(line + b"\n" for line in written)


def message(content: Any, role: str = "assistant", **fields: Any) -> Line:
    """Return a message with any content."""
    return "message", {"role": role, "content": content, **fields}


def usage(**fields: Any) -> Line:
    """Return what a request cost."""
    return "usage", {"input": 1, "output": 1, "cost_usd": 0.5, **fields}


def _talk(*lines: Line) -> list[Line]:
    return [header(), meta(title="odd"), said("user", "needle"), *lines, said("assistant", "yes")]


def _part(**fields: Any) -> Line:
    return message([fields, TEXT])


def _blob(**fields: Any) -> Line:
    return message([{"type": "text", "text": "", "blob": {**BLOB, **fields}}])


JOURNALS: dict[str, list[Line]] = {
    # Nested too deep
    **{
        f"{depth} in {place}": lines
        for depth in ("@deep", "@deep-objects", "@nearly-deep", "@some-depth", "@allowed-depth")
        for place, lines in {
            "meta": _talk(meta(x=depth)),
            "arguments": _talk(_part(type="tool_call", id="c", name="bash", arguments=depth)),
            "event": _talk(("event", {"name": "e", "data": depth})),
            "unknown type": _talk(("invention", {"x": depth})),
        }.items()
    },
    "deep in a header": [header(extra="@deep"), said("user", "needle")],
    "deep in a mark": _talk(("mark", {"state": {"seq": 1, "meta": {"x": "@nearly-deep"}}})),
    "deep in a mark, less": _talk(("mark", {"state": {"seq": 1, "meta": {"x": "@some-depth"}}})),
    "deep in a title": _talk(meta(title="@deep")),
    "deep in an unknown part": _talk(_part(type="invention", x="@nearly-deep")),
    "deep in an extra field": _talk(_part(type="text", text="x", x="@some-depth")),
    "parts within parts": _talk(message("@deep-parts")),
    "deep in a usage": _talk(usage(x="@nearly-deep")),
    "deep in an opaque part": _talk(_part(type="opaque", vendor="v", data="@some-depth")),
    "deep in a process": _talk(
        turn("started"),
        calls("true"),
        (
            "tool",
            {
                "call_id": "c0",
                "name": "bash",
                "state": "started",
                "effect": "unknown",
                "process": "@some-depth",
            },
        ),
    ),
    # Parts and blobs of another shape
    "parts that are strings": _talk(message(["a", "b"])),
    "parts that are numbers": _talk(message([1, None, True])),
    "content that is a string": _talk(message("plain")),
    "content that is null": _talk(message(None)),
    "content within a result that is a string": _talk(
        _part(type="tool_result", call_id="c", content="x", outcome="completed")
    ),
    "parts within a result that are strings": _talk(
        _part(type="tool_result", call_id="c", content=["x"], outcome="completed")
    ),
    "a blob that is a number": _talk(_part(type="text", text="", blob=5)),
    "a blob that is a list": _talk(_part(type="image", media_type="image/png", blob=[1])),
    "a blob with a number for a name": _talk(_blob(sha256=5)),
    "a blob with a path for a name": _talk(_blob(sha256="../../../etc/passwd")),
    "a blob with a NUL in its name": _talk(_blob(sha256="a\0b")),
    "a blob with a long name": _talk(_blob(sha256="f" * 5000)),
    "a blob with an empty name": _talk(_blob(sha256="")),
    "a blob of an unknown encoding": _talk(_blob(encoding="rot13")),
    "a blob of an enormous size": _talk(_blob(size_bytes="@integer")),
    "a blob of a negative size": _talk(_blob(size_bytes=-1)),
    "a blob in an unknown part": _talk(_part(type="invention", blob=BLOB)),
    "changes that are strings": _talk(
        _part(type="tool_result", call_id="c", content=[], outcome="completed", changes=["x"])
    ),
    "kept that are numbers": _talk(
        _part(type="tool_result", call_id="c", content=[], outcome="completed", kept=[1])
    ),
    "an image that is not base64": _talk(_part(type="image", media_type="image/png", data="%%%")),
    "a summary of strings": _talk(("checkpoint", {"summary": ["x"], "keep_from": 1})),
    # Numbers
    "the largest seq": _talk(said("user", "last", seq=LARGEST_SEQ - 1)),
    "the very largest seq": [*_talk()[:-1], said("user", "last", seq=LARGEST_SEQ)],
    "a seq beyond the largest": [*_talk(), said("user", "beyond", seq=LARGEST_SEQ + 1)],
    "a jump of seq": _talk(said("user", "far", seq=10**14)),
    "a keep_from beyond all": _talk(("checkpoint", {"summary": [], "keep_from": "@integer"})),
    "a negative keep_from": _talk(("checkpoint", {"summary": [], "keep_from": -5})),
    "a head beyond everything": _talk(("head", {"to": "@integer"})),
    "a negative head": _talk(("head", {"to": -7})),
    "a label beyond everything": _talk(("label", {"name": "x", "to": "@integer"})),
    "a label of no name": _talk(("label", {"name": "", "to": -1})),
    "queued numbers": _talk(queued("q"), queued("r", replaces="@integer")),
    "usage of 400 digits": _talk(usage(input="@integer", output="@integer")),
    "usage of 5000 digits": _talk(usage(input="@long-integer")),
    "usage of 64 bits": _talk(*[usage(input="@int64", output="@int64") for _ in range(4)]),
    "usage beyond 64 bits": _talk(usage(input="@beyond-int64")),
    "usage below zero": _talk(usage(input=-(10**30), output=-5, cost_usd=-1.5)),
    "a cost that overflows": _talk(*[usage(cost_usd="@float") for _ in range(3)]),
    "an infinite cost": _talk(usage(cost_usd="@infinite")),
    "no number for a cost": _talk(usage(cost_usd="@nan")),
    "usage of a model without a name": _talk(usage(model="@surrogate")),
    "totals of a mark that overflow": _talk(
        ("mark", {"state": {"seq": 2, "totals": {"input": "@integer", "cost_usd": "@float"}}}),
        usage(cost_usd="@float"),
    ),
    "a mark from the future": _talk(("mark", {"state": {"seq": LARGEST_SEQ, "head": LARGEST_SEQ}})),
    "a mark with negative numbers": _talk(
        ("mark", {"state": {"seq": -9, "head": -9, "messages": -9, "queue": [-1]}})
    ),
    "a mark with another shape": _talk(("mark", {"state": {"seq": "x", "gaps": [[1]]}})),
    "a mark with many names": _talk(
        ("mark", {"state": {"seq": 2, "labels": {f"l{n}": n for n in range(5000)}}})
    ),
    "a gap of enormous length": _talk(
        (
            "gap",
            {
                "reason": "damage",
                "segment": 10**14,
                "offset": "@integer",
                "length": "@integer",
                "before": None,
                "after": None,
            },
        )
    ),
    "a gap of negative length": _talk(
        (
            "gap",
            {
                "reason": "damage",
                "segment": -1,
                "offset": -1,
                "length": -1,
                "before": -1,
                "after": "@integer",
                "chain": "zz",
            },
        )
    ),
    "a batch that was never whole": _talk(said("user", "b", batch=(0, LARGEST_SEQ))),
    "a batch of enormous length at the end": [*_talk(), said("user", "b", batch=(3, 10**9))],
    "a batch before its beginning": [*_talk(), said("user", "b", batch=(10**9, 2))],
    "an infinite number in meta": _talk(meta(x="@infinite", y="@nan", z="@long-integer")),
    "an infinite number in arguments": _talk(
        _part(type="tool_call", id="c", name="bash", arguments={"x": "@infinite", "y": "@nan"})
    ),
    "a number of 5000 digits in arguments": _talk(
        _part(type="tool_call", id="c", name="bash", arguments={"x": "@long-integer"})
    ),
    "a number of 5000 digits in an event": _talk(("event", {"name": "e", "data": "@long-integer"})),
    # The header
    "a header that holds a thousand million files": [header(holds=10**9), said("user", "needle")],
    "a header that holds nothing": [header(holds=0), said("user", "needle")],
    "a header that holds less than nothing": [header(holds=-3), said("user", "needle")],
    "a header that holds 400 digits": [header(holds="@integer"), said("user", "needle")],
    "a header of format 99": [header(format=99), said("user", "needle")],
    "a header of a format of 400 digits": [header(format="@integer"), said("user", "needle")],
    "a header that continues": [header(continues={"seq": 10**14, "sum": "x"}), said("user", "n")],
    "a header with a chain": [header(chain="zzzz"), said("user", "needle")],
    "a header forked from nowhere": [
        header(forked_from={"session": "../..", "seq": "@integer"}),
        said("user", "needle"),
    ],
    "a header in the middle": _talk(header(holds=7)),
    "a header without a uid": [("header", {"format": 1, "session": SESSION}), said("user", "n")],
    # Parents and branches
    "parents in a circle": _talk(said("user", "a", parent=5), said("user", "b", parent=4)),
    "a parent in the future": _talk(said("user", "a", parent=LARGEST_SEQ)),
    "its own parent": _talk(said("user", "a", parent=3)),
    "a deep chain of parents": _talk(*[said("user", f"m{n}") for n in range(1500)]),
    "many branches": _talk(*[said("user", f"m{n}", parent=2) for n in range(1500)]),
    # Words where facts are expected
    "a workspace that is a list": _talk(meta(workspace=["/"], model={"a": 1}, tags="x", title=7)),
    "tags of every kind": _talk(meta(tags=[1, None, "x", {"a": []}], project=5, provider=[])),
    "text with halves of characters": _talk(
        message([{"type": "text", "text": "@surrogate"}]), meta(title="@surrogate")
    ),
    "text with control characters": _talk(said("user", "\x1b[2J\u202e\0\x9b" * 50)),
    "times that are none": _talk(said("user", "x", at="not-a-time")),
    "times far away": _talk(said("user", "x", at="9999-12-31T23:59:59.999Z")),
    "times before the calendar": _talk(said("user", "x", at="0001-01-01T00:00:00.000Z")),
    "a long line without spaces": _talk(said("user", "x" * 200_000)),
    "patterns that make searches slow": _talk(said("user", "a" * 20_000 + "!" + "\\" * 20_000)),
    "a turn that waits": _talk(
        turn("waiting"), calls("true"), approval("true"), announced(), queued("more")
    ),
    "a turn of an unknown state": _talk(turn("levitating", cause="x")),
    "a type that must be known": _talk(("invention", {"must": True})),
    "a type without a name": _talk(("", {"x": 1})),
    "a tool without a name": _talk(_part(type="tool_call", id="", name="", arguments=None)),
    "an id of 4000 characters": _talk(said("user", "x", id="i" * 4000)),
    "a role of no kind": _talk(message([TEXT], role="\x1b[31mroot")),
}
"""Sealed lines by a name for what is odd about them."""

LIVE: dict[str, bytes] = {
    "a stream that is nested deep": live_file(
        {"stream": "s", "kind": "tool_call", "after": 1, "text": "[" * 3000, "call_id": "c"}
    ),
    "streams of unknown kinds": live_file(
        {"stream": "s", "kind": "smoke", "after": -(10**18), "text": "x"},
        {"stream": "t", "kind": "tool_output", "after": 10**18, "text": "x"},
        {"stream": "u", "kind": "text", "after": 10**40, "text": "x"},
        {"stream": 5, "kind": [], "after": "x", "text": None},
    ),
    "a generation of 400 digits": live_file(
        {"generation": 10**400}, {"stream": "s", "kind": "text", "after": 1, "text": "x"}
    ),
}
"""Live files that stand beside a journal with nothing odd in it."""


def _bytes(data: bytes) -> Callable[[str], dict[str, bytes]]:
    return lambda _: {"journal.jsonl": data}


def _of(lines: list[Line], live: bytes | None = None) -> Callable[[str], dict[str, bytes]]:
    def made(session_id: str) -> dict[str, bytes]:
        files = {"journal.jsonl": sealed(lines, session_id)}
        return files if live is None else {**files, "live.jsonl": live}

    return made


FILES: dict[str, Callable[[str], dict[str, bytes]]] = {
    **{name: _of(lines) for name, lines in JOURNALS.items()},
    **{name: _of(_talk(), live) for name, live in LIVE.items()},
    "an empty journal": _bytes(b""),
    "a journal of NULs": _bytes(b"\0" * 100_000),
    "a journal of newlines": _bytes(b"\n" * 100_000),
    "a journal of braces": _bytes(b"{" * 100_000 + b"\n"),
    "a journal of beginnings": _bytes(b'{"seq":1,"a":[' * 20_000 + b"\n"),
    "a packed journal that is none": _bytes(b"\x28\xb5\x2f\xfd" + b"\0" * 1000),
    "not UTF-8": _bytes(b'{"seq":1,"at":"x","type":"message","x":"\xff\xfe"}\n'),
    "a torn end": lambda id: {"journal.jsonl": sealed(_talk(), id) + b'{"seq":9,"at":"'},
    "the largest seq, torn": lambda id: {
        "journal.jsonl": sealed(_talk(), id) + b'{"seq":%d,"at":"x' % LARGEST_SEQ
    },
}
"""The files of a session, made for its id, by a name for what is odd about them."""


def put_odd(home: Path, name: str, session_id: str = SESSION) -> Path:
    """Put an odd session into a home as ``cp -r`` would; return its folder."""
    folder = home / "sessions" / f"{session_id[:4]}-{session_id[4:6]}" / session_id
    folder.mkdir(parents=True)
    for file, data in FILES[name](session_id).items():
        (folder / file).write_bytes(data)
    return folder
