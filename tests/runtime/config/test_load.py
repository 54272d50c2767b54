"""The configuration: what is read, what is refused, and what a project may not do."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import UsageError
from holdfast.runtime.config import load as config
from holdfast.runtime.config.load import Configuration, Settings, folder, load
from holdfast.runtime.config.settings import KEYS
from holdfast.runtime.config.toml_file import LARGEST_BYTES
from holdfast.runtime.config.trust import Trust
from holdfast.runtime.providers.catalog import ANTHROPIC, Sources, Wish, choose

Write = Callable[[str | bytes], Path]


class Desk:
    """A user, and a project in a git repository."""

    def __init__(self, root: Path) -> None:
        self.home = root / "state"
        self.workspace = root / "project"
        self.environment = {"HOME": str(root / "me")}
        self.user_path = root / "me" / ".config" / "holdfast" / "config.toml"
        self.project_path = self.workspace / ".holdfast" / "config.toml"
        (self.workspace / ".git").mkdir(parents=True)

    def user(self, content: str | bytes) -> Path:
        return self._write(self.user_path, content)

    def project(self, content: str | bytes) -> Path:
        return self._write(self.project_path, content)

    def _write(self, path: Path, content: str | bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def trust(self) -> None:
        Trust(self.home).add(self.project_path, self.project_path.read_bytes())

    def load(self, workspace: Path | None = None, **environment: str) -> Configuration:
        return load(
            workspace or self.workspace,
            environment=self.environment | environment,
            home=self.home,
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(Path(os.path.realpath(tmp_path)))


def changed(settings: Settings) -> dict[str, Any]:
    """Return the settings that are not as they are by default."""
    plain = msgspec.structs.asdict(Settings())
    return {
        key: each for key, each in msgspec.structs.asdict(settings).items() if each != plain[key]
    }


# Where the files are


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/me"}, "/me/.config/holdfast"),
        ({"HOME": "/me", "XDG_CONFIG_HOME": "/x"}, "/x/holdfast"),
        ({"HOME": "/me", "XDG_CONFIG_HOME": "x"}, "/me/.config/holdfast"),
        ({"HOME": "/me", "XDG_CONFIG_HOME": ""}, "/me/.config/holdfast"),
        ({"HOME": "/me", "XDG_CONFIG_HOME": "/x", "HOLDFAST_CONFIG": "/y"}, "/y"),
        ({}, str(Path.home() / ".config" / "holdfast")),
    ],
)
def test_the_folder_of_the_user(environment, expected):
    assert folder(environment) == Path(expected)


def test_without_files_everything_is_default(desk):
    found = desk.load()
    assert found.settings == Settings()
    assert set(found.origins) == set(Settings.__struct_fields__) == set(KEYS)
    assert set(found.origins.values()) == {"default"}
    assert (found.notes, found.project, found.standing) == ([], None, None)
    assert found.user == desk.user_path
    assert not desk.home.exists()


def test_a_relative_folder_and_a_link_to_the_users_file(desk, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "real.toml").write_text('model = "m"')
    (tmp_path / "elsewhere" / "config.toml").symlink_to("real.toml")
    monkeypatch.chdir(tmp_path)
    assert desk.load(HOLDFAST_CONFIG="elsewhere").settings.model == "m"


def test_the_nearest_file_up_to_the_root_of_the_repository(desk):
    below = desk.workspace / "a" / "b"
    below.mkdir(parents=True)
    above = desk.workspace.parent / ".holdfast"
    above.mkdir()
    (above / "config.toml").write_text('model = "above the repository"')
    assert desk.load(below).settings.model is None
    desk.project('model = "root"')
    assert desk.load(below).settings.model == "root"
    (desk.workspace / "a" / ".holdfast").mkdir()
    assert desk.load(below).settings.model == "root"
    (desk.workspace / "a" / ".holdfast" / "config.toml").write_text('model = "a"')
    assert desk.load(below).settings.model == "a"
    assert desk.load().settings.model == "root"


def test_without_git_only_the_workspace_counts(desk):
    (desk.workspace / ".git").rmdir()
    below = desk.workspace / "a"
    below.mkdir()
    desk.project('model = "m"')
    assert desk.load(below).settings.model is None
    assert desk.load().settings.model == "m"


def test_a_worktree_has_a_file_for_a_git_folder(desk):
    below = desk.workspace / "tree" / "src"
    below.mkdir(parents=True)
    (desk.workspace / "tree" / ".git").write_text("gitdir: elsewhere")
    desk.project('model = "m"')
    assert desk.load(below).settings.model is None


def test_the_users_own_file_is_no_project(desk):
    desk.project('mode = "allow-all"')
    found = desk.load(HOLDFAST_CONFIG=str(desk.workspace / ".holdfast"))
    assert (found.settings.mode, found.project, found.notes) == ("allow-all", None, [])


# What a file may say

EVERYTHING = """
provider = "openai"
model = "m"
base_url = "http://localhost:11434/v1"
key_variable = "MY_KEY"
keys = "keyring"
thinking = 1000
max_tokens = 1
context_tokens = 32_000
compact_at = 1
mode = "deny"
allow = ["bash(make test)", "write(src/**)"]
deny = ["read(.env)"]
folders = ["~/data", "/opt/../srv"]
on_hangup = "stop"
on_attention = "beep"
idle_seconds = 600
most_runners = 3

