"""Lines: made, sealed, read back; and what a changed, missing or moved line shows."""

from __future__ import annotations

import json
import re
import threading
import time
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.journal import format as journal_format
from holdfast.journal.format import chain_after, parse, seal, stored_sum, timestamp
from holdfast.model.codec import TooDeep, dumps, encode_body, type_of
from holdfast.model.entry import NO_PARENT_FIELD, Continues, Entry, Gap, Header, Meta, Turn, Unknown
from holdfast.model.message import Message, Text, user
from tests.journal.journal_lines import AT, HEADER, SESSION, Chain
from tests.model import strategies

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=80)
numbers = st.integers(0, 10**15 - 1)


def statuses(lines: list[bytes], previous: bytes | None = b"") -> list[str | None]:
    """Read lines one after the other, as a reader does."""
    result: list[str | None] = []
    for line in lines:
        entry = parse(line, previous, 0, 1)
        result.append(None if entry is None else entry.status)
        previous = chain_after(entry) if entry else stored_sum(line)
    return result


@relaxed
@given(
    seq=numbers,
    body=strategies.any_body,
    previous=st.sampled_from([b"", b"00000000", b"1c291ca3"]),
    parent=st.one_of(st.none(), st.just(NO_PARENT_FIELD), numbers),
    id=st.one_of(st.none(), strategies.texts.filter(bool)),
    batch=st.one_of(st.none(), st.tuples(st.integers(0, 99), st.integers(1, 99))),
)
def test_what_was_sealed_is_read_back_the_same(seq, body, previous, parent, id, batch):
    data, stored = encode_body(body)
    line = seal(seq, AT, type_of(body), data, previous, parent, id, batch)
    assert b"\n" not in line
    assert parse(line, previous, 7, 3) == Entry(
        seq, AT, type_of(body), stored, parent, id, batch, "ok", line, 7, 3
    )


@relaxed
@given(
    seq=numbers, body=strategies.any_body, indent=st.sampled_from([None, 1]), escape=st.booleans()
)
def test_another_spacing_says_the_same_but_is_not_verified(seq, body, indent, escape):
    """A line that another program wrote anew: same values, no checksum that fits."""
    data, stored = encode_body(body)
    line = seal(seq, AT, type_of(body), data, b"")
    again = json.dumps(json.loads(line), ensure_ascii=escape).encode(errors="surrogatepass")
    if not escape and b"\xed" in again:
        again = json.dumps(json.loads(line)).encode()  # lone surrogates are not UTF-8
    entry = parse(again, b"", 0, 1)
    assert entry is not None
    assert (entry.seq, entry.body, entry.status, entry.line) == (seq, stored, "edited", again)


def test_the_line_has_the_documented_shape():
    line = seal(2, AT, "message", b'{"role":"user"}', b"1c291ca3", 1, "an \ud800 id", (0, 2))
    start = rb'{"seq":2,"at":"%s","parent":1,"id":"an \ud800 id","batch":[0,2],' % AT.encode()
    start += b'"type":"message","role":"user"'
    assert line == start + b',"sum":"%08x"}' % crc32(start, crc32(b"1c291ca3"))
    assert seal(2, AT, "turn", b"{}", b"", None).startswith(
        b'{"seq":2,"at":"%s","parent":null,"type":"turn","sum":"' % AT.encode()
    )


def test_crc_over_the_previous_sum_first_is_one_crc_of_both():
    assert crc32(b"tail", crc32(b"1c291ca3")) == crc32(b"1c291ca3tail")


@pytest.mark.parametrize("name", ['say "hi"', "Großes", "a\nb", "\ud800", "", "x" * 300, "a,b"])
def test_an_unknown_type_may_have_any_name(name):
    body = Unknown(type=name, fields={"a": 1})
    line = seal(1, AT, type_of(body), encode_body(body)[0], b"")
    assert b"\n" not in line
    entry = parse(line, b"", 0, 1)
    assert entry is not None
    assert (entry.type, entry.body, entry.status) == (name, body, "ok")


def test_every_line_of_a_whole_journal_is_ok():
    chain = Chain()
    lines = chain.lines([HEADER, Meta({"title": "t"}), user("a"), Turn(state="started")])
    assert statuses(lines) == ["ok"] * 4


