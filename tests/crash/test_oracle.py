"""The oracle finds what is wrong with a store, and finds nothing wrong with one that is right."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3

import pytest

import holdfast
from tests.crash.lab import scenario
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
