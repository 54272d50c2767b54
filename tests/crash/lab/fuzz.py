"""Coverage-guided fuzzing: ``python -m tests.crash.lab.fuzz TARGET FOLDER MUTANT [libFuzzer's …]``.

A process of its own, because the fuzzer never returns. Each target takes arbitrary bytes and raises
if a promise is broken: only errors of Holdfast's own, no hang, a second opening changes nothing,
nothing outside the home is touched. ``FOLDER`` is a scratch folder. Any input that failed is tried
again by naming its file in place of libFuzzer's options.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]  # it has no types

with atheris.instrument_imports(include=["holdfast"]):
    import holdfast
    from holdfast.files import Files
    from holdfast.journal import bounded
    from holdfast.journal.format import parse
    from holdfast.model import codec
    from holdfast.model.entry import BODIES, Entry
    from holdfast.store.local.compressed import CompressedFile
    from holdfast.store.local.layout import MACHINE_ID_PATHS
    from holdfast.store.local.reader import Journal
    from holdfast.store.store import Store

from tests.crash import mutants
from tests.crash.patient import Patient, conversation

_SUM = re.compile(rb',"sum":"[0-9a-f]{8}"\}$')
_SEQ = re.compile(rb'^\{"seq":\d+,')
_NEARLY_TOO_DEEP = 500
_NAMES = [*BODIES, "invention", ""]
_MACHINE_ID_FILES = {os.path.realpath(path) for path in MACHINE_ID_PATHS}

Target = Callable[[bytes], None]


def _sealed(data: bytes, *, renumber: bool) -> bytes:
    """Let the checksums fit, and the numbers rise: no mutation hits on that by chance."""
    lines = []
    previous = b""
    for number, given in enumerate(data.split(b"\n")):
        line = _SEQ.sub(b'{"seq":%d,' % number, given) if renumber else given
        if _SUM.search(line):
            sum_text = b"%08x" % crc32(line[:-18], crc32(previous))
            line, previous = b'%s,"sum":"%s"}' % (line[:-18], sum_text), sum_text
        lines.append(line)
    return b"\n".join(lines)


def _shaped(data: bytes) -> bytes:
    """Return the bytes behind the first, which says what is done to them."""
    how, rest = data[:1], data[1:]
    choice = how[0] % 3 if how else 0
    return rest if choice == 0 else _sealed(rest, renumber=choice == 2)


def journal(folder: Path) -> Target:
    """Arbitrary bytes in the place of a journal: opened, written and opened again."""
    patient = Patient(folder / "a home", conversation([["one"], ["two", "three"]]))

    def once(data: bytes) -> None:
        data = _shaped(data)
        patient.reports_stay = max(data.count(b"["), data.count(b"{")) < _NEARLY_TOO_DEEP
        with suppress(holdfast.HoldfastError):
            patient.treat(data)
        patient.store.list()
        with suppress(holdfast.HoldfastError):
            patient.store.verify(patient.id)

    return once


def lines(folder: Path) -> Target:
    """Arbitrary bytes as a journal that is only read: forward, backward and by number alike."""
    path = folder / "journal.jsonl"

    def once(data: bytes) -> None:
        path.write_bytes(_shaped(data))
        with Journal(Files(), folder) as journal:
            forward = list(journal.records())
            numbers = [record.seq for record in forward if isinstance(record, Entry)]
            for block in journal.last.forward(0):
                inside = [record.seq for record in block.records if isinstance(record, Entry)]
                assert inside == sorted(set(inside)), "numbers do not rise"
            backward = [record for block in journal.blocks_backward() for record in block.records]
            seen = {record.seq for record in backward if isinstance(record, Entry)}
            assert seen >= set(numbers), "backward fewer lines are read than forward"
            for number in numbers[:3]:
                found = journal.find(number)
                assert found is not None, f"{number} is not found"
                assert found.seq == number, f"{number} is found as {found.seq}"

    return once


def live(folder: Path) -> Target:
    """Arbitrary bytes in the place of the file of running streams."""
    patient = Patient(folder / "a home", conversation([["one"], ["two"]]))
    path = patient.folder / "live.jsonl"

    def once(data: bytes) -> None:
        patient.infect(patient.data)
        path.write_bytes(_live_lines(data))
        with patient.store.open(patient.id, mode="read") as session:
            shown = session.messages
        with patient.store.open(patient.id) as session:
            assert session.messages == shown, "opening keeps other text than reading shows"
        with patient.store.open(patient.id) as session:
            assert session.messages == shown, "a second opening has other messages"
            assert not session.recovery.interrupted, "a second opening keeps text again"

    return once


def _live_lines(data: bytes) -> bytes:
    """Let checksums fit where the first byte says so; here each line has its own."""
    how, rest = data[:1], data[1:]
    if not how or how[0] % 2 == 0:
        return rest
    return b"\n".join(
        b'%s,"sum":"%08x"}' % (line[:-18], crc32(line[:-18])) if _SUM.search(line) else line
        for line in rest.split(b"\n")
    )


def decoding(_: Path) -> Target:
    """Any JSON that is read as a body can be written, and reads the same again."""

    def once(data: bytes) -> None:
        kind = _NAMES[data[0] % len(_NAMES)] if data else ""
        parse(data[1:], b"", 0, 1)
        try:
            body = codec.decode_body(kind, data[1:])
        except (ValueError, RecursionError):
            return  # not JSON, or too deep: what those who call it expect
        try:
            written, again = codec.encode_body(body)
        except holdfast.UsageError:
            return
        assert codec.dumps(codec.plain(codec.decode_body(kind, written))) == codec.dumps(
            codec.plain(again)
        ), "what is written reads differently"
        assert codec.encode_body(again)[0] == written, "what is read is written differently"

    return once


def reading(folder: Path) -> Target:
    """Arbitrary bytes through the bounded reader: as lines, as gzip and zstd, as a packed journal.

    Whatever they claim, no more comes out than the limits allow, and only its own errors do.
    """
    path = folder / "foreign"
    limits = bounded.ReadLimits(
        line_bytes=1000, total_bytes=256 * 1024, ratio=20, free_bytes=64 * 1024
    )
    files, module = Files(), bounded.zstd()
    packers: list[Callable[[bytes], bytes]] = [bytes, gzip.compress, module.compress]

    def once(data: bytes) -> None:
        how, rest = (data[0] if data else 0), data[1:]
        content = packers[how % 3](rest * (how // 3 + 1)) + rest[: how % 7]
        path.write_bytes(content)
        with bounded.BoundedReader(files, path, limits) as reader:
            assert b"".join(reader.chunks()) == content, "other bytes than the file has"
            for packing in ("gzip", "zstd"):
                size = 0
                with suppress(bounded.TooMuch, bounded.BrokenPacking):
                    content_of = bounded.unpacked(reader.chunks(), packing, limits)
                    for line in bounded.lines(content_of, limits):
                        size += line.size_bytes
                        assert line.data is None or len(line.data) <= limits.line_bytes
                assert size <= limits.total_bytes, "more than the total"
            packed = CompressedFile(files, reader.descriptor)
            assert bounded.LIMITS.allow(len(content), packed.size), "more than the ratio"
            assert sum(map(len, packed.pieces())) == packed.size, "another size than it has"

    return once


class FakeFencedFiles(Files):
    """Refuses every path that is not below the home, before anything can happen."""

    def __init__(self, home: Path) -> None:
        self._home = str(home)

    def _check(self, *paths: Any) -> None:
        for path in paths:
            text = os.fspath(path)
            if text in _MACHINE_ID_FILES:
                continue  # the key of the record of origin is bound to this machine
            inside = text == self._home or text.startswith(f"{self._home}{os.sep}")
            assert inside or self._home.startswith(text), f"{text!r} is not below the home"
            assert ".." not in Path(text).parts, f"{text!r} leads out of the home"


def _fenced(name: str, paths: int) -> None:
    real = getattr(Files, name)

    def call(self: FakeFencedFiles, *args: Any, **options: Any) -> Any:
        self._check(*args[:paths])
        return real(self, *args, **options)

    setattr(FakeFencedFiles, name, call)


for _name in ("open_append", "open_read", "open_lock", "status_of", "names", "folders"):
    _fenced(_name, 1)
for _name in ("make_folder", "unlink", "remove_folder", "touch", "sync_folder"):
    _fenced(_name, 1)
for _name in ("rename", "link"):
    _fenced(_name, 2)


def names(folder: Path) -> Target:
    """Arbitrary text as id, part, key or path: nothing outside the home is so much as looked at."""
    home = folder / "a home"
    store = holdfast.open_store(home, files=FakeFencedFiles(home))
    for key in ("telegram:42", "another"):
        with store.session(key) as session:
            session.append(holdfast.user("hello"))
    # Ways out, if any were followed.
    (home / "sessions" / "keyed" / ("key-" + "a" * 52)).symlink_to(folder)
    (home / "sessions" / "2026-01").symlink_to(folder)

    def once(data: bytes) -> None:
        how = data[0] % 8 if data else 0
        text = data[1:].decode("utf-8", "surrogateescape" if how % 2 else "replace")
        # Inside the home a path is accepted as well: try those that begin so.
        if how >= 6:
            text = f"{home}/sessions/{text}"
        for call in (
            lambda: store.open(text, mode="read").close(),
            lambda: store.open(text).close(),
            lambda: store.session(text, mode="read").close(),
            lambda: _use(store, text, writes=how == 5),
            lambda: store.create(session_id=text).close(),
            lambda: store.verify(text),
            lambda: store.restore(text),
        ):
            with suppress(holdfast.HoldfastError):
                call()

    return once


def _use(store: Store, key: str, *, writes: bool) -> None:
    """Have a session of that key; with ``writes`` it is made, and removed again."""
    with store.session(key) as session:
        known = session.state.seq >= 0
        if writes:
            session.append(holdfast.user("hello"))
    if writes and not known:
        shutil.rmtree(session.path)


TARGETS: dict[str, Callable[[Path], Target]] = {
    "journal": journal,
    "lines": lines,
    "live": live,
    "decoding": decoding,
    "names": names,
    "reading": reading,
}


def main() -> None:
    """Fuzz one target, until libFuzzer has enough."""
    name, folder, mutant, *options = sys.argv[1:]
    if mutant:
        mutants.apply(mutant)
    target = TARGETS[name](Path(tempfile.mkdtemp(dir=folder)))
    atheris.Setup([sys.argv[0], *options], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