[prices."llama*"]
input = 1
output = 2.5
"""


def test_every_setting_can_be_set_by_the_user(desk):
    path = desk.user(EVERYTHING)
    found = desk.load()
    assert set(changed(found.settings)) == set(KEYS)
    assert set(found.origins.values()) == {str(path)}
    assert found.settings.folders == (f"{desk.environment['HOME']}/data", "/srv")
    assert found.settings.prices == {"llama*": {"input": 1.0, "output": 2.5}}
    assert found.settings.compact_at == 1.0
    assert found.notes == []


def test_a_byte_order_mark_and_windows_line_ends(desk):
    desk.user(b'\xef\xbb\xbfmodel = "m"\r\nthinking = 5\r\n')
    assert changed(desk.load().settings) == {"model": "m", "thinking": 5}


MANY = '"read({a,b}{a,b}{a,b}{a,b}{a,b})",'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('modle = "m"', "there is no setting 'modle'. Did you mean 'mode' or 'model'?"),
        ("Max_Tokens = 5", "there is no setting 'Max_Tokens'. Did you mean 'max_tokens'?"),
        ("qqq = 1", "there is no setting 'qqq'. Settings: provider, model"),
        ('"\\u001b[2J" = 1', "there is no setting '\\x1b[2J'"),
        ('provider = "antropic"', "provider must be one of anthropic, openai, rehearsal"),
        ("provider = 7", "provider must be one of"),
        ("model = 7", "model must be the name of a model"),
        ('model = ""', "model must be"),
        ('model = " m"', "model must be"),
        ('model = "\\u001b[2J"', "model must be"),
        ("model = 2026-11-16", "model must be"),
        ("[model]\na = 1", "model must be"),
        ('base_url = "evil.example"', "base_url must be an address"),
        ('base_url = "file:///etc/passwd"', "base_url must be"),
        ('base_url = "http://"', "base_url must be"),
        ('base_url = "http://[x/"', "base_url must be"),
        ('base_url = "http://a:99999/"', "base_url must be"),
        ('provider = "openai"\nkey_variable = "sk-1"', "key_variable must be the name of an env"),
        ('keys = "memory"', 'keys must be "file" or "keyring"'),
        ("thinking = -1", "thinking must be a number of tokens from 0"),
        ("thinking = 1.5", "thinking must be"),
        ("thinking = true", "thinking must be"),
        ('thinking = "1"', "thinking must be"),
        ("max_tokens = 0", "max_tokens must be"),
        ("max_tokens = 99999999999999999999999", "max_tokens must be"),
        ("context_tokens = 0", "context_tokens must be"),
        ("compact_at = 1.01", "compact_at must be a share between 0 and 1"),
        ("compact_at = nan", "compact_at must be"),
        ("compact_at = -inf", "compact_at must be"),
        ('mode = "yolo"', 'mode must be "ask", "allow-all" or "deny"'),
        ('allow = "bash"', "allow must be a list of rules"),
        ("allow = [7]", "allow must be a list of rules"),
        ('allow = ["bash(a; b)"]', "allow: 'bash(a; b)' can never match"),
        ('allow = ["ba sh"]', "allow: 'ba sh' is not a rule"),
        ('deny = ["bash(rm:*)"]', "deny: 'bash(rm:*)' cannot be denied"),
        (f'deny = ["read({"x" * 500})"]', "deny must be a list of rules, each a text of at most"),
        (f"deny = [{MANY * 100}]", "braces spelled out"),
        ('folders = ["data"]', "folders: 'data' must begin with / or ~/"),
        ('folders = ["/a\\u0000"]', "folders must be"),
        ("prices = 7", "prices must be tables"),
        ("[prices]\nm = 7", "prices must be tables"),
        ("[prices.m]\ninput = 1", "prices: The price of 'm' must have input and output"),
        ("[prices.m]\ninput = 1\noutput = -1", "prices: The price of 'm'"),
        ("[prices.m]\ninput = 1\noutput = inf", "prices: The price of 'm'"),
        (f"[prices.m]\ninput = 1\noutput = 1{'0' * 400}", "prices must be tables"),
        ("[prices.m]\ninput = 1\noutput = true", "prices must be"),
        ("[prices.m]\ninput = 1\noutptu = 1", "prices: The price of 'm'"),
        ('on_hangup = "cry"', 'on_hangup must be "finish" or "stop"'),
        ("idle_seconds = 0", "idle_seconds must be a whole number of seconds from 1 to"),
        ("idle_seconds = inf", "idle_seconds must be"),
        ("idle_seconds = 31_536_001", "idle_seconds must be"),
        ("most_runners = 0", "most_runners must be a whole number from 1 to 1,000"),
        ("most_runners = 1001", "most_runners must be"),
        ('key_variable = "X"', "key_variable needs base_url or a provider"),
    ],
)
@pytest.mark.parametrize("where", ["user", "project"])
def test_a_mistake_is_told_with_file_and_key(desk, where, content, said):
    if where == "project" and said.startswith(("folders: 'data'", "key_variable needs")):
        return  # relative to the project, and not looked at before it is trusted
    path = getattr(desk, where)(content)
    with pytest.raises(UsageError) as error:
        desk.load()
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)
    assert "\x1b" not in str(error.value)
    assert len(str(error.value)) < len(str(path)) + 400


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'model = "m"\nthinking = \n', "line 2: this is not TOML: Invalid value."),
        (b'model = "m"\nthinking = 5\nthinking = 6\n', "line 3: this is not TOML: "),
        (b'model = """\n\n', "up to line 3: this is not TOML: "),
        (b'model = "m"\nallow = ["\xff"]\n', "line 2: this is not UTF-8."),
        (b"model = " + b"[" * 30_000, " is nested too deeply."),
        (b"model = " + b"{a=" * 20_000, " is nested too deeply."),
        (b"thinking = " + b"9" * 5000, "this is not TOML: Exceeds the limit"),
        (b"model" + b".a" * 30_000 + b" = 1", "line 1: more than 200 dots"),
        (b"[prices" + b".a" * 30_000 + b"]", "line 1: more than 200 dots"),
        (b"# " + b"x" * LARGEST_BYTES, f"A configuration may have at most {LARGEST_BYTES:,}."),
        (b"model" + b".a" * 200 + b" = 1", ": model must be the name of a model."),
        (b"\0", "line 1: this is not TOML: "),
    ],
)
@pytest.mark.parametrize("where", ["user", "project"])
def test_what_is_no_configuration_gets_one_sentence(desk, where, content, said):
    path = getattr(desk, where)(content)
    with pytest.raises(UsageError) as error:
        desk.load()
    assert str(error.value).startswith(str(path))
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < len(str(path)) + 400


