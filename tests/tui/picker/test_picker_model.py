"""What a picker shows, in which order, how it looks, and that nothing is left out unsaid."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from holdfast.model.state import Totals
from holdfast.store.types import CLEAN, DAMAGED, INTERRUPTED, RUNNING, Hit, Summary, stamp
from holdfast.tui.picker.layout import empty_line, keys_line, said_line, scopes_line
from holdfast.tui.picker.model import (
    IDLE,
    SIGNS,
    WAITING,
    WORDS,
    Catalogue,
    PickerFilter,
    PickerPlace,
    PickerRow,
    Scope,
    Sort,
    row_of,
    view_of,
    what_is_shown,
)
from holdfast.tui.picker.screen import tags_of
from holdfast.tui.picker.table import (
    age,
    columns,
    cost,
    count,
    cut,
    cut_left,
    heading,
    line,
    said_tags,
)

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
PLACE = PickerPlace("/home/me/app", ("git:example.org/app", "git:1234"))
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def summary(number: int, **fields) -> Summary:
    fields = {"started": stamp(NOW - timedelta(hours=number + 1)), **fields}
    fields = {"updated": stamp(NOW - timedelta(hours=number)), **fields}
    return Summary(f"20261115-120000-{number:08}", **fields)


def row(number: int = 1, **fields) -> PickerRow:
    return row_of(summary(number, **fields), PLACE)


HERE = {"workspace": "/home/me/app", "project": "git:1234"}
BESIDE = {"workspace": "/home/me/copy", "project": "git:example.org/app"}
ELSEWHERE = {"workspace": "/home/me/other"}


def titles(rows: list[PickerRow]) -> list[str]:
    return [each.title for each in rows]


def test_a_session_from_elsewhere_is_marked():
    assert said_tags(row(foreign=True, tags=["a"])) == "foreign #a"
    assert said_tags(row(tags=["a"])) == "#a"


# Scopes


def test_each_scope_holds_what_the_narrower_one_holds():
    rows = [row(1, **HERE), row(2, **BESIDE), row(3, **ELSEWHERE), row(4)]
    shown = {scope: len(view_of(rows, PickerFilter(scope)).rows) for scope in Scope}
    assert shown == {Scope.FOLDER: 1, Scope.PROJECT: 2, Scope.ALL: 4}


def test_a_session_of_which_nothing_can_be_read_is_in_every_scope():
    lost = summary(1, state=DAMAGED, problem="cannot be read: empty", started="")
    for scope in Scope:
        (shown,) = view_of([row_of(lost, PLACE)], PickerFilter(scope)).rows
        assert shown.unreadable
        assert shown.title == "cannot be read: empty"


def test_a_damaged_session_whose_folder_is_known_is_where_its_folder_is():
    hurt = row(1, state=DAMAGED, problem="unreadable bytes", title="half", **ELSEWHERE)
    assert not hurt.unreadable
    assert (hurt.title, hurt.scope, hurt.standing) == ("half", Scope.ALL, DAMAGED)


def test_what_is_not_shown_is_said_with_the_key_that_shows_it():
    rows = [row(n, **HERE) for n in range(12)]
    rows += [row(20 + n, **BESIDE) for n in range(3)]
    rows += [row(40 + n, **ELSEWHERE) for n in range(1040)]

    def said(scope: Scope, place: PickerPlace = PLACE, **more) -> str:
        wanted = PickerFilter(scope)
        return what_is_shown(view_of(rows, wanted), wanted, place, **more)

    assert said(Scope.FOLDER) == (
        "12 shown · 3 elsewhere in this project (Tab) · 1,040 in other folders (Ctrl+A)"
    )
    assert (
        said(Scope.FOLDER, PickerPlace("/home/me/app"))
        == "12 shown · 1,043 in other folders (Ctrl+A)"
    )
    assert said(Scope.PROJECT) == "15 shown · 1,040 in other projects (Ctrl+A)"
    assert said(Scope.ALL) == "1,055 shown"
    assert said(Scope.ALL, deleted=2) == "1,055 shown · 2 deleted (Ctrl+Z)"


def test_what_does_not_match_is_said_and_so_is_what_matches_elsewhere():
    rows = [row(1, title="fix it", **HERE), row(2, title="other", **HERE)]
    rows += [row(3, title="also fix it", **ELSEWHERE)]
    wanted = PickerFilter(query="fix")
    view = view_of(rows, wanted)
    place = PickerPlace("/home/me/app")
    assert what_is_shown(view, wanted, place) == (
        "1 shown · 1 does not match · 1 in other folders (Ctrl+A)"
    )
    assert "1 not found yet" in what_is_shown(view, wanted, place, searching=True)


@given(
    st.lists(
        st.builds(
            dict,
            title=st.sampled_from(["fix it", "build", "FIX the build", None]),
            workspace=st.sampled_from(["/home/me/app", "/home/me/copy", "/home/me/other", None]),
            project=st.sampled_from(["git:1234", "git:else", None]),
            state=st.sampled_from([CLEAN, DAMAGED, INTERRUPTED]),
        )
    ),
    st.sampled_from(Scope),
    st.sampled_from(Sort),
    st.sampled_from(["", "fix", "build fix", "nowhere"]),
    st.sets(st.integers(0, 20)),
)
def test_every_session_is_shown_or_counted(many, scope, sort, query, hits):
    rows = [row(number, **fields) for number, fields in enumerate(many)]
    found = {each.id for number, each in enumerate(rows) if number in hits}
    view = view_of(rows, PickerFilter(scope, sort, query), found if query else set())
    inside = [each for each in rows if each in view.rows] + view.others * [None]
    everything = view_of(rows, PickerFilter(Scope.ALL, sort, query), found if query else set())
    assert view.within(scope) == len(view.rows)
    assert view.within(Scope.ALL) == len(everything.rows)
    assert len(everything.rows) + everything.others == len(rows)
    assert len(inside) == len(view_of(rows, PickerFilter(scope)).rows)
    if query:
        assert found & {each.id for each in view.rows} == {
            each.id for each in view_of(rows, PickerFilter(scope)).rows if each.id in found
        }


# Order


def test_orders():
    rows = [
        row(1, title="b", messages=3, totals=Totals(cost_usd=0.1), started="2026-01-01T00:00:00Z"),
        row(2, title="A", messages=9, totals=Totals(cost_usd=9.0), started="2026-01-03T00:00:00Z"),
        row(3, title="c", messages=9, totals=Totals(cost_usd=0.0), started="2026-01-02T00:00:00Z"),
    ]
    orders = {
        sort: "".join(titles(view_of(rows, PickerFilter(Scope.ALL, sort)).rows)) for sort in Sort
    }
    assert orders == {
        Sort.UPDATED: "bAc",
        Sort.STARTED: "Acb",
        Sort.COST: "Abc",
        Sort.MESSAGES: "Acb",  # equal ones stay last updated first
        Sort.TITLE: "Abc",
    }


# Queries


def test_all_words_must_be_in_title_first_text_tags_or_id():
    one = row(1, title="Fix the Build", first_text="please repair make", tags=["urgent"])
    for query in ("build fix", "REPAIR", "urgent build", one.id[-8:], ""):
        assert view_of([one], PickerFilter(Scope.ALL, query=query)).rows, query
    for query in ("build nothing", "urgent!", one.id[-3:]):
        assert not view_of([one], PickerFilter(Scope.ALL, query=query)).rows, query


# How sessions stand


@pytest.mark.parametrize("known", [RUNNING, WAITING, IDLE])
def test_a_runner_knows_best_how_a_session_stands_unless_it_is_damaged(known):
    assert row_of(summary(1, state=INTERRUPTED), PLACE, known).standing == known
    assert row_of(summary(1, state=DAMAGED), PLACE, known).standing == DAMAGED


def test_every_standing_but_clean_has_a_sign_and_a_word_of_its_own():
    told = {name for name in SIGNS if name != CLEAN}
    assert set(WORDS) == set(SIGNS)
    for said in (SIGNS, WORDS):
        values = [said[name] for name in told]
        assert all(each.strip() for each in values)
        assert len(set(values)) == len(values)


# Lines


def text_of(cells) -> str:
    return "".join(cell.text for cell in cells)


@given(
    st.text(),
    st.lists(st.text(max_size=12), max_size=3),
    st.text(),
    st.integers(20, 300),
    st.sampled_from(Scope),
    st.sampled_from(Sort),
)
def test_whatever_a_title_is_made_of_a_line_is_harmless_and_has_its_width(
    title, tags, folder, width, scope, sort
):
    shown = columns(width, scope, sort)
    expected = 3 + sum(column.width for column in shown) + 2 * (len(shown) - 1)
    assert expected <= width
    assert cell_len(text_of(heading(shown, sort))) == expected
    made = text_of(line(row(1, title=title, tags=tags, workspace=folder), shown, NOW))
    assert not CONTROL.search(made)
    # Of some characters the widths depend on their neighbours; those cost at most a cell.
    assert abs(cell_len(made) - expected) <= sum(not each.isascii() for each in made)
    if made.isascii():
        assert cell_len(made) == expected


@pytest.mark.parametrize(
    "title",
    [
        "日本語のタイトルはとても幅が広いので切り取られるはずです",
        "שלום עולם 123",
        "مرحبا بالعالم",
        "👩\u200d👩\u200d👧 family ❤\ufe0f",
        "e\u0301 combining",
        "plain",
    ],
)
@pytest.mark.parametrize("width", [40, 60, 79, 120, 199])
def test_wide_and_right_to_left_titles_keep_columns_in_place(title, width):
    shown = columns(width, Scope.ALL, Sort.UPDATED)
    made = line(row(1, title=title, messages=77, **ELSEWHERE), shown, NOW)
    ends = []
    for cells in (heading(shown, Sort.UPDATED), made):
        position = 0
        for cell in cells:
            position += cell_len(cell.text)
        ends.append(position)
    assert ends[0] == ends[1] <= width
    if title.startswith(("ש", "م")):
        (cell,) = [cell for cell in made if cell.column == "title"]
        guarded = cell.text.rstrip(" ")
        assert guarded.startswith("\u200e")
        assert guarded.endswith("\u200e"), "numbers behind it would move to its other side"


def test_a_title_with_control_characters_cannot_pass_for_anything_else():
    evil = "a\x1b[31mb\x1b]0;t\x07c\x07\n> second\t\u202etxt.exe\x9b2J"
    assert row(1, title=evil).title == "abc\\x07 > second \\u202etxt.exe"


def test_narrow_tables_keep_the_title_and_the_age():
    names = [column.name for column in columns(40, Scope.ALL, Sort.UPDATED)]
    assert names == ["title", "updated"]
    wide = [column.name for column in columns(199, Scope.ALL, Sort.STARTED)]
    assert wide == ["title", "state", "folder", "model", "started", "msgs", "cost"]


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(seconds=-90), "now"),
        (timedelta(seconds=59), "now"),
        (timedelta(minutes=3), "3m"),
        (timedelta(minutes=119), "1h"),
        (timedelta(hours=47), "1d"),
        (timedelta(days=13), "13d"),
        (timedelta(days=14), "2w"),
        (timedelta(days=70), "2mo"),
        (timedelta(days=900), "2y"),
    ],
)
def test_ages_are_short(ago, said):
    assert age(stamp(NOW - ago), NOW) == said


def test_an_age_that_is_not_known():
    assert age("", NOW) == "?"
    assert age("yesterday", NOW) == "?"


def test_costs_and_counts():
    assert [cost(usd, 0) for usd in (0, 0.003, 0.01, 4.5, 120, 1234.5)] == [
        "",
        "<$0.01",
        "$0.01",
        "$4.50",
        "$120.00",
        "$1,234",
    ]
    assert cost(0, 3) == "$?"
    assert [count(n) for n in (0, 9999, 10_000, 1_000_000)] == ["0", "9999", "10k", "1M"]


def test_cut_texts_say_so():
    assert cut("日本語", 5) == "日本…"
    assert cut("日本語", 4) == "日…"
    assert cut_left("/home/me/work/app", 9) == "…work/app"
    assert cut("abc", 0) == cut_left("abc", 0) == ""


# The catalogue


def catalogue(*rows: PickerRow) -> Catalogue:
    made = Catalogue(PickerPlace("/home/me/app"))
    made.take_rows(list(rows))
    return made


def hit(session: str) -> Hit:
    return Hit(session, 3, "user", "", "…")


def test_it_begins_with_the_narrowest_scope_that_has_anything():
    assert catalogue(row(1, **HERE), row(2, **ELSEWHERE)).wanted.scope is Scope.FOLDER
    beside = catalogue(row(1, **BESIDE), row(2, **ELSEWHERE))
    seen = [beside.wanted.scope]
    beside.take_projects(PLACE.projects)  # git took its time
    assert [*seen, beside.wanted.scope] == [Scope.ALL, Scope.PROJECT]


def test_a_scope_that_somebody_chose_stays():
    made = catalogue(row(1, **BESIDE))
    made.toggle_all()
    made.toggle_all()
    made.widen()
    chosen = made.wanted.scope
    made.take_projects(PLACE.projects)
    made.take_rows([row(1, **HERE)])
    assert made.wanted.scope is chosen


def test_tab_goes_through_the_scopes_that_there_are():
    made = catalogue(row(1, **HERE))
    seen = []
    for _ in range(3):
        made.widen()
        seen.append(made.wanted.scope)
    assert seen == [Scope.ALL, Scope.FOLDER, Scope.ALL]
    made.take_projects(PLACE.projects)
    seen = []
    for change in (made.widen, made.widen, made.toggle_all, made.toggle_all):
        change()
        seen.append(made.wanted.scope)
    assert seen == [Scope.FOLDER, Scope.PROJECT, Scope.ALL, Scope.PROJECT]


def test_what_a_text_search_finds_counts_for_its_own_query_only():
    made = catalogue(row(1, **HERE), row(2, **HERE))
    first = made.rows[0].id
    made.search("needle")
    assert (made.view.rows, made.searching) == ([], True)
    assert empty_line(made) == ""
    made.take_hits("needle", [hit(first)])
    assert [each.id for each in made.view.rows] == [first]
    made.search("needles")
    made.take_hits("needle", [hit(first)])
    assert (made.view.rows, made.searching) == ([], True)
    made.take_hits("needles", [])
    assert empty_line(made) == "No session here matches."
    assert said_line(made, 0, "") == "0 shown · 2 do not match"


def test_lines_fit_the_screen():
    made = catalogue(row(1, **HERE), row(2, **ELSEWHERE))
    for width in (20, 80, 200):
        assert cell_len(keys_line(width)) <= width
    assert "? keys" in keys_line(80)
    assert "Esc exit" in keys_line(200)
    assert scopes_line(made, 80).plain.startswith(" [This folder 1]  All 2 ")
    assert cell_len(scopes_line(made, 80).plain) <= 80


def test_tags_are_words():
    assert tags_of(" #docs, urgent docs,#a#b ,, ") == ["docs", "urgent", "a#b"]
