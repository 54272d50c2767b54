"""Names of sessions: they sort by time, cannot collide, and cannot reach into the file system."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.model import ids
from holdfast.model.ids import (
    SESSION_ID,
    check_part,
    folder_of,
    is_keyed,
    key_session_id,
    new_name,
    new_session_id,
    new_uid,
)


def test_a_session_id_starts_with_the_time_and_is_allowed(monkeypatch):
    monkeypatch.setattr(
        time, "gmtime", lambda: time.struct_time((2026, 11, 15, 19, 40, 12, 6, 319, 0))
    )
    name = new_session_id()
    assert name.startswith("20261115-194012-")
    assert SESSION_ID.fullmatch(name)
    assert folder_of(name) == "2026-11"
    assert not is_keyed(name)


def test_names_do_not_repeat_and_have_no_letters_that_look_alike():
    names = [new_name() for _ in range(2000)]
    assert len(set(names)) == 2000
    assert {len(name) for name in names} == {8}
    assert not set("".join(names)) & set("lo01")
    assert len({new_uid() for _ in range(100)}) == 100


@given(st.text(min_size=1), st.text(min_size=1))
def test_every_key_has_an_id_of_its_own(one, other):
    assert (key_session_id(one) == key_session_id(other)) == (one == other)
    assert SESSION_ID.fullmatch(key_session_id(one))


@pytest.mark.parametrize("key", ["a:b", "a_b", "../x", "/etc", "\0", "\ud800", "x" * 10_000, "A:B"])
def test_a_key_is_opaque(key):
    name = key_session_id(key)
    assert SESSION_ID.fullmatch(name)
    assert is_keyed(name)
    assert folder_of(name) == "keyed"


def test_a_lone_surrogate_does_not_collide_with_its_escape():
    assert key_session_id("\ud800") != key_session_id("\\ud800")


@pytest.mark.parametrize("key", ["", None, 5, b"key"])
def test_a_key_is_text(key):
    with pytest.raises(UsageError, match="key"):
        key_session_id(key)


GOOD_PARTS = ["2026", "k3v9q2ab", "20261115-194012-k3v9q2ab", "-", "x" * 64]
BAD_PARTS = [
    "",
    "../x",
    "/etc/passwd",
    "a/b",
    ".",
    "a.b",
    "a\0",
    "A",
    "a b",
    "a\n",
    "é",
    "٣",
    "\ud800",
    "x" * 65,
    "x" * 10_000,
    None,
    5,
    10**5000,
    b"abc",
    ["a"] * 100,
    {"a": 1},
]


@pytest.mark.parametrize("part", GOOD_PARTS)
def test_parts_of_an_id(part):
    assert check_part(part) == part


@pytest.mark.parametrize(
    "part", BAD_PARTS, ids=[f"bad{number}" for number in range(len(BAD_PARTS))]
)
def test_what_cannot_be_part_of_an_id(part):
    with pytest.raises(UsageError) as caught:
        check_part(part)
    assert len(str(caught.value)) < 400
    assert "is not a session id" in str(caught.value)
    str(caught.value).encode()  # can be printed


@pytest.mark.parametrize(
    "name",
    [
        "20261115-194012-k3v9q2a",
        "20261115-194012-k3v9q2abc",
        "20261115-194012-K3V9Q2AB",
        "٢٠٢٦١١١٥-194012-k3v9q2ab",
        "key-" + "a" * 51,
        "key-" + "1" * 52,
        "20261115-194012-k3v9q2ab\n",
        "../15-194012-k3v9q2ab",
    ],
)
def test_the_allow_list_is_narrow(name):
    assert not SESSION_ID.fullmatch(name)


def test_the_alphabet_is_part_of_the_allow_list():
    assert SESSION_ID.fullmatch("20261115-194012-" + ids._ALPHABET[:8])
    assert all(SESSION_ID.fullmatch(f"20261115-194012-{letter * 8}") for letter in ids._ALPHABET)
