"""Small files that claim, or unpack to, more than any session holds; and files that are none.

Every command ends, in little memory, and a session beside the bomb is listed, searched and opened
as if it were not there. The child runs under limits of the operating system: without the bounds it
would be killed by them, or use more memory than is allowed here.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import socket
import struct
import subprocess
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

import holdfast
from holdfast import user
from holdfast.journal.bounded import zstd
from tests.cli.kept import BUILD, put
from tests.cli.program import PROGRAM, Done, Program
from tests.hostile import AT, SESSION, copied_session, header, live_file, meta, said
from tests.odd_journals import message, sealed

MIB = 1024 * 1024
MOST_MEMORY_BYTES = 400 * MIB
MOST_CPU_SECONDS = 40
_ADDRESS_SPACE_BYTES = 6 * 1024 * MIB
EVERYWHERE = [
    ["ls", "--all"],
    ["search", "needle"],
    ["stats"],
    ["doctor"],
    ["verify", SESSION],
    ["show", SESSION],
    ["tail", SESSION],
    ["show", BUILD],
    ["rename", BUILD, "another title"],
]


def limited(program: Program, *words: str) -> Done:
    """Run a command under limits; it fails if it needed more processor time or memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTES, _ADDRESS_SPACE_BYTES))

    with (
        (program.temporary / "out").open("w+b") as out,
        (program.temporary / "err").open("w+b") as err,
    ):
        child = subprocess.Popen(
            [*PROGRAM, *words],
            cwd=program.folder,
            env=program.environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            preexec_fn=limit,  # noqa: PLW1509  this process has no threads of its own here
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        done = Done(child.returncode, out.read(), err.read())
    assert done.code >= 0, f"{words}: killed by signal {-done.code}"
    assert used.ru_maxrss * 1024 < MOST_MEMORY_BYTES, f"{words}: {used.ru_maxrss} KiB"
    return done


def everything_works(program: Program) -> None:
    """Run every command; the healthy session is in every list and can be changed."""
    for words in EVERYWHERE:
        done = limited(program, *words)
        if words[0] in ("ls", "search"):
            assert BUILD[-8:] in done.out, (words, done.out, done.err)
        elif BUILD in words:
            assert done.code == 0, (words, done.err)
    assert limited(program, "rm", SESSION, "--yes").code == 0
    assert SESSION[-8:] not in limited(program, "ls", "--all").out


def claims_seven_tebibytes() -> bytes:
    """A packed journal whose table says that it has 7 TiB; in an archive it takes 12 kB."""
    frame = zstd().compress(sealed([header(), said("user", "needle")]))
    count = 900_000
    entry = struct.pack("<II", 0, 8 * MIB)
    table = struct.pack("<II", len(frame), 500) + entry * count
    table += struct.pack("<IBI", count + 1, 0, 0x8F92EAB1)
    return bytes(frame) + struct.pack("<II", 0x184D2A5E, len(table)) + table


def many_small_frames() -> bytes:
    """A packed journal without a table, in so many frames that finding each must be cheap."""
    frame = bytes(zstd().compress(sealed([header(), said("user", "needle")])))
    return frame + bytes(zstd().compress(b"")) * 40_000


def huge_frames() -> bytes:
    """A packed journal without a table whose frames unpack to 3 GiB."""
    frame = bytes(zstd().compress(b"x" * (8 * MIB - 1) + b"\n"))
    return bytes(zstd().compress(sealed([header(), said("user", "n")]))) + frame * 400


def with_many_values() -> bytes:
    """A line of 60 MiB that would be twenty million lists in memory."""
    raw = json.dumps([1]).encode()
    line = sealed([header(), meta(x="@values"), said("user", "needle")])
    return line.replace(b'"@values"', b"[" + b"[]," * (20 * MIB) + raw + b"]")


def with_records_in_a_line() -> bytes:
    """A line with nine hundred beginnings of records, each of which is read to the line's end."""
    beginnings = b'{"seq":1,"a":[' * 900
    return sealed([header(), said("user", "needle")]) + beginnings + b"1," * (15 * MIB) + b"\n"


def with_many_labels() -> bytes:
    """A journal with so many names that each must not cost a look at all others."""
    names = [("label", {"name": f"l{number}", "to": 1}) for number in range(60_000)]
    queued = [("queued", {"content": [{"type": "text", "text": "q"}]}) for _ in range(60_000)]
    return sealed([header(), said("user", "needle"), *names, *queued])


def holds_many_files() -> bytes:
    return sealed([header(holds=10**6 - 1), said("user", "needle")])


def holds_a_thousand_million_files() -> bytes:
    return sealed([header(holds=10**9), said("user", "needle")])


JOURNALS: dict[str, Callable[[], bytes]] = {
    "a table that claims 7 TiB": claims_seven_tebibytes,
    "frames without an end": many_small_frames,
    "frames that unpack to 3 GiB": huge_frames,
    "a line of twenty million values": with_many_values,
    "records within a line": with_records_in_a_line,
    "many labels": with_many_labels,
    "a header that holds a thousand million files": holds_a_thousand_million_files,
}


@pytest.mark.parametrize("name", JOURNALS)
def test_a_journal_that_is_a_bomb(name, program):
    put(program, BUILD, "needle")
    folder = copied_session(program.home, [header()])
    (folder / "journal.jsonl").write_bytes(JOURNALS[name]())
    everything_works(program)


@pytest.mark.parametrize("make", [holds_many_files, holds_a_thousand_million_files])
def test_opening_removes_only_files_that_are_there(make, program):
    folder = copied_session(program.home, [header()])
    (folder / "journal.jsonl").write_bytes(make())
    assert limited(program, "rename", SESSION, "a title").code == 0
    assert '"a title"' in (folder / "journal.jsonl").read_text()


def test_an_archive_of_12_kb_with_a_journal_that_claims_7_tib(program):
    put(program, BUILD, "needle")
    data = claims_seven_tebibytes()
    path = program.folder / "x.holdfast"
    files = [{"name": "journal.jsonl", "size_bytes": len(data), "sha256": sha256(data).hexdigest()}]
    manifest = {"format": 1, "session": SESSION, "version": "1", "at": AT, "files": files}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("journal.jsonl", data)
    assert path.stat().st_size < 16 * 1024
    limited(program, "import", str(path))
    assert BUILD[-8:] in limited(program, "ls", "--all").out
    assert limited(program, "doctor").code in (0, 1, 65)


def test_a_live_file_that_is_larger_than_any_stream(program):
    put(program, BUILD, "needle")
    folder = copied_session(program.home, [header(), said("user", "needle")])
    text = "x" * MIB
    event = {"stream": "s", "kind": "text", "after": 1, "text": text}
    head, line = live_file(event).split(b"\n")[:2]
    with (folder / "live.jsonl").open("wb") as live:
        live.write(head + b"\n")
        for _ in range(90):
            live.write(line + b"\n")
    assert limited(program, "ls", "--all").code == 0
    everything_works(program)


def endless_line(noise_bytes: int) -> bytes:
    """Members of gzip that unpack to one line of 256 MiB; with noise they are packed less tight."""
    noise = random.Random(7).randbytes(noise_bytes).replace(b"\n", b" ")
    return gzip.compress(noise + b"x" * (64 * MIB - noise_bytes)) * 4


@pytest.mark.parametrize("noise_bytes", [0, MIB])
def test_an_endless_line_in_what_a_compaction_archived(noise_bytes, program):
    folder = copied_session(program.home, [header(), said("user", "needle")])
    (folder / "archive").mkdir()
    (folder / "archive" / "journal-x.jsonl.gz").write_bytes(endless_line(noise_bytes))
    words = ["-r", SESSION, "-p", "say: hello", "--foreground", "--trust"]
    done = limited(program, *words)
    assert done.code == 0, done.err
    assert "hello" in done.out
    code = (
        "import holdfast\n"
        f"with holdfast.open_store().open({SESSION!r}) as session:\n"
        "    session.append(holdfast.user('by id'), id='an id')\n"
    )
    (program.folder / "append.py").write_text(code)
    assert limited_python(program, "append.py").code == 0
    (folder / "blobs" / ("0" * 64)).write_bytes(b"old")
    os.utime(folder / "blobs" / ("0" * 64), (0, 0))
    assert limited(program, "gc", "--blobs", "--yes").code == 0


def limited_python(program: Program, name: str) -> Done:
    """Run a script of a user of the library under the same limits."""
    before = PROGRAM[1:]
    try:
        PROGRAM[1:] = []
        return limited(program, name)
    finally:
        PROGRAM[1:] = before


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)  # its whole path may be too long for a socket
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


