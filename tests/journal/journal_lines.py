"""Journals for tests: lines made by the code's own rules, and files made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.journal.format import seal
from holdfast.model.codec import encode_body, type_of
from holdfast.model.entry import NO_PARENT_FIELD, Continues, Header
from holdfast.model.message import user

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from holdfast.model.entry import Body

AT = "2026-11-15T19:40:12.001Z"
SESSION = "20261115-194012-k3v9q2ab"
HEADER = Header(format=1, session=SESSION, uid="0" * 32)


class Chain:
    """Makes line after line, each chained to the one before."""

    def __init__(self, previous: bytes = b"", seq: int = 0) -> None:
        self.previous = previous
        self.seq = seq

    def line(
        self,
        body: Body,
        *,
        parent: int | None = NO_PARENT_FIELD,
        id: str | None = None,
        batch: tuple[int, int] | None = None,
    ) -> bytes:
        data, _ = encode_body(body)
        line = seal(self.seq, AT, type_of(body), data, self.previous, parent, id, batch)
        self.previous = line[-10:-2]
        self.seq += 1
        return line

    def lines(self, bodies: Iterable[Body]) -> list[bytes]:
        return [self.line(body) for body in bodies]

    def batch(self, bodies: list[Body]) -> list[bytes]:
        count = len(bodies)
        return [self.line(body, batch=(index, count)) for index, body in enumerate(bodies)]


def continuation_header(seq: int, previous: bytes) -> bytes:
    """Return the header line of a file that goes on behind entry ``seq``."""
    body = Header(
        format=1, session=SESSION, uid="0" * 32, continues=Continues(seq=seq, sum=previous.decode())
    )
    data, _ = encode_body(body)
    return seal(seq, AT, "header", data, b"")


def texts(count: int, size: int = 0) -> list[bytes]:
    """Return a header line and ``count`` messages."""
    chain = Chain()
    return chain.lines([HEADER, *(user(f"message {n} " + "x" * size) for n in range(count))])


def write(folder: Path, lines: Iterable[bytes], name: str = "journal.jsonl") -> Path:
    """Write lines as a journal file."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path
