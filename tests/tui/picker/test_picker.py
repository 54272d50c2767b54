"""The picker from inside: which key does what, to real sessions on a real disk."""

from __future__ import annotations

import glob
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.store.store import Store
from holdfast.store.types import Summary
from holdfast.tui.picker import loader as picker_reading
from holdfast.tui.picker import table as picker_list
from holdfast.tui.picker.app import Picked
from holdfast.tui.picker.model import PickerPlace, Sort, row_of
from holdfast.tui.picker.screen import PickerScreen, Told
from holdfast.tui.picker.table import line
from tests.processes import running
from tests.tui.picker.picker_pilot import Picking, pick_with


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def there(tmp_path: Path) -> Path:
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


def session(store, folder, *texts, title=None, **meta):
    with store.create(workspace=folder, **meta) as made:
        if title is not None:
            made.update(title=title)
        for text in texts:
            made.append(holdfast.user(text) if isinstance(text, str) else text)
    return made.id


def meta(store, session_id):
    with store.open(session_id, mode="read") as opened:
        return opened.meta


def journal(store, session_id):
    (path,) = glob.glob(f"{store.path}/sessions/*/{session_id}/journal.jsonl")
    return Path(path)


# Choosing


@pytest.mark.parametrize(
    ("key", "how"), [("enter", "resume"), ("ctrl+f", "fork"), ("ctrl+o", "read")]
)
def test_a_key_picks_the_chosen_session(store, here, key, how):
    first = session(store, here, "the first")
    session(store, here, "the second")

    async def work(picker: Picking) -> None:
        assert picker.rows() == ["the second", "the first"]
        await picker.press("down", key)

    assert pick_with(store, here, work) == Picked(first, how)


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
def test_leaving_picks_nothing(store, here, key):
    session(store, here, "one")
    assert pick_with(store, here, lambda picker: picker.press(key)) is None


def test_a_home_without_sessions(store, here):
    async def work(picker: Picking) -> None:
        await picker.sees("There are no sessions yet.", "0 shown")
        for key in ("enter", "space", "ctrl+r", "ctrl+t", "ctrl+d", "down", "pagedown", "ctrl+z"):
            await picker.press(key)
        await picker.sees("No session was deleted here.")
        await picker.press("escape")

    assert pick_with(store, here, work) is None


def test_a_key_that_comes_before_the_list_does_nothing(store, here):
    assert not PickerScreen(store, here, "").check_action("all", ())


def test_leaving_while_sessions_are_still_being_read(store, here, monkeypatch):
    """What is left of the reading ends by itself, and the next picker has a whole list."""
    for number in range(3):
        session(store, here, f"number {number}")
    reading, go, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(progress):
        def told(done, total):
            reading.set()
            assert go.wait(60)
            try:
                progress(done, total)
            except picker_reading.GaveUp:
                ended.set()
                raise

        return told

    real = type(store).list
    monkeypatch.setattr(store, "list", lambda progress: real(store, progress=slow(progress)))

    async def work(picker: Picking) -> None:
        await picker.until(reading.is_set, "the reading")
        await picker.sees("reading sessions …")
        await picker.press("escape")

    assert pick_with(store, here, work, loaded=False) is None
    go.set()
    assert ended.wait(60)
    monkeypatch.undo()

    async def again(picker: Picking) -> None:
        assert len(picker.rows()) == 3

    pick_with(store, here, again)


def test_keys_are_explained(store, here):
    async def work(picker: Picking) -> None:
        for key in ("question_mark", "f1"):
            await picker.press(key)
            await picker.sees("restore the last deleted session")
            await picker.press("escape")
            await picker.loses("restore the last deleted session")
        await picker.press("x", "question_mark")
        await picker.sees("/ x?")

    pick_with(store, here, work)


# What is shown


def test_scopes_say_what_they_leave_out(store, here, there, tmp_path):
    for folder in (here, there):
        (folder / ".git").mkdir()
        (folder / ".git/config").write_text('[remote "origin"]\nurl = https://example.org/a.git\n')
    session(store, here, "in this folder")
    session(store, there, "in the same project")
    session(store, tmp_path, "somewhere else")

    async def work(picker: Picking) -> None:
        await picker.sees("1 shown · 1 elsewhere in this project (Tab) · 1 in other folders (Ct")
        assert picker.rows() == ["in this folder"]
        await picker.press("tab")
        await picker.sees("[Project 2]", "2 shown · 1 in other projects (Ctrl+A)")
        await picker.press("ctrl+a")
        await picker.sees("[All 3]", " 3 shown\n")
        await picker.press("ctrl+a")
        await picker.sees("[Project 2]")
        await picker.press("tab", "tab")
        await picker.sees("[This folder 1]")

    pick_with(store, here, work)


