"""Files that other programs run by themselves: whoever changes one decides what is run.

A file counts if a program runs it, or a command in it, while the user does something else: uses
git, opens the folder in an editor, enters it, starts a shell or another agent. Build files, tests
and what a CI server runs do not count: they are run when the user asks for it or after a push.

Names count at every depth. They are compared as a file system could take them that does not tell
capitals from small letters, drops trailing dots, ignores invisible characters (HFS+), or has short
names such as ``GIT~1``. The repository's own folder is also known by what is in it, wherever it is,
and hooks and scripts that git's configuration names count as well. Links and ``..`` have been
resolved before: a ``WorkspacePath`` is a real path.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator

from holdfast.runtime.tools.workspace import WorkspacePath
from holdfast.store.git_project import ask_git

AUTORUN = "other programs run this file by themselves"
"""How every question and refusal about such a file begins."""

# By the program that runs them. A name with a slash is a folder in a folder.
_FOLDERS = {
    "git": ".git .husky .githooks .lefthook .config/git",
    "mercurial": ".hg .config/hg",
    "jujutsu": ".jj .config/jj",
    "sapling": ".sl .config/sapling",
    "darcs": "_darcs",
    "pijul": ".pijul .config/pijul",
    "an editor": ".vscode .vs .theia .idea .zed .fleet .devcontainer .helix .nvim .vim .emacs.d "
    ".config/nvim .config/zed .config/helix .config/emacs",
    "a coding agent": ".holdfast .claude .cursor .codex .gemini .opencode .kiro .continue "
    ".windsurf .roo",
    "a shell": ".config/fish .config/mise .mise",
    "python": ".ipython",
    "ssh": ".ssh",
    "the desktop": ".config/autostart .config/systemd .config/environment.d library/launchagents",
}
_FILES = {
    "git": ".gitconfig .gitmodules .gitattributes .pre-commit-config.yaml .pre-commit-config.yml "
    "lefthook.yml lefthook.yaml lefthook.toml lefthook.json lefthook-local.yml .lefthook.yml "
    ".lefthook.yaml .lefthook-local.yml .overcommit.yml",
    "mercurial": ".hgrc",
    "jujutsu": ".jjconfig.toml",
    "perforce": ".p4config",
    "an editor": ".exrc .vimrc .gvimrc .nvimrc .nvim.lua .lvimrc .emacs .dir-locals.el "
    ".dir-locals-2.el .devcontainer.json",
    "a coding agent": ".mcp.json .aider.conf.yml",
    "a shell": ".envrc .autoenv .bashrc .bash_profile .bash_login .bash_logout .bash_aliases "
    ".profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .logout "
    ".inputrc .mise.toml mise.toml .mise.local.toml mise.local.toml",
    "the desktop": ".xprofile .xinitrc .xsession .xsessionrc .pam_environment",
    "python": "sitecustomize.py usercustomize.py .pdbrc",
    "an interpreter started here": ".irbrc .pryrc .rprofile .ghci .ocamlinit .iex.exs .gdbinit "
    ".lldbinit .perldb",
}
_REPOSITORIES = frozenset({".git", ".hg", ".jj", ".sl", ".pijul", "_darcs"})
_SUFFIXES = {".code-workspace": "an editor", ".pth": "python"}

_IGNORED_BY_HFS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_SHORT_NAME = re.compile(r"(.{1,6})~\d+(?:\..*)?")
_SHORT_LENGTH = 6
# A folder is a repository's own if it has the first of these, and any of the others.
_GIT_HEAD = "head"
_GIT_PARTS = frozenset({"objects", "refs", "commondir", "config", "hooks"})
_GIT_RUNS = re.compile(
    r"alias\..*|.*\.(?:hookspath|fsmonitor|sshcommand|gitproxy|askpass|editor|external|textconv|"
    r"clean|smudge|process|driver|program|helper|cmd|command|uploadpack|receivepack)"
    r"|pager\..*|.*\.pager|.*\.alternaterefscommand"
)


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: by for by, names in table.items() for name in names.split()}


_RUNNERS = _by_name(_FOLDERS)
_RUNNERS_OF_FILES = _by_name(_FILES)


def run_by(place: WorkspacePath) -> str | None:
    """Return which program runs the file at a place by itself, ``None`` if none is known; blocks.

    The file need not be there yet.
    """
    for part in place.path.split("/"):  # also above the workspace: all of it belongs to it
        if (name := _plain(part)) in _REPOSITORIES:
            return _RUNNERS[name]
    *folders, name = (_plain(part) for part in _considered(place))
    for index, folder in enumerate(folders):
        for known in (folder, "/".join(folders[index : index + 2])):
            if known in _RUNNERS:
                return _RUNNERS[known]
    if name in _RUNNERS_OF_FILES or name in _RUNNERS:  # the folder's name may be given to a file
        return _RUNNERS_OF_FILES.get(name) or _RUNNERS[name]
    for suffix, program in _SUFFIXES.items():
        if name.endswith(suffix):
            return program
    if _is_in_git_folder(place.path) or _is_named_by_git(place.path):
        return "git"
    return None


def sentence(place: WorkspacePath) -> str | None:
    """Return the clause for people that says so; ``None`` if no program is known to run it."""
    program = run_by(place)
    return None if program is None else f"{AUTORUN} ({program})"


def _considered(place: WorkspacePath) -> list[str]:
    """Return the parts of a path whose names count: below the top of the repository around it.

    Without a repository the workspace's own name counts, but nothing above it.
    """
    folder = place.root
    while folder != "/":
        if os.path.lexists(f"{folder}/.git"):
            break
        folder = _parent(folder)
    else:
        folder = _parent(place.root)
    return place.path[len(folder.rstrip("/")) + 1 :].split("/")


def _plain(part: str) -> str:
    """Return a name as the least exact file system takes it; a short name as the long one."""
    name = _IGNORED_BY_HFS.sub("", unicodedata.normalize("NFKC", part)).partition(":")[0]
    name = name.rstrip(". ").casefold() or part
    if short := _SHORT_NAME.fullmatch(name):
        for known in (*_RUNNERS, *_RUNNERS_OF_FILES):
            if known.lstrip(".").partition(".")[0][:_SHORT_LENGTH] == short[1]:
                return known
    return name


def _is_in_git_folder(path: str) -> bool:
    """Tell whether a file is in a repository's own folder, or would make its folder one."""
    below = path
    for folder in _above(path):
        added = below[len(folder.rstrip("/")) + 1 :].partition("/")[0].casefold()
        below = folder
        if added == _GIT_HEAD or os.path.lexists(f"{folder}/HEAD"):
            has = {part for part in _GIT_PARTS if os.path.lexists(f"{folder}/{part}")}
            if has or added in _GIT_PARTS:
                return True
    return False


