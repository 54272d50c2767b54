"""The laboratory's terminals and lines, and how it compares what they showed."""

from __future__ import annotations

import random
import shutil
import socket
import sys

import pytest

from tests.crash.lab.layer import Plan
from tests.crash.lab.line import Relay
from tests.crash.lab.strikes import WHO
from tests.crash.lab.tally import Tally
from tests.crash.lab.terminals import Pipes, Screen, missing, until
from tests.crash.lab.watched import WatchedTurn
from tests.crash.layers.g_terminals import DEATHS, PRINTS, TerminalLayer

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or bool(missing()), reason="terminals as Linux has them"
)


def script(words):
    return lambda notes, before: f"{before}\necho $$ > '{notes}/pid'\n{words}\n"


@pytest.mark.parametrize("kind", [Screen, Pipes])
def test_a_terminal_shows_what_is_written_and_takes_what_is_typed(tmp_path, kind):
    terminal = kind(tmp_path / "terminal", script("read word; echo größer than $word"))
    terminal.type("this\n")
    until(lambda: terminal.shown() == "größer than this\n", "the answer")
    terminal.await_end()
    terminal.close()


def test_closing_a_terminal_hangs_up(tmp_path):
    told = "trap 'echo 129 > code; exit 129' HUP; cd '{}'; while :; do sleep 0.05; done"
    folder = tmp_path / "terminal"
    terminal = Screen(folder, script(told.format(folder)))
    terminal.await_ready()
    terminal.hang_up()
    assert terminal.await_end().strip() == "129"
    terminal.close()


def test_a_silent_line_is_open_and_forwards_nothing():
    with socket.create_server(("127.0.0.1", 0)) as server:
        relay = Relay(server.getsockname()[1])
        with socket.create_connection(("127.0.0.1", relay.port)) as caller:
            called, _ = server.accept()
            with called:
                caller.sendall(b"heard")
                assert called.recv(100) == b"heard"
                relay.go_silent()
                caller.settimeout(0.3)
                called.sendall(b"not heard")
                with pytest.raises(TimeoutError):
                    caller.recv(100)
        relay.close()


@pytest.mark.parametrize(
    ("shown", "lost", "twice"),
    [
        (lambda told: told, 0, 0),
        (lambda told: told[:-5], 1, 0),
        (lambda told: told.replace("first 7 ", "", 1), 1, 0),
        (lambda told: told.replace("first 7 ", "first 7 first 7 ", 1), 0, 1),
        (lambda told: told.replace("second", "sceond", 1), 1, 0),
    ],
)
def test_a_screen_that_is_not_what_was_said_is_told(tmp_path, shown, lost, twice):
    turn = WatchedTurn(tmp_path / "turn", random.Random(1), long=0, mutant="")
    tally = Tally()
    turn.judge_screen(tally, shown(turn.told), whole=True)
    assert (tally.lost, tally.duplicates) == (lost, twice)


def test_a_terminal_that_died_may_have_shown_less(tmp_path):
    turn = WatchedTurn(tmp_path / "turn", random.Random(1), long=0, mutant="")
    tally = Tally()
    note = "\nholdfast: still running; attach with: holdfast attach x\n"
    turn.judge_screen(tally, turn.told_to_the_pause, whole=False)
    turn.judge_screen(tally, turn.told_to_the_pause + note, whole=False)
    turn.judge_screen(tally, turn.told_to_the_tool, whole=False)
    assert not tally.failed
    turn.judge_screen(tally, turn.told_to_the_pause.replace("first 3", ""), whole=False)
    assert tally.lost == 1


def test_every_cell_is_there(tmp_path, monkeypatch):
    layer = TerminalLayer(Plan("ci", 1, tmp_path, tmp_path))
    cases = layer.cases()
    assert {f"{name} 0" for name in DEATHS} <= set(cases)
    prints = {case.split()[2] for case in cases if case.startswith("print")}
    assert prints == PRINTS.keys() - {"pty-HUP"}  # which every change tests elsewhere
    strikes = [case.split()[1:-2] for case in cases if case.startswith("strike")]
    for who in WHO:
        assert strikes.count([who]) == strikes.count([who, "alone"]) > 0
    assert layer.least["ci"] <= 2 * len(DEATHS) + len(prints) + len(strikes)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "not installed" in (layer.why_not() or "")
