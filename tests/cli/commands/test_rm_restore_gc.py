"""``holdfast rm``, ``restore`` and ``gc``: nothing goes without a name, a rule and a yes."""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast import user
from holdfast.store.write.encode import ImportedEntry, encode_all
from tests.cli.kept import BUILD, DOCS, HOSTILE, put
from tests.cli.shell import Shell
from tests.disk import snapshot

ANY = "20260104-030405-eeeeffff"


class Meanwhile(str):
    """An answer before which something happens."""

    __slots__ = ("happens",)
    happens: Callable[[], object]

    def __new__(cls, text, happens):
        made = super().__new__(cls, text)
        made.happens = happens
        return made

    def encode(self, *how):
        self.happens()
        return super().encode(*how)


def ids(program):
    return [folder.name for folder in program.sessions()]


@pytest.fixture
def three(program):
    put(program, BUILD, title="first")
    put(program, DOCS, title=HOSTILE, tags=["scratch"])
    put(program, ANY, title="third")
    return program


def test_rm_moves_to_the_trash_and_restore_brings_back(three):
    done = three.run("rm", "aaaab", "third", "--yes")
    assert (done.code, done.out) == (0, "")
    assert "2 sessions moved to the trash" in done.err
    assert ids(three) == [DOCS]
    listed = three.run("restore").out.splitlines()
    assert [line.split()[0] for line in listed] == [ANY, BUILD]
    assert three.run("restore", "third", "aaaab").out == f"{ANY}\n{BUILD}\n"
    assert ids(three) == [BUILD, DOCS, ANY]
    assert three.run("restore").err == "the trash is empty\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Name sessions, or select them"),
        (["--yes"], "Name sessions, or select them"),
        ([BUILD], "Not a terminal, so I can't ask"),
        (["--tag", "scratch"], "Not a terminal, so I can't ask"),
        ([BUILD, "--tag", "scratch", "--yes"], "not both"),
        ([""], "is not a session id"),
    ],
)
def test_rm_does_nothing_without_a_name_a_rule_and_a_yes(three, words, said):
    done = three.run("rm", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(ids(three)) == 3


def test_one_bad_name_keeps_all(three):
    assert three.run("rm", BUILD, "nonsense", "--yes").code == 1
    assert len(ids(three)) == 3


def test_rm_by_rule_damaged_ones_too(three):
    (three.home / "sessions/2026-01" / ANY / "journal.jsonl").write_bytes(b"\0")
    done = three.run("rm", "--state", "damaged", "--dry-run")
    assert ANY in done.err
    assert len(ids(three)) == 3
    assert three.run("rm", "--state", "damaged", "--yes").code == 0
    done = three.run("rm", "--tag", "scratch", "--yes", "--json")
    assert done.lines == [{"session": DOCS, "deleted": True, "reason": None}]
    assert ids(three) == [BUILD]
    done = three.run("rm", "--tag", "scratch", "--yes")
    assert (done.code, done.err) == (0, "no session matches\n")


def test_a_held_session_is_named_and_the_others_go(three):
    with holdfast.open_store(three.home).open(DOCS):
        done = three.run("rm", BUILD, DOCS, ANY, "--yes")
    assert done.code == 75
    assert f"{DOCS} is being written by process" in done.err
    assert "2 sessions moved" in done.err
    assert ids(three) == [DOCS]
    with holdfast.open_store(three.home).open(DOCS):
        done = three.run("rm", DOCS, "--yes")
    assert done.err.endswith("\n0 sessions moved to the trash\n")
    (three.home / "trash").rename(three.home / "away")
    (three.home / "trash").write_bytes(b"")
    done = three.run("rm", DOCS, "--yes")
    assert done.code == 1
    assert "cannot be deleted" in done.err
    assert done.err.endswith("\n0 sessions moved to the trash\n")


def test_one_that_is_gone_when_its_turn_comes_is_not_counted(tmp_path):
    shell = Shell(tmp_path)
    store = holdfast.open_store(shell.home)
    for each in (BUILD, DOCS):
        with store.create(session_id=each) as session:
            session.append(user("hello"))
    question = "Move 2 sessions to the trash? [y/N]: "
    answer = Meanwhile("y\n", lambda: store.delete(BUILD))
    code, screen = shell.type("rm", BUILD, DOCS, answers={question: answer})
    assert code == 0
    assert f"{BUILD} was already deleted" in screen
    assert "1 session moved to the trash; holdfast restore brings it back" in screen


def test_somebody_at_a_terminal_is_asked(tmp_path):
    shell = Shell(tmp_path)
    store = holdfast.open_store(shell.home)
    with store.create(session_id=BUILD) as session:
        session.append(user("hello"))
    question = "Move 1 session to the trash? [y/N]: "
    code, screen = shell.type("rm", BUILD, answers={question: "n\n"})
    assert (code, "Nothing was changed." in screen) == (1, True)
    assert store.ids() == {BUILD}
    code, _ = shell.type("rm", BUILD, answers={question: "y\n"})
    assert (code, store.ids()) == (0, set())


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("thrid", 1, f"Did you mean {ANY}?"),
        ("030405", 2, "3 deleted sessions match"),
        ("", 1, "No session"),
        ("../x", 1, "No session"),
    ],
)
def test_restore_says_what_may_be_meant(three, name, code, said):
    three.run("rm", BUILD, DOCS, ANY, "--yes")
    done = three.run("restore", name)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_restore_lists_harmlessly_what_can_hardly_be_read(three):
    three.run("rm", BUILD, DOCS, ANY, "--yes")
    for path in three.home.glob(f"trash/{BUILD}*/journal.jsonl"):
        path.write_bytes(b"\0")
    done = three.run("restore", "--limit", "2")
    assert len(done.out.splitlines()) == 2
    assert done.err == "2 shown · 1 more (--all)\n"
    listed = {line["session"]: line for line in three.run("restore", "--json").lines}
    assert listed[BUILD]["title"] is None
    assert "cannot be read as a journal" in listed[BUILD]["problem"]
    assert (listed[ANY]["title"], listed[ANY]["problem"]) == ("third", None)
    done = three.run("restore", listed[BUILD]["problem"])
    assert (done.code, done.out) == (1, "")
    everything = three.run("restore", "--all").out
    assert len(everything.splitlines()) == 3
    assert all(each.isprintable() or each == "\n" for each in everything)


