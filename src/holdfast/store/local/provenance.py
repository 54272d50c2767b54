"""Where the entries of a session came from: written here, or received from elsewhere.

Each session folder holds ``origin.json``, signed with a key of this home. It lists the sequence
numbers that were received (imported, unpacked from an archive, copied by hand) and from where. The
sender of a journal cannot write it: archives carry no such file, and without the home's key nobody
can sign one. A session without a valid file was not written by this home, so all of it is foreign.

    origin.key                        32 random bytes, made with the first session of a home
    sessions/2026-11/<id>/origin.json {"origin":{"session":…,"foreign":[[0,41]],…},"mac":"…"}

The signature also covers the machine and the user, so a home that was copied to another machine,
or from another user, is foreign as a whole.

What a foreign entry may not do is decided by ``runtime``; this module only says which entries are
foreign. Entries that are appended here after the foreign ones are ours.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from holdfast.journal.damage import OUT_OF_ORDER
from holdfast.journal.format import parse
from holdfast.model.entry import Entry
from holdfast.model.ids import new_name
from holdfast.store.local.layout import KEY_NAME, machine_id
from holdfast.store.types import COPY, Provenance, Receipt, Span

if TYPE_CHECKING:
    from holdfast.files import Files
    from holdfast.store.local.reader import Journal

ORIGIN_NAME = "origin.json"

_KEY_BYTES = 32
_LARGEST_BYTES = 256 * 1024
_MOST_RECEIPTS = 20
_MOST_SPANS = 500
_EVERYTHING: list[Span] = [(0, None)]


class Origin(Struct, frozen=True, omit_defaults=True):
    """What ``origin.json`` records. ``accepted`` spans were foreign before the user agreed.

    ``unopened``: the session was accepted before it was opened for writing here. Lines that appear
    in it until then were not accepted.
    """

    session: str
    foreign: list[Span] = field(default_factory=list)
    accepted: list[Span] = field(default_factory=list)
    received: list[Receipt] = field(default_factory=list)
    unopened: bool = False


class _Signed(Struct):
    origin: msgspec.Raw
    mac: str


class OriginKey:
    """The key with which a home signs its records. Read once, made when it is first needed."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._path = root / KEY_NAME
        self._key: bytes | None = None

    def get(self) -> bytes | None:
        """Return the key, ``None`` if there is none that can be used."""
        if self._key is None:
            with suppress(OSError):
                secret = self._files.read_small(self._path, _KEY_BYTES)
                if secret is not None and len(secret) == _KEY_BYTES:
                    self._key = _bound_to_this_machine(self._files, secret)
        return self._key

    def make(self) -> None:
        """Make the key durably if there is none. The home's folder exists.

        Two processes may do this at once: a link decides, because it never replaces a file.
        """
        if self.get() is not None:
            return
        files, path = self._files, self._path
        temporary = path.with_name(f".{KEY_NAME}.{new_name()}")
        descriptor = files.open_append(temporary, create=True)
        try:
            try:
                files.write_all(descriptor, os.urandom(_KEY_BYTES))
                files.sync(descriptor)
            finally:
                files.close(descriptor)
            if files.exists(path) and self._is_unusable():
                files.rename(temporary, path)
            else:
                with suppress(FileExistsError):
                    files.link(temporary, path)
        finally:
            files.unlink(temporary)
        files.sync_folder(path.parent)

    def _is_unusable(self) -> bool:
        """Tell whether the file holds something that was never a key of ours."""
        status = self._files.status_of(self._path)
        return stat.S_ISREG(status.st_mode) and status.st_size != _KEY_BYTES

    def sign(self, data: bytes) -> str | None:
        """Return the signature of ``data``, ``None`` without a key."""
        key = self.get()
        return None if key is None else hmac.new(key, data, hashlib.sha256).hexdigest()


def _bound_to_this_machine(files: Files, secret: bytes) -> bytes:
    """Return a key that is different on another machine and for another user."""
    message = b"%s:%d" % (machine_id(files), os.getuid())
    return hmac.new(secret, message, hashlib.sha256).digest()


# Records


def encode_origin(key: OriginKey, origin: Origin) -> bytes:
    """Return the content of ``origin.json``; without a key it is not signed and not valid."""
    data = msgspec.json.encode(origin)
    return msgspec.json.encode(_Signed(msgspec.Raw(data), key.sign(data) or "")) + b"\n"


def write_new(files: Files, folder: Path, key: OriginKey, origin: Origin) -> None:
    """Write the record of a session that is not published yet; the caller syncs the folder."""
    descriptor = files.open_append(folder / ORIGIN_NAME, create=True)
    try:
        files.write_all(descriptor, encode_origin(key, origin))
        files.sync(descriptor)
    finally:
        files.close(descriptor)


