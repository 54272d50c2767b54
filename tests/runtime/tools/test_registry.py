from __future__ import annotations

import json

import msgspec

from holdfast.runtime.tools.registry import standard_tools
from holdfast.runtime.tools.shell.bash import BashArguments
from tests.runtime.tools.desk import text_of


def test_the_tools_and_their_effects():
    tools = standard_tools()
    assert {name: tool.effect for name, tool in tools.items()} == {
        "read": "reads",
        "write": "writes",
        "edit": "writes",
        "bash": "unknown",
        "grep": "reads",
        "glob": "reads",
    }
    assert all(tool.spec.name == name for name, tool in tools.items())


def test_a_model_is_told_of_exactly_the_arguments_that_are_taken():
    for tool in standard_tools().values():
        arguments = getattr(tool, "arguments", BashArguments)
        fields = {each.name: each for each in msgspec.structs.fields(arguments)}
        parameters = tool.spec.parameters
        assert set(parameters["properties"]) == set(fields)
        assert parameters["required"] == [name for name, each in fields.items() if each.required]
        assert json.loads(json.dumps(parameters)) == parameters


def test_each_session_has_a_memory_of_its_own(desk):
    desk.file("x", "old")
    desk.run("read", path="x")
    desk.tools = standard_tools()
    assert "read it first" in text_of(desk.run("write", path="x", content="new"))


def test_more_variables_can_be_hidden(desk, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    desk.tools = standard_tools(hidden=["MY_KEY"])
    assert text_of(desk.run("bash", command="echo $MY_KEY")) == "\n"