def test_a_title_in_the_trash_counts_for_more_than_a_part_of_an_id(three):
    put(three, "20260105-030405-gggghhhh", title="aaaab")
    three.run("rm", BUILD, "aaaab", "--yes")
    assert three.run("restore", "aaaab").out == "20260105-030405-gggghhhh\n"
    assert three.run("restore", "aaaab").out == f"{BUILD}\n"


def test_a_place_that_is_taken_again(three):
    three.run("rm", BUILD, "--yes")
    put(three, BUILD)
    done = three.run("restore", BUILD)
    assert (done.code, done.out) == (1, "")
    assert "already exists" in done.err


# gc


def aged(program, days, session_id):
    """Make a session that was last updated so many days ago."""
    store = holdfast.open_store(program.home)
    at = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    with store.stage(session_id, started=at) as staging:
        staging.add(ImportedEntry(staging.next_seq, at, encode_all([user("x" * 1000)])[0][0]))
        staging.publish()


@pytest.fixture
def old(program):
    for days, name in ((100, BUILD), (50, DOCS), (1, ANY)):
        aged(program, days, name)
    return program


def test_gc_needs_a_rule_and_a_yes(old):
    assert "Select what to remove" in old.run("gc", "--yes").err
    done = old.run("gc", "--older-than", "90d")
    assert done.code == 2
    assert BUILD in done.out
    assert "Not a terminal, so I can't ask" in done.err
    assert len(ids(old)) == 3
    assert old.run("gc", "--max-size", "lots").code == 2


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["--older-than", "90d"], [DOCS, ANY]),
        (["--older-than", "30d"], [ANY]),
        (["--older-than", "30d", "--keep-last", "2"], [DOCS, ANY]),
        (["--keep-last", "1"], [ANY]),
        (["--keep-last", "0"], []),
        (["--max-size", "100M"], [BUILD, DOCS, ANY]),
        (["--max-size", "TWO"], [DOCS, ANY]),
        (["--max-size", "0", "--older-than", "90d"], [DOCS, ANY]),
    ],
)
def test_a_session_goes_if_every_rule_lets_it_go(old, words, left):
    sizes = [sum(p.stat().st_size for p in each.iterdir()) for each in old.sessions()]
    words = [word.replace("TWO", f"{sum(sizes) - sizes[0]}B") for word in words]
    done = old.run("gc", *words, "--dry-run")
    assert (done.code, len(ids(old))) == (0, 3)
    would = {line.split()[3] for line in done.out.splitlines()}
    assert would == {BUILD, DOCS, ANY} - set(left)
    done = old.run("gc", *words, "--yes")
    assert (done.code, ids(old)) == (0, left), done.err
    trash = {line["session"] for line in old.run("restore", "--json").lines}
    assert trash == would


