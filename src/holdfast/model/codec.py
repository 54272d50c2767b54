"""JSON to values and back, faithful to what it does not understand.

Two speeds. The fast one is msgspec with strict structs: anything unknown makes it fail. Only then
comes the slow one, which takes the object apart by hand and keeps every unknown field in ``extra``
and every unknown part or type whole. So the common line is decoded at full speed and the strange
one without loss.

What counts as JSON is decided by the standard library, the second opinion: msgspec refuses lone
surrogates, NaN and very large numbers, all of which other programs write.
"""

from __future__ import annotations

import json
import math
import re
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import Raw, Struct

from holdfast.errors import UsageError
from holdfast.model.entry import (
    BODIES,
    ENVELOPE,
    LARGEST_SEQ,
    NO_PARENT_FIELD,
    TYPES,
    Body,
    Checkpoint,
    Entry,
    Meta,
    Queued,
    Unknown,
)
from holdfast.model.message import (
    EXTRA_NAME,
    AnyPart,
    Message,
    Part,
    ToolResult,
    UnknownPart,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
_ENCODER = msgspec.json.Encoder()
_ANYTHING = msgspec.json.Decoder()
_DECODERS = {
    name: msgspec.json.Decoder(struct) for name, struct in BODIES.items() if struct is not Meta
}
_DECODERS_OF = {struct: _DECODERS[name] for struct, name in TYPES.items() if name in _DECODERS}
_PARTS = {
    cast("str", part.__struct_config__.tag): part
    for part in get_args(AnyPart)
    if part is not UnknownPart
}
_FIELDS = {
    struct: msgspec.structs.fields(struct) for struct in [*_PARTS.values(), *BODIES.values()]
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNKNOWN = "unknown"
_LONGEST_INT = 4000  # digits; CPython refuses to convert more than 4,300

DEEPEST_LEVELS = 200
"""JSON that is nested deeper is not taken apart: every reader would need as many stack frames."""

MOST_VALUES = 2_000_000
"""JSON with more values is not taken apart: in memory it is fifty times as large as on disk."""

LARGEST_BODY_BYTES = 60 * 1024 * 1024
"""A larger body is refused: no reader would load its line."""

# A line is an envelope and a body in one object. For each type a struct of both is made here, so
# that a line is decoded in one go; ``_LINE_TYPES`` says how to get the body out of it.
_Number = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_SEQ)]
_ENVELOPE_FIELDS: list[Any] = [
    ("seq", _Number),
    ("at", str),
    ("sum", str),
    ("parent", _Number | None, NO_PARENT_FIELD),
    ("id", str | None, None),
    ("batch", tuple[_Number, _Number] | None, None),
]


def _line_struct(name: str, body: type[Struct]) -> tuple[type[Struct], Callable[[Any], Any]]:
    own = [field for field in msgspec.structs.fields(body) if field.name != "extra"]
    needed = [(f.name, f.type) for f in own if f.required]
    optional = [(f.name, f.type, f.default) for f in own if not f.required]
    struct = msgspec.defstruct(
        f"{body.__name__}Line",
        [*_ENVELOPE_FIELDS[:3], *needed, *_ENVELOPE_FIELDS[3:], *optional],
        tag=name,
        tag_field="type",
        forbid_unknown_fields=True,
        gc=False,
    )
    names = [field.name for field in own]
    if len(names) == 1:
        return struct, lambda line: (getattr(line, names[0]),)
    return struct, attrgetter(*names)


_LINE_TYPES: dict[type[Struct], tuple[str, type[Struct], Callable[[Any], Any]]] = {}
for _name, _struct in BODIES.items():
    if _struct is not Meta:
        _line, _own_fields = _line_struct(_name, _struct)
        _LINE_TYPES[_line] = (_name, _struct, _own_fields)
_LINES: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Union[tuple(_LINE_TYPES)])  # noqa: UP007  built at run time


