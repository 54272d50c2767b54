"""The oracle finds what is wrong with a store, and finds nothing wrong with one that is right."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import holdfast
from holdfast.store.local.lock import Lock
from tests.crash.lab import moving, scenario
from tests.crash.lab.oracle import Oracle
from tests.crash.lab.witness import Witness
from tests.disk import FakeUnsyncedFiles


class Notebook(Witness):
    """Writes down what is said."""

    def __init__(self):
        self.said = []

    def say(self, *words):
        self.said.append(json.loads(json.dumps(words)))


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    home = tmp_path_factory.mktemp("a played home")
    notebook = Notebook()
    scenario.run(home, notebook, "one")
    return home, notebook.said


@pytest.fixture
def home(played, tmp_path):
    return shutil.copytree(played[0], tmp_path / "home", symlinks=True)


@pytest.fixture
def said(played):
    return list(played[1])


def judge(home, said, **options):
    return Oracle(home, said, files=FakeUnsyncedFiles(), **options).judge()


def session_id(said):
    return said[0][4]["session"]


def journal(home, said):
    return next(home.glob(f"sessions/*/{session_id(said)}")) / "journal.jsonl"


def until(said, op):
    """Return what was said up to the beginning of the first call of a kind."""
    number = next(n for n, words in enumerate(said) if words[0] == "intends" and words[3] == op)
    return said[: number + 1]


def test_a_store_that_kept_everything(home, said):
    tally = judge(home, said)
    assert not tally.failed, tally.failures
    assert tally.acknowledged == 16


@pytest.mark.parametrize("variant", scenario.VARIANTS)
def test_the_scenario_comes_to_its_end(tmp_path, variant):
    notebook = Notebook()
    scenario.run(tmp_path, notebook, variant)
    endings = [words for words in notebook.said if words[0] in ("done", "fell", "refused")]
    assert sorted(endings) == [["done", chr(97 + n)] for n in range(scenario.VARIANTS[variant])]
    assert not judge(tmp_path, notebook.said).failed


def test_an_acknowledged_entry_that_is_gone(home, said):
    path = journal(home, said)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:-2], b""]))
    assert judge(home, said).lost == 1


def test_a_session_that_is_gone(home, said):
    shutil.rmtree(journal(home, said).parent)
    assert judge(home, said).lost == 1


def test_a_blob_that_is_gone(home, said):
    for blob in journal(home, said).parent.glob("blobs/*"):
        blob.unlink()
    assert judge(home, said).failed


def test_a_fork_that_is_gone(home, said):
    for folder in home.glob("sessions/*/*"):
        if folder.name != session_id(said):
            shutil.rmtree(folder)
    assert judge(home, said).lost == 1


def test_an_entry_that_is_there_twice(home, said):
    with holdfast.open_store(home).open(session_id(said)) as session:
        session.append(holdfast.user(scenario.text_of("a16")))
    tally = judge(home, said)
    assert tally.duplicates == 1


def test_an_entry_that_nobody_appended(home, said):
    with holdfast.open_store(home).open(session_id(said)) as session:
        session.append(holdfast.user(scenario.text_of("a99")))
    assert judge(home, said).broken >= 1


def test_an_altered_entry(home, said):
    path = journal(home, said)
    path.write_bytes(path.read_bytes().replace(b"a17once: na", b"a17once: NA"))
    assert judge(home, said).lost >= 1


def test_a_session_that_cannot_be_opened(home, said):
    path = journal(home, said)
    path.write_bytes(b"\xff" * path.stat().st_size)
    assert judge(home, said).refused == 1


def test_half_a_batch(tmp_path):
    notebook = Notebook()
    store = holdfast.open_store(tmp_path)
    with store.create() as session:
        notebook.say("intends", "a", 0, "create", {"session": session.id})
        notebook.say("intends", "a", 1, "append", {"labels": ["a1", "a2"]})
        session.append(holdfast.user(scenario.text_of("a1")))
    tally = judge(tmp_path, notebook.said)
    assert [failure.what for failure in tally.failures][:1] == [
        "of the batch ['a1', 'a2'] only a part is there"
    ]


def test_a_forgotten_rewind(home, said):
    """The entries are all there, but the branch is not what it was promised to be."""
    with holdfast.open_store(home).open(session_id(said)) as session:
        session.rewind(None)
    assert judge(home, said).broken == 1


def test_a_forgotten_title(home, said):
    with holdfast.open_store(home).open(session_id(said)) as session:
        session.update(title="another")
    assert judge(home, said).broken == 1


def test_an_index_that_says_something_else(home, said):
    for path in home.glob("sessions/*/*/journal.jsonl"):
        os.utime(path, (1, 1))  # a row about a file that has just changed would not be believed
    assert not judge(home, said, writes=False).failed
    index = sqlite3.connect(home / "index.db")
    with index:
        for name, summary in index.execute("SELECT id, summary FROM sessions").fetchall():
            lie = summary.replace(b"the title", b"THE TITLE")
            index.execute("UPDATE sessions SET summary = ? WHERE id = ?", (lie, name))
    index.close()
    assert judge(home, said, writes=False).broken == 1


def test_text_that_was_to_be_seen(tmp_path):
    notebook = Notebook()
    store = holdfast.open_store(tmp_path)
    with store.create() as session:
        notebook.say("intends", "a", 0, "create", {"session": session.id})
        notebook.say("intends", "a", 1, "stream", {"label": "a1stream"})
        notebook.say("intends", "a", 2, "piece", {"label": "a1stream", "number": 0})
        notebook.say("written", "a", "a1stream", 1)
        session.update(title=None)
        session.event("something")
    assert judge(tmp_path, notebook.said).lost == 1
    assert judge(tmp_path, notebook.said, power_cut=True).lost == 0


def test_an_error_that_is_not_ours(home, said):
    assert judge(home, [*said, ["fell", "a", "Traceback …"]]).broken == 1


def test_a_call_that_was_cut_off_may_have_worked_or_not(home, said):
    cut = until(said, "compact")
    # All that was promised before is still held to; what came after was never announced.
    tally = judge(home, cut)
    assert tally.lost == 0
    assert "never appended" in " ".join(failure.what for failure in tally.failures)


# Stores that are altered and still verify: only the oracle knows what was given


def play(home, *calls):
    """Make a session; each call is told with the outcome that it is said to have had."""
    notebook = Notebook()
    with holdfast.open_store(home).create() as session:
        notebook.say("intends", "a", 0, "create", {"session": session.id})
        for number, (op, facts, do, outcome) in enumerate(calls, 1):
            notebook.say("intends", "a", number, op, facts)
            position = do(session)
            seq = position.seq if isinstance(position, holdfast.Position) else None
            if outcome == "promised":
                notebook.say("promised", "a", number, {"seq": seq})
            elif outcome is not None:
                notebook.say("refused", "a", number, outcome)
    return notebook.said


def append(label, message=None, outcome="promised"):
    message = message or holdfast.user(scenario.text_of(label))
    return "append", {"labels": [label]}, lambda session: session.append(message), outcome


def nothing(_):
    pass


def streamed(label, finish, outcome="promised", pieces=scenario.PIECES):
    """Tell of a whole stream, which ``finish`` makes from a session."""
    told = [("piece", {"label": label, "number": n}, nothing, "promised") for n in range(pieces)]
    return [
        ("stream", {"label": label}, nothing, "promised"),
        *told,
        ("finish", {"label": label}, finish, outcome),
    ]


def as_stream(label, pieces, stop="end", call_id=None):
    def finish(session):
        stream = session.stream(call_id=call_id)
        stream.write(scenario.streamed_text(label, pieces))
        return stream.finish(stop)

    return finish


@pytest.mark.parametrize(
    ("pieces", "stop", "outcome", "lost", "broken"),
    [
        (3, "end", "promised", 0, 0),
        (2, "end", "promised", 1, 0),
        (3, "interrupted", "promised", 1, 0),
        (3, "end", None, 0, 0),
        (2, "end", None, 0, 1),
        (2, "interrupted", None, 0, 0),
        (2, "interrupted", "DiskFull: …", 0, 0),
    ],
)
@pytest.mark.parametrize("kind", ["stream", "output"])
def test_what_a_finished_stream_has_to_be(tmp_path, kind, pieces, stop, outcome, lost, broken):
    call_id = "a1call" if kind == "output" else None
    intent = holdfast.Tool("a1call", "bash", "started", "unknown")
    tool = ("tool", {"call_id": "a1call"}, lambda session: session.append(intent), "promised")
    label = f"a2{kind}"
    finish = as_stream(label, pieces, stop, call_id)
    tally = judge(tmp_path, play(tmp_path, tool, *streamed(label, finish, outcome)))
    # It is looked at in the journal and in the session.
    assert (tally.lost, tally.broken) == (2 * lost, 2 * broken), tally.failures


def test_a_tool_output_that_belongs_to_another_call(tmp_path):
    intent = holdfast.Tool("a1call", "bash", "started", "unknown")
    tool = ("tool", {"call_id": "a1call"}, lambda session: session.append(intent), "promised")
    finish = as_stream("a2output", scenario.PIECES, call_id="a9call")
    assert judge(tmp_path, play(tmp_path, tool, *streamed("a2output", finish))).lost == 2


CALL = holdfast.ToolCall(id="a1call", name="bash", arguments={"command": "make"})
OTHER_CALL = holdfast.ToolCall(id="a1call", name="bash", arguments={"command": "make clean"})


@pytest.mark.parametrize(
    ("label", "make", "lost"),
    [
        ("a1", holdfast.user, 0),
        ("a1", holdfast.assistant, 2),
        ("a1", lambda text: holdfast.user([holdfast.Text(text=text), holdfast.Text(text="")]), 2),
        ("a1blob", holdfast.user, 0),
        ("a1blob", holdfast.assistant, 2),
        ("a1blob", lambda text: holdfast.user(text[:-1] + "!"), 2),
        ("a1call", lambda text: holdfast.assistant([holdfast.Text(text=text), CALL]), 0),
        ("a1call", lambda text: holdfast.assistant([holdfast.Text(text=text), OTHER_CALL]), 2),
        ("a1call", holdfast.assistant, 2),
    ],
)
def test_an_entry_is_compared_whole(tmp_path, label, make, lost):
    tally = judge(tmp_path, play(tmp_path, append(label, make(scenario.text_of(label)))))
    assert (tally.lost, tally.broken) == (lost, 0), tally.failures


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        (("bash", "started", "unknown"), 0),
        (("bash", "started", "none"), 1),
        (("bash", "ended", "unknown"), 1),
        (("zsh", "started", "unknown"), 1),
    ],
)
def test_a_tool_intent_is_compared_whole(tmp_path, words, lost):
    intent = holdfast.Tool("a1call", *words)
    tool = ("tool", {"call_id": "a1call"}, lambda session: session.append(intent), "promised")
    assert judge(tmp_path, play(tmp_path, tool)).lost == lost


@pytest.mark.parametrize("which", ["journal", "archive", "fork"])
def test_a_line_that_is_there_twice(home, said, which):
    """A reader passes over the second one, whose number is not above the first."""
    path = journal(home, said)
    if which == "archive":
        path = next(path.parent.glob("archive/*.gz"))
    elif which == "fork":
        path = next(p for p in home.glob("sessions/*/*/journal.jsonl") if p != path)
    read, write = (gzip.decompress, gzip.compress) if which == "archive" else (bytes, bytes)
    lines = read(path.read_bytes()).split(b"\n")
    lines.insert(-4, lines[-4])
    path.write_bytes(write(b"\n".join(lines)))
    tally = judge(home, said)
    assert any(" comes after " in failure.what for failure in tally.failures)


def test_lines_that_a_continuation_makes_void(tmp_path):
    """After a failed sync the old file may have anything behind the last acknowledged entry."""
    said = play(tmp_path, append("a1"), append("a2"))
    path = journal(tmp_path, said)
    header, *lines = path.read_bytes().splitlines(keepends=True)
    last = json.loads(lines[-2])
    continuation = json.loads(header) | {
        "seq": last["seq"],
        "continues": {"seq": last["seq"], "sum": last["sum"]},
    }
    del continuation["sum"]
    text = json.dumps(continuation, separators=(",", ":"))[:-1].encode()
    sealed = text + b',"sum":"%08x"}\n' % zlib.crc32(text)
    second = path.with_name("journal.2.jsonl")
    second.write_bytes(sealed + lines[-1])
    second.chmod(0o600)
    with path.open("ab") as old:
        old.write(b'{"seq":77,"at')
    tally = judge(tmp_path, said)
    assert not tally.failed, tally.failures


@pytest.mark.parametrize("fork", [False, True])
@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"cost_usd":0.25', b'"cost_usd":0.26'), (b'"type":"meta","title"', b"?" * 20)],
)
def test_damage_that_concerns_no_message(home, said, old, new, fork):
    path = journal(home, said)
    if fork:
        path = next(p for p in home.glob("sessions/*/*/journal.jsonl") if p != path)
        old = b'"type":"writer"' if old.startswith(b'"cost') else old
        new = b'"type":"Writer"' if new.startswith(b'"cost') else new
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))
    tally = judge(home, said)
    found = " ".join(failure.what for failure in tally.failures)
    assert "does not verify" in found
    assert tally.broken >= 1


def test_damage_that_opening_meets(home, said):
    path = journal(home, said)
    path.write_bytes(path.read_bytes().replace(b'"type":"writer"', b'"type":"WRITER"'))
    tally = judge(home, said, writes=False)
    assert "is damaged" in tally.failures[0].what


@pytest.mark.parametrize(
    ("power_cut", "outcome", "fails"),
    [(True, None, False), (True, "promised", True), (False, None, True)],
)
def test_a_hole_among_lines_written_together(tmp_path, power_cut, outcome, fails):
    """A power cut may take any lines that were not synced, and leave the last of them."""
    said = play(tmp_path, append("a1"), append("a2", outcome=None), append("a3", outcome=outcome))
    path = journal(tmp_path, said)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[-2] = bytes(len(lines[-2]) - 1) + b"\n"
    path.write_bytes(b"".join(lines))
    tally = judge(tmp_path, said, power_cut=power_cut)
    assert tally.failed == fails, tally.failures


# Sessions that had given up


def test_nothing_comes_of_calls_after_a_session_gave_up(tmp_path):
    gave_up = append("a2", outcome="WriteFailed: …")
    tally = judge(tmp_path, play(tmp_path, append("a1"), gave_up, append("a3", outcome=None)))
    assert [failure.what for failure in tally.failures][:1] == [
        "a3 is there and was never appended"
    ]


def test_after_opening_again_calls_count_again(tmp_path):
    calls = [
        append("a1"),
        append("a2", outcome="WriteFailed: …"),
        ("open", {}, nothing, "promised"),
        append("a3", outcome=None),
    ]
    said = play(tmp_path, *calls)
    assert not judge(tmp_path, said).failed


def test_the_order_of_promises_where_too_much_is_possible(tmp_path):
    many = [append(f"a{n}", outcome="DiskFull: …") for n in range(20, 32)]
    last = [append("a40"), append("a41")]
    said = play(tmp_path / "right", *many, *last)
    tally = judge(tmp_path / "right", said)
    assert not tally.failed, tally.failures
    assert tally.facts["too many endings to tell"] == 1
    said = play(tmp_path / "wrong", *many, *last)
    labels = {"a40": "a41", "a41": "a40"}
    for words in said:
        if words[0] == "intends" and words[3] == "append":
            words[4]["labels"] = [labels.get(label, label) for label in words[4]["labels"]]
    # Numbers as they would be, had the store mixed them up.
    promised = [words for words in said if words[0] == "promised"]
    promised[0][3], promised[1][3] = {"seq": None}, {"seq": None}
    said = [words for words in said if words not in promised] + promised
    tally = judge(tmp_path / "wrong", said)
    assert "not in order" in " ".join(failure.what for failure in tally.failures)


# Sessions that move, are followed, and act


def lived(tmp_path, variant):
    notebook = Notebook()
    scenario.run(tmp_path, notebook, variant)
    assert not verdict(tmp_path, notebook.said).failed
    return notebook.said


def verdict(home, said, **options):
    """Judge a copy: the judge itself goes on with what it finds."""
    with TemporaryDirectory() as folder:
        return judge(shutil.copytree(home, Path(folder) / "home"), said, **options)


def folder_of(home, session):
    return next(home.glob(f"sessions/*/{session}"))


def up_to(said, op, *, promised):
    """Return what was said up to a call of a kind: before it begins, or when it has returned."""
    *_, number = (n for n, words in enumerate(said) if words[0] == "intends" and words[3] == op)
    if not promised:
        return said[:number]
    key = said[number][1:3]
    return said[: 1 + next(n for n, w in enumerate(said) if w[0] == "promised" and w[1:3] == key)]


def test_a_session_that_is_not_where_it_was_moved_to(tmp_path):
    said = lived(tmp_path, "moved")
    assert verdict(tmp_path, up_to(said, "delete", promised=False)).lost  # in the trash
    holdfast.open_store(tmp_path).restore(session_id(said))
    assert verdict(tmp_path, said).broken  # deleted, and there


@pytest.mark.parametrize("session", [moving.STAGED, moving.RECEIVED, moving.FIRST])
def test_what_came_from_elsewhere_and_is_gone_or_ours(tmp_path, session):
    said = lived(tmp_path, "moved")
    folder = folder_of(tmp_path, session)
    with holdfast.open_store(tmp_path) as store:
        store.accept(session)
    assert verdict(tmp_path, said).broken  # as if we had written it
    shutil.rmtree(folder)
    assert verdict(tmp_path, said).lost


def test_the_note_of_a_batch(tmp_path):
    said = lived(tmp_path, "moved")
    begun = up_to(said, "batch", promised=False) + [
        words for words in said if words[0] == "intends" and words[3] == "batch"
    ]
    shutil.rmtree(folder_of(tmp_path, moving.SECOND))
    holdfast.open_store(tmp_path).restore(session_id(said))
    assert not verdict(tmp_path, begun).lost  # nobody was promised anything
    (tmp_path / "sessions" / ".batch" / "then.json").write_bytes(moving.NOTE)
    assert verdict(tmp_path, begun).lost
    (tmp_path / "sessions" / ".batch" / "then.json").unlink()
    assert verdict(tmp_path, up_to(said, "batch", promised=True)).lost


def test_what_was_shown_kept_aside_or_settled(tmp_path):
    said = lived(tmp_path, "followed")
    for path in folder_of(tmp_path, session_id(said)).glob("damaged/*"):
        path.unlink()
    assert [each.what for each in verdict(tmp_path, said).failures if "torn line" in each.what]
    shown = [
        *said,
        ["intends", "a", 900, "look", {}],
        ["promised", "a", 900, {"shown": {"a99": 7}}],
    ]
    assert [each.what for each in verdict(tmp_path, shown).failures if "shown" in each.what]
    settled = [["intends", "a", 901, "settle", {"label": "a88stream", "pieces": 1}]]
    settled += [["promised", "a", 901, {}]]
    assert verdict(tmp_path, said + settled, power_cut=True).lost > verdict(tmp_path, said).lost


def test_a_tool_that_acted_on_nobodys_word(tmp_path):
    said = lived(tmp_path, "acted")
    acted = [["intends", "a", 900, "effect", {"call_id": "x", "effect": "unknown"}]]
    whats = [each.what for each in verdict(tmp_path, [*said, *acted]).failures]
    assert whats == []  # it was only about to
    acted += [["promised", "a", 900, {}]]
    whats = [each.what for each in verdict(tmp_path, [*said, *acted]).failures]
    assert len(whats) == 2


def test_a_command_that_nobody_knows_of(home, said):
    assert judge(home, [*said, ["ran", "a", "x"]]).broken


def test_a_lock_that_is_another_file(home, said, monkeypatch):
    release = Lock.release

    def remove(self):
        path = os.readlink(f"/proc/self/fd/{self._descriptor}") if self.held else None
        release(self)
        if path is not None and os.path.exists(path):
            os.unlink(path)

    monkeypatch.setattr(Lock, "release", remove)
    assert judge(home, said).broken
