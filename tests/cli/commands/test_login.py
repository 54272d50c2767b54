"""``holdfast login``, as a shell and as somebody at a terminal sees it."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import Shell

SECRET = "sk-ant-secret-0123456789"


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


def kept(shell):
    return json.loads((shell.config / "keys.json").read_text())


def test_a_key_from_standard_input(shell):
    done = shell.run("login", "anthropic", given=f"{SECRET}\r\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"The key for anthropic is stored in {shell.config / 'keys.json'}.\n"
    assert kept(shell) == {"anthropic": SECRET}
    assert shell.run("login", "https://OpenRouter.ai/api", given="other").returncode == 0
    done = shell.run("login", "--list")
    assert (done.returncode, done.stdout) == (0, "anthropic\nopenrouter.ai\n")
    done = shell.run("login", "--remove", "anthropic")
    assert (done.returncode, SECRET in done.stdout) == (0, False)
    assert kept(shell) == {"openrouter.ai": "other"}
    done = shell.run("login", "--remove", "anthropic")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No key for anthropic is stored" in done.stderr


def test_at_a_terminal_the_key_is_not_shown(shell):
    code, screen = shell.type(
        "login", "anthropic", answers={"Key for anthropic (not shown): ": f"{SECRET}\n"}
    )
    assert code == 0
    assert SECRET not in screen
    assert kept(shell) == {"anthropic": SECRET}


def test_at_a_terminal_it_asks_whose_key_it_is(shell):
    code, _ = shell.type(
        "login",
        answers={
            "Whose key (anthropic, openai, or a host): ": "openai\n",
            "Key for openai (not shown): ": "sk-o\n",
        },
    )
    assert code == 0
    assert kept(shell) == {"openai": "sk-o"}


def test_an_empty_answer_changes_nothing(shell):
    code, screen = shell.type(
        "login", "anthropic", answers={"Key for anthropic (not shown): ": "\n"}
    )
    assert code == 2
    assert "No key was given" in screen
    assert not shell.config.exists()


@pytest.mark.parametrize(
    ("words", "given", "said"),
    [
        (["anthropic"], "", "No key was given"),
        (["anthropic"], " \n\n", "No key was given"),
        (["anthropic"], f"{SECRET}\n{SECRET}\n", "This is not a key"),
        (["anthropic"], b"\xff\xfe\0", "This is not a key"),
        (["anthropic"], "x" * 20_000, "This is not a key"),
        (["openai"], SECRET, "This is an Anthropic key, not an OpenAI key"),
        (["antropic"], SECRET, "neither a provider"),
        (["rehearsal"], SECRET, "needs no key"),
        ([], SECRET, "Name the provider"),
    ],
)
def test_a_mistake_exits_2_and_repeats_no_key(shell, words, given, said):
    done = shell.run("login", *words, given=given)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert SECRET not in done.stderr
    assert not shell.config.exists()


def test_a_file_that_others_can_read_is_refused(shell):
    shell.run("login", "anthropic", given=SECRET)
    (shell.config / "keys.json").chmod(0o640)
    for words in (["login", "--list"], ["login", "openai"], ["login", "--remove", "anthropic"]):
        done = shell.run(*words, given="sk-new")
        assert (done.returncode, done.stdout) == (2, "")
        assert "others can get at it: chmod 600" in done.stderr


def test_a_keyring_that_is_not_installed(shell):
    shell.config.mkdir(parents=True)
    (shell.config / "config.toml").write_text('keys = "keyring"')
    done = shell.run("login", "anthropic", given=SECRET, PYTHONPATH=str(_without_keyring(shell)))
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'holdfast[keyring]'" in done.stderr


def _without_keyring(shell):
    """Return a folder whose start-up hook hides the package, should it be there."""
    folder = shell.project / "hook"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "def find_spec(name, package=None):\n"
        "    return None if name == 'keyring' else find(name, package)\n"
        "importlib.util.find_spec = find_spec\n"
    )
    return folder


def test_a_folder_that_cannot_be_written_gets_one_sentence(shell):
    shell.config.parent.mkdir(parents=True)
    shell.config.write_text("a file")
    done = shell.run("login", "anthropic", given=SECRET)
    assert (done.returncode, done.stdout) == (1, "")
    assert "keys.json cannot be written: " in done.stderr
    assert SECRET not in done.stderr