class TestDamageShows:
    lines = Chain().lines([HEADER, *(user(f"message {n}") for n in range(5))])

    def test_missing(self):
        assert statuses(self.lines[:2] + self.lines[3:]) == ["ok", "ok", "edited", "ok", "ok"]

    def test_repeated(self):
        lines = self.lines[:3] + self.lines[2:]
        assert statuses(lines) == ["ok", "ok", "ok", "edited", "ok", "ok", "ok"]

    def test_reordered(self):
        lines = [*self.lines[:2], self.lines[3], self.lines[2], *self.lines[4:]]
        assert statuses(lines) == ["ok", "ok", "edited", "edited", "edited", "ok"]

    def test_altered(self):
        altered = self.lines[2].replace(b"message 1", b"MESSAGE 1")
        lines = [*self.lines[:2], altered, *self.lines[3:]]
        assert statuses(lines) == ["ok", "ok", "edited", "ok", "ok", "ok"]

    def test_altered_sum(self):
        wrong = self.lines[2][:-10] + b'00000000"}'
        lines = [*self.lines[:2], wrong, *self.lines[3:]]
        assert statuses(lines) == ["ok", "ok", "edited", "edited", "ok", "ok"]

    def test_unreadable(self):
        lines = [*self.lines[:2], b"\0" * 80, *self.lines[3:]]
        assert statuses(lines) == ["ok", "ok", None, "unverified", "ok", "ok"]

    def test_every_single_bit(self):
        """Whatever one flipped bit makes of a line, it never counts as intact."""
        line, previous = self.lines[2], self.lines[1][-10:-2]
        for index in range(len(line)):
            for bit in range(8):
                wrong = bytearray(line)
                wrong[index] ^= 1 << bit
                entry = parse(bytes(wrong), previous, 0, 1)
                assert entry is None or entry.status == "edited"


@pytest.mark.parametrize(
    "spelling", [str.upper, lambda text: "0x" + text[2:], lambda text: text[:-1]]
)
def test_a_sum_spelled_in_another_way_is_not_the_sum(spelling):
    body = encode_body(user("a"))[0]
    line = next(
        line
        for line in (seal(n, AT, "message", body, b"") for n in range(10_000))
        if re.search(rb'"00[0-9a-f]*[a-f][0-9a-f]*"}$', line)
    )
    wrong = line[:-10] + spelling(line[-10:-2].decode()).encode() + b'"}'
    entry = parse(wrong, b"", 0, 1)
    assert entry is not None
    assert entry.status == "edited"


def test_a_line_without_a_sum_is_edited():
    entry = parse(b'{"seq":3,"at":"x","type":"turn","state":"started"}', b"", 0, 1)
    assert entry is not None
    assert (entry.seq, entry.body, entry.status) == (3, Turn(state="started"), "edited")
    assert chain_after(entry) is None


def test_a_line_without_a_sum_after_one_without_a_sum_is_unverified():
    entry = parse(b'{"seq":3,"at":"x","type":"turn","state":"started"}', None, 0, 1)
    assert entry is not None
    assert entry.status == "unverified"


def test_what_only_looks_like_a_sum_is_none():
    start = b'{"seq":3,"type":"turn","state":"started"'
    line = start + b',"som":"%08x"}' % crc32(start)
    entry = parse(line, b"", 0, 1)
    assert entry is not None
    assert entry.status == "edited"


def test_a_line_after_one_whose_sum_cannot_be_read_is_unverified():
    line = Chain(b"00000000", 4).line(user("a"))
    entry = parse(line, None, 0, 1)
    assert entry is not None
    assert entry.status == "unverified"
    foreign = json.dumps(json.loads(line)).encode()[:-20] + line[-18:]
    entry = parse(foreign, None, 0, 1)
    assert entry is not None
    assert entry.status == "unverified"


GAP = Gap(reason="damage", segment=1, offset=10, length=5, before=3, after=None)


