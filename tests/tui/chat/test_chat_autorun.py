"""A file that other programs run by themselves, in the chat: written and undone."""

from __future__ import annotations

import pytest

WHAT = "[a] all   [c] the conversation   [f] the files   [b] back"
HOW = "[w] write these, too   [l] leave them as they are   [b] back"


@pytest.mark.parametrize("key", ["w", "l", "b"])
def test_it_is_asked_about_whatever_is_allowed(desk, key):
    pane = desk.chat("--allow-all")
    pane.enter("write: .envrc\nexport X=1")
    pane.asks("other programs run this file by themselves (a shell)", "[y] allow")
    hidden = desk.folder / ".envrc"
    assert not hidden.exists()
    pane.press("y")
    pane.shows(".envrc  new")
    pane.rests()
    assert hidden.exists()
    pane.enter("/undo")
    pane.asks("[1] that prompt")
    pane.press("1")
    pane.asks(WHAT)
    pane.press("a")
    pane.asks("Careful: other programs run these files automatically", HOW)
    pane.press(key)
    pane.loses(HOW)
    if key == "b":
        assert hidden.exists()
        pane.enter("say: still here")
        pane.shows("\nstill here\n")
        assert len(desk.said("user")) == 2
        return
    pane.sees("> write: .envrc")
    pane.shows("removed: .envrc" if key == "w" else "skipped: .envrc")
    assert hidden.exists() == (key == "l")
