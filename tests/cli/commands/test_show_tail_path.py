"""``holdfast show``, ``tail`` and ``path``: reading, also while somebody writes."""

import json
import signal
import threading

import pytest

import holdfast
from holdfast import assistant, user
from tests.cli.kept import BUILD, DOCS, HOSTILE, put, put_build
from tests.cli.program import until


def harmless(text: str) -> bool:
    return all(each.isprintable() or each == "\n" for each in text)


def test_a_conversation_is_readable_and_harmless(program):
    put_build(program)
    done = program.run("show", "aaaab")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"fix the build\n{BUILD} · {program.folder} · m-1 · 5 messages")
    order = ["you ·", "I look at it.", "▸ bash make", "output", "It is fixed.", "so far: fixed"]
    places = [done.out.index(word) for word in [*order, "thank you"]]
    assert places == sorted(places)
    assert "deep thought" not in done.out
    assert harmless(done.out)


@pytest.mark.parametrize(
    ("words", "there", "absent"),
    [
        (["--depth", "messages"], ["I look at it.", "thank you"], ["▸ bash", "output"]),
        (["--depth", "everything"], ["deep thought", "▸ bash", "output"], []),
        (["--last", "1"], ["thank you"], ["It is fixed."]),
        (["--last", "0"], ["fix the build\n2026"], ["thank you"]),
        (["--seq", "2"], ["you · "], ["I look at it."]),
        (["--seq", "3-4"], ["I look at it.", "output"], ["It is fixed."]),
        (["--seq", "5.."], ["It is fixed.", "thank you"], ["I look at it."]),
    ],
)
def test_as_much_of_it_as_is_asked_for(program, words, there, absent):
    put_build(program)
    done = program.run("show", BUILD, *words)
    assert done.code == 0
    assert [word for word in there if word not in done.out] == []
    assert [word for word in absent if word in done.out] == []
    assert harmless(done.out)


def test_a_message_of_a_branch_that_was_left_is_shown_by_its_number(program):
    put_build(program)
    with holdfast.open_store(program.home).open(BUILD) as session:
        session.rewind(2)
    assert "thank you" not in program.run("show", BUILD).out
    assert "thank you" in program.run("show", BUILD, "--seq", "9").out


def test_as_json_every_field_is_there(program):
    put_build(program)
    lines = program.run("show", BUILD, "--json", "--depth", "everything").lines
    kinds = [line.get("role", line["type"]) for line in lines]
    assert kinds == ["user", "assistant", "tool", "assistant", "checkpoint", "user"]
    assert lines[2]["content"][0]["content"][0]["text"].startswith(f"output {HOSTILE}")
    assert [line["seq"] for line in lines] == sorted(line["seq"] for line in lines)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--seq", "99"], 2, "no message numbered 99"),
        (["--seq", "six"], 2, "is neither an entry number nor a range"),
        (["--last", "1", "--seq", "1"], 2, "not both"),
        (["--depth", "deep"], 2, "'deep'"),
    ],
)
def test_a_mistake_in_what_is_asked_for(program, words, code, said):
    put_build(program)
    done = program.run("show", BUILD, *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_unfinished_text_is_shown_and_nothing_is_changed(program):
    folder = put(program, DOCS)
    store = holdfast.open_store(program.home)
    session = store.open(DOCS)
    stream = session.stream(model="m")
    stream.write("half an ans")
    until(lambda: b"half" in (folder / "live.jsonl").read_bytes())
    copy = program.temporary / DOCS
    copy.mkdir()
    for name in ("journal.jsonl", "live.jsonl"):
        (copy / name).write_bytes((folder / name).read_bytes())
    done = program.run("show", copy)
    assert "half an ans" in done.out
    assert "unfinished" in done.out
    assert {each.name for each in copy.iterdir()} == {"journal.jsonl", "live.jsonl"}
    stream.finish()
    session.close()


def test_tail_shows_the_end(program):
    put_build(program)
    done = program.run("tail", BUILD, "-n", "2")
    assert (done.code, done.out) == (0, "It is fixed.\n> thank you\n")
    assert program.run("tail", BUILD, "-n", "0").out == ""
    assert harmless(program.run("tail", BUILD).out)
    whole = program.run("tail", BUILD, "--json", "-n", "100").out
    journal = program.sessions()[0] / "journal.jsonl"
    assert journal.read_text().endswith(whole)
    assert json.loads(whole.splitlines()[0])["type"] == "message"


def test_tail_finds_the_last_messages_of_a_long_session(program):
    put(program, DOCS)
    with holdfast.open_store(program.home).open(DOCS) as session:
        session.append([holdfast.Custom("noise", number) for number in range(300)])
        session.append([user(f"prompt {number}") for number in range(30)])
        session.append([holdfast.Custom("noise", number) for number in range(1000)])
    done = program.run("tail", DOCS, "-n", "3")
    assert done.out == "> prompt 27\n> prompt 28\n> prompt 29\n"


def test_tail_follows_word_by_word_across_a_compaction_until_ctrl_c(program):
    put(program, DOCS, text="first")
    running = program.start("tail", DOCS, "-f")
    heard = bytearray()

    def listen():
        while piece := running.process.stdout.read1():
            heard.extend(piece)

    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    until(lambda: b"> first\n" in heard)
    with holdfast.open_store(program.home).open(DOCS) as session:
        with session.stream(model="m") as stream:
            stream.write("one word")
            until(lambda: heard.endswith(b"one word"), "live text")
            stream.write(" and another")
            stream.finish()
        session.checkpoint("summed up")
        session.append(user("after the checkpoint"))
        until(lambda: b"after the checkpoint" in heard)
        session.compact()
        session.append([user("after the compaction"), assistant("last")])
        until(lambda: b"last" in heard)
    running.send(signal.SIGINT)
    assert running.wait() == 130
    assert heard.decode() == (
        "> first\none word and another\n> after the checkpoint\n> after the compaction\nlast\n"
    )


def test_tail_as_json_gives_every_entry_and_ends_if_the_session_is_deleted(program):
    put(program, DOCS)
    running = program.start("tail", DOCS, "-f", "--json", "-n", "1")
    assert running.line()["role"] == "user"
    store = holdfast.open_store(program.home)
    with store.open(DOCS) as session:
        session.usage(input=1, output=2, cost_usd=None)
    (usage,) = running.lines_until(type="usage")[-1:]
    assert usage["input"] == 1
    store.delete(DOCS)
    assert running.wait() == 1
    assert f"{DOCS} was deleted" in running.err


def test_a_reader_that_leaves_ends_tail(program):
    put_build(program)
    done = program.run("tail", BUILD, shell="| head -c 1; exit 0")
    assert done.out == ">"


def test_path(program):
    folder = put(program, DOCS, title="the docs")
    assert program.run("path", "the docs").out == f"{folder}\n"
    assert program.run("path", folder).out == f"{folder}\n"
    assert program.run("path", DOCS, "--journal").out == f"{folder / 'journal.jsonl'}\n"
    assert program.run("path").out == f"{program.home}\n"
    assert program.run("path", DOCS, "--json").object == {"session": DOCS, "path": str(folder)}
    (folder / "journal.jsonl").write_bytes(b"\0")  # what cannot be read is somewhere all the same
    assert program.run("path", "ccccd").out == f"{folder}\n"


def alter(folder, old, new):
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(old, new))


