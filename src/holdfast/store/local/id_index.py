"""Which entry has an id, found without reading history.

The journal decides; this only says where to look. For every id there is a record of a hash and a
number. Records of the end of the journal are in memory, those of the rest in sorted runs beside it:

    ids.json              what the runs are complete for: journal, number, sum, place; signed
    ids-<name>.runs       sorted records of 16 bytes, in pages with a checksum each

Every hit is looked up in the journal, then in the archives of rewrites, so a wrong record costs
time and nothing else. A missing record could have an entry written twice. So the runs count only if
this home signed that they are complete up to a line that the journal still has, in the same file,
with the same archives beside it. If the journal was copied, received, restored, rewritten or
altered, if a page is torn or a file missing, everything is read once and saved again. The signature
rejects files that came from elsewhere; who can write to the folder could alter the journal itself.

Runs are not synced: after a power cut a page that was lost shows by its checksum.
"""

from __future__ import annotations

import hmac
import re
import threading
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
from msgspec import Struct

from holdfast.journal.bounded import LONGEST_LINE_BYTES
from holdfast.journal.format import parse, salvage
from holdfast.model.codec import loads
from holdfast.model.entry import Entry, Header
from holdfast.model.ids import new_name
from holdfast.store.local.layout import ARCHIVE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.files import Files
    from holdfast.store.local.provenance import OriginKey
    from holdfast.store.local.reader import Journal
    from holdfast.store.local.segment import Segment

INDEX_NAME = "ids.json"
RUNS_NAME = re.compile(r"ids-[a-z2-9]{8}\.runs")

_SAVE_EVERY_IDS = 4096
_SAVE_EVERY_BYTES = 2 * 1024 * 1024
SAVE_AT_CLOSE_BYTES = 256 * 1024
_LARGEST_BYTES = 64 * 1024
_LEAST_WASTE_BYTES = 1024 * 1024
_PURPOSE = b"ids\n"  # what is signed for something else does not count here
_CHUNK_BYTES = 1024 * 1024
_HASH_BYTES = 8
_RECORD_BYTES = 16
_PAGE_RECORDS = 63
_PAGE_BYTES = (_PAGE_RECORDS + 1) * _RECORD_BYTES
_HASHES = 1 << (8 * _HASH_BYTES)

# The envelope of a line of our own making, up to its type.
_OWN_LINE = re.compile(
    rb'\{"seq":(\d{1,15}),"at":"[^"\\]{1,40}",(?:"parent":(?:\d{1,15}|null),)?'
    rb'(?:"id":("(?:[^"\\]|\\.){1,12000}"),)?(?:"batch":\[\d{1,9},\d{1,9}\],)?"type":"'
)
_ID_FIELD = b'"id":'


class _Complete(Struct, frozen=True):
    """What the runs are complete for: the journal up to a place, and its archives."""

    session: str
    uid: str
    inode: int
    seq: int
    sum: str
    segment: int
    offset: int
    archives: str
    file: str
    runs: list[tuple[int, int]]
    """Where each run begins in the file, and how many records it has; the largest first."""


class _Signed(Struct):
    index: msgspec.Raw
    mac: str


class _Unusable(Exception):
    """The runs cannot be relied on."""


