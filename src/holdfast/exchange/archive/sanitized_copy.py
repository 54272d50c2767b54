"""A session written anew for others: without secrets, without a word about the machine it was on.

Entries keep numbers, times and parents, so that the conversation, its branches and its checkpoints
are what they were. Lines are sealed again. What cannot be looked into is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import msgspec

from holdfast.errors import UsageError
from holdfast.exchange.exporting.transcript import ExportOptions
from holdfast.exchange.importing.json_fields import parse_time
from holdfast.exchange.redaction.local_paths import drop_local_meta, local_paths_in
from holdfast.exchange.redaction.messages import cleaned_bytes, cleaned_parts, redact_message
from holdfast.exchange.redaction.redactor import Redactor
from holdfast.journal.format import seal
from holdfast.model.codec import encode_body, plain, revive_body, type_of
from holdfast.model.entry import (
    FORMAT,
    Body,
    Checkpoint,
    Custom,
    Entry,
    Gap,
    Header,
    Mark,
    Meta,
    Queued,
    Snapshot,
    Tool,
    Unknown,
    WriterInfo,
)
from holdfast.model.ids import is_keyed, key_session_id, new_uid
from holdfast.model.message import Message, ToolResult
from holdfast.store.local.blobs import Blobs
from holdfast.store.local.reader import Journal
from holdfast.store.local.staging import is_session_file
from holdfast.store.write.blob_refs import (
    LARGEST_INLINE_BYTES,
    blobs_of,
    put_back,
    references,
    take_out,
)

_NO_TIME = "1970-01-01T00:00:00.000Z"
_PASSING = ("gap", "mark")  # that say how a file came about


class SanitizedCopy:
    """One pass over a journal, or two: for the blobs, and for the lines that name them."""

    def __init__(self, journal: Journal, session_id: str, options: ExportOptions) -> None:
        self._journal = journal
        self._redactor: Redactor | None = options.redactor
        self._places = local_paths_in(journal) if options.strip_workspace else None
        self._blobs = Blobs(journal.files, journal.folder)
        self._uid = new_uid()
        self._renamed: dict[str, str] = {}
        self.left_out = 0
        """Entries that the last pass left out."""
        self.session = self._new_id(session_id)
        """The id of the copy: that of the session, unless it comes from a key with a secret."""

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Yield every blob that the lines will name, once. Comes first: here secrets are noted."""
        given: set[str] = set()
        for record in self._journal.records():
            body = self._rewritten(record) if isinstance(record, Entry) else None
            if body is not None:
                assert isinstance(record, Entry)
                self._id_of(record)
                for data in self._payloads(record.body, body):
                    name = sha256(data).hexdigest()
                    if name not in given:
                        given.add(name)
                        yield name, data

    def _payloads(self, before: Body, body: Body) -> Iterator[bytes]:
        yield from take_out(body)[1]
        for ref in references(body):
            data = self._blobs.read_named(ref.sha256)
            if data is not None:
                yield data
        noted = self._noted()
        for name in sorted(blobs_of(before) - {ref.sha256 for ref in references(before)}):
            data = self._blobs.read_named(name) if _is_blob(name) else None
            if data is not None:
                yield self._cleaned_bytes(data)
                self._forget(noted)  # its secrets were noted with its new name

    def lines(self) -> Iterator[bytes]:
        """Yield the new journal."""
        noted, self.left_out = self._noted(), 0
        header = self._journal.header
        at = (parse_time(header.at) if header is not None else None) or _NO_TIME
        chain = b""
        for record in self._journal.records():
            body = self._rewritten(record) if isinstance(record, Entry) else None
            self._forget(noted)
            if not chain and not isinstance(body, Header):
                line = self._sealed(0, at, Header(FORMAT, self.session, self._uid), b"")
                chain = line[-10:-2]
                yield line + b"\n"
            if body is None:
                self.left_out += not isinstance(record, Entry) or record.type not in _PASSING
                continue
            assert isinstance(record, Entry)
            at = parse_time(record.at) or at
            try:
                line = self._sealed(record.seq, at, body, chain, record)
            except UsageError:  # such as numbers that no reader of ours holds
                self.left_out += 1
                continue
            chain = line[-10:-2]
            yield line + b"\n"

    def _noted(self) -> int:
        return 0 if self._redactor is None else len(self._redactor.findings)

    def _forget(self, noted: int) -> None:
        """Forget secrets that were found a second time."""
        if self._redactor is not None:
            del self._redactor.findings[noted:]

    def _sealed(
        self, seq: int, at: str, body: Body, chain: bytes, entry: Entry | None = None
    ) -> bytes:
        data, again = encode_body(body)
        if len(data) > LARGEST_INLINE_BYTES:
            data, again = encode_body(take_out(again)[0])
        if entry is None:
            return seal(seq, at, type_of(again), data, chain)
        # Without their batches: one that lost a line would be taken for one that was cut off.
        noted = self._noted()
        id_ = self._id_of(entry)
        self._forget(noted)
        return seal(seq, at, type_of(again), data, chain, entry.parent, id_)

    def _id_of(self, entry: Entry) -> str | None:
        """Return the id that a caller gave to an entry."""
        if self._redactor is None or entry.id is None:
            return entry.id
        return self._redactor.text(entry.id, f"entry {entry.seq}")

    def _rewritten(self, entry: Entry) -> Body | None:
        """Return what an entry says in the copy, ``None`` if nothing."""
        body = entry.body
        match body:
            case Header():
                return self._header(body)
            case Gap():
                lost = body.reason == "damage"  # damage is somewhere else in this file, if at all
                return None if lost else msgspec.structs.replace(body, chain=None)
            case Snapshot() | Tool(run=str()):
                return None  # a program's own state: it cannot be cleaned
            case Mark() if entry.status != "ok":
                return None
            case Unknown(fields=None):
                return None
            case _:
                return self._cleaned(self._without_place(body), f"entry {entry.seq}")

    def _new_id(self, session_id: str) -> str:
        first = self._journal.header
        key = first.body.key if first is not None and isinstance(first.body, Header) else None
        if key is None or self._redactor is None or not is_keyed(session_id):
            return session_id
        noted = self._noted()
        clean = self._redactor.text(key, "header")
        self._forget(noted)
        return session_id if clean == key else key_session_id(clean)

    def _header(self, body: Header) -> Header:
        key, origin = body.key, body.forked_from
        if self._redactor is not None:
            key = None if key is None else self._redactor.text(key, "header")
            if origin is not None:
                extra = self._redactor.value(origin.extra, "header")
                session = self._redactor.text(origin.session, "header")
                origin = msgspec.structs.replace(origin, session=session, extra=extra)
        return Header(body.format, self.session, self._uid, key, origin)

    def _without_place(self, body: Body) -> Body:  # noqa: PLR0911  one return a kind of body
        if isinstance(body, Mark):  # what it says about damage is about other files
            state = {**body.state, "gaps": [], "snapshots": {}}
            meta = state.get("meta")
            if self._places is not None and isinstance(meta, dict):
                state["meta"] = drop_local_meta(meta)
            return Mark(state=state)
        if self._places is None:
            return body
        if isinstance(body, Meta):
            return Meta(drop_local_meta(body.fields))
        if isinstance(body, WriterInfo):
            return WriterInfo(pid=0, host="", version=body.version)
        if isinstance(body, Tool):
            return msgspec.structs.replace(body, process=None)
        if isinstance(body, Custom):
            return msgspec.structs.replace(body, data=self._places.without(body.data))
        if isinstance(body, Unknown):
            return Unknown(body.type, self._places.without(body.fields))
        return body

    def _cleaned(self, body: Body, where: str) -> Body:
        redactor = self._redactor
        if redactor is None:
            return body
        match body:
            case Message():
                return self._message(body, where)
            case Checkpoint():
                summary = [self._message(message, where) for message in body.summary]
                return msgspec.structs.replace(body, summary=summary)
            case Queued():
                whole = put_back(Message(role="user", content=body.content), self._blobs)
                content = cleaned_parts(whole.content, redactor, where)
                return msgspec.structs.replace(body, content=content)
            case _:
                return revive_body(type_of(body), redactor.value(plain(body), where))

    def _message(self, message: Message, where: str) -> Message:
        assert self._redactor is not None
        whole = redact_message(put_back(message, self._blobs), self._redactor, where)
        content = [
            self._renamed_blobs(part) if isinstance(part, ToolResult) else part
            for part in whole.content
        ]
        return msgspec.structs.replace(whole, content=content)

    def _renamed_blobs(self, part: ToolResult) -> ToolResult:
        """Let a result name its blobs as they are called without secrets."""
        changes = [
            msgspec.structs.replace(
                change,
                before=None if change.before is None else self._new_name(change.before),
                after=self._new_name(change.after),
            )
            for change in part.changes
        ]
        kept = [self._new_name(name) for name in part.kept]
        return msgspec.structs.replace(part, changes=changes, kept=kept)

    def _new_name(self, name: str) -> str:
        if name not in self._renamed:
            data = self._blobs.read_named(name) if _is_blob(name) else None
            clean = name if data is None else sha256(self._cleaned_bytes(data)).hexdigest()
            self._renamed[name] = clean
        return self._renamed[name]

    def _cleaned_bytes(self, data: bytes) -> bytes:
        if self._redactor is None:
            return data
        return cleaned_bytes(data, self._redactor, "a file that was kept")


def _is_blob(name: str) -> bool:
    """Tell whether a name that a journal gives can be one: it must not lead anywhere else."""
    return is_session_file(f"blobs/{name}")
