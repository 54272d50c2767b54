"""``.holdfast`` files on the command line: damage is named, and the exit code says so."""

from __future__ import annotations

import json
import zipfile
from hashlib import sha256

import pytest

from tests.cli.kept import DOCS, put


@pytest.fixture
def archive(program):
    """An archive of a session that is not in the home any more."""
    put(program, DOCS)
    program.run("export", DOCS, "-o", "a.holdfast")
    program.run("rm", DOCS, "--yes")
    return program.folder / "a.holdfast"


def alter(path, change):
    """Change the files of an archive, and its manifest with them."""
    with zipfile.ZipFile(path) as made:
        members = {name: made.read(name) for name in made.namelist()}
    about = json.loads(members.pop("manifest.json"))
    change(members)
    about["files"] = [
        {"name": name, "size_bytes": len(data), "sha256": sha256(data).hexdigest()}
        for name, data in members.items()
    ]
    with zipfile.ZipFile(path, "w") as made:
        for name, data in {**members, "manifest.json": json.dumps(about).encode()}.items():
            made.writestr(name, data)


def test_an_altered_line_is_named_and_the_session_imported(program, archive):
    def change(members):
        lines = members["journal.jsonl"].split(b"\n")
        place = next(n for n, line in enumerate(lines) if b'"type":"message"' in line)
        assert place == 1, "the line that is named below, from 1"
        lines[place] = lines[place].replace(b'"text":"', b'"text":"not ')
        members["journal.jsonl"] = b"\n".join(lines)

    alter(archive, change)
    done = program.run("import", archive, "--json")
    session, result = done.lines
    assert (done.code, session["action"], session["problem_count"]) == (65, "created", 1)
    assert session["problems"][0]["line"] == 2
    assert result["problems"] == 1
    program.run("rm", DOCS, "--yes")
    done = program.run("import", archive)
    assert done.code == 65
    assert (
        "a.holdfast: journal.jsonl:2: edited: entry 1 was changed after it was written" in done.err
    )
    assert program.run("doctor").code == 65


@pytest.mark.parametrize("name", ["a.holdfast", "copy.zip"])
def test_a_truncated_archive_is_damaged_and_no_riddle(program, archive, name):
    (program.folder / name).write_bytes(archive.read_bytes()[:-50])
    done = program.run("import", name)
    assert (done.code, done.out) == (65, "")
    assert "was not imported" in done.err
    assert program.sessions() == []


def test_a_session_that_was_compressed_is_known_again(program, archive):
    assert program.run("import", archive).code == 0
    assert program.run("gc", "--older-than", "0s", "--compress", "--yes").code == 0
    done = program.run("import", archive)
    assert done.code == 0, done.err
    assert "nothing is new" in done.err