def read_origin(files: Files, folder: Path, key: OriginKey) -> Origin | None:
    """Return the record of a session, ``None`` if there is none that this home signed."""
    try:
        data = files.read_small(folder / ORIGIN_NAME, _LARGEST_BYTES)
        signed = msgspec.json.decode(data or b"", type=_Signed)
        wanted = key.sign(bytes(signed.origin))
        if wanted is None or not hmac.compare_digest(wanted.encode(), signed.mac.encode()):
            return None
        origin = msgspec.json.decode(signed.origin, type=Origin)
    except (OSError, ValueError, RecursionError):
        return None
    return origin if origin.session == folder.name else None


def provenance_of(files: Files, folder: Path, key: OriginKey) -> Provenance:
    """Return which entries of a session are foreign. Blocks; reads one small file."""
    origin = read_origin(files, folder, key)
    if origin is None:
        return Provenance(_EVERYTHING, recorded=False)
    return Provenance(origin.foreign, origin.received)


def record_reception(
    files: Files, folder: Path, key: OriginKey, spans: Iterable[Span], receipt: Receipt
) -> None:
    """Record durably that entries with these numbers were received.

    Call it before the entries are appended: a crash in between leaves a record of entries that
    do not exist, which does no harm.
    """
    origin = read_origin(files, folder, key) or Origin(folder.name, _EVERYTHING)
    files.publish(
        folder / ORIGIN_NAME,
        encode_origin(
            key,
            msgspec.structs.replace(
                origin,
                foreign=_merged([*origin.foreign, *spans]),
                received=[*origin.received, receipt][-_MOST_RECEIPTS:],
            ),
        ),
    )


def is_closed(files: Files, folder: Path, key: OriginKey) -> bool:
    """Tell whether the record says where the foreign entries of a session end."""
    origin = read_origin(files, folder, key)
    return origin is not None and _is_closed(origin)


def _is_closed(origin: Origin) -> bool:
    return not origin.unopened and all(last is not None for _, last in origin.foreign)


def close_foreign(files: Files, folder: Path, key: OriginKey, highest: int, last_seq: int) -> None:
    """Record that all entries up to ``last_seq`` may be foreign and later ones are ours.

    For a session that was received: called when it is first opened for writing, before anything of
    ours is appended. Does nothing if the record says already where the foreign entries end.

    Args:
        files: the file system.
        folder: of the session.
        key: of the home.
        highest: the largest number in the journal as it was received (``highest_seq``).
        last_seq: the last number in use, with those of streams that were closed just now.
    """
    origin = read_origin(files, folder, key)
    if origin is None:
        receipt = Receipt.now(COPY, str(folder))
        origin = Origin(folder.name, _EVERYTHING, received=[receipt])
    elif _is_closed(origin):
        return
    closed: list[Span] = [
        (first, last_seq if last is None else last) for first, last in origin.foreign
    ]
    seen = max((last for _, last in origin.accepted if last is not None), default=-1)
    if origin.unopened and highest > seen:
        closed.append((seen + 1, last_seq))
    changed = msgspec.structs.replace(origin, foreign=_merged(closed), unopened=False)
    files.publish(folder / ORIGIN_NAME, encode_origin(key, changed))


def highest_seq(journal: Journal) -> int:
    """Return the largest number of any line, also of lines that are out of order; -1 if none.

    Numbers rise in a journal that Holdfast wrote. In a forged one a line may have a number that
    entries of ours would get later, and would then pass for one of them. Reads the whole journal.
    """
    highest = -1
    for segment in journal.segments:
        for block in segment.forward(0):
            for record in block.records:
                if isinstance(record, Entry):
                    highest = max(highest, record.seq)
                elif record.kind == OUT_OF_ORDER:
                    line = segment.read(record.offset, record.offset + record.length)
                    misnumbered = parse(line, None, record.offset, segment.number)
                    assert misnumbered is not None
                    highest = max(highest, misnumbered.seq)
    return highest


def accept(files: Files, folder: Path, key: OriginKey, last_seq: int) -> Provenance:
    """Record that the user accepts what was received up to ``last_seq``; return what it was."""
    before = provenance_of(files, folder, key)
    if before.any_foreign:
        origin = read_origin(files, folder, key) or Origin(folder.name)
        spans = [
            (first, last_seq if last is None else min(last, last_seq))
            for first, last in before.foreign
            if first <= last_seq
        ]
        rest = [
            (max(first, last_seq + 1), last)
            for first, last in before.foreign
            if last is not None and last > last_seq
        ]
        changed = msgspec.structs.replace(
            origin,
            foreign=rest,
            accepted=_merged([*origin.accepted, *spans]),
            unopened=origin.unopened or any(last is None for _, last in before.foreign),
        )
        files.publish(folder / ORIGIN_NAME, encode_origin(key, changed))
    return before


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, with those that touch or overlap as one."""
    found: list[Span] = []
    for first, last in sorted(spans, key=lambda span: span[0]):
        if found:
            before_first, before_last = found[-1]
            if before_last is None:
                break
            if first <= before_last + 1:
                joined = None if last is None else max(before_last, last)
                found[-1] = (before_first, joined)
                continue
        found.append((first, last))
    while len(found) > _MOST_SPANS:  # count entries of ours in between as foreign: that is safe
        found[0:2] = [(found[0][0], found[1][1])]
    return found