PLACES = [
    "journal.jsonl",
    "journal.2.jsonl",
    "live.jsonl",
    "lock",
    "origin.json",
    "blobs",
    "archive",
    "damaged",
    f"blobs/{'a' * 64}",
    "archive/journal-x.jsonl.gz",
]


@pytest.mark.parametrize("kind", [_fifo, _socket, _device])
def test_something_else_in_the_place_of_a_file(kind, program):
    put(program, BUILD, "needle")
    blob = {"sha256": "a" * 64, "size_bytes": 1, "media_type": "text/plain", "encoding": "text"}
    ids = []
    for number, place in enumerate(PLACES):
        session_id = f"20261115-194012-k3v9q2{number:02d}"
        ids.append(session_id)
        part = {"type": "text", "text": "", "blob": blob}
        folder = copied_session(
            program.home, [header(), said("user", "needle"), message([part])], session_id=session_id
        )
        path = folder / place
        if place == "journal.jsonl":
            path.unlink()
        elif place == "blobs":
            path.rmdir()
        path.parent.mkdir(exist_ok=True)
        kind(path)
    listed = limited(program, "ls", "--all", "--json")
    assert {json.loads(line)["id"] for line in listed.out.splitlines()} == {*ids, BUILD}
    for words in (["search", "needle"], ["stats"], ["doctor"], ["gc", "--blobs", "--yes"]):
        limited(program, *words)
    for session_id in ids:
        for words in (["show"], ["verify"]):
            limited(program, words[0], session_id, *words[1:])
        limited(program, "rename", session_id, "a title")
    assert limited(program, "rename", BUILD, "another").code == 0