def test_a_folder_without_sessions_shows_all(store, here, there):
    session(store, there, "elsewhere")

    async def work(picker: Picking) -> None:
        await picker.sees("[All 1]", "elsewhere")

    pick_with(store, here, work)


def test_every_order_can_be_reached_and_is_marked(store, here):
    session(store, here, "b", "x", "y")
    session(store, here, "a", holdfast.Usage(1, 1, 2.5))

    async def work(picker: Picking) -> None:
        seen = {}
        for sort in [*list(Sort)[1:], Sort.UPDATED]:
            await picker.press("ctrl+s")
            assert picker.main.catalogue.wanted.sort is sort
            seen[sort] = "".join(picker.rows())
        assert seen == {
            Sort.STARTED: "ab",
            Sort.COST: "ab",
            Sort.MESSAGES: "ba",
            Sort.TITLE: "ab",
            Sort.UPDATED: "ab",
        }
        await picker.sees("▾updated", "$2.50")
        await picker.press("ctrl+s", "ctrl+s")
        await picker.sees("▾cost")

    pick_with(store, here, work)


def test_damaged_sessions_are_marked_and_never_hidden(store, here, there):
    hurt = session(store, here, "hurt in the middle", *["x" * 300] * 4)
    lost = session(store, there, "nothing of it is left")
    path = journal(store, hurt)
    data = bytearray(path.read_bytes())
    data[1100:1160] = bytes(60)
    path.write_bytes(data)
    journal(store, lost).write_bytes(b"\xff\xfe no journal\n" * 10)

    async def work(picker: Picking) -> None:
        await picker.sees("[This folder 2]", "✗ hurt in the middle", "✗ cannot be read: ")
        assert sum(" damaged  " in each for each in picker.lines()) == 2
        picker.main.table.choose(lost)
        await picker.press("enter")
        await picker.sees(f"Nothing in {lost} can be read")
        await picker.press("space")
        await picker.sees("not a journal", "Space back")
        await picker.press("space")
        picker.main.table.choose(hurt)
        await picker.sees("unreadable bytes at offset")
        await picker.press("enter")

    assert pick_with(store, here, work) == Picked(hurt)


def test_how_sessions_stand_is_marked_with_a_sign_and_a_word(store, here):
    session(store, here, "cut off", holdfast.Turn(state="started"))
    turns = [holdfast.Turn(state="started"), holdfast.Turn(state="waiting")]
    session(store, here, "asked", *turns)
    held = session(store, here, "at work", holdfast.Turn(state="started"))
    session(store, here, "at rest")

    async def work(picker: Picking) -> None:
        await picker.sees("! cut off", "interrupted", "? asked", "waiting", "● at work", "running")
        (rest,) = [each for each in picker.lines() if "at rest" in each]
        assert "  at rest " in rest.replace(">", " ")

    with running("session = store.open(sys.argv[2]); ready()", store.path, held):
        pick_with(store, here, work)


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (30, 8)])
def test_titles_cannot_write_on_the_screen(store, here, size):
    evil = "a\x1b[2J\x1b]0;t\x07b\x07 \u202egnp.exe\nsecond [bold]line[/] \x9b31m [/red]"
    session(store, here, evil, title=evil, model=evil, tags=[evil])
    session(store, here, "日本語のタイトル" * 20, title="日本語のタイトル" * 20)
    session(store, here, "שלום עולם", title="שלום עולם")

    async def work(picker: Picking) -> None:
        for key in ("space", "space", "ctrl+r", "escape", "ctrl+t", "escape", "ctrl+d", "escape"):
            text = picker.text()
            forbidden = set("\x1b\x07\x9b\u202e\x90\x9d")
            assert not forbidden & set(text), ascii(text)
            assert len(picker.lines()) == size[1]
            await picker.press("ctrl+end", key)
        if size[1] > 8:
            await picker.sees("日本語")

    pick_with(store, here, work, size=size)


