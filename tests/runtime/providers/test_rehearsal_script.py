"""Scripts for the rehearsal model, as files."""

from __future__ import annotations

import pytest

from holdfast.errors import UsageError
from holdfast.runtime.providers.rehearsal_script import ScriptedCall, ScriptStep, read_script

STEPS = [
    ScriptStep("think", "Hm."),
    ScriptStep("say", "Hi."),
    ScriptStep("calls", calls=[ScriptedCall("bash", {"command": "ls"})]),
    ScriptStep("calls", calls=[ScriptedCall("read", {"path": "a"}), ScriptedCall("look")]),
    ScriptStep("fail", "529", after=2, times=3),
    ScriptStep("fail", "disconnect"),
    ScriptStep("stop", "end"),
]
LINES = """\
{"think": "Hm."}
{"say": "Hi."}

{"call": "bash", "arguments": {"command": "ls"}}
{"calls": [{"call": "read", "arguments": {"path": "a"}}, {"call": "look"}]}
{"fail": 529, "after": 2, "times": 3}
{"fail": "disconnect"}
{"stop": "end"}
"""
TOML = """\
[[step]]
think = "Hm."
[[step]]
say = "Hi."
[[step]]
call = "bash"
arguments = { command = "ls" }
[[step]]
calls = [{ call = "read", arguments = { path = "a" } }, { call = "look" }]
[[step]]
fail = 529
after = 2
times = 3
[[step]]
fail = "disconnect"
[[step]]
stop = "end"
"""


@pytest.mark.parametrize(("name", "text"), [("a.jsonl", LINES), ("a.toml", TOML)])
def test_both_forms_say_the_same(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_script(tmp_path / name) == STEPS


@pytest.mark.parametrize(
    "text",
    [
        "say: hi",
        '{"sing": "la"}',
        '{"fail": "explode"}',
        '{"calls": []}',
        '{"calls": [{"tool": "x"}]}',
        '{"call": "x", "arguments": 5}',
        "[1]",
        "\ud800",
    ],
)
def test_a_wrong_script_is_named(tmp_path, text):
    path = tmp_path / "a.jsonl"
    path.write_text(text, errors="surrogatepass")
    with pytest.raises(UsageError, match=r"a\.jsonl is not a script"):
        read_script(path)


def test_a_missing_script_is_named(tmp_path):
    with pytest.raises(UsageError, match="FileNotFoundError"):
        read_script(tmp_path / "none.toml")
