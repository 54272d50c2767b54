"""The status line."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prompt_toolkit.utils import get_cwidth

from holdfast.runtime.protocol.messages import StateChanged
from holdfast.tui.chat.status_line import Status

STATE = StateChanged(state="idle", model="m", cost_usd=1.5)


def line(status: Status, columns: int = 200) -> str:
    return "".join(text for _, text in status.parts(columns))


def test_what_is_told_and_in_which_order():
    status = Status(title="The title", lost=None, seq=142, cost_usd=1.5)
    status.update(replace(STATE, context_tokens=500, context_window=1000))
    assert line(status) == "The title · m · context 50% · $1.5000 · saved ✓ seq 142"
    status.update(replace(STATE, state="running", queue=[7, 9], seq=150))
    assert re.fullmatch(r"\S · The title .* · 2 queued · saved ✓ seq 150", line(status))
    status.update(replace(STATE, state="waiting", queue=[9], held=True, seq=100))
    assert re.fullmatch(r"\? · .* · 1 held · saved ✓ seq 150", line(status))


def test_a_session_from_elsewhere_is_marked_until_it_is_accepted():
    status = Status(title="The title", lost=None, foreign=True)
    assert line(status).startswith("foreign · The title")
    status.update(replace(STATE, foreign=True))
    assert line(status).startswith("foreign · ")
    status.update(STATE)
    assert "foreign" not in line(status)


def test_trouble_and_a_lost_runner_are_never_called_saved():
    assert not Status().safe
    assert "starting" in line(Status())
    assert "saved" not in line(Status())
    assert "! not connected: gone" in line(Status(lost="gone"))
    status = Status(lost=None, trouble="Disk full.")
    assert not status.safe
    assert status.parts(80)[-1] == ("warning", "! NOT SAVED: Disk full.")
    status.update(STATE)
    assert "NOT SAVED" not in line(status)
    assert Status(lost=None).safe
    status.update(replace(STATE, trouble="Disk full."))
    assert "NOT SAVED" in line(status)
    assert "read-only · seq 0" in line(Status(read_only=True, lost=None))


def test_a_price_that_is_not_known_is_no_price():
    assert " · $? · " in line(Status(model="m", lost=None, cost_usd=None))


@given(
    title=st.text(max_size=60),
    model=st.text(max_size=60),
    seq=st.integers(-1, 10**6),
    columns=st.integers(20, 200),
)
def test_on_a_narrow_screen_the_title_goes_and_what_is_saved_stays(title, model, seq, columns):
    status = Status(title=title, model=model, seq=seq, lost=None, context_tokens=1)
    status.context_window, status.queue, status.state = 3, 4, "running"
    parts = status.parts(columns, tick=3)
    assert parts[-1][0] == "saved"
    shown = "".join(text for _, text in parts)
    assert shown.endswith("saved ✓" + (f" seq {seq}" if seq >= 0 else ""))
    assert get_cwidth(shown) <= columns
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e]", shown)