def test_ten_thousand_rows_cost_no_more_lines_than_there_are_on_the_screen(
    store, here, monkeypatch
):
    made: list[str] = []

    def counted(row, *rest):
        made.append(row.id)
        return line(row, *rest)

    place = PickerPlace(str(here))
    rows = [
        row_of(Summary(f"20261115-120000-{n:08}", workspace=str(here), title=f"n {n}"), place)
        for n in range(10_000)
    ]
    monkeypatch.setattr(picker_list, "line", counted)

    async def work(picker: Picking) -> None:
        picker.main.post_message(Told(picker_reading.Loaded(rows)))
        await picker.sees("10,000 shown", "n 9999")
        await picker.press("ctrl+end")
        await picker.sees("n 0 ")
        await picker.press("pageup", "ctrl+home")
        await picker.sees("n 9999 ")
        await picker.type("n 77")
        await picker.sees("n 9779", "280 shown · ")
        await picker.press("escape")

    assert pick_with(store, here, work) is None
    assert 0 < len(set(made)) < 500, "lines were made that nobody could see"


# Searching


def test_titles_are_searched_while_typing_and_texts_behind_them(store, here, there):
    title = session(store, here, "fix the build")
    text = session(store, here, "hello", holdfast.assistant("The BUILD is fixed."))
    session(store, here, "nothing of the kind")
    session(store, there, "hello there", holdfast.assistant("another build"))

    async def work(picker: Picking) -> None:
        await picker.type("build")
        await picker.until(lambda: len(picker.rows()) == 2, "both")
        assert {row.id for row in picker.main.catalogue.view.rows} == {title, text}
        await picker.sees("2 shown · 1 does not match · 1 in other folders (Ctrl+A)")
        picker.main.table.choose(text)
        await picker.sees("found: …The BUILD is fixed.…")
        await picker.press("ctrl+u")
        await picker.until(lambda: len(picker.rows()) == 3, "all of them again")
        await picker.type("the kind")
        await picker.until(lambda: picker.rows() == ["nothing of the kind"], "one")
        await picker.press("enter")

    picked = pick_with(store, here, work)
    assert picked is not None


def test_a_query_that_was_given_is_searched_for_at_once(store, here):
    session(store, here, "hello", holdfast.assistant("needle"))
    session(store, here, "world")

    async def work(picker: Picking) -> None:
        await picker.until(lambda: picker.rows() == ["hello"], "what was searched for")
        await picker.sees("/ needle")

    pick_with(store, here, work, query="needle")


def test_a_search_is_given_up_when_something_else_is_typed(store, here, monkeypatch):
    """The first search stalls: typing goes on, and it does not come to an end any more."""
    for number in range(3):
        session(store, here, f"number {number}", holdfast.assistant("needle"))
    stalled, go = threading.Event(), threading.Event()
    ended: list[str] = []
    search = Store.search

    def stalling(self, text, *, progress, **how):
        if text == "need":
            stalled.set()
            assert go.wait(60)
            progress(1, 2)
        hits = search(self, text, progress=progress, **how)
        ended.append(text)
        return hits

    monkeypatch.setattr(Store, "search", stalling)

    async def work(picker: Picking) -> None:
        await picker.type("need")
        await picker.until(stalled.is_set, "the first search")
        await picker.type("l")
        await picker.sees("/ needl")
        await picker.until(lambda: len(picker.rows()) == 3, "the second search")
        go.set()
        await picker.type("x")
        await picker.sees("No session here matches.")
        assert "need" not in ended
        assert picker.rows() == []

    pick_with(store, here, work)


# Preview


def test_space_previews_beside_the_list_or_on_the_whole_screen(store, here):
    texts = [f"question {number}" for number in range(50)]
    call = holdfast.ToolCall(id="c", name="bash", arguments={"command": "make \x1b[2Jtest"})
    result = holdfast.tool_result("c", "42 passed\x07", outcome="failed")
    last = [holdfast.assistant([call]), result, holdfast.assistant("the \x1b[31mlast\x1b[0m word")]
    one = session(store, here, *texts, *last, model="some-model")

    async def narrow(picker: Picking) -> None:
        await picker.press("space")
        await picker.sees("53 messages", "some-model", "> question 0", "Space back")
        await picker.press("end")
        await picker.sees("· bash make test", "42 passed\\x07", "failed", "the last word")
        assert "question 1\n" not in picker.text()
        await picker.press("enter")

    assert pick_with(store, here, narrow) == Picked(one)

    async def wide(picker: Picking) -> None:
        await picker.sees("> question 0", "▾updated")
        await picker.press("ctrl+down", "space")
        await picker.loses("> question 0")
        await picker.press("space")
        await picker.sees("> question 0")
        await picker.resize(80, 24)
        await picker.loses("> question 0")
        await picker.sees("Enter resume", "▾updated")

    pick_with(store, here, wide, size=(200, 60))