def test_a_session_that_is_streaming_is_sound(program):
    store = holdfast.open_store(program.home)
    with store.create(session_id=BUILD) as session:
        session.append(user("needle"))
        stream = session.stream()
        stream.write("on its way")
        path = session.path / "live.jsonl"
        assert path.stat().st_size
        done = program.run("verify", BUILD)
        assert (done.code, "streamed" in done.out) == (0, False), done.out
        assert program.run("doctor").code == 0
        stream.finish()


def test_folders_in_folders_without_end(program):
    put(program, BUILD, "needle")
    folder = copied_session(program.home, [header(), said("user", "needle")])
    place = os.open(folder, os.O_RDONLY)
    for _ in range(1500):  # more than a function may call itself
        os.mkdir("d", dir_fd=place)
        below = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)
    (folder / "blobs" / ("0" * 64)).write_bytes(b"old")
    os.utime(folder / "blobs" / ("0" * 64), (0, 0))
    for words in (
        ["doctor"],
        ["verify", SESSION],
        ["gc", "--blobs", "--yes"],
        ["rm", SESSION, "--yes"],
    ):
        done = limited(program, *words)
        assert "Traceback" not in done.err, (words, done.err[-300:])
    done = limited(program, "gc", "--trash", "0m", "--yes")
    assert (done.code, list((program.home / "trash").iterdir())) == (0, []), done.err[-300:]
    assert BUILD[-8:] in limited(program, "ls", "--all").out


def sparse(path: Path, *pieces: tuple[int, bytes], size: int = 2**40) -> None:
    """Write a file with holes: it takes the room of its pieces alone."""
    with path.open("wb") as file:
        for offset, data in pieces:
            file.seek(offset)
            file.write(data)
        file.truncate(size)


LINES = sealed([header(), said("user", "needle"), said("assistant", "the answer")])


def with_a_hole_at_the_end(path: Path) -> None:
    sparse(path, (0, LINES))


