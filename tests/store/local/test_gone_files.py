"""A journal that somebody deletes or replaces under its writer can still be read and exported."""

from __future__ import annotations

import shutil

import pytest

from holdfast import user


def replace(folder):
    other = folder / "other"
    shutil.copy(folder / "journal.jsonl", other)
    other.replace(folder / "journal.jsonl")


def delete(folder):
    (folder / "journal.jsonl").unlink()


@pytest.mark.parametrize("meddle", [shutil.rmtree, delete, replace])
def test_what_the_writer_has_open_is_still_there(fragile, files, meddle):
    session = fragile.create()
    session.append([user("a"), user("b")])
    meddle(session.path)
    session._recorder.branch.forget()  # nothing is remembered: the file has to be read
    assert [message.text for message in session.messages] == ["a", "b"]
    assert '"b"' in session.export("jsonl")
    session.close()
    assert files.left_open == []
