"""What the documents show must work as shown."""

import re
import shlex

import click
import pytest

from holdfast.cli.main import cli
from holdfast.cli.run.command import command as ask
from tests.docs.markdown import ROOT, blocks, documents

DOCUMENTS = documents()
WITH_PYTHON = [path for path in DOCUMENTS if blocks(path, "python")]
WITH_SHELL = [path for path in DOCUMENTS if blocks(path, "sh")]


def _name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", WITH_PYTHON, ids=_name)
def test_python_examples_run_in_order(document, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__example__"}
    for line, block in blocks(document, "python"):
        code = compile("\n" * (line - 1) + block, _name(document), "exec", dont_inherit=True)
        exec(code, namespace)


@pytest.mark.parametrize("document", WITH_SHELL, ids=_name)
def test_shell_examples_use_commands_that_exist(document):
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for line, block in blocks(document, "sh"):
        for number, text in enumerate(block.splitlines(), line):
            words = shlex.split(text, comments=True)
            where = f"{_name(document)}:{number}"
            if words[:1] == ["make"]:
                assert all(word in targets or "=" in word for word in words[1:]), where
            if words[:1] == ["holdfast"]:
                _check_command(words[1:], where)


def _check_command(words, where):
    command: click.Command = cli
    if words and not words[0].startswith("-"):
        found = cli.get_command(click.Context(cli), words[0])
        assert found is not None, f"{where}: no command {words[0]}"
        command = found
    elif words and words[0] not in ("-h", "--help", "--version"):
        command = ask
    options = {name for each in command.params for name in each.opts} | {"-h", "--help"}
    used = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert used <= options, f"{where}: {used - options} unknown"


def test_documents_show_something_to_run():
    names = {_name(path) for path in WITH_PYTHON}
    assert {"README.md", "docs/library.md", "docs/format.md"} <= names