class TooDeep(RecursionError):
    """JSON that is nested too deep, or has too many values, to be taken apart."""


def may_be_deep(data: bytes) -> bool:
    """Tell whether JSON text may be nested too deep; hardly any is, which its brackets prove.

    Raises:
        TooDeep: it has more values than are taken apart.
    """
    if len(data) < 2 * DEEPEST_LEVELS:
        return False
    opened = data.count(b"[") + data.count(b"{")
    if len(data) > MOST_VALUES and opened + data.count(b",") > MOST_VALUES:
        raise TooDeep(f"it may have more than {MOST_VALUES} values")
    return opened > DEEPEST_LEVELS


def _check_depth(value: Any) -> None:
    """Raise ``TooDeep`` for decoded JSON, or a body, that is nested too deep."""
    level: list[Any] = [value]
    for _ in range(DEEPEST_LEVELS):
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += each.values()
            elif isinstance(each, list):
                below += each
            elif isinstance(each, Struct):
                below += [getattr(each, name) for name in each.__struct_fields__]
        level = [each for each in below if isinstance(each, dict | list | Struct)]
        if not level:
            return
    raise TooDeep(f"it is nested deeper than {DEEPEST_LEVELS} levels")


def loads(data: bytes) -> Any:
    """Decode any JSON text.

    Numbers that Python cannot hold are kept as ``msgspec.Raw``, so that they are written back as
    they were.

    Raises:
        ValueError: not JSON (bad UTF-8 included).
        RecursionError: it is nested deeper, or has more values, than is taken apart.
    """
    deep = may_be_deep(data)
    try:
        value = _ANYTHING.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = json.loads(data.decode(), parse_int=_whole_number, parse_float=_real_number)
    if deep:
        _check_depth(value)
    return value


def _whole_number(digits: str) -> int | Raw:
    return int(digits) if len(digits) <= _LONGEST_INT else Raw(digits.encode())


def _real_number(digits: str) -> float | Raw:
    number = float(digits)
    return number if math.isfinite(number) else Raw(digits.encode())


def dumps(value: Any) -> bytes:
    """Encode plain JSON values compactly; a lone surrogate becomes its escape."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _spelled(value).encode()


def _spelled(value: Any) -> str:
    """Spell out what holds a lone surrogate; numbers kept as ``Raw`` may stand beside it."""
    if isinstance(value, dict):
        fields = (f"{_spelled(key)}:{_spelled(item)}" for key, item in value.items())
        return f"{{{','.join(fields)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_spelled, value))}]"
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return _ENCODER.encode(value).decode()


def canonical(data: bytes) -> bytes:
    """Return JSON with the keys of every object in order, to compare what two texts say."""
    return dumps(_in_order(loads(data)))


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(each) for each in value] if isinstance(value, list) else value


def type_of(body: Body) -> str:
    """Return the ``type`` that stands on a body's line."""
    return body.type if isinstance(body, Unknown) else TYPES[type(body)]


def decode_body(type_name: str, data: bytes) -> Body:
    """Decode a line's own fields, ``data`` being a JSON object without the envelope.

    Raises:
        ValueError: not a JSON object.
        RecursionError: nested too deep.
    """
    decoder = _DECODERS.get(type_name)
    if decoder is not None:
        deep = may_be_deep(data)
        try:
            body = cast("Body", decoder.decode(data))
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # something unknown is in it: the slow way keeps it
        else:
            if deep:
                _check_depth(body)
            return body
    return revive_body(type_name, loads(data))


def decode_line(line: bytes) -> Entry | None:
    """Decode a whole line at full speed; ``None`` if it holds anything that needs the slow way.

    Raises:
        RecursionError: nested too deep.
    """
    deep = may_be_deep(line)
    try:
        flat = _LINES.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if deep:
        _check_depth(flat)
    type_name, struct, own_fields = _LINE_TYPES[type(flat)]
    body: Any = struct(*own_fields(flat))
    return Entry(flat.seq, flat.at, type_name, body, flat.parent, flat.id, flat.batch)