def test_old_sessions_are_compressed_and_stay_what_they_were(old):
    words = ["gc", "--older-than", "30d", "--compress"]
    sizes = {each.name: (each / "journal.jsonl").stat().st_size for each in old.sessions()}
    listed = old.run("ls", "--all", "--json").out
    done = old.run(*words, "--dry-run")
    assert "to compress" in done.out
    assert "2 sessions would be compressed" in done.err
    with holdfast.open_store(old.home).open(DOCS):
        done = old.run(*words, "--yes")
        assert (done.code, "1 session compressed" in done.err) == (75, True)
    done = old.run(*words, "--yes", "--json")
    *each, total = done.lines
    assert [(line["type"], line["session"]) for line in each] == [("compressed", DOCS)]
    assert total["freed_bytes"] == each[0]["size_bytes"] > 0
    now = {each.name: (each / "journal.jsonl").stat().st_size for each in old.sessions()}
    assert {name for name in now if now[name] < sizes[name]} == {BUILD, DOCS}
    assert old.run(*words, "--yes").err.startswith("0 sessions compressed")
    assert old.run("ls", "--all", "--json").out == listed
    assert len(old.run("search", "x" * 1000, "--json").lines) == 3
    with holdfast.open_store(old.home).open(BUILD) as session:
        session.append(user("on we go"))
    assert old.run("show", BUILD).out.count("on we go") == 1


@pytest.mark.parametrize("words", [["--compress"], ["--compress", "--max-size", "1M"]])
def test_what_is_to_be_compressed_is_said(old, words):
    done = old.run("gc", *words, "--yes")
    assert done.code == 2
    assert "compress" in done.err


def test_damaged_sessions_stay_and_held_ones_are_named(old):
    with holdfast.open_store(old.home).open(DOCS) as session:
        (old.home / "sessions/2026-01" / BUILD / "journal.jsonl").write_bytes(b"\0")
        os.utime(old.home / "sessions/2026-01" / BUILD / "journal.jsonl", (1, 1))
        done = old.run("gc", "--keep-last", "0", "--yes")
        assert session.id == DOCS
    assert done.code == 75
    assert ids(old) == [BUILD, DOCS]
    assert f"{BUILD}  it is damaged" in done.err
    assert DOCS not in done.out  # it is not even planned
    assert done.err.count(f"skipped       {DOCS}  it is being written by process") == 1


def test_looking_who_holds_a_session_leaves_no_trace(old):
    for folder in old.sessions():
        (folder / "lock").unlink(missing_ok=True)
    old.run("ls")
    before = snapshot(old.home / "sessions")
    assert old.run("gc", "--keep-last", "0", "--dry-run").code == 0
    assert snapshot(old.home / "sessions") == before


