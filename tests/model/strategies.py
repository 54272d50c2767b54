"""Random values of the model, for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from holdfast.model import entry, message
from holdfast.model.entry import ENVELOPE

# Characters that have broken readers, more often than chance would bring them.
_STRANGE = ["\0", "\n", "\u2028", "\x7f", '"', "\\", "\ud800", "\udfff", "\U0001f600", "", "é"]


def _joined(characters: str) -> str:
    """Join surrogate halves that stand beside each other: JSON cannot tell them from the whole."""
    return characters.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


texts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.lists(st.sampled_from(_STRANGE), max_size=5).map("".join).map(_joined),
)
keys = st.one_of(texts, st.sampled_from(["", "type", "text", "role", "content", "blob", "sum"]))
integers = st.one_of(st.integers(), st.integers(-(10**30), 10**30))
scalars = st.one_of(
    st.none(), st.booleans(), integers, st.floats(allow_nan=False, allow_infinity=False), texts
)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=8,
)
json_objects = st.dictionaries(keys, json_values, max_size=5)


def _extras(struct: type[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Fields that the struct does not have."""
    own = _names(struct)
    return st.one_of(
        st.just({}),
        st.dictionaries(keys.filter(lambda key: key not in own), json_values, max_size=3),
    )


def _names(struct: type[Any]) -> set[str]:
    taken = {name for name in struct.__struct_fields__ if name != "extra"}
    return taken | {"type"} if issubclass(struct, message.Part) else taken | set(ENVELOPE)


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


counts = st.integers(0, 10**14)
blobs = st.builds(
    message.BlobRef,
    sha256=texts,
    size_bytes=counts,
    media_type=texts,
    encoding=texts,
    preview=texts,
    extra=_extras(message.BlobRef),
)


def _part(struct: type[Any], **fields: Any) -> st.SearchStrategy[Any]:
    return st.builds(struct, blob=_maybe(blobs), extra=_extras(struct), **fields)


def _is_unknown(fields: dict[str, Any]) -> bool:
    return fields.get("type") not in (
        "text",
        "thinking",
        "image",
        "file",
        "tool_call",
        "tool_result",
        "opaque",
    )


simple_parts = st.one_of(
    _part(message.Text, text=texts),
    _part(message.Thinking, text=texts, signature=_maybe(texts)),
    _part(message.Image, media_type=texts, data=texts, url=_maybe(texts)),
    _part(message.File, name=texts, media_type=texts, data=texts, url=_maybe(texts)),
    _part(message.ToolCall, id=texts, name=texts, arguments=json_values, partial=_maybe(texts)),
    _part(message.Opaque, vendor=texts, data=json_values),
    st.builds(message.UnknownPart, fields=json_objects.filter(_is_unknown)),
)
parts = st.recursive(
    simple_parts,
    lambda inner: _part(
        message.ToolResult, call_id=texts, content=st.lists(inner, max_size=3), outcome=texts
    ),
    max_leaves=4,
)
contents = st.lists(parts, max_size=3)
messages = st.builds(
    message.Message,
    role=st.sampled_from(["user", "assistant", "tool", "system"]),
    content=contents,
    model=_maybe(texts),
    stop=_maybe(texts),
    stream=_maybe(texts),
    request=_maybe(texts),
    queued=_maybe(counts),
    extra=_extras(message.Message),
)


def _body(struct: type[Any], **fields: Any) -> st.SearchStrategy[Any]:
    return st.builds(struct, extra=_extras(struct), **fields)


bodies = {
    "header": _body(
        entry.Header,
        format=counts,
        session=texts,
        uid=texts,
        key=_maybe(texts),
        forked_from=_maybe(_body(entry.ForkedFrom, session=texts, seq=_maybe(counts))),
        continues=_maybe(st.builds(entry.Continues, seq=counts, sum=texts)),
        holds=counts,
        chain=_maybe(texts),
    ),
    "writer": _body(entry.WriterInfo, pid=counts, host=texts, version=texts),
    "meta": st.builds(
        entry.Meta,
        fields=st.dictionaries(
            keys.filter(lambda key: key not in ENVELOPE), json_values, max_size=4
        ),
    ),
    "message": messages,
    "tool": _body(
        entry.Tool, call_id=texts, name=texts, state=texts, effect=texts, process=json_values
    ),
    "usage": _body(
        entry.Usage,
        input=counts,
        output=counts,
        cost_usd=_maybe(st.floats(0, 1000)),
        cache_read=counts,
        cache_write=counts,
        model=_maybe(texts),
    ),
    "turn": _body(entry.Turn, state=texts, cause=_maybe(texts)),
    "checkpoint": _body(
        entry.Checkpoint,
        summary=st.lists(messages, max_size=2),
        keep_from=counts,
        tokens=_maybe(counts),
    ),
    "head": _body(entry.Head, to=_maybe(counts)),
    "queued": _body(entry.Queued, content=contents, replaces=_maybe(counts)),
    "approval": _body(
        entry.Approval, call_id=texts, arguments_sha256=texts, decision=texts, rule=_maybe(texts)
    ),
    "label": _body(entry.Label, name=texts, to=_maybe(counts)),
    "snapshot": _body(
        entry.Snapshot,
        name=texts,
        encoding=st.sampled_from(["json", "base64", "none", "x"]),
        value=json_values,
        blob=_maybe(blobs),
    ),
    "event": _body(entry.Custom, name=texts, data=json_values, complete=_maybe(st.booleans())),
    "mark": _body(entry.Mark, state=json_objects),
    "gap": _body(
        entry.Gap,
        reason=texts,
        segment=counts,
        offset=counts,
        length=counts,
        before=_maybe(counts),
        after=_maybe(counts),
        chain=_maybe(texts),
    ),
    "x_future": st.builds(
        entry.Unknown,
        type=st.just("x_future"),
        fields=st.dictionaries(
            keys.filter(lambda key: key not in ENVELOPE), json_values, max_size=4
        ),
    ),
}
any_body = st.one_of(*bodies.values())