def revive_body(type_name: str, fields: object) -> Body:
    """Make a body from a decoded JSON object, keeping what this version does not know."""
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    if type_name == "meta":
        return Meta(fields=fields)
    struct = BODIES.get(type_name)
    if struct is not None:
        try:
            return cast("Body", _revive(struct, fields))
        except msgspec.ValidationError:
            pass  # a known name with a shape of its own: not ours to reject
    return Unknown(type=type_name, fields=fields)


def _revive(struct: type[Struct], fields: dict[str, Any]) -> Struct:
    rest = dict(fields)
    if issubclass(struct, Part):
        rest.pop("type", None)
    known = {
        field.name: _revive_as(field.type, rest.pop(field.encode_name))
        for field in _FIELDS.get(struct) or msgspec.structs.fields(struct)
        if field.encode_name in rest and field.encode_name != EXTRA_NAME
    }
    try:
        return struct(**known, extra=rest)
    except TypeError as error:  # a required field is missing
        raise msgspec.ValidationError(str(error)) from error


def _revive_as(wanted: Any, value: Any) -> Any:
    if get_origin(wanted) is list and isinstance(value, list):
        (item,) = get_args(wanted)
        if item == AnyPart:
            return [_revive_part(part) for part in value]
        return [_revive_as(item, each) for each in value]
    if isinstance(value, dict):
        for choice in (wanted, *get_args(wanted)):
            if isinstance(choice, type) and issubclass(choice, Value):
                return _revive(choice, value)
    return convert(value, wanted)


def _revive_part(fields: Any) -> Part:
    if not isinstance(fields, dict):
        raise msgspec.ValidationError("a part must be a JSON object")
    name = fields.get("type")
    struct = _PARTS.get(name) if isinstance(name, str) else None
    if struct is not None:
        try:
            return cast("Part", _revive(struct, fields))
        except msgspec.ValidationError:
            pass  # as above
    return UnknownPart(fields=fields)


def convert(value: Any, wanted: type[_T]) -> _T:
    """Return JSON data as a value of a type.

    Raises:
        msgspec.ValidationError: it is not of that shape.
    """
    try:
        return msgspec.convert(value, wanted)
    except UnicodeEncodeError as error:  # half a surrogate pair where there is no place for it
        raise msgspec.ValidationError(str(error)) from error


def encode_body(body: Body) -> tuple[bytes, Body]:
    """Encode a body, and return with the bytes the body that a reader will make of them.

    What is written is read back at once and compared: nothing that could not be restored ever
    reaches a journal, and what is kept in memory shares nothing with the caller's own objects.

    Raises:
        UsageError: the body cannot be stored faithfully; says what is wrong.
    """
    decoder = _DECODERS_OF.get(type(body))
    if decoder is not None:
        try:
            data = _ENCODER.encode(body)
            again: Any = decoder.decode(data)
            if again == body and len(data) <= LARGEST_BODY_BYTES and not may_be_deep(data):
                return data, again
        except (TypeError, ValueError, RecursionError):
            pass  # the careful way will say what is wrong
    return _encode_carefully(body)


def _encode_carefully(body: Body) -> tuple[bytes, Body]:
    try:
        type_name = type_of(body)
        if not isinstance(type_name, str):
            raise UsageError("The type of an entry must be a string.")
    except KeyError:
        raise UsageError(
            f"{type(body).__name__} cannot be stored: append a message such as "
            "holdfast.user('…'), another entry body, or a list of them."
        ) from None
    try:
        data = dumps(_faithful(plain(body), type_name))
        again = decode_body(type_name, data)
    except RecursionError:
        raise UsageError(f"This {type_name} is nested too deeply to be stored.") from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"This {type_name} cannot be stored as JSON: {error}.") from None
    if not _is_alike(again, body):
        raise UsageError(f"This {type_name} lacks a field, or has a field of the wrong type.")
    if len(data) > LARGEST_BODY_BYTES:
        raise UsageError(
            f"This {type_name} is too large to be stored: {len(data)} bytes, at most "
            f"{LARGEST_BODY_BYTES} are allowed. Save large data in a file and store its path."
        )
    _check_names(again)
    return data, again