class TestChain:
    def test_a_gap_after_damage_starts_anew(self):
        chain = Chain(b"", 7)
        assert statuses(chain.lines([GAP, user("a")]), None) == ["ok", "ok"]

    def test_a_gap_after_a_readable_line_is_chained_to_it(self):
        chain = Chain()
        assert statuses(chain.lines([HEADER, GAP, user("a")])) == ["ok", "ok", "ok"]
        assert statuses([chain.line(GAP)], b"12345678") == ["edited"]

    def test_after_a_gap_with_a_chain_that_is_the_previous_sum(self):
        old = Chain().lines([HEADER, user("a"), user("b"), user("c")])
        omission = Gap(
            reason="omission",
            segment=1,
            offset=0,
            length=1,
            before=0,
            after=3,
            chain=old[2][-10:-2].decode(),
        )
        gap = Chain(old[0][-10:-2], 2).line(omission)
        assert statuses([old[0], gap, old[3]]) == ["ok", "ok", "ok"]

    def test_after_a_gap_with_an_empty_chain_nothing_can_be_said(self):
        old = Chain().lines([HEADER, user("a"), user("b")])
        gap = Chain(old[0][-10:-2], 1).line(
            Gap(reason="omission", segment=1, offset=0, length=1, before=0, after=2, chain="")
        )
        assert statuses([old[0], gap, old[2]]) == ["ok", "ok", "unverified"]

    def test_after_a_header_with_a_chain(self):
        old = Chain().lines([HEADER, user("a")])
        new_header = Header(format=1, session=SESSION, uid="1" * 32, chain=old[0][-10:-2].decode())
        assert statuses([Chain().line(new_header), old[1]]) == ["ok", "ok"]

    def test_after_the_header_of_a_continuation(self):
        old = Chain().lines([HEADER, user("a"), user("b")])
        header = Header(
            format=1,
            session=SESSION,
            uid="0" * 32,
            continues=Continues(seq=1, sum=old[1][-10:-2].decode()),
        )
        assert statuses([Chain(seq=1).line(header), old[2]]) == ["ok", "ok"]

    @pytest.mark.parametrize("text", ["\ud800", "nonsense", "é" * 9])
    def test_a_chain_that_is_no_sum_harms_nobody(self, text):
        header = Header(
            format=1, session=SESSION, uid="u", continues=Continues(seq=1, sum=text), chain=None
        )
        old = Chain().lines([HEADER, user("a")])
        for body in (header, Header(format=1, session=SESSION, uid="u", chain=text)):
            assert statuses([Chain().line(body), old[1]]) == ["ok", "edited"]


def nested_parts(depth: int) -> bytes:
    start = b'{"type":"tool_result","call_id":"c","outcome":"completed","content":['
    return b'{"role":"tool","content":[%s%s]}' % (start * depth, b"]}" * depth)


class TestDepth:
    @pytest.mark.parametrize("type_name", ["message", "meta", "x_future", "event"])
    def test_an_intact_line_beyond_this_interpreter_keeps_its_bytes(self, type_name):
        deep = b'{"name":"e","data":%s}' % (b"[" * 5000 + b"]" * 5000)
        line = seal(4, AT, type_name, deep, b"", 3, "an id", (1, 2))
        entry = parse(line, b"", 9, 2)
        assert entry == Entry(
            4, AT, type_name, Unknown(type_name, None), 3, "an id", (1, 2), "ok", line, 9, 2
        )
        bare = parse(seal(4, AT, type_name, deep, b""), b"", 0, 1)
        assert bare is not None
        assert (bare.parent, bare.id, bare.batch) == (NO_PARENT_FIELD, None, None)

    def test_the_same_line_altered_cannot_be_read(self):
        deep = b'{"name":"e","data":%s}' % (b"[" * 5000 + b"]" * 5000)
        line = seal(4, AT, "event", deep, b"")
        assert parse(line, b"00000000", 0, 1) is None
        assert parse(line[:-18] + b"}", b"", 0, 1) is None
        assert parse(b" " + line, b"", 0, 1) is None
        start = b'{"seq":4,"at":"x","id":"\xff","type":"event","data":' + b"[" * 5000 + b"]" * 5000
        assert parse(start + b',"sum":"%08x"}' % crc32(start), b"", 0, 1) is None

    @pytest.mark.parametrize("depth", [50, 150, 200, 240, 300, 450])
    @pytest.mark.parametrize("foreign", [False, True])
    def test_parts_within_parts_are_kept_in_some_form(self, depth, foreign):
        line = seal(4, AT, "message", nested_parts(depth), b"")
        if foreign:
            line = line.replace(b'{"seq":4,', b'{"seq":4,"from_2031":1,')
        entry = parse(line, b"", 0, 1)
        if foreign and depth > 50:  # then nothing tells its number
            assert entry is None
            return
        assert entry is not None
        assert entry.type == "message"
        assert isinstance(entry.body, Message) == (depth == 50)
        if isinstance(entry.body, Message):
            assert encode_body(entry.body)[1] == entry.body


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"seq":"1"}',
        b'{"seq":-1}',
        b'{"seq":true}',
        b'{"seq":1.0}',
        b'{"seq":1000000000000000}',
        b'{"seq":1e400}',
        b'{"seq":1',
        b"\xff",
        b"\0\0\0",
        b'{"seq":1}x',
    ],
)
def test_what_is_not_an_entry(line):
    assert parse(line, b"", 0, 1) is None