@pytest.mark.parametrize("where", ["user_path", "project_path"])
def test_what_is_not_a_file_gets_one_sentence(desk, where):
    path = getattr(desk, where)
    path.mkdir(parents=True)
    with pytest.raises(UsageError, match=r"config\.toml is a folder"):
        desk.load()
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(UsageError, match=r"config\.toml is not a regular file"):
        desk.load()


def test_a_file_that_cannot_be_read_gets_one_sentence(desk, files):
    desk.user('model = "m"')
    for method, error in (("open_read", 13), ("read_at", 5)):
        files.fail(method, error)
        with pytest.raises(UsageError, match=rf"config\.toml cannot be read: {os.strerror(error)}"):
            load(desk.workspace, environment=desk.environment, home=desk.home, files=files)
    assert files.left_open == []


def test_a_workspace_that_is_not_there(desk):
    with pytest.raises(UsageError, match="There is no folder"):
        desk.load(desk.workspace / "gone")


def test_a_value_is_never_repeated(desk):
    secret = "sk-ant-secret"
    for key in KEYS:
        desk.user(f'{key} = {{"{secret}" = "{secret}"}}')
        with pytest.raises(UsageError) as error:
            desk.load()
        if key != "prices":  # there it is the name of a model
            assert secret not in str(error.value)