class IdIndex:
    """Finds ids in one journal, which may grow. Used by any thread."""

    def __init__(self, journal: Journal, key: OriginKey | None) -> None:
        self._files = journal.files
        self._folder = journal.folder
        self._key = key
        header = journal.header.body if journal.header is not None else None
        self._uid = header.uid if isinstance(header, Header) else ""
        self._lock = threading.Lock()
        self._saving = threading.Lock()  # always taken before the other
        self._loaded = False
        self._forget()

    def find(self, journal: Journal, id: str) -> Entry | None:
        """Return the last entry with that id, also one that a rewrite has archived."""
        digest = _digest(id.encode("utf-8", "surrogatepass"))
        with self._lock:
            self._catch_up(journal)
            try:
                numbers = self._numbers(digest)
            except (_Unusable, OSError):
                self._forget()
                self._catch_up(journal)
                numbers = self._numbers(digest)
        for seq in sorted(numbers, reverse=True):
            entry = journal.find(seq)
            if entry is not None and entry.id == id:
                return entry
        found = None
        for entry in _archived(self._files, self._folder) if numbers else ():
            if entry.id == id:
                found = entry
        return found

    def catch_up(self, journal: Journal) -> None:
        """Read what is not known yet."""
        with self._lock:
            self._catch_up(journal)

    # Knowing all records. The caller holds the lock.

    def _forget(self) -> None:
        """Know nothing: the whole journal will be read."""
        self._saved: _Complete | None = None
        self._recent: dict[bytes, tuple[int, ...]] = {}
        self._being_saved: dict[bytes, tuple[int, ...]] = {}
        self._place = (0, 0)  # segment and offset up to which records are known

    def _catch_up(self, journal: Journal) -> None:
        if not self._loaded:
            self._load(journal)
            self._loaded = True
        if self._place == (0, 0):
            for entry in _archived(self._files, self._folder):
                self._add(_digest((entry.id or "").encode("utf-8", "surrogatepass")), entry.seq)
        for segment in journal.segments:
            start = self._place[1] if segment.number == self._place[0] else 0
            if segment.number >= self._place[0] and start < segment.end:
                for end, lines in _whole_lines(segment, start):
                    for seq, digest in _ids_in(lines):
                        self._add(digest, seq)
                    self._place = segment.number, end

    def _add(self, digest: bytes, seq: int) -> None:
        known = self._recent.get(digest, ())
        if seq not in known:
            self._recent[digest] = (*known, seq)

    def _load(self, journal: Journal) -> None:
        """Take what was saved, if this home signed it and it fits this journal."""
        try:
            data = self._files.read_small(self._folder / INDEX_NAME, _LARGEST_BYTES)
            signed = msgspec.json.decode(data or b"", type=_Signed)
            wanted = self._key.sign(_PURPOSE + bytes(signed.index)) if self._key else None
            if wanted is None or not hmac.compare_digest(wanted.encode(), signed.mac.encode()):
                return
            saved = msgspec.json.decode(signed.index, type=_Complete)
        except (OSError, ValueError, RecursionError):
            return
        segment = next((each for each in journal.segments if each.number == saved.segment), None)
        if (
            segment is not None
            and (saved.session, saved.uid) == (self._folder.name, self._uid)
            and saved.inode == journal.segments[0].inode
            and saved.archives == _archives(self._files, self._folder)
            and saved.offset <= segment.end
            and _end_of(segment, saved.offset) == (saved.seq, saved.sum)
        ):
            self._saved, self._place = saved, (saved.segment, saved.offset)

    def _numbers(self, digest: bytes) -> set[int]:
        numbers = {*self._recent.get(digest, ()), *self._being_saved.get(digest, ())}
        if self._saved is not None and self._saved.runs:
            descriptor = self._files.open_regular(f"{self._folder}/{self._saved.file}")
            try:
                for start, count in self._saved.runs:
                    numbers.update(_Run(self._files, descriptor, start, count).find(digest))
            finally:
                self._files.close(descriptor)
        return numbers

    # Saving. Lookups go on meanwhile.

    def save(self, journal: Journal, *, closing: bool = False) -> None:
        """Save what is known, if it is worth it; called by a thread that no append waits for.

        Raises:
            OSError: it was not saved.
        """
        least = SAVE_AT_CLOSE_BYTES if closing else _SAVE_EVERY_BYTES
        with self._saving:
            self.catch_up(journal)
            before = 0
            if self._saved is not None:
                before = _covered(journal, (self._saved.segment, self._saved.offset))
            is_long = _covered(journal, self._place) - before >= least
            if is_long or len(self._recent) >= _SAVE_EVERY_IDS:
                self._save(journal)

    def continue_in(self, journal: Journal, other: IdIndex) -> None:
        """Save what another index knows of the journal that this one is a copy of.

        Raises:
            OSError: it was not saved.
        """
        with self._saving, self._lock:
            self._loaded = True
            self._saved, self._recent = other._saved, other._recent
            self._place = journal.last.number, journal.last.end
        with self._saving:
            self._save(journal)

    def _save(self, journal: Journal) -> None:
        with self._lock:
            for digest, numbers in self._being_saved.items():  # what could not be saved before
                for seq in numbers:
                    self._add(digest, seq)
            records, self._recent = self._recent, {}
            self._being_saved = records
            saved, place = self._saved, self._place
        try:
            complete = self._write(journal, saved, place, records)
        except _Unusable:
            with self._lock:
                self._forget()
            return
        with self._lock:
            if complete is not None:
                self._saved, self._being_saved = complete, {}

    def _write(
        self,
        journal: Journal,
        saved: _Complete | None,
        place: tuple[int, int],
        recent: dict[bytes, tuple[int, ...]],
    ) -> _Complete | None:
        """Write the records and up to where they are complete; ``None`` if that cannot be said."""
        files, folder = self._files, self._folder
        segment = next(each for each in journal.segments if each.number == place[0])
        end = _end_of(segment, place[1])
        if end is None or self._key is None:
            return None
        records = sorted(
            digest + seq.to_bytes(_HASH_BYTES, "big")
            for digest, numbers in recent.items()
            for seq in numbers
        )
        name, runs = ("", []) if saved is None else (saved.file, saved.runs)
        if records:
            name, runs = _add_run(files, folder, name, list(runs), records)
        archives, inode = _archives(files, folder), journal.segments[0].inode
        complete = _Complete(folder.name, self._uid, inode, *end, *place, archives, name, runs)
        index = msgspec.json.encode(complete)
        mac = self._key.sign(_PURPOSE + index)
        if mac is None:
            return None
        files.publish(folder / INDEX_NAME, msgspec.json.encode(_Signed(msgspec.Raw(index), mac)))
        for other in files.names(folder):
            if RUNS_NAME.fullmatch(other) and other != name:
                files.unlink(folder / other)
        return complete


