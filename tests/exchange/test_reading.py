"""Foreign files of the worst kind: reading them costs little and harms nothing."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import ImportRejected
from holdfast.exchange.importing import source_files as module
from holdfast.exchange.importing.json_fields import (
    amount,
    count,
    parse_time,
    parsed,
    record,
    records,
    rows,
    text,
)
from holdfast.exchange.importing.source_files import SourceReader, is_plain_name
from holdfast.journal import bounded
from holdfast.journal.bounded import ReadLimits

zstd = pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")


def records_of(path, data):
    path.write_bytes(data)
    reading = SourceReader()
    found = list(reading.records(path))
    return found, [(each.line, each.reason) for each in reading.problems]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "source.jsonl"


def test_lines_are_split_on_the_newline_byte_alone(path):
    data = '{"a":"x\u2028y"}\r\n\n   \n{"b":1}'.encode()
    assert records_of(path, data) == ([{"a": "x\u2028y"}, {"b": 1}], [])


def test_bad_lines_are_reported_with_their_numbers(path):
    deep = b"[" * 100_000
    data = b'{"a":1}\n{"b":\n[1]\n\xff\xfe\n' + deep + b"\n\n" + b'{"c":2}\n"text"\n'
    found, problems = records_of(path, data)
    assert found == [{"a": 1}, {"c": 2}]
    assert [line for line, _ in problems] == [2, 3, 4, 5, 8]
    assert problems[3][1] == "is nested too deeply or has too many values"


def test_lone_surrogates_and_large_numbers_are_json(path):
    found, problems = records_of(path, b'{"a":"\\ud800"}\n{"b":1' + b"0" * 5000 + b"}\n")
    assert len(found) == 2
    assert problems == []


def test_what_is_glued_to_a_torn_record_is_found(path):
    data = b'{"type":"a","n":1}\n{"type":"b","t":"torn{"type":"c","n":2}\n\0\0\0{"type":"d"}\n'
    found, problems = records_of(path, data)
    assert [each["type"] for each in found] == ["a", "c", "d"]
    assert [line for line, _ in problems] == [2, 3]


def test_an_object_inside_a_torn_record_is_no_record(path):
    data = b'{"type":"a"}\n{"type":"b","message":{"role":"user"}\n'
    assert records_of(path, data)[0] == [{"type": "a"}]


def test_a_line_that_is_too_long_is_passed_over(path, monkeypatch):
    monkeypatch.setattr(module, "LIMITS", ReadLimits(line_bytes=1000))
    monkeypatch.setattr(bounded, "PIECE_BYTES", 300)
    long = b'{"a":"' + b"x" * 2000 + b'"}'
    fits = b'{"a":"' + b"x" * (1000 - 8) + b'"}'
    found, problems = records_of(path, b'{"n":1}\n' + long + b"\n" + fits + b'\n{"n":2}\n' + long)
    assert found == [{"n": 1}, json.loads(fits), {"n": 2}]
    assert [line for line, _ in problems] == [2, 5]


def test_many_problems_are_counted_and_the_first_are_kept(path):
    path.write_bytes(b"x\n" * 1000)
    reading = SourceReader()
    assert list(reading.records(path)) == []
    assert reading.problem_count == 1000
    assert len(reading.problems) == module.MOST_PROBLEMS


HUGE = """
import sys
from benchmarks.resume_child import peak_bytes
from holdfast.exchange.importing.source_files import SourceReader
reading = SourceReader()
print([list(each) for each in reading.records(sys.argv[1])])
print(reading.problem_count)
print(peak_bytes() // 1_000_000)
"""


def test_a_file_of_holes_is_refused(path):
    with path.open("wb") as file:
        file.write(b'{"a":1}\n')
        file.truncate(1024**4)
    with pytest.raises(ImportRejected, match="holes"):
        list(SourceReader().records(path))


def test_a_very_long_line_costs_little_memory(path):
    with path.open("wb") as file:
        file.write(b'{"a":1}\n{"long":"')
        for _ in range(400):
            file.write(b"x" * 1024**2)
        file.write(b'"}\n{"b":2}\n')
    done = subprocess.run(
        [sys.executable, "-c", HUGE, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],  # where the benchmarks are
    )
    found, problems, megabytes = done.stdout.split("\n")[:3]
    assert found == "[['a'], ['b']]"
    assert problems == "1"
    assert int(megabytes) < 150


def test_links_pipes_and_folders_are_refused(tmp_path):
    (tmp_path / "real.jsonl").write_text('{"a":1}\n')
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    for name, reason in [
        ("link", "symbolic link"),
        ("pipe", "regular file"),
        ("folder", "regular file"),
        ("missing", "cannot be opened"),
    ]:
        with pytest.raises(ImportRejected, match=reason):
            list(SourceReader().records(tmp_path / f"{name}.jsonl"))
    with pytest.raises(ImportRejected):
        SourceReader().document("a\0b")


def test_no_link_below_a_folder_is_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.jsonl").write_text("{}\n")
    inside = tmp_path / "inside"
    (inside / "deeper").mkdir(parents=True)
    (inside / "deeper" / "a.jsonl").write_text("{}\n")
    (inside / "b.jsonl").symlink_to(outside / "secret.jsonl")
    (inside / "c").symlink_to(outside)
    (inside / "loop").symlink_to(inside)
    assert list(SourceReader().files_below(inside, ".jsonl")) == [inside / "deeper" / "a.jsonl"]
    moved = tmp_path / "moved"
    moved.symlink_to(inside)
    assert [each.name for each in SourceReader().files_below(moved, ".jsonl")] == ["a.jsonl"]
    assert list(SourceReader().files_below(tmp_path / "nowhere", ".jsonl")) == []


def test_folders_that_go_down_for_ever(tmp_path):
    folder = tmp_path
    for _ in range(30):
        folder /= "d"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text("{}\n")
    assert list(SourceReader().files_below(tmp_path, ".jsonl")) == []


def test_a_document_of_any_size_is_no_document(path, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_DOCUMENT_BYTES", 1000)
    path.write_bytes(b"[" + b"1," * 1000 + b"1]")
    with pytest.raises(ImportRejected, match="more than 1000 bytes"):
        SourceReader().document(path)
    path.write_bytes(b"[" * 900)
    with pytest.raises(ImportRejected, match="not JSON"):
        SourceReader().document(path)
    monkeypatch.setattr(module, "LARGEST_DOCUMENT_BYTES", 10**6)
    path.write_bytes(b"[" * 300_000 + b"]" * 300_000)
    with pytest.raises(ImportRejected, match="nested too deep"):
        SourceReader().document(path)


@pytest.mark.parametrize("ending", ["zst", "gz"])
def test_packed_lines(path, ending):
    pack = zstd.compress if ending == "zst" else gzip.compress
    data = b"".join(b'{"n":%d}\n' % number for number in range(100_000))
    target = path.with_name(f"source.jsonl.{ending}")
    target.write_bytes(pack(data) + pack(b'{"last":1}\n'))
    found = list(SourceReader().records(target))
    assert len(found) == 100_001
    assert found[-1] == {"last": 1}


@pytest.mark.parametrize("ending", ["zst", "gz"])
def test_a_bomb_does_not_go_off(path, ending):
    pack = zstd.compress if ending == "zst" else gzip.compress
    target = path.with_name(f"source.jsonl.{ending}")
    line = b'{"a":"' + b"x" * 1_000_000 + b'"}\n'
    target.write_bytes(pack(line * 80))
    reading = SourceReader()
    with pytest.raises(ImportRejected, match="too much for a session"):
        for _ in reading.records(target):
            pass


def test_damage_in_gzip(path):
    target = path.with_name("source.jsonl.gz")
    target.write_bytes(gzip.compress(b'{"n":1}\n') + b"nonsense" * 100)
    reading = SourceReader()
    assert list(reading.records(target)) == [{"n": 1}]
    assert "cannot be unpacked from here on" in reading.problems[0].reason
    target.write_bytes(b"nonsense" * 100)
    with pytest.raises(ImportRejected, match="cannot be unpacked"):
        list(SourceReader().records(target))


def test_progress_and_the_end_that_it_brings(path):
    path.write_bytes(b'{"a":"' + b"x" * 500_000 + b'"}\n' + b'{"a":1}\n' * 200_000)
    seen = []
    size = path.stat().st_size
    list(SourceReader(progress=lambda *each: seen.append(each), total_bytes=size).records(path))
    assert seen[-1] == (size, size)
    assert seen == sorted(seen)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(SourceReader(progress=stop).records(path))


def test_names_that_may_become_paths():
    assert all(map(is_plain_name, ["ses_1", "a b", "ä.json", "x" * 200]))
    bad = [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc/passwd",
        ".hidden",
        "a\0b",
        "a\nb",
        "x" * 201,
        "\ud800",
    ]
    assert not any(map(is_plain_name, bad))


STRANGE = [None, 1, 1.5, True, "x", [], {}, [1], {"a": 1}, float("nan"), 10**400]


@pytest.mark.parametrize("value", STRANGE, ids=range(len(STRANGE)))
def test_no_value_makes_looking_at_it_fail(value):
    for look in (text, record, rows, records, count, amount):
        look(value, "a")
        look({"a": value}, "a")
    parsed(value)
    parse_time(value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-05-06T18:00:00.123Z", "2026-05-06T18:00:00.123Z"),
        ("2026-05-06T18:00:00Z", "2026-05-06T18:00:00.000Z"),
        ("2026-05-06T18:00:00.123456789Z", "2026-05-06T18:00:00.123Z"),
        ("2026-05-06T20:00:00+02:00", "2026-05-06T18:00:00.000Z"),
        ("2026-05-06 18:00:00", "2026-05-06T18:00:00.000Z"),
        ("2026-W01-1T19:40:12.001Z", "2025-12-29T19:40:12.001Z"),
        (1770000000, "2026-02-02T02:40:00.000Z"),
        (1770000000000, "2026-02-02T02:40:00.000Z"),
        (1770000000000000, "2026-02-02T02:40:00.000Z"),
        (1770000000.5, "2026-02-02T02:40:00.500Z"),
        ("0001-01-01T00:00:00+10:00", None),
        ("9999-12-31T23:59:59.999Z", None),
        ("yesterday", None),
        (-5, None),
        (True, None),
        (10**30, None),
    ],
)
def test_times(given, expected):
    assert parse_time(given) == expected


def test_files_below_a_folder_that_cannot_be_read(tmp_path, monkeypatch):
    reading = SourceReader()

    def refuse(folder: Path) -> list[os.DirEntry[str]]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(reading.files, "folders", refuse)
    assert list(reading.files_below(tmp_path, ".jsonl")) == []
    assert reading.problems[0].reason == "cannot be read (Permission denied)"
