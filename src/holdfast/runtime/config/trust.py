"""Which projects' files the user trusts.

Trust is bound to the path of a file and to the SHA-256 of its content: a file that was changed, or
copied elsewhere, is not the one that was trusted. It is kept in the home, ``trust.json``, where no
project can write it.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Literal

from holdfast.files import Files
from holdfast.runtime.config.private_file import PrivateFile

TRUST_NAME = "trust.json"
Standing = Literal["trusted", "changed", "unknown"]
"""``changed``: the file was trusted with another content."""


class Trust:
    """What is trusted in one home. Everything here blocks."""

    def __init__(self, home: Path, files: Files | None = None) -> None:
        self._file = PrivateFile(home / TRUST_NAME, files)

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return self._file.path

    def standing(self, path: Path, content: bytes) -> Standing:
        """Say whether a file with this content is trusted; ``path`` has no symbolic links."""
        known = self._file.read().get(str(path))
        if known is None:
            return "unknown"
        return "trusted" if known == digest(content) else "changed"

    def add(self, path: Path, content: bytes) -> None:
        """Trust a file with this content, and with no other any more."""
        with self._file.changing() as known:
            known[str(path)] = digest(content)

    def remove(self, path: Path) -> bool:
        """Take trust back; tell whether there was any."""
        if str(path) not in self._file.read():
            return False
        with self._file.changing() as known:
            return known.pop(str(path), None) is not None

    def known(self) -> dict[Path, str]:
        """Return what is trusted: paths, and the hashes of their content."""
        return {Path(path): known for path, known in sorted(self._file.read().items())}


def digest(content: bytes) -> str:
    """Return the hash that trust is bound to."""
    return sha256(content).hexdigest()