def test_space_is_a_space_while_somebody_types(store, here):
    session(store, here, "fix bugs")
    session(store, here, "fixed")

    async def work(picker: Picking) -> None:
        await picker.type("fix b")
        await picker.until(lambda: picker.rows() == ["fix bugs"], "one")
        await picker.press("down", "space")
        await picker.sees("Space back", "> fix bugs")

    pick_with(store, here, work)


# Changes


def test_renaming(store, here):
    one = session(store, here, "first text")

    async def work(picker: Picking) -> None:
        await picker.press("ctrl+r")
        await picker.sees("Title", "first text", "Enter rename")
        await picker.press("escape", "ctrl+r", "ctrl+u")
        await picker.type("A new title")
        await picker.press("enter")
        await picker.sees("Renamed to “A new title”.")
        await picker.until(lambda: picker.rows() == ["A new title"], "the title in the list")
        assert meta(store, one)["title"] == "A new title"
        await picker.press("ctrl+r", "ctrl+u", "enter")
        await picker.until(lambda: picker.rows() == ["first text"], "the first text as title")

    pick_with(store, here, work)
    assert meta(store, one)["title"] == ""


def test_tagging(store, here):
    one = session(store, here, "a text", tags=["old"])

    async def work(picker: Picking) -> None:
        await picker.press("ctrl+t")
        await picker.sees("Tags", "old")
        await picker.type(" #new, old")
        await picker.press("enter")
        await picker.sees("#old #new", "Tagged “#old #new”.")

    pick_with(store, here, work)
    assert meta(store, one)["tags"] == ["old", "new"]


def test_deleting_is_confirmed_and_undone(store, here):
    one = session(store, here, "to be deleted")
    session(store, here, "to be kept")

    async def work(picker: Picking) -> None:
        picker.main.table.choose(one)
        for no in ("n", "escape", "enter"):
            await picker.press("ctrl+d")
            await picker.sees("Move “to be deleted” to the trash?")
            await picker.press(no)
            await picker.loses("to the trash?")
        assert len(store.list()) == 2
        await picker.press("ctrl+d", "y")
        await picker.sees("is in the trash; Ctrl+Z restores it.", "1 shown · 1 deleted (Ctrl+Z)")
        assert picker.rows() == ["to be kept"]
        assert [each.title for each in store.list()] == ["to be kept"]
        await picker.press("ctrl+z")
        await picker.sees("“to be deleted” is restored.", "2 shown")
        assert picker.chosen == "to be deleted"
        await picker.press("enter")

    assert pick_with(store, here, work) == Picked(one)
    assert len(store.list()) == 2


def test_a_session_that_somebody_else_holds_is_named_and_left_alone(store, here):
    held = session(store, here, "held elsewhere")
    before = journal(store, held).read_bytes()

    async def work(picker: Picking) -> None:
        said = f"is being written by process {holder.pid} on "
        await picker.press("ctrl+r", "x", "enter")
        await picker.sees(said)
        await picker.press("down", "ctrl+t", "x", "enter")
        await picker.sees(said)
        await picker.press("down", "ctrl+d", "y")
        await picker.sees(said, "1 shown")

    with running("session = store.open(sys.argv[2]); ready()", store.path, held) as holder:
        pick_with(store, here, work)
    assert journal(store, held).read_bytes() == before


def test_what_others_do_meanwhile_is_seen(store, here):
    session(store, here, "was there")

    async def work(picker: Picking) -> None:
        session(store, here, "is new")
        await picker.press("f5")
        await picker.until(lambda: picker.rows() == ["is new", "was there"], "both")
        assert picker.chosen == "was there", "the choice moved under the finger"

    pick_with(store, here, work)
