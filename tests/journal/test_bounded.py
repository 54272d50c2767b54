"""The bounded reader: what it gives back is what is there, and never more than its limits allow."""

from __future__ import annotations

import gzip
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.files import Files
from holdfast.journal import bounded
from holdfast.journal.bounded import (
    BoundedReader,
    BrokenPacking,
    ReadLimits,
    TooMuch,
    frame,
    frame_sizes,
    lines,
    unpacked,
    zstd,
)
from holdfast.store.local.compressed import CompressedFile

PACKERS = {"gzip": gzip.compress, "zstd": zstd().compress}
packings = st.sampled_from(sorted(PACKERS))
texts = st.binary(max_size=300) | st.builds(lambda a, n: a * n, st.binary(max_size=5), st.just(99))


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut bytes into pieces at some places."""
    ends = sorted({min(place, len(data)) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(texts, st.lists(st.integers(0, 400)), packings)
def test_what_was_packed_comes_out_however_it_arrives(data, places, packing):
    pieces = cut(PACKERS[packing](data) + PACKERS[packing](b"more"), places)
    assert b"".join(unpacked(pieces, packing)) == data + b"more"


@given(st.binary(max_size=200), packings, st.integers(1, 500), st.integers(1, 20))
def test_never_more_than_the_limits_allow(data, packing, most, ratio):
    limits = ReadLimits(total_bytes=most, ratio=ratio, free_bytes=50)
    packed = PACKERS[packing](data * 10)
    found = b""
    try:
        for piece in unpacked([packed], packing, limits):
            found += piece
    except TooMuch:
        assert not limits.allow(len(packed), len(data) * 10)
    else:
        assert found == data * 10
    assert limits.allow(len(packed), len(found))


@given(st.binary(max_size=300), packings)
def test_arbitrary_bytes_raise_only_errors_of_ours(data, packing):
    with suppress(BrokenPacking, TooMuch):
        assert len(b"".join(unpacked([data], packing))) <= bounded.LIMITS.free_bytes


@given(st.binary(min_size=1, max_size=100), packings, st.data())
def test_what_breaks_off_is_told(data, packing, draw):
    packed = PACKERS[packing](data)
    size = draw.draw(st.integers(1, len(packed) - 1))
    with pytest.raises(BrokenPacking):
        list(unpacked([packed[:size]], packing))


def test_what_other_files_have_used_up_counts():
    limits = ReadLimits(total_bytes=1000)
    packed = gzip.compress(b"x" * 600)
    assert b"".join(unpacked([packed], "gzip", limits, spent=400)) == b"x" * 600
    with pytest.raises(TooMuch):
        list(unpacked([packed], "gzip", limits, spent=401))


@given(st.lists(st.binary(max_size=30)), st.integers(0, 20))
def test_lines_are_those_of_the_content_and_none_is_too_long(pieces, most):
    whole = b"".join(pieces)
    wanted = whole.split(b"\n")
    if not wanted[-1]:
        wanted.pop()
    found = list(lines(pieces, ReadLimits(line_bytes=most)))
    assert [line.size_bytes for line in found] == [len(line) for line in wanted]
    assert [line.data for line in found] == [x if len(x) <= most else None for x in wanted]
    assert [line.number for line in found] == list(range(1, len(wanted) + 1))


def test_a_file_is_read_up_to_the_size_it_had(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(bounded, "PIECE_BYTES", 4)
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with BoundedReader(Files(), path) as reader:
        path.write_bytes(b"0123456789 and more")
        assert list(reader.chunks()) == [b"0123", b"4567", b"89"]
        assert list(reader.chunks(3, 6)) == [b"345"]
        path.write_bytes(b"012345")
        assert list(reader.chunks()) == [b"0123", b"45"]  # it was cut


def test_a_frame_has_the_size_that_it_claims():
    module = zstd()
    packed = module.compress(b"x" * 1000)
    assert frame(module, packed, 1000) == b"x" * 1000
    assert frame(module, packed, 999) is None
    assert frame(module, packed, 1001) is None
    assert frame(module, b"nonsense", 8) is None
    assert frame(module, packed[:-3], 1000) is None


def test_the_sizes_of_a_frame_are_found_by_reading_it(tmp_path: Path, monkeypatch):
    module, path = zstd(), tmp_path / "file"
    noise = os.urandom(50_000)
    packed = module.compress(noise)
    path.write_bytes(packed + b"what stands behind it")
    with BoundedReader(Files(), path) as reader:
        assert frame_sizes(module, Files(), reader.descriptor, 0) == (len(packed), 50_000)
        assert frame_sizes(module, Files(), reader.descriptor, len(packed)) is None
        assert frame_sizes(module, Files(), reader.descriptor, len(packed) + 21) is None
        monkeypatch.setattr(bounded, "LARGEST_FRAME_BYTES", 10_000)
        assert frame_sizes(module, Files(), reader.descriptor, 0) is None
    monkeypatch.setattr(bounded, "LARGEST_FRAME_BYTES", 100)
    path.write_bytes(module.compress(b"x" * 1000))
    with BoundedReader(Files(), path) as reader:
        assert frame_sizes(module, Files(), reader.descriptor, 0) is None


@given(st.binary(max_size=400))
def test_a_packed_journal_of_arbitrary_bytes_is_bounded(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("packed") / "file"
    path.write_bytes(data)
    with BoundedReader(Files(), path) as reader:
        packed = CompressedFile(Files(), reader.descriptor)
        assert sum(map(len, packed.pieces())) == packed.size
