"""``holdfast fork``, ``rename`` and ``tag``: what changes a session, and who holds it."""

import pytest

import holdfast
from tests.cli.kept import BUILD, DOCS, put, put_build
from tests.cli.program import until

ORDINARY = ["👩\u200d💻 work", "می\u200cرود", "完成\u3000した", "co\u00adoperate", "a\u00a0b"]


def facts(program, session_id):
    with holdfast.open_store(program.home).open(session_id, mode="read") as session:
        return session.meta


def test_a_fork_goes_on_alone(program):
    original = put_build(program)
    before = (original / "journal.jsonl").read_bytes()
    done = program.run("fork", "aaaab", "--at", "5", "--name", "another way")
    assert done.code == 0
    copy = done.out.strip()
    assert facts(program, copy)["title"] == "another way"
    assert "thank you" not in program.run("show", copy).out
    assert "It is fixed." in program.run("show", copy).out
    assert (original / "journal.jsonl").read_bytes() == before
    told = program.run("fork", BUILD, "--json").object
    assert (told["forked_from"], told["title"]) == (BUILD, "fix the build")


def test_a_fork_of_a_session_that_is_held(program):
    put_build(program)
    with holdfast.open_store(program.home).open(BUILD):
        assert program.run("fork", BUILD).code == 0
    done = program.run("fork", BUILD, "--at", "6")
    assert (done.code, done.out) == (2, "")
    assert "no message or checkpoint numbered 6" in done.err


def test_rename_and_find_by_the_title(program):
    put(program, DOCS)
    done = program.run("rename", "ccccd", "  Ünïcode 完成 title ")
    assert (done.code, done.out) == (0, f"{DOCS}\n")
    assert facts(program, DOCS)["title"] == "Ünïcode 完成 title"
    done = program.run("rename", "ÜNÏCODE 完成 title", "plain", "--json")
    assert done.object == {"session": DOCS, "title": "plain"}


@pytest.mark.parametrize("text", ORDINARY)
def test_joiners_are_ordinary_text(program, text):
    put(program, DOCS)
    assert program.run("rename", DOCS, text).code == 0
    assert program.run("tag", DOCS, text).out == f"{text}\n"
    copy = program.run("fork", text, "--name", f"{text} again").out.strip()
    assert facts(program, copy)["title"] == f"{text} again"
    shown = program.run("ls").out
    assert f"  {text}\n" in shown
    assert f"  {text} again\n" in shown


@pytest.mark.parametrize(
    "title",
    ["", "   ", "two\nlines", "a\tb", "bell\x07", "x" * 501, "\u202eevil", "\u2066x", "a\u2028b"],
)
def test_a_title_that_is_none_changes_nothing(program, title):
    folder = put(program, DOCS)
    before = (folder / "journal.jsonl").read_bytes()
    done = program.run("rename", DOCS, title)
    assert (done.code, done.out) == (2, "")
    assert "title" in done.err
    assert (folder / "journal.jsonl").read_bytes() == before


def test_tags_are_added_removed_and_listed(program):
    put(program, DOCS)
    put(program, BUILD, tags=["b", 7, "old"])
    assert program.run("tag", DOCS, "b", "a", "b").out == "b\na\n"
    assert program.run("tag", BUILD, "new", "--remove", "old").out == "b\nnew\n"
    assert program.run("tag", DOCS).out == "b\na\n"
    assert program.run("tag").out == "     1  a\n     2  b\n     1  new\n"
    assert program.run("tag", "--json").lines[1] == {"tag": "b", "sessions": 2}
    assert program.run("tag", DOCS, "--remove", "a", "--remove", "b", "--json").object == {
        "session": DOCS,
        "tags": [],
    }
    assert program.run("tag", DOCS).err == f"{DOCS} has no tags\n"


@pytest.mark.parametrize("words", [["--remove", "x"], ["a\nb"], [""], ["\x1b[2J"]])
def test_a_tag_that_is_none_changes_nothing(program, words):
    folder = put(program, DOCS)
    before = (folder / "journal.jsonl").read_bytes()
    done = program.run("tag", DOCS, *words)
    assert (done.code, done.out) == (2, "")
    assert (folder / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize("words", [["rename", DOCS, "x"], ["tag", DOCS, "x"]])
def test_a_session_that_somebody_holds_is_named_and_left_alone(program, words):
    put(program, DOCS)
    with holdfast.open_store(program.home).open(DOCS):
        done = program.run(*words)
    assert (done.code, done.out) == (75, "")
    assert f"Session {DOCS} is being written by process" in done.err
    assert "title" not in facts(program, DOCS)
    assert "tags" not in facts(program, DOCS)


def test_a_session_that_runs_is_renamed_by_its_runner(program):
    go = "run: until [ -e go ]; do sleep 0.01; done"
    session = program.run("-p", go, "--detach", "--allow-all").out.strip()
    try:
        until(lambda: program.run("status", "--json").lines[0]["state"] == "running")
        done = program.run("rename", session, "while it runs")
        assert (done.code, done.out) == (0, f"{session}\n"), done.err
        assert program.run("status", "--json").lines[0]["title"] == "while it runs"
        done = program.run("rm", session, "--yes")
        assert done.code == 75
        assert f"{session} is being written by process" in done.err
        assert f"Stop its runner first: holdfast stop {session}" in done.err
    finally:
        (program.folder / "go").touch()
        program.run("stop", "--all")
    assert facts(program, session)["title"] == "while it runs"


def test_a_session_that_runs_is_tagged_by_its_runner(program):
    go = "run: until [ -e go ]; do sleep 0.01; done"
    session = program.run("-p", go, "--detach", "--allow-all").out.strip()
    try:
        until(lambda: program.run("status", "--json").lines[0]["state"] == "running")
        done = program.run("tag", session, "b", "a")
        assert (done.code, done.out) == (0, "b\na\n"), done.err
        assert program.run("tag", session, "c", "--remove", "b", "--json").object == {
            "session": session,
            "tags": ["a", "c"],
        }
        done = program.run("tag", session, "--remove", "b")
        assert (done.code, done.out) == (2, "")
        assert "has no tag 'b'" in done.err
        assert program.run("tag", session, "x" * 101).code == 2
        assert program.run("ls", "--tag", "c").out.split()[0] == session
        assert program.run("status", "--json").lines[0]["state"] == "running"
    finally:
        (program.folder / "go").touch()
        program.run("stop", "--all")
    assert facts(program, session)["tags"] == ["a", "c"]


@pytest.mark.parametrize("title", ["x" * 501, "two\nlines", " "])
def test_one_rule_for_titles_holds_for_every_command(program, title):
    put(program, DOCS)
    for words in (["rename", DOCS, title], ["fork", DOCS, "-n", title]):
        done = program.run(*words)
        assert (done.code, done.out) == (2, "")
        assert "A title " in done.err
    before = program.sessions()
    for words in ([], ["--detach"], ["-r", DOCS]):
        done = program.run("-p", "say: hi", "-n", title, *words)
        assert done.code == 2
        assert "A title " in done.err
    assert program.sessions() == before
    assert "title" not in facts(program, DOCS)