def _is_named_by_git(path: str) -> bool:
    """Tell whether git's configuration names a file: as configuration, a hook or a command."""
    for top in _above(path):
        if os.path.lexists(f"{top}/.git"):
            said = ask_git(top, "config", "--list", "--show-origin", "-z") or b""
            fields = os.fsdecode(said).split("\0")
            for origin, setting in zip(fields[::2], fields[1::2], strict=False):
                if origin.startswith("file:") and _names(path, top, origin[5:], setting):
                    return True
    return False


def _names(path: str, top: str, origin: str, setting: str) -> bool:
    if _resolved(top, origin.strip('"')) == path:
        return True
    key, _, value = setting.partition("\n")
    if not _GIT_RUNS.fullmatch(key.lower()):
        return False
    named = (_resolved(top, word.strip("\"'!")) for word in (value, *value.split()))
    return any(f"{path}/".startswith(f"{each}/") for each in named if each != os.path.realpath(top))


def _resolved(top: str, name: str) -> str:
    try:
        return os.path.realpath(os.path.join(top, os.path.expanduser(name)))  # noqa: PTH111, PTH118  text
    except ValueError:  # no file can have such a name
        return ""


def _above(path: str) -> Iterator[str]:
    """Yield the folders that a file is in, the nearest first."""
    while path != "/":
        path = _parent(path)
        yield path


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