# What a project may not do

FREE = """
provider = "anthropic"
model = "m"
thinking = 1
max_tokens = 2
compact_at = 0.5
mode = "deny"
deny = ["write"]
"""
WIDE = """
base_url = "https://evil.example"
key_variable = "AWS_SECRET_ACCESS_KEY"
context_tokens = 5
mode = "allow-all"
allow = ["bash"]
folders = ["/"]
on_hangup = "stop"
[prices.m]
input = 0
output = 0
"""


def test_a_project_that_is_not_trusted_may_choose_a_model_and_be_stricter(desk):
    path = desk.project(FREE)
    found = desk.load()
    assert changed(found.settings) == {
        "provider": "anthropic",
        "model": "m",
        "thinking": 1,
        "max_tokens": 2,
        "compact_at": 0.5,
        "mode": "deny",
        "deny": ("write",),
    }
    assert found.origins["mode"] == str(path)
    assert found.origins["allow"] == "default"
    assert (found.notes, found.standing) == ([], "unknown")


def test_everything_else_needs_trust_and_the_note_says_so(desk):
    path = desk.project(WIDE)
    found = desk.load()
    assert found.settings == Settings()
    assert set(found.origins.values()) == {"default"}
    (note,) = found.notes
    assert note == (
        f"{path} is not trusted, so what it says about allow, base_url, context_tokens, folders, "
        "key_variable, mode, on_hangup, prices does not count; look at it and accept it with: "
        f"holdfast trust {desk.workspace}."
    )
    desk.trust()
    found = desk.load()
    assert len(changed(found.settings)) == 8
    assert (found.notes, found.standing) == ([], "trusted")
    assert config.asked_for(found.project, desk.environment) == list(
        msgspec.structs.asdict(found.project)["values"]
    )


