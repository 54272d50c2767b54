"""One rule for titles and one for tags, for every caller."""

from __future__ import annotations

import pytest

from holdfast import UsageError
from holdfast.store.validation import edited_tags, tags_in, valid_tag, valid_title


@pytest.mark.parametrize("title", ["x", "x" * 500, "完成\u3000した", "👩\u200d💻 work"])
def test_a_title_is_taken_without_blanks_around_it(title):
    assert valid_title(f"  {title}\t") == title


@pytest.mark.parametrize("title", ["x" * 501, "two\nlines", "bell\x07", "\u202eevil"])
def test_a_title_is_short_and_one_line(title):
    for optional in (False, True):
        with pytest.raises(UsageError, match="A title "):
            valid_title(title, optional=optional)


def test_only_an_optional_title_may_be_empty():
    assert valid_title("  ", optional=True) == ""
    with pytest.raises(UsageError, match="1 to 500 characters"):
        valid_title("  ")


def test_a_tag_is_short_and_one_line():
    assert valid_tag(" release ") == "release"
    assert valid_tag("x" * 100) == "x" * 100
    for tag in ("", " ", "x" * 101, "a\nb", "\x1b[2J"):
        with pytest.raises(UsageError, match="1 to 100 characters"):
            valid_tag(tag)


@pytest.mark.parametrize(
    ("meta", "tags"),
    [({}, []), ({"tags": "a"}, []), ({"tags": ["a", 7, "b", None]}, ["a", "b"])],
)
def test_only_text_is_a_tag(meta, tags):
    assert tags_in(meta) == tags


def test_tags_are_added_removed_and_replaced():
    assert edited_tags(["a"], ["b", "a"], []) == ["a", "b"]
    assert edited_tags(["a", "b"], ["c"], ["a"]) == ["b", "c"]
    assert edited_tags(["a", "b"], ["c", "a"], [], replace=True) == ["c", "a"]
    assert edited_tags(["a"], [], [], replace=True) == []
    with pytest.raises(UsageError, match="has no tag 'x'"):
        edited_tags(["a"], ["b"], ["x"])
