"""Conversations to export: golden ones, hostile ones, drawn ones; and how they come back.

    golden/<exporter>     what has to come of the golden source of ``SOURCE``

``python -m tests.exchange.exporters.conversations`` writes what comes of it now; read it with care
before it is kept.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st

import holdfast
from holdfast import File, Image, Message, Opaque, Session, Text, Thinking, ToolCall, ToolResult
from holdfast.exchange.exporters import exporter
from holdfast.exchange.exporting.export import export
from holdfast.exchange.exporting.transcript import ExportOptions, Transcript
from holdfast.version import __version__
from tests.exchange.sources import copied, take_all

GOLDEN = Path(__file__).parent / "golden"
SOURCE = "claude-code/branches"
WRITTEN = ("markdown", "html", "json", "jsonl", "openai", "anthropic", "claude-code", "codex", "pi")
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


@contextmanager
def golden_session(folder: Path) -> Iterator[Session]:
    """Give the session that the golden source becomes."""
    source = copied(SOURCE, folder)
    with holdfast.open_store(folder / "home") as store:
        (done,) = take_all(store, SOURCE.partition("/")[0], source)
        with store.open(str(done.session), mode="read") as session:
            yield session


def golden_export(session: Session, name: str) -> bytes:
    """Return an export that does not depend on the day, the folder or the version."""
    # Where it was imported from is a fact, and another one each time.
    options = ExportOptions(strip_workspace=name in ("json", "jsonl"))
    data = b"".join(export(session, name, options))
    return data.replace(f"Holdfast {__version__}.".encode(), b"Holdfast VERSION.")


def exported(session: Session, name: str, options: ExportOptions | None = None) -> bytes:
    """Return an export whole."""
    return b"".join(export(session, name, options))


def as_source(session: Session, name: str, folder: Path) -> Path:
    """Write a native export where the agent would look for it, and return the file."""
    transcript = Transcript(session)
    made = exporter(name)
    path = folder / made.file_name(transcript)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(made.chunks(transcript)))
    return path


@contextmanager
def brought_back(session: Session, name: str) -> Iterator[Session]:
    """Give what a native export becomes when it is imported again."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        path = as_source(session, name, folder / "source")
        with holdfast.open_store(folder / "home") as store:
            (done,) = take_all(store, name, path)
            assert done.problems == []
            assert done.session is not None, "the export has no messages"
            with store.open(done.session, mode="read") as again:
                yield again


@contextmanager
def session_of(messages: list[Message]) -> Iterator[Session]:
    """Give a session with these messages."""
    with (
        tempfile.TemporaryDirectory() as folder,
        holdfast.open_store(folder) as store,
        store.create(workspace="/srv/app", provider="anthropic", title="A title") as session,
    ):
        session.append(messages)
        yield session


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></pre></details></article><svg onload=alert(1)>",
    "[x](javascript:alert(1)) ![y](http://evil.example/pixel) <http://ok.example>",
    "[x]( \x01javascript:alert(1)) [y](data:text/html;base64,AAAA) [z](//evil.example)",
    "\x1b]0;title\x07\x1b[31mred\x1b[0m\x9b2J\x1b]52;c;aGk=\x07",
    "a\u2028b\u2029c\x85d\x0be\x0cf\x00g\rh\r\ni",
    "\ud800 lone \udfff and \U0001f600",
    "\u202eright to left\u2066\u200f",
    "```\n</code></pre><script>\n```\n~~~html\n<script>alert(1)</script>\n~~~",
    "| a | b |\n|:-:|--:|\n| <b>x</b> | `<i>` |",
    "## User\n\n---\n\n<!-- --><![CDATA[ ]]>",
    "&lt;script&gt; &#x3c;script&#x3e; &amp;",
    ">" * 300 + "\n" + "".join("  " * level + "- x\n" for level in range(60)),
    "",
    " \n\t ",
]

texts = st.one_of(
    st.sampled_from(HOSTILE), st.text(alphabet=st.characters(exclude_categories=()), max_size=40)
)
"""Any text at all, half surrogate pairs included."""

names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
_data = st.binary(max_size=12).map(lambda data: base64.b64encode(data).decode())
_text = st.builds(Text, text=texts)
_images = st.one_of(
    st.just(Image(media_type="image/png", data=PIXEL)),
    st.builds(Image, media_type=st.just("image/png"), data=_data, url=st.none() | texts),
    st.builds(Image, media_type=texts, data=texts),
)
_files = st.builds(File, name=texts, media_type=texts, data=_data, url=st.none() | texts)
_calls = st.builds(ToolCall, id=names, name=names, arguments=_json, partial=st.none() | texts)
_results = st.builds(
    ToolResult,
    call_id=names,
    content=st.lists(_text | _images | _files, max_size=3),
    outcome=st.sampled_from(["completed", "failed", "cancelled", "denied", "never_ran", "unknown"]),
)
_opaque = st.one_of(
    st.builds(Opaque, vendor=texts, data=_json),
    st.just(Opaque(vendor="anthropic", data={"type": "server_tool_use", "id": "s", "input": {}})),
    st.just(Opaque(vendor="openai", data={"type": "web_search_call", "id": "w"})),
)
_thinking = st.builds(Thinking, text=texts, signature=st.none() | st.just("c2ln"))
_replies = st.builds(
    Message,
    role=st.just("assistant"),
    content=st.lists(st.one_of(_text, _thinking, _calls, _opaque), max_size=4),
    model=st.none() | st.sampled_from(["claude-opus-4-5", "gpt-5", "qwen"]),
    stop=st.none() | st.sampled_from(["end", "tools", "length", "interrupted"]),
    request=st.none() | st.sampled_from(["r1", "r2"]),
)
_prompts = st.builds(
    Message,
    role=st.sampled_from(["user", "system"]),
    content=st.lists(_text | _images | _files, min_size=1, max_size=3),
)
_answers = st.builds(
    Message, role=st.just("tool"), content=st.lists(_results, min_size=1, max_size=2)
)
conversations = st.lists(st.one_of(_prompts, _replies, _answers), min_size=1, max_size=8)
"""Messages of any shape, in any order."""


def _main() -> None:
    folder = Path(tempfile.mkdtemp())
    with golden_session(folder) as session:
        for name in WRITTEN:
            (GOLDEN / name).write_bytes(golden_export(session, name))
    shutil.rmtree(folder)


if __name__ == "__main__":
    _main()
