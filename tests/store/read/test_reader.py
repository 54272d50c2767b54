"""Reading a history while others append: nobody waits, and what is read is never out of date."""

from __future__ import annotations

import threading

import pytest

import holdfast
from holdfast import user
from holdfast.store.read import branch as branches

LONG = "x" * 200_000  # several blocks of a file


@pytest.fixture
def session(fragile):
    """One that has four messages, of which nothing is in memory."""
    session = fragile.create()
    for word in ("a", "b", "c", "d"):
        session.append(user(f"{word} {LONG}"))
    assert session._recorder.branch._items is None
    return session


@pytest.fixture
def while_reading(monkeypatch):
    """Have something done by another thread in the middle of the next reading."""

    def arrange(action) -> list[str]:
        real = branches.walk
        actions = [action]
        done: list[str] = []

        def act(action) -> None:
            action()
            done.append("done")

        def walk(*arguments):
            for entry in real(*arguments):
                yield entry
                if actions:
                    thread = threading.Thread(target=act, args=(actions.pop(),))
                    thread.start()
                    thread.join(30)
                    assert not thread.is_alive(), "it waits for the reading"

        monkeypatch.setattr(branches, "walk", walk)
        return done

    return arrange


def words(messages) -> list[str]:
    return [message.text.partition(" ")[0] for message in messages]


def test_who_appends_does_not_wait_for_one_who_reads(session, while_reading):
    done = while_reading(lambda: session.append([user("e"), holdfast.Turn("started"), user("f")]))
    assert words(session.messages) == ["a", "b", "c", "d", "e", "f"]
    assert done
    session.append(user("g"))
    assert words(session.messages) == ["a", "b", "c", "d", "e", "f", "g"]


@pytest.mark.parametrize(
    ("move", "after"),
    [
        (lambda session: session.rewind(2), ["a", "b"]),
        (lambda session: session.replace([user("new")]), ["new"]),
        (lambda session: session.clear(), []),
    ],
    ids=["rewind", "replace", "clear"],
)
def test_a_head_that_is_moved_meanwhile_is_read_from(session, while_reading, move, after):
    done = while_reading(lambda: move(session))
    assert words(session.messages) == after
    assert done
    session.append(user("next"))
    assert words(session.messages) == [*after, "next"]


def test_a_journal_that_is_compacted_meanwhile_is_read_again(session, while_reading):
    def compact() -> None:
        session.checkpoint("so far", keep_last=1)
        session.compact()

    done = while_reading(compact)
    assert words(session.messages) == ["d"]
    assert done


def test_damage_of_a_file_that_was_compacted_meanwhile_is_not_noted(session, while_reading, files):
    journal = session.path / "journal.jsonl"
    data = bytearray(journal.read_bytes())
    data[data.index(b'"text":"b') - 5] = 0
    with journal.open("r+b") as file:
        file.write(data)
    done = while_reading(session.mend)
    assert words(session.messages) == ["a", "c", "d"]
    assert done
    session.append(user("e"))
    session.close()
    types = [entry.type for entry in session.follow(wait=False)]
    assert types.count("gap") == 1  # the one in the place of the line


def test_a_session_that_is_closed_meanwhile_is_read_to_the_end(session, while_reading, files):
    done = while_reading(session.close)
    assert words(session.messages) == ["a", "b", "c", "d"]
    assert done
    assert files.left_open == []


@pytest.mark.parametrize("end", ["close", "compact"])
def test_who_goes_through_a_branch_gets_to_the_root(session, end):
    entries = session.branch()
    newest = next(entries)
    getattr(session, end)()
    assert words(session.messages) == ["a", "b", "c", "d"]  # from another file than before
    assert words(entry.body for entry in [newest, *entries]) == ["d", "c", "b", "a"]


@pytest.mark.parametrize("first", ["messages", "context"])
def test_two_may_read_at_once(session, while_reading, first):
    session.checkpoint("so far", keep_last=2)
    session._recorder.branch.forget()
    seen: list[list[str]] = []
    reads = {
        "messages": lambda: seen.append(words(session.messages)),
        "context": lambda: seen.append(words(session.context())),
    }
    second = "context" if first == "messages" else "messages"
    done = while_reading(reads[second])
    reads[first]()
    assert done
    results = {"messages": ["a", "b", "c", "d"], "context": ["so", "c", "d"]}
    assert seen == [results[second], results[first]]
    assert words(session.messages) == results["messages"]


def test_an_interrupted_reading_leaves_nothing(session, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(branches, "walk", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.messages  # noqa: B018  it is read
    session.append(user("e"))
    assert session._recorder.branch._watched == []
    assert words(session.messages) == ["a", "b", "c", "d", "e"]