def test_every_key_has_a_say_about_projects():
    free = {key for key, each in KEYS.items() if each.who == "any"}
    assert free == {"provider", "model", "thinking", "max_tokens", "compact_at", "deny"}
    assert {key for key, each in KEYS.items() if each.who == "stricter"} == {"mode"}
    own = {key for key, each in KEYS.items() if each.who == "user"}
    assert own == {"keys", "on_attention", "idle_seconds", "most_runners"}


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(
    "line",
    ['keys = "keyring"', 'on_attention = "rm x"', "idle_seconds = 5", "most_runners = 1000"],
)
def test_what_is_the_users_own_business(desk, trusted, line):
    path = desk.project(line)
    if trusted:
        desk.trust()
    found = desk.load()
    assert found.settings == Settings()
    key = line.partition(" ")[0]
    assert found.notes == [f"{path} sets {key}, which only applies in your own configuration."]


@pytest.mark.parametrize(
    ("user", "project", "expected"),
    [
        ("ask", "deny", "deny"),
        ("ask", "ask", "ask"),
        ("ask", "allow-all", "ask"),
        ("deny", "ask", "deny"),
        ("deny", "allow-all", "deny"),
        ("allow-all", "ask", "ask"),
        ("allow-all", "deny", "deny"),
        ("allow-all", "allow-all", "allow-all"),
        (None, "allow-all", "ask"),
    ],
)
def test_a_mode_moves_only_towards_stricter(desk, user, project, expected):
    desk.user(f'mode = "{user}"' if user else "")
    desk.project(f'mode = "{project}"')
    found = desk.load()
    assert found.settings.mode == expected
    assert bool(found.notes) == (expected != project)
    desk.trust()
    assert desk.load().settings.mode == project


def test_lists_and_prices_are_added_up(desk):
    user = desk.user(
        'allow = ["read", "bash(ls)"]\ndeny = ["edit"]\nfolders = ["/a"]\n'
        "[prices.m]\ninput = 1\noutput = 1\n[prices.n]\ninput = 1\noutput = 1\n"
    )
    project = desk.project(
        'allow = ["bash(ls)", "bash(make)"]\ndeny = ["write"]\nfolders = ["../b", "/c"]\n'
        "[prices.m]\ninput = 2\noutput = 2\n"
    )
    found = desk.load()
    assert found.settings.deny == ("edit", "write")
    assert found.origins["deny"] == f"{user} and {project}"
    assert found.settings.allow == ("read", "bash(ls)")
    assert found.origins["allow"] == str(user)
    desk.trust()
    settings = desk.load().settings
    assert settings.allow == ("read", "bash(ls)", "bash(make)")
    assert settings.folders == ("/a", str(desk.workspace.parent / "b"), "/c")
    assert {name: each["input"] for name, each in settings.prices.items()} == {"m": 2, "n": 1}


def test_trust_ends_with_any_change(desk):
    path = desk.project('allow = ["bash(make)"]')
    desk.trust()
    assert desk.load().settings.allow == ("bash(make)",)
    desk.project('allow = ["bash(make)"] # nothing else')
    found = desk.load()
    assert (found.settings.allow, found.standing) == ((), "changed")
    assert found.notes[0].startswith(f"{path} was changed since you trusted it, so what it says")
    desk.project('allow = ["bash(make)"]')
    assert desk.load().settings.allow == ("bash(make)",)


def test_trust_does_not_move_to_another_project(desk, tmp_path):
    desk.project('allow = ["bash(make)"]')
    desk.trust()
    other = tmp_path / "other"
    (other / ".holdfast").mkdir(parents=True)
    copy = other / ".holdfast" / "config.toml"
    copy.write_bytes(desk.project_path.read_bytes())
    assert desk.load(other).settings.allow == ()
    # The same over another name of the folder is the same project.
    (tmp_path / "name").symlink_to(desk.workspace)
    assert desk.load(tmp_path / "name").settings.allow == ("bash(make)",)


@pytest.mark.parametrize("link", ["file", "folder", "dangling"])
def test_a_project_cannot_borrow_the_trust_of_another_by_a_link(desk, tmp_path, link):
    desk.project('allow = ["bash(make)"]')
    desk.trust()
    other = tmp_path / "other"
    other.mkdir()
    if link == "folder":
        (other / ".holdfast").symlink_to(desk.project_path.parent)
    else:
        (other / ".holdfast").mkdir()
        target = desk.project_path if link == "file" else "nowhere"
        (other / ".holdfast" / "config.toml").symlink_to(target)
    with pytest.raises(UsageError, match="is a symbolic link"):
        desk.load(other)