@pytest.mark.parametrize("compress", [[], ["--compress"]])
def test_what_was_gone_on_with_while_it_asked_stays(tmp_path, compress):
    shell = Shell(tmp_path)
    for days, name in ((100, BUILD), (50, DOCS), (40, ANY)):
        aged(shell, days, name)
    store = holdfast.open_store(shell.home)
    held = []

    def happens():
        with store.open(BUILD) as session:
            session.append(user("on we go"))
        held.append(store.open(DOCS))

    words = ["gc", "--older-than", "30d", *compress]
    would = shell.run(*words, "--dry-run").stdout
    assert all(name in would for name in (BUILD, DOCS, ANY))
    question = "? [y/N]: "
    code, screen = shell.type(*words, answers={question: Meanwhile("y\n", happens)})
    held[0].close()
    assert code == 75
    assert f"skipped       {BUILD}  it was continued in the meantime" in screen
    assert f"skipped       {DOCS}  it is being written by process" in screen
    assert f"1 session {'compressed' if compress else '('}" in screen
    assert store.ids() >= {BUILD, DOCS}
    assert not store.is_compressed(BUILD)
    assert (ANY in store.ids()) == bool(compress)


def test_what_cannot_be_done_is_said_and_exits_so(old):
    (old.home / "trash").write_bytes(b"")  # as good as a home that cannot be written
    done = old.run("gc", "--older-than", "90d", "--yes")
    assert done.code == 1
    assert f"skipped       {BUILD}  " in done.err
    assert "cannot be deleted" in done.err
    assert "0 sessions (0 B) moved to the trash" in done.err
    *skipped, total = old.run("gc", "--older-than", "90d", "--yes", "--json").lines
    assert [(each["type"], each["session"], each["done"]) for each in skipped] == [
        ("skipped", BUILD, False)
    ]
    assert (total["type"], total["sessions"], total["skipped"], total["done"]) == (
        *("total", 0, 1),
        True,
    )
    assert len(ids(old)) == 3


def test_the_trash_is_emptied_for_good_only_if_asked(old):
    old.run("rm", BUILD, "--yes")
    assert old.run("gc", "--trash", "1h", "--yes").code == 0
    assert len(old.run("restore").out.splitlines()) == 1
    done = old.run("gc", "--trash", "0s", "--yes", "--json")
    assert [line["type"] for line in done.lines] == ["trash", "total"]
    assert done.lines[1]["freed_bytes"] == done.lines[0]["size_bytes"] > 1000
    assert list((old.home / "trash").iterdir()) == []
    assert ids(old) == [DOCS, ANY]


def test_what_a_crash_left_of_emptying_the_trash_goes_with_the_next(old):
    old.run("rm", BUILD, "--yes")
    (trashed,) = (old.home / "trash").iterdir()
    trashed.rename(old.home / "trash" / ".going-0123")
    assert "interrupted deletions" in old.run("gc", "--trash", "30d", "--dry-run").out
    assert len(list((old.home / "trash").iterdir())) == 1
    (total,) = old.run("gc", "--trash", "30d", "--yes", "--json").lines
    assert (total["rest"], total["trash"]) == (1, 0)
    assert total["freed_bytes"] > 1000
    assert list((old.home / "trash").iterdir()) == []


def test_blobs_that_nothing_names_go(old):
    store = holdfast.open_store(old.home)
    with store.open(ANY) as session:
        session.append(user("y" * 400_000))  # too long for a line
        lost, fresh = session.keep(b"lost"), session.keep(b"fresh")
    blobs = session.path / "blobs"
    hours_ago = time.time() - 7200
    for path in blobs.iterdir():
        if path.name != fresh:
            os.utime(path, (hours_ago, hours_ago))
    done = old.run("gc", "--blobs", "--dry-run")
    assert done.out.split()[2:4] == ["1", "file"]
    assert (blobs / lost).exists()
    with store.open(ANY):
        assert old.run("gc", "--blobs", "--yes").code == 75
    assert (blobs / lost).exists()
    done = old.run("gc", "--blobs", "--yes")
    assert (done.code, (blobs / lost).exists(), (blobs / fresh).exists()) == (0, False, True)
    assert store.verify(ANY).ok


def test_blobs_of_sessions_that_are_compressed_go_too(old):
    store = holdfast.open_store(old.home)
    with store.open(BUILD) as session:
        lost = session.path / "blobs" / session.keep(b"lost")
    hours_ago = time.time() - 7200
    os.utime(lost, (hours_ago, hours_ago))
    assert old.run("gc", "--keep-last", "0", "--compress", "--blobs", "--yes").code == 0
    assert not lost.exists()
    assert all(map(store.is_compressed, (BUILD, DOCS, ANY)))
