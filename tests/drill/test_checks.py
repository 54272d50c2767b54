import pytest

import holdfast
from holdfast.drill.checks import ShownText, in_order, judge, ran, survived

TEXT = "one two three"


@pytest.mark.parametrize(
    ("shown", "now", "kept"),
    [
        ("", "", 0),
        ("ab", "ab", 2),
        ("ab", "abc", 2),
        ("abc", "ab", 2),
        ("abc", "", 0),
        ("abc", "aXc", 1),
        ("abc", "abbc", 2),
        ("e\u0301", "é", 0),
        ("日本", "日x", 1),
    ],
)
def test_every_character_that_was_shown_has_to_be_there(shown, now, kept):
    count, problems = survived(shown, now)
    assert count == kept
    assert bool(problems) == (not now.startswith(shown))


@pytest.mark.parametrize(
    ("shown", "now", "kept", "good"),
    [
        ([], [], 0, True),
        (["a", "b"], ["x", "a", "y", "b"], 4, True),
        (["a", "b"], ["a"], 2, False),
        (["a", "b"], ["b", "a"], 2, False),
        (["a", "a"], ["a"], 2, False),
    ],
)
def test_lines_have_to_be_there_in_their_order(shown, now, kept, good):
    count, problems = in_order(shown, now)
    assert (count, not problems) == (kept, good)


@pytest.mark.parametrize(
    ("marks", "counts", "problem"),
    [
        (["a began", "a ended"], (1, 0), None),
        ([], (0, 0), "the a command was never run"),
        (["a began"], (1, 0), "the a command did not finish"),
        (["a began", "a began", "a ended"], (1, 1), "the a command was run 2 times"),
    ],
)
def test_marks_tell_how_often_a_command_was_run(marks, counts, problem):
    found = ran(marks, ["a"])
    assert (found.commands, found.twice) == counts
    assert found.problems == ([problem] if problem else [])


def message(text, stop="end"):
    return holdfast.assistant(text, stop=stop)


@pytest.mark.parametrize(
    ("messages", "told", "problem"),
    [
        ([message("a"), message("b")], ShownText(["a", "b"], []), None),
        ([message("a")], ShownText(["a", "b"], []), "the answers have"),
        ([message("a"), message("a")], ShownText(["a"], []), "the answers have"),
        ([message("one t", "interrupted"), message("b")], ShownText(["b"], [], TEXT), None),
        ([message("b")], ShownText(["b"], [], TEXT), "differs from what the model sent"),
        (
            [message("two", "interrupted"), message("b")],
            ShownText(["b"], [], TEXT),
            "differs from what",
        ),
        ([message("one", "interrupted"), message("b")], ShownText(["b"], []), "should be complete"),
    ],
)
def test_the_session_is_held_against_what_the_model_said(tmp_path, messages, told, problem):
    with holdfast.open_store(tmp_path).create() as session:
        session.append(messages)
    found = judge(tmp_path, session.id, told)
    assert len(found) == (0 if problem is None else 1)
    assert problem is None or problem in found[0]


@pytest.mark.parametrize(
    ("results", "problems"),
    [
        ([("completed", "out")], 0),
        ([("unknown", "ou"), ("completed", "out")], 0),
        ([("unknown", "xx"), ("completed", "out")], 1),
        ([("unknown", "out")], 1),
        ([("completed", "other")], 1),
        ([], 1),
    ],
)
def test_the_session_is_held_against_what_commands_printed(tmp_path, results, problems):
    with holdfast.open_store(tmp_path).create() as session:
        session.append(holdfast.user("go"))
        for outcome, text in results:
            part = holdfast.ToolResult(
                call_id="c", outcome=outcome, content=[holdfast.Text(text=text)]
            )
            session.append(holdfast.Message(role="tool", content=[part]))
    assert len(judge(tmp_path, session.id, ShownText([], ["out"]))) == problems


def test_damage_is_found_also_where_every_text_is_right(tmp_path):
    with holdfast.open_store(tmp_path).create() as session:
        session.append(holdfast.user("go"))
        session.append(message("a"))
    journal = session.path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"go"', b'"no"'))
    (found,) = judge(tmp_path, session.id, ShownText(["a"], []))
    assert "verify reports" in found
