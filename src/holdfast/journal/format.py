"""How a journal line is made and read back.

A line is an envelope, a body and a checksum, in this order::

    {"seq":2,"at":"…","parent":1,"type":"message", <body fields> ,"sum":"1c291ca3"}

``sum`` is CRC-32 over the previous line's stored sum (eight hex digits, as ASCII) followed by this
line's bytes up to, not including, ``,"sum":``. The first line of a file has no previous sum, and
neither has a gap line that follows one without a readable sum: there the chain starts anew. After
a gap or header with a ``chain`` field that field is the previous sum (empty: unknown), and after
the header of a continuation the ``continues.sum``: so lines keep their bytes when they are moved
or written again.

Lines of our own making are decoded in one go; anything else (unknown fields, no sum at the end,
numbers or characters that not everybody reads) is taken apart with care.

Drafts become entries: numbers, times, parents and checksums, each line behind the one before.

A number is given once. What was numbered by an attempt that did not succeed keeps its numbers and
its bytes when it is tried again.
"""

from __future__ import annotations

import json
import re
import time
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any
from zlib import crc32

from msgspec import Struct

from holdfast.journal.bounded import LONGEST_LINE_BYTES
from holdfast.model.codec import TooDeep, decode_line, dumps, loads, may_be_deep, revive_body
from holdfast.model.entry import (
    ENVELOPE,
    LARGEST_SEQ,
    NO_PARENT_FIELD,
    Body,
    Entry,
    Gap,
    Head,
    Header,
    Status,
    Unknown,
    in_tree,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.journal.ticket import Ticket

_SUM_FIELD = b',"sum":"'
_SUM_LENGTH = len(_SUM_FIELD) + 8 + 2
_SUM = re.compile(rb',"sum":"([0-9a-f]{8})"\}$')
_START = re.compile(
    rb'\{"seq":(\d{1,15}),"at":"([0-9A-Za-z:.+-]{1,40})",(?:"parent":(\d{1,15}|null),)?'
    rb'(?:"id":("(?:[^"\\]|\\.){1,4000}"),)?(?:"batch":(\[\d{1,9},\d{1,9}\]),)?'
    rb'"type":"([a-z_]{1,40})"'
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
SEQ_START = re.compile(rb'\{"seq":(\d{1,15}),')
_RECORD_START = re.compile(rb'\{"seq":\d')
_SCANNER = json.JSONDecoder(parse_int=str, parse_float=str)  # a number of any length will do
_BEFORE_A_RECORD = (b"", b"}", b"\0")
_MOST_SALVAGE_TRIES = 1000
_MOST_SALVAGED_BYTES = 2 * LONGEST_LINE_BYTES  # read by tries that failed

CHAIN_SETTERS = frozenset({"gap", "header"})
"""Types that may start the chain of checksums anew, or say how it goes on."""

_MILLISECONDS = tuple(f".{number:03d}Z" for number in range(1000))
_this_second = (-1, "")  # one value, so that no thread sees the half of another's change


def timestamp() -> str:
    """Return the time now as it stands in an entry: UTC, milliseconds, ``Z``."""
    global _this_second  # noqa: PLW0603  one strftime a second instead of one an entry
    now, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    second, text = _this_second
    if second != now:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        _this_second = now, text
    return text + _MILLISECONDS[milliseconds]


def is_time(at: str) -> bool:
    """Tell whether text can stand as the time of a line; another program may have written any."""
    return _TIME.fullmatch(at) is not None


@lru_cache(maxsize=64)
def _quoted(type_name: str) -> str:
    return dumps(type_name).decode()


def seal(
    seq: int,
    at: str,
    type_name: str,
    body: bytes,
    previous: bytes,
    parent: int | None = NO_PARENT_FIELD,
    id: str | None = None,
    batch: tuple[int, int] | None = None,
) -> bytes:
    """Return a whole line without its newline, chained to the previous line's sum.

    ``at`` is written as it is: a time that comes from elsewhere has to pass ``is_time`` first.
    """
    optional = ""
    if parent != NO_PARENT_FIELD:
        optional = f'"parent":{"null" if parent is None else parent},'
    if id is not None:
        optional += f'"id":{dumps(id).decode()},'
    if batch is not None:
        optional += f'"batch":[{batch[0]},{batch[1]}],'
    start = f'{{"seq":{seq},"at":"{at}",{optional}"type":{_quoted(type_name)}'.encode()
    inside = body[1:-1]
    line = b"%b,%b" % (start, inside) if inside else start
    return b'%b,"sum":"%08x"}' % (line, crc32(line, crc32(previous)))


def stored_sum(line: bytes) -> bytes | None:
    """Return the checksum at the end of a line, ``None`` if there is none to be read."""
    found = _SUM.search(line, max(0, len(line) - _SUM_LENGTH))
    return found[1] if found else None


def chain_after(entry: Entry) -> bytes | None:
    """Return the previous sum for the line after ``entry``."""
    body = entry.body
    if isinstance(body, Gap | Header) and body.chain is not None:
        return body.chain.encode(errors="replace") or None
    if isinstance(body, Header) and body.continues is not None:
        return body.continues.sum.encode(errors="replace")
    return stored_sum(entry.line)


def parse(line: bytes, previous: bytes | None, offset: int, segment: int) -> Entry | None:
    """Read one line; ``None`` if it cannot be read as an entry at all.

    ``previous`` is the sum the line is chained to: ``b""`` at the start of a file, ``None`` if it
    could not be read.
    """
    try:
        entry = decode_line(line)
    except RecursionError:
        return _parse_unfathomable(line, previous, offset, segment)
    if entry is None or line[-_SUM_LENGTH:-10] != _SUM_FIELD:
        return _parse_foreign(line, previous, offset, segment)
    if previous is None or line[-10:-2] != b"%08x" % crc32(line[:-_SUM_LENGTH], crc32(previous)):
        entry.status = _status(line, previous, entry.type)
    entry.line = line
    entry.offset = offset
    entry.segment = segment
    return entry


def _status(line: bytes, previous: bytes | None, type_name: str) -> Status:
    if previous is None:
        if type_name not in CHAIN_SETTERS:
            return "unverified"
        previous = b""
    fitting = b"%08x" % crc32(line[:-_SUM_LENGTH], crc32(previous))
    return "ok" if line[-10:-2] == fitting else "edited"


def _parse_foreign(line: bytes, previous: bytes | None, offset: int, segment: int) -> Entry | None:
    try:
        fields = loads(line)
    except RecursionError:
        return _parse_unfathomable(line, previous, offset, segment)
    except ValueError:
        return None
    if not isinstance(fields, dict) or not _is_number(fields.get("seq")):
        return None
    type_name = fields.get("type")
    own = {name: value for name, value in fields.items() if name not in ENVELOPE}
    body: Body
    if isinstance(type_name, str):
        try:
            body = revive_body(type_name, own)
        except RecursionError:  # parts within parts: as JSON it can still be held
            body = Unknown(type=type_name, fields=own)
    else:
        type_name, body = "", Unknown(type="", fields=own)
    parent = fields.get("parent", NO_PARENT_FIELD)
    batch = fields.get("batch")
    at, id_value = fields.get("at"), fields.get("id")
    status = _status(line, previous, type_name)
    if status == "ok" and stored_sum(line) is None:
        status = "edited"  # what fits only looks like a sum
    return Entry(
        seq=fields["seq"],
        at=at if isinstance(at, str) else "",
        type=type_name,
        body=body,
        parent=parent if parent is None or _is_number(parent) else NO_PARENT_FIELD,
        id=id_value if isinstance(id_value, str) else None,
        batch=_pair(batch),
        status=status,
        line=line,
        offset=offset,
        segment=segment,
    )


def _parse_unfathomable(
    line: bytes, previous: bytes | None, offset: int, segment: int
) -> Entry | None:
    """Read a line that is nested too deep for this interpreter: if it is intact, keep its bytes."""
    found = _START.match(line)
    if found is None or stored_sum(line) is None:
        return None
    seq, at, parent, id_text, batch, type_bytes = found.groups()
    type_name = type_bytes.decode()
    if _status(line, previous, type_name) != "ok":
        return None
    return Entry(
        int(seq),
        at.decode(),
        type_name,
        Unknown(type=type_name, fields=None),
        NO_PARENT_FIELD if parent is None else loads(parent),
        None if id_text is None else loads(id_text),
        None if batch is None else _pair(loads(batch)),
        line=line,
        offset=offset,
        segment=segment,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_SEQ


def _pair(value: Any) -> tuple[int, int] | None:
    if isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)):
        return value[0], value[1]
    return None


def salvage(line: bytes) -> list[tuple[int, bytes]]:
    """Find whole records inside a line that cannot be read, each with its place in the line.

    Records may be glued together, follow a run of NULs where a block was lost, or end a line whose
    beginning was torn off. An object inside a torn record looks like one, but follows something
    else; it must not be taken for an entry.
    """
    try:
        may_be_deep(line)
    except TooDeep:  # more values than are ever held in memory
        return []
    text = line.decode("latin-1")  # one character a byte: places stay what they are
    pieces: list[tuple[int, bytes]] = []
    end = tried_bytes = 0
    for found in islice(_RECORD_START.finditer(line), _MOST_SALVAGE_TRIES):
        start = found.start()
        if start >= end:
            try:
                _, end = _SCANNER.raw_decode(text, start)
            except (ValueError, RecursionError) as error:
                # Each failure may have read to the end of the line: a long one is not tried often.
                tried_bytes += getattr(error, "pos", len(line)) - start
                if tried_bytes > _MOST_SALVAGED_BYTES:
                    break
                continue
            is_sealed_end = end == len(line) and stored_sum(line) is not None
            if line[start - 1 : start] in _BEFORE_A_RECORD or is_sealed_end:
                pieces.append((start, line[start:end]))
    return pieces


class Cursor(Struct, frozen=True, gc=False):
    """Where numbering stands: behind the last durable entry.

    ``chain`` is the sum that the next line is chained to, ``head`` the next parent.
    """

    last_seq: int | None
    next_seq: int
    chain: bytes
    head: int | None
    since_mark_bytes: int = 0


def assign_sequence(
    tickets: Sequence[Ticket], cursor: Cursor, at: str | None = None
) -> tuple[list[Entry], Cursor]:
    """Give every ticket its entries; return all of them, and the cursor behind the last one."""
    numbered: list[Entry] = []
    at = at or timestamp()
    seq, chain, head = cursor.next_seq, cursor.chain, cursor.head
    since = cursor.since_mark_bytes
    for ticket in tickets:
        ticket.trailer = ()
        if ticket.entries:  # by an earlier attempt, which did not succeed
            head, since = _after(ticket.entries, head, since)
            seq, chain = ticket.entries[-1].seq + 1, ticket.entries[-1].sum
            numbered += ticket.entries
            continue
        entries: list[Entry] = []
        drafts, ids = ticket.drafts, ticket.ids
        if ticket.known_entries:  # written by an earlier call
            drafts, ids = drafts[len(ticket.known_entries) :], ids[len(ticket.known_entries) :]
        last = len(drafts) - 1
        batch = own_id = None
        for index, (type_name, body, data) in enumerate(drafts):
            parent: int | None = NO_PARENT_FIELD
            if in_tree(type_name, body):
                parent, head = head, seq
            elif type(body) is Head:
                head = body.to
            if last:
                batch = (index, last + 1)
            if ids:
                own_id = ids[index]
            line = seal(seq, at, type_name, data, chain, parent, own_id, batch)
            entries.append(Entry(seq, at, type_name, body, parent, own_id, batch, "ok", line))
            chain = line[-10:-2]
            since = 0 if type_name == "mark" else since + len(line)
            seq += 1
        ticket.entries = entries
        numbered += entries
    return numbered, Cursor(seq - 1, seq, chain, head, since)


def _after(
    entries: Sequence[Entry], head: int | None, since_mark_bytes: int
) -> tuple[int | None, int]:
    """Return the next parent and the bytes since a mark, after entries numbered before."""
    for entry in entries:
        since_mark_bytes += len(entry.line)
        if in_tree(entry.type, entry.body):
            head = entry.seq
        elif isinstance(entry.body, Head):
            head = entry.body.to
    return head, since_mark_bytes
