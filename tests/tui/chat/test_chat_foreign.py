"""The chat on a session from elsewhere: marked, and nothing recorded in it runs unasked."""

from __future__ import annotations

from tests.cli.program import until
from tests.hostile import SESSION, changed, header, hostile_archive, open_turn, queued, said


def _received(desk, lines, **files) -> None:
    archive = hostile_archive(desk.root / "x.holdfast", lines, **files)
    assert desk.program.run("import", archive).code == 0


def test_continuing_and_running_the_queue_ask_once(desk):
    trace, other = desk.root / "trace", desk.root / "other"
    lines = open_turn(f"touch {trace}", queued(f"run: touch {other}"))
    desk.program.configure('mode = "allow-all"')
    _received(desk, lines)
    pane = desk.chat("-r", SESSION, columns=160)
    pane.shows("came from elsewhere", "/trust", "Recorded elsewhere")
    pane.sees("foreign ·")
    pane.asks("The last turn was recorded elsewhere.", "[c] continue the turn")
    pane.press("c")
    pane.asks("Accept this session", "[y] accept it")
    pane.shows(f"bash touch {trace}", f"run: touch {other}")
    pane.press("n")
    pane.shows("Nothing was done")
    assert not trace.exists()
    pane.enter("/run")
    pane.asks("Accept this session", "[y] accept it")
    assert not other.exists()
    pane.press("y")
    until(other.exists, other)
    pane.loses("foreign ·")


def test_a_rewind_with_files_asks(desk):
    before, after = b"before\n", b"after\n"
    place = desk.folder / "a.txt"
    place.write_bytes(after)
    lines = [header(), said("user", "write it"), changed("a.txt", before, after)]
    _received(desk, [*lines, said("assistant", "done")], blobs=[before, after])
    pane = desk.chat("-r", SESSION, columns=160)
    pane.enter("/rewind")
    pane.asks("Undo which prompt")
    pane.press("1")
    pane.asks("Undo what?")
    pane.press("f")
    pane.asks("Accept this session", "[y] accept it")
    assert place.read_bytes() == after
    pane.press("y")
    pane.shows("restored: a.txt")
    assert place.read_bytes() == before


def test_trust_in_the_chat_and_a_prompt_without_a_question(desk):
    _received(desk, [header(), said("user", "hi"), said("assistant", "theirs")])
    pane = desk.chat("-r", SESSION, columns=160)
    pane.enter("say: of ours")
    pane.shows("\nof ours\n")
    pane.enter("/trust")
    pane.asks("Accept this session", "[y] accept it")
    pane.press("y")
    pane.shows("accepted: the content of this session")
    pane.enter("/trust")
    pane.shows("nothing in this session came from elsewhere")
