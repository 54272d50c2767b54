"""Approvals: what matches, and above all what does not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.model.entry import Approval
from holdfast.runtime.policy.policy import (
    INSIDE,
    Decision,
    Policy,
    approval,
    arguments_sha256,
    parse,
    parse_denial,
    words,
)
from holdfast.runtime.tools.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "workspace" / "src").mkdir(parents=True)
    return Workspace(tmp_path / "workspace")


def bash(policy: Policy, command: object, workspace: Workspace) -> Decision:
    return policy.decide("bash", "unknown", {"command": command}, workspace)


# Commands


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("git status", ["git", "status"]),
        ("  git\t status  ", ["git", "status"]),
        ("log -1 --format=%H a/b.c:d,e @+_", ["log", "-1", "--format=%H", "a/b.c:d,e", "@+_"]),
        ("echo 'a; b' \"c & d\"", ["echo", "a; b", "c & d"]),
        ("'git' st\"at\"us", ["git", "status"]),
        ("echo ''", ["echo", ""]),
        ("echo 'ä $x `y` \\'", ["echo", "ä $x `y` \\"]),
    ],
)
def test_plain_words_are_read(command, found):
    assert words(command) == found


INJECTIONS = [
    "git status; rm x",
    "git status;rm x",
    "git status && rm x",
    "git status || rm x",
    "git status | sh",
    "git status & rm x",
    "git status\nrm x",
    "git status\r\nrm x",
    "git status $(rm x)",
    "git status `rm x`",
    'git status "$(rm x)"',
    'git status "`rm x`"',
    "git status $HOME",
    'git status "$HOME"',
    "git status ${IFS}x",
    "git status > x",
    "git status >x",
    "git status 2>&1",
    "git status < x",
    "git status <<x",
    "git status <(rm x)",
    "git status {a,b}",
    "git status *",
    "git status ?",
    "git status [a]",
    "git status ~",
    "git status # x",
    "git status \\; rm",
    "git status \\\nrm",
    'git status "a\\"; rm x"',
    "git status !x",
    'git status "!x"',
    "git status 'a",
    'git status "a',
    "PAGER=x git status",
    "! git status",
    "(git status)",
    "{ git status; }",
    "git status\0x",
    "git status 'a\nb'",
    "git status\u00a0x",
    "git status\u2028rm",
    "git\\ status",
    "$'git' status",
    "git^status",
    "",
    "   ",
]


@pytest.mark.parametrize("command", INJECTIONS)
def test_nothing_but_plain_words_matches(workspace, command):
    assert words(command) is None
    policy = Policy(allow=["bash(git status:*)", "bash(git:*)", "bash(git status)"])
    assert bash(policy, command, workspace) == Decision("ask")


@pytest.mark.parametrize(
    ("rule", "command", "matches"),
    [
        ("bash(git status:*)", "git status", True),
        ("bash(git status:*)", "git status -s 'a b'", True),
        ("bash(git status:*)", "'git' \"status\" x", True),
        ("bash(git status:*)", "git statusx", False),
        ("bash(git status:*)", "git", False),
        ("bash(git status:*)", "'git status'", False),
        ("bash(git status:*)", "git -c x status", False),
        ("bash(git status:*)", "/tmp/git status", False),
        ("bash(make test)", "make test", True),
        ("bash(make test)", "make  'test'", True),
        ("bash(make test)", "make test all", False),
        ("bash(printf 'a b':*)", "printf 'a b' c", True),
        ("bash(printf 'a b':*)", "printf a b", False),
        ("bash", "anything; at all", True),
        ("write", "git status", False),
    ],
)
def test_a_rule_is_held_against_words(workspace, rule, command, matches):
    decision = bash(Policy(allow=[rule]), command, workspace)
    assert decision == (Decision("allow", rule) if matches else Decision("ask"))


def test_arguments_of_a_wrong_kind_match_nothing(workspace):
    policy = Policy(allow=["bash(git:*)", "write(src/**)"])
    assert bash(policy, ["git"], workspace) == Decision("ask")
    assert policy.decide("bash", "unknown", {}, workspace) == Decision("ask")
    assert policy.decide("write", "writes", {"path": 7}, workspace) == Decision("ask")
    assert policy.decide("read", "reads", {"path": 7}, workspace) == Decision("ask")


# What matches a prefix rule is run by the real shell, which must start that one program with those
# very words and do nothing else.

PIECES = st.sampled_from(
    [
        *"abx ;&|<>()$`\"'\\\n\r\t!#*?[]{}~=^%@+:,./-\0äé\u00a0",
        "$(",
        "&&",
        "probe",
        "ok",
        "touch x",
        "",
    ]
)


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probe")
    (folder / "bin").mkdir()
    (folder / "bin" / "probe").write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    (folder / "bin" / "probe").chmod(0o755)
    (folder / "work").mkdir()
    return folder


@settings(max_examples=400, deadline=None)
@given(
    st.lists(PIECES, max_size=8).map("".join),
    st.sampled_from(["probe ok", "probe", "", "'probe' ok "]),
)
@example("; touch x", "probe ok")
@example(" 'a;b' \"c|d\" e=f", "probe ok")
def test_what_matches_is_run_by_the_shell_as_it_was_read(probe, rest, start):
    command = start + rest
    rule = parse("bash(probe ok:*)")
    found = words(command)
    if not rule.allows_command(found):
        return
    assert found is not None
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=probe / "work",
        env={"PATH": str(probe / "bin")},
        capture_output=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout == b"".join(os.fsencode(word) + b"\0" for word in found[1:])
    assert done.stderr == b""
    assert os.listdir(probe / "work") == []


@given(
    st.lists(st.text(st.characters(exclude_characters="\0"), max_size=5), max_size=4),
    st.sampled_from([";", "&&", "||", "|", "&", "\n", "$(x)", "`x`", ">x", "<x", "\\\n", "(", ")"]),
    st.integers(0, 4),
)
def test_no_operator_between_words_ever_matches(others, operator, place):
    plain = [word for word in others if words(word) is not None]
    pieces = ["git", "status", *plain]
    pieces.insert(min(place, len(pieces)), operator)
    assert not parse("bash(git status:*)").allows_command(words(" ".join(pieces)))


# Files


@pytest.mark.parametrize(
    ("rule", "tool", "path", "matches"),
    [
        ("write(src/**)", "write", "src/a", True),
        ("write(src/**)", "edit", "src/a/b", True),
        ("write(src/**)", "write", "./src/../src/a", True),
        ("write(src/**)", "write", "src/../a", False),
        ("write(src/**)", "write", "src2/a", False),
        ("write(src/**)", "write", "a/src/b", False),
        ("write(src/**)", "write", "src/link/a", False),
        ("write(other/**)", "write", "src/link/a", True),
        ("write(src/**)", "write", "../x", False),
        ("write(**)", "write", "/etc/passwd", False),
        ("write(**)", "write", "a", True),
        ("write(*.md)", "write", "a/b.md", True),
        ("edit(*.md)", "write", "a.md", False),
        ("edit(*.md)", "edit", "a.md", True),
        ("write", "edit", "any", True),
        ("write(src/**)", "write", "\0", False),
        ("bash", "write", "x", False),
    ],
)
def test_rules_for_files_mean_the_real_path(workspace, rule, tool, path, matches):
    root = Path(workspace.root)
    (root / "other").mkdir()
    (root / "src" / "link").symlink_to("../other")
    decision = Policy(allow=[rule]).decide(tool, "writes", {"path": path}, workspace)
    assert decision == (Decision("allow", rule) if matches else Decision("ask"))


def test_in_folders_beside_the_workspace_only_whole_tools_are_allowed(workspace, tmp_path):
    (tmp_path / "beside").mkdir()
    both = Workspace(tmp_path / "workspace", [tmp_path / "beside"])
    arguments = {"path": str(tmp_path / "beside" / "x.md")}
    assert (
        Policy(allow=["write(*.md)"]).decide("write", "writes", arguments, both).decision == "ask"
    )
    assert Policy(allow=["write"]).decide("write", "writes", arguments, both).decision == "allow"
    assert Policy().decide("read", "reads", arguments, both) == Decision("allow", INSIDE)


@pytest.mark.parametrize("mode", ["ask", "allow-all", "deny"])
def test_reads_inside_need_no_approval(workspace, mode):
    for tool, arguments in (("read", {"path": "x"}), ("grep", {"pattern": "x"}), ("glob", {})):
        assert Policy(mode).decide(tool, "reads", arguments, workspace) == Decision("allow", INSIDE)


def test_reads_outside_do(workspace):
    outside = {"path": "../x"}
    assert Policy().decide("read", "reads", outside, workspace) == Decision("ask")
    assert Policy(allow=["read"]).decide("grep", "reads", outside, workspace).decision == "allow"
    assert Policy().decide("foreign", "reads", {}, workspace) == Decision("ask")


# What is denied


def denied(rule: str, tool: str, arguments: dict[str, Any], workspace: Workspace) -> bool:
    """Tell whether a rule denies a call that everything else allows."""
    effect = "reads" if tool in {"read", "grep", "glob"} else "writes"
    policy = Policy("allow-all", ["read", "write", "edit", "grep", "glob", "bash"], [rule])
    decision = policy.decide(tool, effect, arguments, workspace)  # type: ignore[arg-type]
    assert decision.decision in {"allow", "deny"}
    assert decision.decision == "allow" or decision.rule == rule
    return decision.decision == "deny"


@pytest.mark.parametrize(
    ("rule", "tool", "expected"),
    [
        ("bash", "bash", True),
        ("Bash", "bash", True),
        ("bash", "write", False),
        ("write", "write", True),
        ("write", "edit", True),
        ("edit", "write", False),
        ("read", "read", True),
        ("read", "grep", True),
        ("read", "glob", True),
        ("server.tool", "server.tool", True),
        ("server.tool", "server.other", False),
    ],
)
def test_a_whole_tool_can_be_denied(workspace, rule, tool, expected):
    arguments = {"command": "ls", "path": "src/a", "pattern": "x"}
    assert denied(rule, tool, arguments, workspace) is expected


@pytest.mark.parametrize(
    ("rule", "tool", "path", "expected"),
    [
        ("read(.env)", "read", ".env", True),
        ("read(.env)", "read", "src/.env", True),
        ("read(.env)", "read", "src/.ENV", True),
        ("read(.env)", "read", "src/.envrc", False),
        ("read(.env)", "write", ".env", False),
        ("write(.env)", "edit", ".env", True),
        ("read(secrets)", "read", "secrets/a/b", True),
        ("read(secrets/)", "read", "src/secrets/a", True),
        ("read(secrets/**)", "read", "secrets/a", True),
        ("read(secrets/**)", "glob", "secrets", True),
        ("read(secrets/**)", "read", "src/secrets/a", False),
        ("read(secrets/*.pem)", "read", "secrets/a.pem", True),
        ("read(secrets/*.pem)", "read", "secrets/a.txt", False),
        ("read(secrets)", "read", "src/../secrets/a", True),
        ("read(secrets)", "read", "src/to-secrets/a", True),
        ("read(src/to-secrets)", "read", "src/to-secrets/a", False),
        ("read(/secrets)", "read", "secrets/a", True),
        ("read(**)", "read", "anything", True),
        ("write(.git)", "write", ".git/hooks/x", True),
        ("write(**)", "write", ".git/hooks/x", True),
        ("read(..x)", "read", "..x/a", True),
        ("read(a)", "read", "\0", False),
        ("read(/a)", "read", "\0", False),
        ("read(a)", "read", 7, False),
    ],
)
def test_denied_files_mean_the_real_path_and_what_is_below(workspace, rule, tool, path, expected):
    root = Path(workspace.root)
    (root / "secrets" / "a").mkdir(parents=True)
    (root / "src" / "to-secrets").symlink_to("../secrets")
    assert denied(rule, tool, {"path": path}, workspace) is expected


def test_denied_absolute_paths(workspace, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    beside = tmp_path / "beside"
    (beside / "keys").mkdir(parents=True)
    both = Workspace(tmp_path / "workspace", [beside])
    inside, key = {"path": "src/a"}, {"path": str(beside / "keys" / "a")}
    assert denied(f"read({tmp_path}/workspace/src/**)", "read", inside, both)
    assert denied(f"read({beside}/keys/**)", "read", key, both)
    assert denied("read(~/beside/**)", "read", key, both)
    assert denied("read(keys)", "read", key, both)
    # Folders above the workspace have names too, which a relative pattern does not mean.
    assert not denied(f"read({tmp_path.name})", "read", inside, both)
    assert not denied(f"read({str(tmp_path)[1:]}/**)", "read", inside, both)
    # What tools cannot reach is not even asked about.
    outside = {"path": "/etc/passwd"}
    assert Policy(deny=["read(/etc/**)"]).decide("read", "reads", outside, both) == Decision(
        "deny", "read(/etc/**)"
    )
    assert Policy(deny=["read(/opt/**)"]).decide("read", "reads", outside, both) == Decision("ask")


def test_a_search_that_would_look_into_a_denied_file_is_denied(workspace):
    root = Path(workspace.root)
    (root / "src" / "a.py").write_text("x")
    search = {"pattern": "x"}
    assert not denied("read(*.pem)", "grep", search, workspace)
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / "key.pem").write_text("secret")
    assert denied("read(*.pem)", "grep", search, workspace)
    assert denied("read(*.pem)", "grep", search | {"path": "deep"}, workspace)
    assert denied("grep(*.pem)", "grep", search | {"glob": "*.pem"}, workspace)
    assert denied("read(*.pem)", "grep", search | {"path": "deep/er/key.pem"}, workspace)
    # Not where the search does not come.
    assert not denied("read(*.pem)", "grep", search | {"path": "src"}, workspace)
    assert not denied("read(*.pem)", "grep", search | {"glob": "*.py"}, workspace)
    # Names may be listed, unless the rule is about just that.
    assert not denied("read(*.pem)", "glob", {"pattern": "**"}, workspace)
    assert denied("glob(*.pem)", "glob", {"pattern": "**"}, workspace)
    assert not denied("glob(*.pem)", "glob", {"pattern": "*.py"}, workspace)
    assert denied("glob(*.pem)", "glob", {"pattern": f"{root}/deep/**"}, workspace)
    # What .gitignore names is not searched.
    (root / ".gitignore").write_text("*.pem\n")
    assert not denied("read(*.pem)", "grep", search, workspace)


@pytest.mark.parametrize("text", ["bash(rm:*)", "bash(rm -rf /)", "Bash(a; b)", "bash()"])
def test_single_commands_cannot_be_denied(text):
    with pytest.raises(UsageError, match="written in many ways: deny bash as a whole"):
        Policy(deny=[text])


@pytest.mark.parametrize("text", ["", "read()", "other(x)", "(x)"])
def test_what_is_no_rule_cannot_deny(text):
    with pytest.raises(UsageError):
        parse_denial(text)


@pytest.mark.parametrize("mode", ["ask", "allow-all", "deny"])
def test_a_denial_wins_over_rules_modes_and_free_reads(workspace, mode):
    policy = Policy(mode, ["bash", "bash(ls:*)"], ["bash", "read(a)"])
    assert bash(policy, "ls", workspace) == Decision("deny", "bash")
    assert policy.decide("read", "reads", {"path": "a"}, workspace) == Decision("deny", "read(a)")
    assert policy.decide("read", "reads", {"path": "b"}, workspace) == Decision("allow", INSIDE)


# Modes


def test_modes(workspace):
    assert bash(Policy(), "make", workspace) == Decision("ask")
    assert bash(Policy("deny"), "make", workspace) == Decision("deny", "deny")
    assert bash(Policy("allow-all"), "ls; rm x", workspace) == Decision("allow", "allow-all")
    assert bash(Policy("deny", ["bash(ls:*)"]), "ls", workspace) == Decision("allow", "bash(ls:*)")
    foreign = Policy(allow=["server.tool-1"])
    decision = foreign.decide("server.tool-1", "unknown", {"path": "/x"}, workspace)
    assert decision == Decision("allow", "server.tool-1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(x)",
        "bash(",
        "bash)",
        "ba sh",
        "bash()",
        "bash(:*)",
        "bash(a; b)",
        "bash(git *)",
        "bash(A=1 git:*)",
        "write()",
        "write( )",
        "other(x)",
    ],
)
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(UsageError):
        Policy(allow=[text])


# The entry


def test_a_decision_is_bound_to_its_arguments():
    one = approval("c1", {"a": 1, "b": [True, None, "ä\ud800"]}, "allow", "bash")
    assert isinstance(one, Approval)
    assert (one.call_id, one.decision, one.rule) == ("c1", "allow", "bash")
    same = approval("c1", {"b": [True, None, "ä\ud800"], "a": 1}, "allow", "bash")
    assert one == same
    assert arguments_sha256({"a": 2}) != arguments_sha256({"a": 1})
    assert arguments_sha256({"a": "1"}) != arguments_sha256({"a": 1})
    assert len(arguments_sha256(None)) == 64


def test_numbers_that_python_cannot_hold_count_too():
    huge, other = msgspec.Raw(b"1" * 5000), msgspec.Raw(b"2" * 5000)
    assert arguments_sha256({"a": huge}) != arguments_sha256({"a": other})
    with pytest.raises(UsageError):
        arguments_sha256({"a": object()})


def test_a_name_that_no_file_can_have_is_not_denied_but_refused_by_the_tool(workspace):
    policy = Policy("allow-all", deny=["write(/etc/**)"])
    for path in ("\ud800", "\0", "../\ud800"):
        decision = policy.decide("write", "writes", {"path": path}, workspace)
        assert decision == Decision("allow", "allow-all")
