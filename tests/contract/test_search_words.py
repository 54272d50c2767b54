"""What words find: whole words, beginnings, insides, phrases, scripts without blanks."""

from __future__ import annotations

import pytest

import holdfast


def put(store: holdfast.Store, *texts: str | holdfast.Message) -> str:
    with store.create() as session:
        for text in texts:
            session.append(holdfast.user(text) if isinstance(text, str) else text)
    return session.id


def found(store: holdfast.Store, text: str, **options) -> list[str]:
    return sorted(hit.snippet for hit in store.search(text, **options))


def test_all_words_have_to_occur_in_any_order(store):
    put(store, "the build is red", "red is the sky", "a red brick building")
    assert found(store, "red build", substring=False) == [
        "a red brick building",
        "the build is red",
    ]
    assert [hit.depth for hit in store.search("red build")] == [0, 1]
    assert found(store, "red nothing") == []


def test_words_may_be_in_different_parts_of_a_message(store):
    call = holdfast.ToolCall(id="c", name="bash", arguments={"command": ["make", {"deep": "all"}]})
    put(store, holdfast.assistant([holdfast.Thinking(text="try the target"), call]))
    (hit,) = store.search("target make")
    assert (hit.kind, hit.tool) == ("thinking", None)
    (hit,) = store.search("make deep all bash")
    assert (hit.kind, hit.tool) == ("tool_call", "bash")


def test_a_phrase_is_found_as_it_is_but_for_blanks(store):
    put(store, "fix\n  the build", "the build we fix", "fix the buildings", "refix the build")
    assert found(store, '"fix the build"', substring=False) == [
        "fix\n  the build",
        "fix the buildings",
    ]
    assert found(store, '"the  build" we') == ["the build we fix"]


def test_insides_of_words_are_found_if_asked_for_or_if_nothing_else_is(store):
    put(store, "unbelievable", "believe")
    assert found(store, "believ") == ["believe"]
    assert found(store, "believ", substring=True) == ["believe", "unbelievable"]
    assert found(store, "lievab") == ["unbelievable"]
    assert store.search("lievab")[0].depth == 2
    assert found(store, "lievab", substring=False) == []


CJK = {
    "日本": ["日本語で検索する", "日本"],
    "本語": ["日本語で検索する"],
    "検": ["日本語で検索する"],
    "搜索": ["全文搜索abc很快"],
    "abc": ["全文搜索abc很快"],
    "검색": ["텍스트를검색했다"],
    "ค้นหา": ["การค้นหาข้อความ"],
    "本日": [],
}


@pytest.mark.parametrize("word", CJK)
def test_scripts_without_blanks(store, word):
    put(
        store,
        "日本語で検索する",
        "日本",
        "全文搜索abc很快",
        "텍스트를검색했다",
        "การค้นหาข้อความ",
        "nothing",
    )
    assert found(store, word, substring=False) == sorted(CJK[word])
    assert {hit.depth for hit in store.search(word)} <= {0}


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("naive", "a naïve plan"),
        ("NAÏVE", "a naive plan"),
        ("straße", "STRASSE"),
        ("cafe", "cafe\u0301"),
        ("Ǆ", "ǆ"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
    ],
)
def test_case_and_accents_make_no_difference(store, word, text):
    put(store, text)
    assert len(store.search(word, substring=False)) == 1
    assert len(store.search(word, substring=True)) == 1


@pytest.mark.parametrize(
    "words",
    [
        '"',
        '""',
        '" "',
        'un"balanced',
        "AND",
        "a AND",
        "NOT x",
        "NEAR(a b)",
        "text : a",
        "facets:n1",
        "a*",
        "-a",
        "^a",
        "(",
        "a OR OR",
        "{a}",
        "'; DROP TABLE texts; --",
        "\0",
        "a\0b",
        "\ud800",
        "%_",
        "\\",
        "🦊",
        "x" * 50_000,
        " ".join(f"w{number}" for number in range(2000)),
    ],
)
def test_nothing_in_the_words_is_an_operator(store, words):
    put(store, f"here: {words} !", "something else")
    for options in ({}, {"substring": True}, {"order": "rank"}):
        hits = store.search(words, **options)
        assert [hit.snippet[:4] for hit in hits] == ["here"] or len(words) > 1000


@pytest.mark.parametrize("words", ["", " ", "\n", "\u0301", None, 7])
def test_nothing_to_search_for_is_refused(store, words):
    with pytest.raises(holdfast.UsageError):
        store.search(words)


@pytest.mark.parametrize(
    "options",
    [{"limit": -1}, {"limit": "3"}, {"order": "best"}, {"rolle": "user"}, {"role": 7}],
)
def test_wrong_options_are_refused(store, options):
    with pytest.raises(holdfast.UsageError):
        store.search("x", **options)


def test_punctuation_alone_is_searched_for_in_the_files(store):
    put(store, "a -> b", "a => b")
    assert found(store, "->") == ["a -> b"]
    assert found(store, "->", substring=False) == ["a -> b"]
    assert found(store, '"-> b" a') == ["a -> b"]


def test_what_is_highlighted(store):
    put(store, "The build, the BUILDER and a rebuild")
    (hit,) = store.search("build the")
    assert [hit.snippet[start:end] for start, end in hit.highlights] == [
        "The",
        "build",
        "the",
        "BUILD",
        "build",
    ]
    (hit,) = store.search("build builder")
    assert [hit.snippet[start:end] for start, end in hit.highlights] == ["build", "BUILD", "build"]


def test_what_is_more_about_it_comes_first(store):
    long = "we need a needle " + "and much else besides " * 300
    put(
        store,
        long,
        "needle",
        "needle in here, needle there, needle needle",
        holdfast.system("needle"),
    )
    with store.create(title="the needle session") as session:
        session.append(holdfast.assistant("nothing"))
    hits = store.search("needle", order="rank")
    assert [(hit.role, hit.snippet[:10]) for hit in hits] == [
        ("title", "the needle"),
        ("user", "needle in "),
        ("user", "needle"),
        ("user", "we need a "),
        ("system", "needle"),
    ]
    assert [hit.rank for hit in hits] == sorted((hit.rank for hit in hits), reverse=True)


def test_partial_calls_and_odd_arguments(store):
    call = holdfast.ToolCall(id="c", name="bash", arguments=None, partial='{"command": "half')
    odd = holdfast.ToolCall(
        id="d", name="odd", arguments=[1.5, True, None, {"k": [[["way down"]]]}]
    )
    put(store, holdfast.assistant([call, odd, holdfast.Image(media_type="image/png", data="aGk=")]))
    assert len(store.search("half")) == 1
    assert len(store.search('"way down" 1.5')) == 1
    assert store.search("aGk") == []