@pytest.mark.parametrize("words", [[], ["--last", "4"], ["--seq", "5"], ["--seq", "4-6"]])
def test_what_somebody_changed_is_shown_and_marked(program, words):
    folder = put_build(program)
    whole = program.run("show", BUILD, "--json").lines
    (seq,) = [each["seq"] for each in whole if "It is fixed." in str(each)]
    assert seq == 5
    assert program.run("show", BUILD).err == ""
    alter(folder, b"It is fixed.", b"It is wrong.")
    done = program.run("show", BUILD, *words)
    assert done.code == 0
    assert "It is wrong." in done.out
    assert [line for line in done.out.splitlines() if line.endswith("#5 · edited")]
    assert done.err.splitlines() == [
        "holdfast: changed after it was written: #5",
        f"holdfast: see: holdfast verify {BUILD}",
    ]
    done = program.run("show", BUILD, *words, "--json")
    assert [each["seq"] for each in done.lines if each.get("status") == "edited"] == [5]
    assert "changed after it was written: #5" in done.err
    assert "#5 was changed after it was written" in program.run("tail", BUILD).err


def test_damage_is_told_where_a_session_is_read(program):
    folder = put(program, DOCS)
    with holdfast.open_store(program.home) as store, store.open(DOCS) as session:
        session.append(user("lost"))
        session.append(user("kept"))
        session.update(color="red")
    alter(folder, b"lost", b"lo\0st")
    done = program.run("show", DOCS)
    assert "kept" in done.out
    assert "this session is damaged in 1 place; that part cannot be shown" in done.err
    alter(folder, b"red", b"tan")
    assert "changed after writing: 1 line of this session" in program.run("show", DOCS).err


def test_many_that_were_changed_are_counted(program):
    with holdfast.open_store(program.home) as store, store.create(session_id=DOCS) as session:
        session.append([user(f"number {number}") for number in range(12)])
    alter(session.path, b"number", b"Number")
    assert ", #10 and 2 more\n" in program.run("show", DOCS).err


def test_a_number_that_is_no_message(program):
    put(program, DOCS, title="on docs")
    done = program.run("show", DOCS, "--seq", "1")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "on docs"
    (shown,) = program.run("show", DOCS, "--seq", "1", "--json").lines
    assert (shown["seq"], shown["type"], shown["title"]) == (1, "title", "on docs")
    done = program.run("show", DOCS, "--seq", "0")
    assert (done.code, done.out) == (2, "")
    assert f"There is no message numbered 0 in {DOCS}." in done.err
    with holdfast.open_store(program.home) as store, store.open(DOCS) as session:
        session.append(holdfast.Message(role="system", content=[holdfast.Text(text="be good")]))
    done = program.run("show", DOCS, "--seq", str(session.state.seq))
    assert (done.code, done.out) == (2, "")
    assert "Use --depth everything" in done.err
