"""aider: many chats in one file."""

from __future__ import annotations

from holdfast.exchange.importers import importer
from holdfast.exchange.importing.source_files import SourceReader
from tests.exchange.sources import copied, take_all

CHAT = "\n# aider chat started at 2026-01-11 10:00:00\n\n#### {}  \n\nYes.\n"


def history(source):
    return next(source.rglob(".aider.chat.history.md"))


def texts(store, done):
    with store.open(done.session, mode="read") as session:
        return [message.text for message in session.messages]


def test_the_last_chat_goes_on_and_another_begins(store, tmp_path):
    source = copied("aider/chats", tmp_path)
    _, second = take_all(store, "aider", source)
    with history(source).open("a") as file:
        file.write("\n#### and this?  \n\nAnother.\n")
        file.write("\n# aider chat started at 2026-01-12 10:00:00\n\n#### new  \n\nYes.\n")
    done = take_all(store, "aider", source)
    assert [each.action for each in done] == ["unchanged", "grown", "created"]
    assert done[1].session == second.session
    assert texts(store, done[1]) == ["what is this?", "A program.", "and this?", "Another."]


def test_two_chats_of_the_same_second_are_two(store, tmp_path):
    path = tmp_path / "app" / ".aider.chat.history.md"
    path.parent.mkdir()
    path.write_text(CHAT.format("one") + CHAT.format("two"))
    done = take_all(store, "aider", path)
    assert [texts(store, each)[0] for each in done] == ["one", "two"]
    assert len({each.session for each in done}) == 2


def test_a_chat_is_found_behind_blank_lines_of_any_kind(store, tmp_path):
    path = tmp_path / "app" / ".aider.chat.history.md"
    path.parent.mkdir()
    later = CHAT.replace("01-11", "01-12")
    blank = "\n \n\t  \t\n\n" * 50
    path.write_text(blank + CHAT.format("one") + blank + later.format("two") + CHAT.format("three"))
    done = take_all(store, "aider", path)
    assert [texts(store, each) for each in done] == [
        ["one", "Yes."],
        ["two", "Yes."],
        ["three", "Yes."],
    ]


def test_a_file_without_chats_is_nobodys(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("#### a heading\n\n> a quotation\n")
    reading = SourceReader()
    assert not importer("aider").sniff(path, reading)
    assert list(importer("aider").sessions(path, reading)) == []


def test_a_link_is_not_followed_and_is_reported(tmp_path):
    path = tmp_path / ".aider.chat.history.md"
    (tmp_path / "real.md").write_text(CHAT.format("one"))
    path.symlink_to(tmp_path / "real.md")
    reading = SourceReader()
    assert list(importer("aider").sessions(path, reading)) == []
    assert "symbolic link" in reading.problems[0].reason


def test_where_histories_are_looked_for(tmp_path):
    environment = {"PWD": "/srv/app", "AIDER_CHAT_HISTORY_FILE": "/srv/chats.md"}
    places = [str(place) for place in importer("aider").found(tmp_path, environment)]
    assert places[1:] == ["/srv/chats.md", "/srv/app/.aider.chat.history.md"]
