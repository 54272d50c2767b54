"""What words find: whole words, beginnings, insides, phrases, scripts without blanks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.store.search.documents import MOST_CHARACTERS, Document, Piece, fold_case
from holdfast.store.search.query import Query


def put(store: holdfast.Store, *texts: str | holdfast.Message) -> str:
    with store.create() as session:
        for text in texts:
            session.append(holdfast.user(text) if isinstance(text, str) else text)
    return session.id


def test_whole_words_come_before_beginnings_whatever_is_newer(store, monkeypatch):
    for day, text in ((1, "test"), (2, "testing"), (3, "tested")):
        at = f"2026-01-0{day}T00:00:00.000Z"
        monkeypatch.setattr("holdfast.journal.format.timestamp", lambda at=at: at)
        put(store, text)
    for order in ("newest", "rank"):
        assert [hit.snippet for hit in store.search("test", order=order)] == [
            "test",
            "tested",
            "testing",
        ]
    assert [hit.snippet for hit in store.search("test", limit=1)] == ["test"]
    assert [hit.snippet for hit in store.search("test", limit=2)] == ["test", "tested"]


def test_payloads_that_are_kept_apart_are_searched_too(store):
    filler = "filler words " * 30_000
    call = holdfast.ToolCall(id="c", name="write", arguments={"text": f"{filler} inside-arguments"})
    session = put(
        store,
        f"{filler} at-the-end",
        holdfast.assistant([call]),
        holdfast.tool_result("c", f"{filler} in-the-output"),
        f"{'x ' * MOST_CHARACTERS} too-far",
    )
    for word, role in (("at-the-end", "user"), ("inside-arguments", "assistant")):
        assert [hit.role for hit in store.search(word)] == [role]
    (hit,) = store.search("in-the-output")
    assert (hit.role, hit.kind, hit.tool) == ("tool", "tool_result", "write")
    assert store.search("too-far") == []
    for blob in (store.open(session, mode="read").path / "blobs").iterdir():
        blob.unlink()
    assert len(store.search("filler")) == 2  # what is left are the previews of texts


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30), st.text(min_size=1, max_size=6), st.text(max_size=30))
def test_a_word_is_found_in_every_text_that_has_it(before, word, after):
    words = fold_case(word).split()
    if not words or '"' in word:
        return
    text = before + word + after
    wanted = Query(f'"{word}"')
    if " ".join(words) not in " ".join(fold_case(text).split()):
        return  # the seams have made other letters of it
    match = wanted.match(Document(1, "", "user", [Piece("text", text)]), 2)
    assert match is not None
    assert match.highlights
