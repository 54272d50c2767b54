"""``holdfast export``: formats, files, secrets."""

import stat
import zipfile

import pytest

from holdfast.exchange.exporters import names
from tests.cli.kept import BUILD, DOCS, HOSTILE, KEY, put, put_build


@pytest.fixture
def program(program):
    put_build(program)
    return program


@pytest.mark.parametrize("name", names())
def test_every_format_goes_to_standard_output_and_to_a_file_alike(program, name):
    done = program.run("export", BUILD, "-t", name, "-o", "made")
    assert (done.code, done.out) == (0, ""), done.err
    made = (program.folder / "made").read_bytes()
    assert made
    if name != "archive":  # which has its time in it
        assert program.run("export", BUILD, "-t", name).out.encode() == made
    assert stat.S_IMODE((program.folder / "made").stat().st_mode) == 0o600
    assert [each.name for each in program.folder.iterdir()] == ["made"]


@pytest.mark.parametrize(
    ("file", "begins"),
    [
        ("x.md", b"# "),
        ("x.HTML", b"<!doctype html"),
        ("x.json", b'{"session"'),
        ("x.jsonl", b'{"seq"'),
        ("x.holdfast", b"PK"),
        ("x", b"# "),
    ],
)
def test_the_ending_of_the_file_decides(program, file, begins):
    assert program.run("export", BUILD, "-o", file).code == 0
    made = (program.folder / file).read_bytes()
    assert made[: len(begins)].lower() == begins.lower()


def test_nothing_is_overwritten_unless_forced(program):
    target = program.folder / "x.md"
    target.write_text("precious")
    done = program.run("export", BUILD, "-o", target)
    assert (done.code, target.read_text()) == (2, "precious")
    assert "Use --force to overwrite it" in done.err
    assert program.run("export", BUILD, "-o", target, "--force").code == 0
    assert target.read_text().startswith("# ")
    assert [each.name for each in program.folder.iterdir()] == ["x.md"]


def test_into_a_folder_it_gets_the_name_it_should_have(program):
    assert program.run("export", BUILD, "-t", "json", "-o", ".").code == 0
    assert (program.folder / f"{BUILD}.json").exists()
    done = program.run("export", BUILD, "-t", "json", "-o", ".")
    assert done.code == 2
    assert "already exists" in done.err


def test_secrets_are_replaced_and_told_without_being_shown(program):
    done = program.run("export", BUILD, "-t", "jsonl", "--redact")
    assert KEY not in done.out
    assert KEY not in done.err
    assert "redacted: Anthropic key in entry 4" in done.err
    assert "1 secret replaced" in done.err
    assert KEY in program.run("export", BUILD, "-t", "jsonl").out
    put(program, DOCS)
    assert program.run("export", DOCS, "--redact").err == "no secrets were found\n"
    told = program.run("export", BUILD, "-o", "x.md", "--redact", "--json").object
    assert (told["session"], told["format"]) == (BUILD, "markdown")
    assert told["redacted"] == [{"kind": "Anthropic key", "where": "entry 4"}]
    assert told["size_bytes"] == (program.folder / "x.md").stat().st_size


def test_depth_and_workspace(program):
    done = program.run("export", BUILD, "--depth", "messages", "--strip-workspace")
    assert "It is fixed." in done.out
    assert "deep thought" not in done.out
    assert str(program.folder) not in done.out
    done = program.run("export", BUILD, "-t", "archive", "--depth", "messages", "-o", "x")
    assert done.code == 2
    assert not (program.folder / "x").exists()


def test_hostile_text_steers_no_page(program):
    for name in ("markdown", "html"):
        done = program.run("export", BUILD, "-t", name)
        assert "\x1b" not in done.out
        assert "\u202e" not in done.out
    assert "<script>alert(1)" not in program.run("export", BUILD, "-t", "html").out
    rows = program.run("export", BUILD, "-t", "json").object["messages"]
    (result,) = [row["content"][0] for row in rows if row["role"] == "tool"]
    assert HOSTILE in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["-t", "mardown"], 2, "Did you mean markdown?"),
        (["-o", "/proc/nothing/x.md"], 1, "cannot be written"),
        (["--json"], 2, "-o FILE"),
    ],
)
def test_mistakes(program, words, code, said):
    done = program.run("export", BUILD, *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_an_archive_travels(program):
    assert program.run("export", BUILD, "-o", "a.holdfast").code == 0
    assert zipfile.is_zipfile(program.folder / "a.holdfast")
    journal = (program.sessions()[0] / "journal.jsonl").read_bytes()
    program.home = program.home.with_name("other")
    done = program.run("import", "a.holdfast", HOLDFAST_HOME=str(program.home))
    assert (done.code, done.out) == (0, ""), done.err
    assert "1 session imported" in done.err
    assert (program.sessions()[0] / "journal.jsonl").read_bytes() == journal
    done = program.run("import", "a.holdfast", HOLDFAST_HOME=str(program.home))
    assert (done.code, "1 session found, nothing is new" in done.err) == (0, True)
