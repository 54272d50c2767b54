"""``holdfast config``, as a shell sees it."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import Shell


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


def user(shell, text):
    shell.config.mkdir(parents=True)
    (shell.config / "config.toml").write_text(text)


def test_without_anything(shell):
    done = shell.run("config")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"user file     {shell.config / 'config.toml'}"
    assert lines[1] == "will use      rehearsal with rehearsal: no API key was found"
    assert any(line.split() == ["max_tokens", "8192", "default"] for line in lines)
    assert not shell.home.exists()
    assert not shell.config.exists()


def test_settings_origins_and_notes(shell):
    user(shell, 'model = "claude-x"\nthinking = 7\n')
    shell.project_file.write_text('max_tokens = 5\nallow = ["bash"]\n')
    done = shell.run("config", ANTHROPIC_API_KEY="sk-ant-secret")
    assert done.returncode == 0
    assert "claude-x: ANTHROPIC_API_KEY is set" in done.stdout
    assert f"project file  {shell.project_file} (not trusted)" in done.stdout
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line}
    assert rows["thinking"] == ["7", str(shell.config / "config.toml")]
    assert rows["max_tokens"] == ["5", str(shell.project_file)]
    assert rows["allow"] == ["[]", "default"]
    assert "is not trusted, so what it says about allow does not count" in done.stderr
    assert "secret" not in done.stdout + done.stderr


def test_as_json(shell):
    user(shell, 'provider = "openai"\nbase_url = "http://me:pw@localhost:1/v1?key=x"\nmodel = "m"')
    shell.project_file.write_text('mode = "allow-all"')
    done = shell.run("config", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["settings"]["base_url"] == "http://localhost:1/v1"
    assert report["settings"]["mode"] == "ask"
    assert report["origins"]["model"] == report["user_file"] == str(shell.config / "config.toml")
    assert (report["project_file"], report["standing"]) == (str(shell.project_file), "unknown")
    assert report["answers"] == {
        "provider": "openai",
        "model": "m",
        "endpoint": "http://localhost:1/v1",
        "reason": "set in the configuration",
    }
    assert len(report["notes"]) == 1
    assert "pw" not in done.stdout


def test_another_workspace(shell, tmp_path):
    (tmp_path / "other").mkdir()
    shell.project_file.write_text('model = "m"')
    assert (
        shell.project_file.name not in shell.run("config", "-C", "../other").stdout.split("\n")[1]
    )
    done = shell.run("config", "-C", "gone")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "holdfast: gone is not a folder. Name a folder with -C DIR.\n"


def test_who_would_answer_is_told_even_if_nobody_would(shell):
    user(shell, 'provider = "anthropic"')
    done = shell.run("config")
    assert done.returncode == 0
    assert "will use      none: There is no key for anthropic" in done.stdout
    assert shell.run("login", "anthropic", given="sk-ant-secret").returncode == 0
    done = shell.run("config")
    assert "anthropic at https://api.anthropic.com with" in done.stdout
    assert "sk-ant-secret" not in done.stdout
    (shell.config / "keys.json").chmod(0o644)
    assert "none: " in shell.run("config").stdout
    assert "chmod 600" in json.loads(shell.run("config", "--json").stdout)["answers"]["problem"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'modle = "m"', "there is no setting 'modle'"),
        (b"model = \n", "line 1: this is not TOML"),
        (b"\xff", "line 1: this is not UTF-8"),
        (b"model = " + b"[" * 60_000, "is nested too deeply"),
        (b"#" * 70_000, "has 70,000 bytes"),
        (b"model = 7", "model must be the name of a model"),
    ],
)
def test_a_bad_file_exits_2_with_one_sentence(shell, content, said):
    shell.project_file.write_bytes(content)
    for words in (["config"], ["trust", "--yes"]):
        done = shell.run(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"holdfast: {shell.project_file}")
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


def test_another_folder_for_the_configuration(shell, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.toml").write_text('model = "gpt-x"')
    done = shell.run("config", "--json", HOLDFAST_CONFIG=str(tmp_path / "mine"))
    assert json.loads(done.stdout)["settings"]["model"] == "gpt-x"


def test_what_a_project_writes_cannot_move_the_cursor(shell):
    shell.project_file.write_text('deny = ["read(\\u001b[2J\\u202e)"]')
    done = shell.run("config")
    assert done.returncode == 0
    assert all(letter.isprintable() or letter == "\n" for letter in done.stdout + done.stderr)
