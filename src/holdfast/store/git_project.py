"""Which project a folder belongs to, so that sessions survive a move of the folder.

A git repository is known by its first remote (without credentials), else by its root commit. A
folder outside any repository is its own path only.

The folder may be anybody's. What is read of it are files of a sensible size and nothing else, and
git is asked in a way that its configuration cannot make it run or fetch anything, without whatever
secrets are in this process's environment.
"""

from __future__ import annotations

import configparser
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.files import Files
from holdfast.store.programs import find_program, path_outside

if TYPE_CHECKING:
    from collections.abc import Iterator

_GIT_TIMEOUT_SECONDS = 2.0
_GIT_OPTIONS = ("protocol.allow=never", "core.fsmonitor=false", "core.hooksPath=/dev/null")
_GIT_NEEDS = ("HOME", "XDG_CONFIG_HOME", "TMPDIR", "LANG", "LC_ALL")
_LARGEST_FILE_BYTES = 1024 * 1024
_files = Files()
_HOST = re.compile(r"([\w.-]+|\[[\da-fA-F:.]+\])(?::\d*)?")
_END = re.compile(r"[\s\"?#;]")  # a quote, a comment, or a query that may hold a token


def workspace_path(folder: str | os.PathLike[str]) -> str:
    """Return a workspace as it is recorded: absolute, symbolic links resolved."""
    try:
        return os.path.realpath(os.fsdecode(folder))
    except (TypeError, ValueError):
        raise UsageError(f"{folder!r} is not the path of a folder.") from None


def project_of(workspace: str) -> str | None:
    """Return the identity of the project that a folder belongs to, ``None`` if it has none."""
    return next(project_names(workspace), None)


def project_names(workspace: str) -> Iterator[str]:
    """Yield every identity under which sessions of this project may be recorded.

    A repository gets a remote at some point of its life: sessions from before are found by its
    root commit.
    """
    git_folder = _git_folder(Path(workspace))
    if git_folder is not None:
        remote = _remote(git_folder)
        if remote:
            yield f"git:{remote}"
        root = _root_commit(workspace)  # asks git, so only if somebody wants more than the first
        if root:
            yield f"git:{root}"


def _git_folder(folder: Path) -> Path | None:
    for candidate in (folder, *folder.parents):
        git = candidate / ".git"
        try:
            if git.is_dir():
                return git
            if git.is_file():  # a worktree or submodule: one line that says where
                return _common_folder(candidate / _text(git).partition(": ")[2].strip())
        except (OSError, ValueError):
            return None
    return None


def _common_folder(git_folder: Path) -> Path:
    common = git_folder / "commondir"
    return git_folder / _text(common).strip() if common.is_file() else git_folder


def _text(path: Path) -> str:
    """Return what a file says; a pipe is not waited for, and nothing endless is read.

    Raises:
        OSError, ValueError: it is no such file.
    """
    descriptor = _files.open_read(os.path.realpath(path))
    try:
        if not stat.S_ISREG(_files.status(descriptor).st_mode):
            raise ValueError(f"{path} is not a file")
        data = _files.read_at(descriptor, _LARGEST_FILE_BYTES + 1, 0)
    finally:
        _files.close(descriptor)
    if len(data) > _LARGEST_FILE_BYTES:
        raise ValueError(f"{path} is too large")
    return data.decode()


def _remote(git_folder: Path) -> str | None:
    parser = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        parser.read_string(_text(git_folder / "config"))
    except (OSError, ValueError, configparser.Error):
        return None
    remotes = [name for name in parser.sections() if name.startswith('remote "')]
    remotes.sort(key=lambda name: name != 'remote "origin"')
    for remote in remotes:
        place = _place(parser[remote].get("url") or "")
        if place is not None:
            return place
    return None


def _place(url: str) -> str | None:
    """Return host and path of a remote, without credentials; ``None`` for a local folder."""
    word = _END.split(url.strip().strip('"'), maxsplit=1)[0]
    scheme, is_url, rest = word.partition("://")
    if is_url:
        authority, _, path = rest.partition("/")
    else:
        authority, _, path = scheme.partition(":")  # me@host:path, as ssh has it
    host = _HOST.fullmatch(authority.rpartition("@")[2])
    path = path.strip("/").removesuffix(".git")
    return f"{host[1].lower()}/{path}" if host and path else None


def _root_commit(workspace: str) -> str | None:
    said = ask_git(workspace, "rev-list", "--max-parents=0", "HEAD")
    roots = (said or b"").decode("ascii", "replace").split()
    return min(roots) if roots else None


def ask_git(folder: str, *words: str) -> bytes | None:
    """Return what a command of git prints about a folder; ``None`` if it fails or takes too long.

    Nothing that the repository's configuration says is run, and nothing is fetched.
    """
    git = find_program("git", [folder])
    if git is None:
        return None
    options = [word for option in _GIT_OPTIONS for word in ("-c", option)]
    # Nor what begins with GIT_: inside a git hook it names the hook's repository.
    environment = {name: os.environ[name] for name in _GIT_NEEDS if name in os.environ}
    environment |= {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": ""}
    environment["PATH"] = path_outside([folder])
    try:
        done = subprocess.run(  # noqa: S603  fixed words, and a folder as one argument
            [git, *options, "-C", folder, *words],
            capture_output=True,
            timeout=_GIT_TIMEOUT_SECONDS,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
