"""One file of the configuration: found, read and checked.

Somebody else may have written it, so it is small, a regular file and, in a project, not reached
over a symbolic link: what is trusted is this project's file and no other. Whatever is wrong with it
is one sentence that names it.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.files import Files
from holdfast.runtime.config.settings import checked

FILE_NAME = "config.toml"
PROJECT_FOLDER = ".holdfast"
LARGEST_BYTES = 64 * 1024
MOST_DOTS = 200
"""How many dots a line may have. The time that a dotted key takes grows with their square."""

_PLACE = re.compile(r" \(at line (\d+), column \d+\)$")


class ConfigFile(Struct, frozen=True):
    """A file, its values by key, and the bytes that they were read from."""

    path: Path
    values: dict[str, Any]
    content: bytes = b""

    @property
    def shown(self) -> str:
        """Its path, as a terminal can be given it."""
        return shown(self.path)

    @property
    def root(self) -> Path:
        """The folder of the project, if it is a project's."""
        return self.path.parent.parent


def shown(path: Path | str) -> str:
    """Return a path that cannot move a terminal's cursor."""
    return "".join(each if each.isprintable() else "?" for each in str(path))


def user_file(folder: Path, home: Path, files: Files) -> ConfigFile:
    """Return the user's file; without values if there is none. It may be a symbolic link."""
    path = folder / FILE_NAME
    content = content_of(Path(os.path.realpath(path)), shown(path), files)
    return _read(path, content or b"", home, None)


def project_file(workspace: Path, home: Path, files: Files) -> ConfigFile | None:
    """Return a project's file, ``None`` if there is none.

    Raises:
        UsageError: there is no such workspace, or the file cannot be used.
    """
    for path in project_paths(workspace, files):
        _refuse_links(path, files)
        content = content_of(path, shown(path), files)
        if content is not None:
            return _read(path, content, home, path.parent.parent)
    return None


def project_paths(workspace: Path, files: Files) -> list[Path]:
    """Return where a project's file may be: in the workspace, and above it up to git's root.

    Raises:
        UsageError: there is no such workspace.
    """
    top = Path(os.path.realpath(workspace))
    if not top.is_dir():
        raise UsageError(f"There is no folder {shown(workspace)}.")
    found = []
    for folder in (top, *top.parents):
        found.append(folder / PROJECT_FOLDER / FILE_NAME)
        if _is_there(folder / ".git", files):
            return found
    return found[:1]


def _is_there(path: Path, files: Files) -> bool:
    try:
        return files.exists(path)
    except OSError:
        return False


def _refuse_links(path: Path, files: Files) -> None:
    for each in (path.parent, path):
        try:
            is_link = stat.S_ISLNK(files.status_of(each).st_mode)
        except OSError:
            return  # opening it says what there is to say
        if is_link:
            raise UsageError(
                f"{shown(each)} is a symbolic link. A project's configuration must be a regular "
                "file."
            )


def content_of(path: Path, name: str, files: Files) -> bytes | None:
    """Return what is in a file, ``None`` if there is none.

    Raises:
        UsageError: it cannot be read, or is no file of a few bytes; the sentence has ``name``.
    """
    try:
        descriptor = files.open_read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}.") from None
    try:
        status = files.status(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise UsageError(f"{name} is {kind}. A configuration must be a regular file.")
        if status.st_size > LARGEST_BYTES:
            raise UsageError(
                f"{name} has {status.st_size:,} bytes. A configuration may have at most "
                f"{LARGEST_BYTES:,}."
            )
        return files.read_at(descriptor, status.st_size, 0)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}.") from None
    finally:
        files.close(descriptor)


def _read(path: Path, content: bytes, home: Path, base: Path | None) -> ConfigFile:
    """Return a file's values; its folders are relative to ``base``, if it has one."""
    name = shown(path)
    values = checked(_table(content, name), name)
    if "folders" in values:
        values["folders"] = tuple(_absolute(each, home, base, name) for each in values["folders"])
    return ConfigFile(path, values, content)


def _absolute(folder: str, home: Path, base: Path | None, name: str) -> str:
    if folder == "~" or folder.startswith("~/"):
        return os.path.normpath(f"{home}{folder[1:]}")
    if base is None and not folder.startswith("/"):
        raise UsageError(
            f"{name}: folders: {folder!r} must begin with / or ~/, because it applies to every "
            "project."
        )
    return os.path.normpath((base or Path("/")) / folder)


def _table(content: bytes, name: str) -> dict[str, Any]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content.count(b"\n", 0, error.start)
        raise UsageError(
            f"{name}, line {before + 1}: this is not UTF-8. Save the file as UTF-8."
        ) from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MOST_DOTS:
            raise UsageError(
                f"{name}, line {number}: more than {MOST_DOTS} dots; write it in several lines."
            )
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UsageError(f"{name} is nested too deeply.") from None
    except ValueError as error:  # also numbers of thousands of digits
        said = str(error)
        place = _PLACE.search(said)
        where = f"line {place[1]}" if place else f"up to line {text.count(chr(10)) + 1}"
        reason = shown(_PLACE.sub("", said).removesuffix(" (at end of document)"))
        raise UsageError(f"{name}, {where}: this is not TOML: {reason}.") from None