# What a journal has


def _digest(id: bytes) -> bytes:
    return blake2b(id, digest_size=_HASH_BYTES).digest()


def _archived(files: Files, folder: Path) -> Iterator[Entry]:
    from holdfast.store.local.compact import archived  # noqa: PLC0415  gzip costs 3 ms

    return archived(files, folder)


def _archives(files: Files, folder: Path) -> str:
    """Return what tells that an archive was added or removed."""
    names = sorted(name for name in files.names(folder / ARCHIVE_NAME) if name[0] != ".")
    return sha256("\n".join(names).encode("utf-8", "surrogateescape")).hexdigest()


def _covered(journal: Journal, place: tuple[int, int]) -> int:
    """Return how many bytes of the file at ``place`` are known, with those of all files before."""
    return place[1] + sum(each.end for each in journal.segments if each.number < place[0])


def _end_of(segment: Segment, offset: int) -> tuple[int, str] | None:
    """Return number and sum of the line that ends at ``offset``; ``None`` if it cannot be read."""
    if offset <= 0:
        return None
    records = segment.block_before(offset).records
    last = records[-1] if records else None
    if not isinstance(last, Entry) or last.offset + len(last.line) + 1 < offset:
        return None
    return last.seq, last.sum.decode("ascii", "replace")


def _whole_lines(segment: Segment, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines, many at once, each time with the place after them."""
    carry = b""
    while start < segment.end:
        chunk = segment.read(start, min(segment.end, start + _CHUNK_BYTES))
        if not chunk:
            return  # it was cut off meanwhile
        start += len(chunk)
        data = carry + chunk
        cut = len(data) if start >= segment.end else data.rfind(b"\n") + 1
        carry = data[cut:]
        if cut:
            yield start - len(carry), data[:cut]
        if len(carry) > LONGEST_LINE_BYTES:
            carry = b""  # no reader loads such a line; its end reads as a damaged one


def _ids_in(lines: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and hash of the id for each entry that may have one."""
    if _ID_FIELD not in lines:
        return
    for line in lines.split(b"\n"):
        if _ID_FIELD in line:
            own = _OWN_LINE.match(line)
            if own is not None and own[2] is not None and line.find(b'{"seq":', 1) < 0:
                id = own[2]
                plain = loads(id).encode("utf-8", "surrogatepass") if b"\\" in id else id[1:-1]
                yield int(own[1]), _digest(plain)
            else:
                yield from _ids_parsed(line)


def _ids_parsed(line: bytes) -> Iterator[tuple[int, bytes]]:
    entry = parse(line, None, 0, 1)
    found = [entry] if entry is not None else []
    if entry is None:
        found = [piece for _, data in salvage(line) if (piece := parse(data, None, 0, 1))]
    for each in found:
        if each.id is not None:
            yield each.seq, _digest(each.id.encode("utf-8", "surrogatepass"))


# Runs


class _Run:
    """Sorted records in a file, read page by page."""

    def __init__(self, files: Files, descriptor: int, start: int, count: int) -> None:
        self._files = files
        self._descriptor = descriptor
        self._start = start
        self._count = count
        self._pages = -(-count // _PAGE_RECORDS)

    def _page(self, number: int) -> bytes:
        count = min(_PAGE_RECORDS, self._count - number * _PAGE_RECORDS)
        size = count * _RECORD_BYTES
        offset = self._start + number * _PAGE_BYTES
        data = self._files.read_at(self._descriptor, size + _RECORD_BYTES, offset)
        if data[size:] != _trailer(data[:size], self._start, number):
            raise _Unusable
        return data[:size]

    def find(self, digest: bytes) -> list[int]:
        """Return the numbers with that hash. Hashes are even: the place can be guessed."""
        wanted = int.from_bytes(digest, "big")
        low, high = 0, self._pages
        guess = wanted * self._pages // _HASHES
        while low < high:
            number = min(max(guess, low), high - 1)
            page = self._page(number)
            first, last = page[:_HASH_BYTES], page[-_RECORD_BYTES:-_HASH_BYTES]
            if digest < first:
                high = number
                distance = int.from_bytes(first, "big") - wanted
                guess = number - 1 - distance * self._pages // _HASHES
            elif digest > last:
                low = number + 1
                distance = wanted - int.from_bytes(last, "big")
                guess = number + 1 + distance * self._pages // _HASHES
            else:
                return self._around(number, page, digest)
        return []

    def _around(self, number: int, page: bytes, digest: bytes) -> list[int]:
        """Return the numbers in a page that may have them, and in its neighbours."""
        while number and page[:_HASH_BYTES] == digest:
            number -= 1
            page = self._page(number)
        found: list[int] = []
        while True:
            at = page.find(digest)
            while at >= 0:
                if at % _RECORD_BYTES == 0:
                    record = page[at + _HASH_BYTES : at + _RECORD_BYTES]
                    found.append(int.from_bytes(record, "big"))
                at = page.find(digest, at + 1)
            number += 1
            if page[-_RECORD_BYTES:-_HASH_BYTES] > digest or number == self._pages:
                return found
            page = self._page(number)

    def records(self) -> list[bytes]:
        """Return all records, in order."""
        data = b"".join(map(self._page, range(self._pages)))
        return [data[at : at + _RECORD_BYTES] for at in range(0, len(data), _RECORD_BYTES)]


def _trailer(page: bytes, start: int, number: int) -> bytes:
    seed = crc32(b"%d:%d" % (start, number))
    return crc32(page, seed).to_bytes(_RECORD_BYTES, "big")


def _pages(records: list[bytes], start: int) -> bytes:
    pages: list[bytes] = []
    for number, first in enumerate(range(0, len(records), _PAGE_RECORDS)):
        page = b"".join(records[first : first + _PAGE_RECORDS])
        pages += (page, _trailer(page, start, number))
    return b"".join(pages)


def _add_run(
    files: Files, folder: Path, name: str, runs: list[tuple[int, int]], records: list[bytes]
) -> tuple[str, list[tuple[int, int]]]:
    """Write records as a run, merged with the last ones that are not much larger.

    So each run is more than twice as large as the next one, and there are few. A file that has
    mostly runs that were merged is replaced by another.

    Raises:
        _Unusable: a run that is there cannot be read.
    """
    if not runs:
        return _new_file(files, folder, records)
    try:
        source = files.open_regular(folder / name)
    except OSError as error:
        raise _Unusable from error
    try:
        size = files.status(source).st_size
        is_wasteful = size > _LEAST_WASTE_BYTES + 4 * _RECORD_BYTES * sum(each[1] for each in runs)
        while runs and (is_wasteful or runs[-1][1] <= 2 * len(records)):
            records = sorted(_Run(files, source, *runs.pop()).records() + records)
    finally:
        files.close(source)
    if not runs:
        return _new_file(files, folder, records)
    descriptor = files.open_append(folder / name)
    try:
        files.write_all(descriptor, _pages(records, size))
    finally:
        files.close(descriptor)
    return name, [*runs, (size, len(records))]


def _new_file(
    files: Files, folder: Path, records: list[bytes]
) -> tuple[str, list[tuple[int, int]]]:
    name = f"ids-{new_name()}.runs"
    _write_new(files, folder / name, _pages(records, 0))
    return name, [(0, len(records))]


def _write_new(files: Files, path: Path, data: bytes) -> None:
    descriptor = files.open_append(path, create=True)
    try:
        files.write_all(descriptor, data)
    finally:
        files.close(descriptor)
