"""Which session is meant: ids, parts, titles, paths; and what is said to a mistake."""

import shutil

import pytest

from tests.cli.kept import BUILD, DOCS, HOSTILE, put
from tests.disk import snapshot


@pytest.fixture
def program(program):
    put(program, BUILD, title="fix the build")
    put(program, DOCS, title="write/read the docs")
    return program


@pytest.mark.parametrize("name", [BUILD, "aaaab", "0102-030405", "fix the build", "FIX THE BUILD"])
def test_by_id_part_and_title(program, name):
    assert program.run("path", name).out.strip().endswith(BUILD)


def test_by_path_and_by_a_title_that_looks_like_one(program):
    folder = program.home / "sessions" / "2026-01" / DOCS
    for name in (folder, folder / "journal.jsonl", "write/read the docs"):
        assert program.run("path", name).out.strip() == str(folder)


def test_a_title_counts_for_more_than_a_part_of_an_id(program):
    put(program, "20260104-030405-eeeeffff", title="aaaab")
    assert program.run("path", "aaaab").out.strip().endswith("eeeeffff")
    assert program.run("path", "aaaabb").out.strip().endswith(BUILD)
    put(program, "20260105-030405-gggghhhh", title=DOCS)
    assert program.run("path", DOCS).out.strip().endswith(DOCS)  # a whole id is an id


def test_a_path_is_that_session_and_no_other(program):
    theirs = program.folder / "copies" / BUILD
    shutil.copytree(program.home / "sessions" / "2026-01" / BUILD, theirs)
    (program.folder / "link").symlink_to(program.home / "sessions" / "2026-01" / DOCS)
    (program.folder / "copies" / "write").mkdir()
    before = snapshot(program.home / "sessions")
    begun = ["-p", "say: hi", "--detach", "-C", ".", "-r"]
    for verb in (["rm", "--yes"], ["attach", "--no-input"], ["cancel"], begun):
        done = program.run(*verb, f"copies/{BUILD}")
        assert (done.code, done.out) == (2, ""), (verb, done.err)
        assert f"is not in the home folder {program.home}" in done.err
    for name in ("./link", "./link/", "copies/", "copies/write", "/dev/null", "/" + "x" * 5000):
        for words in (["rm", name, "--yes"], ["path", name], ["show", name], ["verify", name]):
            done = program.run(*words)
            assert (done.code, done.out) == (1, ""), words
            assert "There is no session at" in done.err
            assert done.err.count("\n") == 1
    assert snapshot(program.home / "sessions") == before
    assert program.run("path", f"copies/{BUILD}").out.strip() == str(theirs)
    assert program.run("verify", theirs / "journal.jsonl").code == 0
    assert program.run("-p", "say: hi", "-C", ".", "-r", theirs).out == "hi\n"  # there, not here
    assert b'"hi"' in (theirs / "journal.jsonl").read_bytes()
    assert snapshot(program.home / "sessions") == before
    own = program.home / "sessions" / "2026-01" / DOCS
    assert program.run("rm", f"{own}/../{DOCS}/", "--yes").code == 0
    assert [each.name for each in program.sessions()] == [BUILD]
    assert theirs.exists()


def test_a_session_without_a_journal_is_found_by_its_path(program):
    own = program.home / "sessions" / "2026-01" / DOCS
    (own / "journal.jsonl").unlink()
    assert program.run("rm", own, "--yes").code == 0
    assert not own.exists()


def test_a_title_that_is_also_a_path(program):
    (program.folder / "write" / "read the docs").mkdir(parents=True)
    assert program.run("path", "write/read the docs").out.strip().endswith(DOCS)


@pytest.mark.parametrize("verb", ["rewind", "verify", "tree"])
def test_every_command_takes_every_name(program, verb):
    assert program.run(verb, "fix the build").code == 0
    assert "Did you mean" in program.run(verb, "fix teh build").err


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("fix teh build", 1, f"Did you mean {BUILD} (fix the build)?"),
        ("aaaabbbc", 1, f"Did you mean {BUILD} (fix the build)?"),
        ("the docs", 1, f"Did you mean {DOCS} (write/read the docs)?"),
        ("20260102-030405-aaaabbbz", 1, f"Did you mean {BUILD}"),
        ("quite something else", 1, "List them with: holdfast ls"),
        ("030405", 2, "is part of 2 session ids"),
        ("", 2, "is not a session id"),
        ("/no/such/place", 1, "There is no session at"),
        ("../../../etc/nowhere", 1, "There is no session at"),
        ("~/x\n\x1b[2J", 1, "There is no session at '~/x\\n\\x1b[2J'"),
        (HOSTILE.replace("\x00", ""), 1, "no session"),
        ("a" * 5000, 1, "…'"),
    ],
)
def test_a_mistake_is_told_with_what_may_be_meant(program, name, code, said):
    for verb in (["show", name], ["rename", name, "x"], ["rm", name, "--yes"], ["fork", name]):
        done = program.run(*verb)
        assert (done.code, done.out) == (code, ""), done.err
        assert said.casefold() in done.err.casefold()
        assert done.err.count("\n") == 1
        assert done.err.rstrip("\n").isprintable()
    assert len(program.sessions()) == 2


def test_several_of_one_title_and_one_in_the_trash(program):
    put(program, "20260104-030405-eeeeffff", title="fix the build")
    done = program.run("show", "fix the build")
    assert done.code == 2
    assert "2 sessions have that title" in done.err
    program.run("rm", DOCS, "--yes")
    done = program.run("show", DOCS)
    assert (done.code, done.err) == (
        1,
        f"holdfast: {DOCS} is in the trash. Restore it with: holdfast restore {DOCS}\n",
    )


@pytest.mark.parametrize(
    ("word", "meant"), [("shwo", "show"), ("exprot", "export"), ("zzzz", None)]
)
def test_a_mistyped_verb(program, word, meant):
    done = program.run(word)
    assert (done.code, done.out) == (2, "")
    assert f"There is no command {word!r}" in done.err
    assert ("Did you mean" in done.err) == (meant is not None)
    assert meant is None or f"{meant}?" in done.err