def _check_names(body: Body) -> None:
    names = body.fields or {} if isinstance(body, Meta | Unknown) else body.extra
    for name in ENVELOPE:
        if name in names:
            raise UsageError(
                f"The field name {name!r} is reserved for the journal. Use another name."
            )


def _is_alike(again: Any, body: Any) -> bool:
    """Tell whether what was read back has the structs of the original in the same places."""
    if isinstance(body, list | tuple):
        return isinstance(again, list) and all(map(_is_alike, again, body))
    if isinstance(body, UnknownPart):
        return not body.extra and body.blob is None  # everything it has is in its fields
    if isinstance(body, Meta | Unknown):
        return type(again) is type(body)
    if not isinstance(body, Value):
        return True
    if type(again) is not type(body):
        return False
    # Where an extra field has the name of a known one, reading makes it that one.
    fields = msgspec.structs.astuple
    return len(again.extra) == len(body.extra) and all(map(_is_alike, fields(again), fields(body)))


def shown(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON data for those who show it: whatever has a name has its shape, too.

    What this version does not know, or what is not of the shape that its type has, becomes an
    object whose only field is the type ``unknown``.
    """
    envelope = {"seq": entry.seq, "at": entry.at}
    if isinstance(entry.body, Unknown):
        return {**envelope, "type": _UNKNOWN}
    return {**envelope, "type": entry.type, **plain(_without_unknown(entry.body))}


def in_known_shape(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a decoded line as ``shown`` returns an entry."""
    own = {name: value for name, value in fields.items() if name not in ENVELOPE}
    type_name = str(fields.get("type"))
    entry = Entry(fields["seq"], str(fields.get("at")), type_name, revive_body(type_name, own))
    return shown(entry)


def _without_unknown(value: Any) -> Any:
    if isinstance(value, UnknownPart):
        return {"type": _UNKNOWN}
    if isinstance(value, list):
        return [_without_unknown(item) for item in value]
    if isinstance(value, Message | Checkpoint | Queued | ToolResult):
        changed = {
            name: _without_unknown(getattr(value, name))
            for name in ("content", "summary")
            if hasattr(value, name)
        }
        return msgspec.structs.replace(value, **changed)
    return value


def plain(value: Any) -> Any:
    """Return a value as plain JSON data, unknown fields put back where they were."""
    if isinstance(value, UnknownPart | Meta | Unknown):
        return plain(value.fields)
    if isinstance(value, Value):
        fields = {
            field.encode_name: plain(item)
            for field in _FIELDS.get(type(value)) or msgspec.structs.fields(value)
            if (item := getattr(value, field.name)) != _default(field) or field.required
        }
        fields.pop(EXTRA_NAME, None)
        if isinstance(value, Part):
            fields = {"type": value.__struct_config__.tag, **fields}
        return {**fields, **value.extra}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def _default(field: msgspec.structs.FieldInfo) -> Any:
    """Return the value of a field that is not written out."""
    made = field.default_factory
    return field.default if made is msgspec.NODEFAULT else cast("Callable[[], Any]", made)()


def _faithful(value: Any, where: str) -> Any:
    """Return ``value`` if JSON can hold it, else say where it cannot."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise UsageError(f"{where} has a key that is not a string: {key!r}.")
        return {key: _faithful(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_faithful(item, f"{where}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{where} is {value}, which JSON cannot represent. Use null or a string.")
    if value is None or isinstance(value, str | int | float | Raw):
        return value
    raise UsageError(f"{where} has the type {type(value).__name__}, which JSON cannot represent.")
