"""Copies of files with holes take no more room than the original, and are durable."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from holdfast.files import Files
from holdfast.journal import bounded
from holdfast.journal.bounded import BoundedReader, TooMuch, data_pieces
from holdfast.store.local.compressed import pack
from holdfast.store.local.sparse_copy import copy_file, save_bytes

MIB = 1 << 20


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    with path.open("wb") as file:
        file.write(b"a" * MIB)
        file.seek(2**30)
        file.write(b"b" * MIB)
        file.truncate(2**40)
    return path


def test_a_hole_stays_a_hole(tmp_path, source, files):
    copy_file(files, source, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_size == 2**30 + MIB
    assert (tmp_path / "copy").stat().st_blocks * 512 < 8 * MIB
    with (tmp_path / "copy").open("rb") as file:
        assert file.read(MIB + 1) == b"a" * MIB + b"\0"
        file.seek(2**30 - 1)
        assert file.read() == b"\0" + b"b" * MIB
    assert files.unsynced == {}
    assert ("copy", []) in files.renamed
    assert not files.left_open


def test_a_part_of_a_file_is_saved_by_its_content(tmp_path, source, files):
    with source.open("rb") as file:
        spans = [(0, 2), (2**30 - MIB, 2**40)]
        saved = [
            save_bytes(files, file.fileno(), each, tmp_path / "damaged", "x") for each in spans
        ]
    assert [each.stat().st_size for each in saved] == [2, 2 * MIB]
    assert len({each.name for each in saved}) == 2
    assert saved[1].read_bytes()[MIB:] == b"b" * MIB


@pytest.mark.parametrize("method", ["write", "truncate", "sync", "rename"])
def test_nothing_is_left_of_a_copy_that_failed(tmp_path, source, files, method):
    files.fail(method)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        copy_file(files, source, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == [source]
    assert not files.left_open


def test_a_file_that_is_cut_while_it_is_read(source):
    with source.open("rb") as file:
        pieces = data_pieces(Files(), file.fileno(), 0, 2**40)
        assert next(pieces) == (0, b"a" * MIB)
        os.truncate(source, MIB)
        assert list(pieces) == []


def test_a_file_of_holes_is_not_read_by_the_bounded_reader(source, monkeypatch):
    with BoundedReader(Files(), source) as reader:
        with pytest.raises(TooMuch, match="holes"):
            next(reader.chunks())
        assert b"".join(reader.chunks(0, 10)) == b"a" * 10
    with BoundedReader(Files(), source, bounded.ReadLimits(free_bytes=MIB, ratio=2**30)) as reader:
        assert next(reader.chunks()) == b"a" * MIB


def test_a_file_of_holes_is_not_packed(source):
    with pytest.raises(OSError, match="holes"):
        pack(Files(), source)
