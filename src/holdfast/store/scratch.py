"""Where temporary folders of this machine are."""

from __future__ import annotations

import os
from pathlib import Path


def scratch_root() -> Path:
    """Return the folder for temporary folders: ``TMPDIR`` if that is a folder, else ``/tmp``."""
    given = Path(os.environ.get("TMPDIR", ""))
    return given if given.is_absolute() and given.is_dir() else Path("/tmp")  # noqa: S108  0700
