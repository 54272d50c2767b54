"""Snapshots: the latest data of a program under a name.

A snapshot is one entry. State and marks hold its number only, so that opening a session does not
depend on how large snapshots are or how many there were. What a snapshot holds is data, wherever
the session came from: it is never run, and no class is made from it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from holdfast.errors import StorageError, UsageError
from holdfast.model.codec import dumps, encode_body, loads, plain
from holdfast.model.entry import Position, Snapshot
from holdfast.model.message import BlobRef
from holdfast.store.read.fold import MOST_SNAPSHOTS
from holdfast.store.validation import valid_name

if TYPE_CHECKING:
    from holdfast.model.entry import Entry
    from holdfast.store.backend import BlobSource
    from holdfast.store.write.recorder import Recorder

LARGEST_INLINE_BYTES = 64 * 1024
"""A snapshot that is larger is stored as a blob."""

_MEDIA_TYPES = {"json": "application/json", "base64": "application/octet-stream"}


def put(recorder: Recorder, name: str, value: Any) -> Position:
    """Append a snapshot; return once it is durable."""
    body, payloads = _snapshot(valid_name(name), value)
    snapshots = recorder.state.snapshots
    if name in snapshots or len(snapshots) < MOST_SNAPSHOTS // 2:
        return recorder.append([body], payloads=payloads)
    with recorder.at_rest():  # so that no two callers use the last name
        snapshots = recorder.state.snapshots
        if name not in snapshots and len(snapshots) >= MOST_SNAPSHOTS:
            raise UsageError(
                f"This session has {MOST_SNAPSHOTS} snapshots, and no room for {name!r}: drop one."
            )
        ticket = recorder.submit([body], payloads=payloads)
    return recorder.settle(ticket)


def drop(recorder: Recorder, name: str) -> Position | None:
    """Append that a name has no snapshot any more; ``None`` if it has none."""
    with recorder.at_rest():
        if valid_name(name) not in recorder.state.snapshots:
            return None
        ticket = recorder.submit([Snapshot(name, "none")])
    return recorder.settle(ticket)


def value_of(entry: Entry | None, name: str, blobs: BlobSource) -> Any:
    """Return what the snapshot of an entry holds: JSON data, or bytes.

    Raises:
        StorageError: it cannot be read.
    """
    body = entry.body if entry is not None else None
    if not isinstance(body, Snapshot) or body.name != name:
        raise StorageError(f"The snapshot {name!r} cannot be read: its line is damaged.")
    ref = body.blob
    data = None if ref is None else blobs.read_named(ref.sha256)
    if ref is not None and data is None:
        raise StorageError(
            f"The snapshot {name!r} cannot be read: blobs/{ref.sha256} is missing or altered."
        )
    try:
        if body.encoding == "json":
            return body.value if data is None else loads(data)
        if body.encoding == "base64":
            return b64decode(body.value, validate=True) if data is None else data
    except (ValueError, TypeError, RecursionError):
        pass  # another program wrote it
    raise StorageError(f"The snapshot {name!r} cannot be read: it is not {body.encoding} data.")


def _snapshot(name: str, value: Any) -> tuple[Snapshot, list[bytes]]:
    """Return the entry of a snapshot, and the payload that goes into a blob."""
    if isinstance(value, bytes | bytearray | memoryview):
        data, encoding = bytes(value), "base64"
        if len(data) <= LARGEST_INLINE_BYTES:
            return Snapshot(name, encoding, b64encode(data).decode()), []
    else:
        _, body = encode_body(Snapshot(name, "json", value))
        assert isinstance(body, Snapshot)
        data, encoding = dumps(plain(body.value)), "json"
        if len(data) <= LARGEST_INLINE_BYTES:
            return body, []
    ref = BlobRef(sha256(data).hexdigest(), len(data), _MEDIA_TYPES[encoding], encoding)
    return Snapshot(name, encoding, blob=ref), [data]
