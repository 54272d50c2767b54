"""What entries add up to: totals, facts, labels, queue, turns."""

from __future__ import annotations

import pytest

from holdfast import Label, user
from holdfast.model.entry import Entry, Gap, Header, Mark, Queued, Unknown
from holdfast.model.message import Text
from holdfast.model.state import State
from holdfast.store.read.fold import fold, mark_of, state_in


def entry(body, seq=1, type_name="x", **fields):
    return Entry(seq, "2026-11-15T00:00:00.000Z", type_name, body, **fields)


def test_folding_does_not_change_the_state_it_starts_from():
    before = fold([entry(user("a"), 1, "message", parent=None)])
    kept = State(**{name: getattr(before, name) for name in State.__struct_fields__})
    after = fold([entry(Label("l", 1), 2, "label"), entry(user("b"), 3, "message")], before)
    assert before == kept
    assert (after.head, after.messages, after.labels) == (3, 2, {"l": 1})


def test_a_mark_sets_the_state_to_what_it_says():
    state = fold([entry(user("a"), 4, "message"), entry(Label("l", 4), 5, "label")])
    again = fold([entry(mark_of(state), 6, "mark")])
    assert again == fold([entry(mark_of(state), 6, "mark")], state)
    assert (again.head, again.labels, again.messages, again.seq) == (4, {"l": 4}, 1, 6)


@pytest.mark.parametrize("odd", [{"head": "text"}, {"head\ud800": 1}])
def test_a_mark_of_another_shape_is_passed_over(odd):
    odd = Mark(state=odd)
    assert state_in(entry(odd, 6, "mark")) is None
    assert state_in(entry(user("a"), 6, "message")) is None
    state = fold([entry(user("a"), 4, "message")])
    assert fold([entry(odd, 6, "mark")], state).head == 4


def test_a_newer_format_and_an_entry_that_must_be_understood_are_unsupported():
    assert fold([entry(Header(99, "s", "u"), 0, "header")]).unsupported == "format 99"
    assert fold([entry(Header(1, "s", "u"), 0, "header")]).unsupported is None
    must = Unknown(type="vow", fields={"must": True})
    assert fold([entry(must, 1, "vow")]).unsupported == "entries of type 'vow'"
    assert fold([entry(Unknown(type="vow", fields={}), 1, "vow")]).unsupported is None
    assert fold([entry(Unknown(type="vow", fields=None), 1, "vow")]).unsupported is None


def test_only_damage_is_remembered_as_a_gap():
    def gap(reason: str) -> Gap:
        return Gap(reason=reason, segment=1, offset=2, length=3, before=0, after=None)

    assert fold([entry(gap("damage"), 1, "gap")]).gaps == [gap("damage").place] == [(1, 2, 3)]
    assert fold([entry(gap("omission"), 1, "gap")]).gaps == []


def test_a_mark_that_was_altered_is_not_believed():
    mark = mark_of(fold([entry(user("a"), 4, "message")]))
    for status in ("edited", "unverified"):
        assert state_in(entry(mark, 6, "mark", status=status)) is None
        assert fold([entry(mark, 6, "mark", status=status)]).head is None


def test_a_mark_of_a_session_that_needs_something_unknown_says_so():
    state = state_in(entry(Mark(state={"seq": 1, "must": ["message", "vow"]}), 2, "mark"))
    assert state is not None
    assert state.unsupported == "entries of type 'vow'"
    known = state_in(entry(Mark(state={"seq": 1, "must": ["message"]}), 2, "mark"))
    assert known is not None
    assert known.unsupported is None


def test_a_queue_has_a_bound(monkeypatch):
    monkeypatch.setattr("holdfast.store.read.fold.MOST_QUEUED", 2)
    bodies = [entry(Queued([Text(text="x")]), seq, "queued") for seq in range(1, 5)]
    assert fold(bodies).queue == [1, 2]