def with_a_hole_in_the_middle(path: Path) -> None:
    """The last line stands after the hole, as a power cut can leave it, and is still read."""
    first, last = LINES[: LINES.rindex(b"\n", 0, -1) + 1], LINES[LINES.rindex(b"\n", 0, -1) + 1 :]
    sparse(path, (0, first), (2**40, last), size=2**40 + len(last))


def with_many_holes(path: Path) -> None:
    pieces = [(number * 50 * MIB, b"x") for number in range(1, 500)]
    sparse(path, (0, LINES), *pieces)


def with_a_hole_at_the_start(path: Path) -> None:
    sparse(path, (2**40, LINES), size=2**40 + len(LINES))


HOLES = [
    with_a_hole_at_the_end,
    with_a_hole_in_the_middle,
    with_many_holes,
    with_a_hole_at_the_start,
]


@pytest.mark.parametrize("make", HOLES)
def test_a_journal_with_a_hole(make, program):
    put(program, BUILD, "needle")
    folder = copied_session(program.home, [header()])
    path = folder / "journal.jsonl"
    make(path)
    for words in (["show", SESSION], ["export", SESSION, "--format", "markdown", "-o", "-"]):
        done = limited(program, *words)
        assert (done.code, "the answer" in done.out) == (0, True), (words, done.err)
    assert limited(program, "verify", SESSION).code == 65
    limited(program, "export", SESSION, "-o", str(program.temporary / "x.holdfast"))
    limited(program, "gc", "--compress", "--older-than", "0s", "--yes")
    assert limited(program, "rename", SESSION, "a title").code == 0
    saved = [*folder.glob("damaged/*"), path]
    assert sum(each.stat().st_blocks * 512 for each in saved) < 100 * MIB
    assert "the answer" in limited(program, "show", SESSION).out
    limited(program, "fork", SESSION)
    limited(program, "export", SESSION, "-o", str(program.temporary / "y.holdfast"))
    everything_works(program)


@pytest.mark.parametrize("name", ["live.jsonl", "archive/x.jsonl.gz", "damaged/tail-1-2-3-0.bin"])
def test_other_files_with_a_hole_are_not_put_into_an_archive(name, program):
    folder = copied_session(program.home, [header(), said("user", "needle")])
    (folder / name).parent.mkdir(exist_ok=True)
    sparse(folder / name, (0, b"x"))
    archive = program.temporary / "x.holdfast"
    done = limited(program, "export", SESSION, "-o", str(archive))
    assert done.code == 0, done.err
    with zipfile.ZipFile(archive) as packed:
        assert name not in packed.namelist()
        left_out = json.loads(packed.read("manifest.json"))["left_out"]
    assert left_out == [f"{name}: it claims {2**40} bytes"]
    assert limited(program, "rename", SESSION, "a title").code == 0
    taken = sum(each.stat().st_blocks * 512 for each in folder.rglob("*") if each.is_file())
    assert taken < 80 * MIB


def test_a_blob_with_holes_is_not_read(program):
    put(program, BUILD, "needle")
    name = "a" * 64
    blob = {"sha256": name, "size_bytes": 2**40, "media_type": "text/plain", "encoding": "text"}
    part = {"type": "text", "text": "the beginning", "blob": blob}
    answer = ("message", {"role": "assistant", "content": [part]})
    folder = copied_session(program.home, [header(), said("user", "needle"), answer])
    with (folder / "blobs" / name).open("wb") as file:
        file.truncate(2**40)  # takes no room
    archive = program.temporary / "x.holdfast"
    for words in (
        ["show", SESSION, "--depth", "everything"],
        ["export", SESSION, "--format", "html", "-o", str(program.temporary / "x.html")],
        ["export", SESSION, "-o", str(archive)],
        ["-r", SESSION, "-p", "say: hello"],
    ):
        done = limited(program, *words)
        assert (done.code, "Traceback" in done.err) == (0, False), (words, done.err)
    assert "the beginning" in limited(program, "show", SESSION).out
    with zipfile.ZipFile(archive) as packed:
        assert f"blobs/{name}" not in packed.namelist()
    assert name in limited(program, "verify", SESSION).out
    everything_works(program)