def test_an_envelope_of_other_types_is_read_as_far_as_it_makes_sense():
    line = b'{"seq":5,"at":7,"parent":"x","id":3,"batch":[1],"type":null,"a":1,"sum":2}'
    entry = parse(line, b"", 0, 1)
    assert entry == Entry(5, "", "", Unknown("", {"a": 1}), status="edited", line=line, segment=1)
    entry = parse(b'{"seq":5,"parent":null,"batch":[0,2],"type":"turn"}', b"", 0, 1)
    assert entry is not None
    assert (entry.parent, entry.batch, entry.body) == (None, (0, 2), Unknown("turn", {}))


def test_a_glued_pair_of_which_the_first_has_no_sum_is_not_one_entry():
    """The start of the first and the sum of the second must not make one line."""
    second = Chain(seq=2).line(user("b"))
    assert parse(b'{"seq":1,"at":"x","type":"turn"}' + second, b"", 0, 1) is None


def test_nan_in_a_foreign_line_is_read():
    entry = parse(b'{"seq":5,"type":"event","name":"e","data":NaN}', b"", 0, 1)
    assert entry is not None
    assert entry.type == "event"


def test_the_time_is_utc_with_milliseconds(monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 1_794_771_612_001_600_000)
    assert timestamp() == "2026-11-15T19:40:12.001Z"
    monkeypatch.setattr(time, "time_ns", lambda: 1_794_771_612_999_900_000)
    assert timestamp() == "2026-11-15T19:40:12.999Z"
    monkeypatch.setattr(time, "time_ns", lambda: 1_794_771_613_000_000_000)
    assert timestamp() == "2026-11-15T19:40:13.000Z"
    monkeypatch.setattr(
        time, "time_ns", lambda: 1_794_771_612_500_000_000
    )  # the clock was set back
    assert timestamp() == "2026-11-15T19:40:12.500Z"


def test_threads_do_not_mix_up_each_others_seconds(monkeypatch):
    """Another thread may pass into the next second between reading the clock and writing it."""
    real = time.strftime
    clock = threading.local()
    monkeypatch.setattr(time, "time_ns", lambda: int(clock.now * 1e9))

    def interrupted(shape, moment):
        if clock.now < 200:
            monkeypatch.setattr(time, "strftime", real)
            other = threading.Thread(target=later)
            other.start()
            other.join()
        return real(shape, moment)

    def later():
        clock.now = 250.0
        timestamp()

    monkeypatch.setattr(journal_format, "_this_second", (-1, ""))
    monkeypatch.setattr(time, "strftime", interrupted)
    clock.now = 100.5
    assert timestamp() == "1970-01-01T00:01:40.500Z"


def test_the_sum_at_the_end_of_a_line():
    assert stored_sum(b'{"a":1,"sum":"1c291ca3"}') == b"1c291ca3"
    for line in [b"", b'{"sum":"1c291ca3"}', b'{"a":1,"sum":"1C291CA3"}', b'"sum":"1c291ca3"} ']:
        assert stored_sum(line) is None


def test_unknown_fields_are_verified_with_the_rest():
    body = Message(role="user", content=[Text(text="a", extra={"x": [1]})], extra={"y": None})
    line = Chain().line(body)
    entry = parse(line, b"", 0, 1)
    assert entry is not None
    assert (entry.body, entry.status) == (body, "ok")
    assert dumps({"x": [1]})[1:-1] in line


def test_a_body_that_is_too_deep_to_be_understood_is_held_as_json(monkeypatch):
    def revive(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(journal_format, "revive_body", revive)
    line = seal(1, AT, "turn", b'{"state":"started"}', b"")[:-18] + b"}"  # no sum: the slow way
    entry = parse(line, b"", 0, 1)
    assert entry is not None
    assert entry.body == Unknown(type="turn", fields={"state": "started"})


def test_nothing_is_salvaged_from_a_line_with_too_many_values(monkeypatch):
    record = seal(1, AT, "turn", b'{"state":"started"}', b"")
    assert journal_format.salvage(b"\0" + record)

    def refuse(_: bytes) -> None:
        raise TooDeep

    monkeypatch.setattr(journal_format, "may_be_deep", refuse)
    assert journal_format.salvage(b"\0" + record) == []
