"""Sound journals are told from all others; whatever is doubtful is looked at with care."""

from __future__ import annotations

import random

import pytest

import holdfast
from holdfast.files import Files
from holdfast.journal.format import seal
from holdfast.model.codec import encode_body
from holdfast.model.entry import Gap, Header
from holdfast.store.local.fast_verify import verify_fast
from tests.disk import FakeUnsyncedFiles


@pytest.fixture
def session(store):
    with store.create(title="t") as session:
        session.append([holdfast.user("one"), holdfast.user("two"), holdfast.user("three")])
        session.usage(input=1, output=2, model="m")
    return session


@pytest.fixture
def journal(session):
    return session.path / "journal.jsonl"


def look(session, seen=None, progress=None):
    return verify_fast(Files(), session.path, (seen if seen is not None else []).append, progress)


def test_a_sound_journal_is_counted(store, session, journal):
    steps = []
    found = look(session, progress=lambda done, total: steps.append((done, total)))
    report = store.verify(session.id)
    assert found is not None
    assert (found.entries, found.messages, found.size_bytes, found.holds) == (
        report.entries,
        3,
        journal.stat().st_size,
        1,
    )
    assert steps == [(found.size_bytes, found.size_bytes)]


def test_entries_that_name_blobs_are_shown(store):
    with store.create() as session:
        session.append(holdfast.user("large " * 60_000))
        session.append(holdfast.user('it says "blob"'))
        session.append(holdfast.user("it says blob"))
    seen: list[holdfast.Entry] = []
    assert look(session, seen) is not None
    assert [entry.seq for entry in seen] == [1]


def test_a_journal_of_many_blocks(store, monkeypatch):
    monkeypatch.setattr("holdfast.store.local.fast_verify._BLOCK_BYTES", 1000)
    with store.create() as session:
        for number in range(100):
            session.append(holdfast.user(f"message {number}"))
    found = look(session)
    assert found is not None
    assert found.messages == 100
    with store.open(session.id) as session:
        session.append(holdfast.user("longer than a block" * 100))
    assert look(session) is None
    assert store.verify(session.id).ok


def test_a_compacted_journal_is_sound(store):
    with store.create() as session:
        for number in range(6):
            session.append(holdfast.user(f"message {number}"))
        session.rewind(3)
        session.append(holdfast.user("other"))
        session.compact()
        session.append(holdfast.user("more"))
    found = look(session)
    assert found is not None
    assert found.messages < 8


def test_a_journal_in_several_files_is_not_for_here(fragile, files):
    with fragile.create() as session:
        session.append(holdfast.user("one"))
        files.fail("sync", name="journal.jsonl")
        session.append(holdfast.user("two"))
    assert look(session) is None
    assert fragile.verify(session.id).ok
    with fragile.open(session.id) as session:
        session.compact()
    found = look(session)
    assert found is not None
    assert found.holds == 2


def test_every_change_of_a_byte_and_every_end_is_noticed(session, journal):
    data = journal.read_bytes()
    chance = random.Random(7)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= chance.choice([1, 2, 4, 8, 16, 32, 64, 128])
        journal.write_bytes(changed)
        assert look(session) is None, place
    lines = {place + 1 for place, byte in enumerate(data) if byte == 10}
    batch = [place for place in lines if b'"batch":[2,3]' in data[:place]]
    header_and_meta = [place for place in lines if b'"batch"' not in data[:place]]
    for end in range(len(data)):
        journal.write_bytes(data[:end])
        whole = end in batch or end in header_and_meta
        assert (look(session) is not None) == whole, end


def test_lines_that_are_missing_repeated_or_moved(session, journal):
    lines = journal.read_bytes().splitlines(keepends=True)
    for changed in (
        lines[:2] + lines[3:],
        [*lines[:3], lines[2], *lines[3:]],
        [*lines[:2], lines[3], lines[2], *lines[4:]],
        [*lines[:2], b"\n", *lines[2:]],
        lines[1:],
    ):
        journal.write_bytes(b"".join(changed))
        assert look(session) is None


def line(seq, body, chain, type_name):
    return seal(seq, "2026-05-06T18:00:00.000Z", type_name, encode_body(body)[0], chain)


def test_well_sealed_lines_that_are_wrong_all_the_same(session, journal):
    header = line(0, Header(1, session.id, "u"), b"", "header")
    again = line(0, holdfast.user("a"), header[-10:-2], "message")
    gap = line(1, Gap("damage", 1, 2, 3, 0, None, ""), header[-10:-2], "gap")
    no_entry = seal(-1, "x", "message", b'{"blob":1}', header[-10:-2])
    early_gap = line(0, Gap("damage", 1, 2, 3, 0, None, "12345678"), b"", "gap")
    for lines in (
        [header, again],
        [header, gap],
        [header, no_entry],
        [early_gap],
    ):
        journal.write_bytes(b"".join(each + b"\n" for each in lines))
        assert look(session) is None
    journal.write_bytes(header + b"\n")
    assert look(session) is not None


def test_a_line_that_names_a_blob_and_is_no_entry(session, journal):
    header = line(0, Header(1, session.id, "u"), b"", "header")
    strange = seal(2**60, "x", "message", b'{"blob":1}', header[-10:-2])
    journal.write_bytes(header + b"\n" + strange + b"\n")
    assert look(session) is None


def test_a_journal_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        verify_fast(FakeUnsyncedFiles(), tmp_path, lambda entry: None)