def test_a_name_that_moves_the_cursor_does_not_get_out(desk):
    strange = desk.workspace / "\x1b[2J\n"
    (strange / ".holdfast").mkdir(parents=True)
    (strange / ".holdfast" / "config.toml").write_text('allow = ["bash"]')
    (note,) = desk.load(strange).notes
    assert note.isprintable()
    (strange / ".holdfast" / "config.toml").write_text("bad")
    with pytest.raises(UsageError) as error:
        desk.load(strange)
    assert str(error.value).isprintable()


# Keys and addresses

PROXY = 'provider = "openai"\nbase_url = "https://proxy.example/v1"\nkey_variable = "PROXY_KEY"\n'
MODEL = PROXY + 'model = "m"'


@pytest.mark.parametrize(
    ("user", "project", "trusted", "expected"),
    [
        # The same provider: the user's address stays.
        (MODEL, 'model = "n"', False, ("openai", "proxy", "n", "PROXY_KEY")),
        (
            PROXY + 'model = "m"',
            'provider = "openai"',
            False,
            ("openai", "proxy", "m", "PROXY_KEY"),
        ),
        # Another one: its own address, its own key, its own model.
        (MODEL, 'provider = "anthropic"', False, ("anthropic", None, None, None)),
        (
            'base_url = "https://proxy.example/v1"\nmodel = "m"',
            'provider = "openai"',
            False,
            ("openai", "proxy", "m", None),
        ),
        ('model = "claude-x"', 'provider = "openai"', False, ("openai", None, None, None)),
        ('model = "gpt-x"', 'provider = "openai"', False, ("openai", None, "gpt-x", None)),
        # A project's address never gets the user's key.
        (PROXY, 'base_url = "https://b.example"', False, ("openai", "proxy", None, "PROXY_KEY")),
        (PROXY, 'base_url = "https://b.example"', True, ("openai", "b", None, None)),
        (
            PROXY,
            'base_url = "https://b.example"\nkey_variable = "B"',
            True,
            ("openai", "b", None, "B"),
        ),
    ],
)
def test_a_key_stays_with_the_address_it_was_given_for(desk, user, project, trusted, expected):
    desk.user(user)
    desk.project(project)
    if trusted:
        desk.trust()
    wish = desk.load().wish
    host = wish.endpoint and wish.endpoint.removeprefix("https://").partition(".")[0]
    assert (wish.provider, host, wish.model, wish.key_variable) == expected


def test_a_key_variable_beside_a_provider_is_for_its_own_address(desk):
    desk.user('provider = "anthropic"\nkey_variable = "WORK_KEY"')
    found = desk.load()
    assert found.wish == Wish("anthropic", ANTHROPIC.endpoint, None, "WORK_KEY")
    choice = choose(Sources(config=found.wish, environment={"WORK_KEY": "k"}))
    assert (choice.provider, choice.key_variable) == ("anthropic", "WORK_KEY")
    found = desk.load(ANTHROPIC_BASE_URL="http://localhost:1")
    assert found.wish.endpoint == "http://localhost:1"


def test_what_the_user_says_alone(desk):
    desk.user('keys = "keyring"')
    desk.project('mode = "deny"')
    assert config.user_settings(desk.environment) == Settings(keys="keyring")


def test_loading_changes_nothing(desk):
    desk.user(PROXY)
    desk.project(FREE)
    root = desk.workspace.parent

    def everything() -> set[tuple[str, int]]:
        return {(str(path), stat.S_IMODE(path.lstat().st_mode)) for path in root.rglob("*")}

    before = everything()
    desk.load()
    assert everything() == before
