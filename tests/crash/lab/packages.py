"""Programs that a layer needs, installed where that is allowed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import gettempdir


@cache
def provided(program: str, *packages: str) -> bool:
    """Tell whether a program is there, after an attempt to install the packages that have it."""
    if shutil.which(program) is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        # apt refuses to run twice at once, and tests in other processes may need packages, too.
        with (Path(gettempdir()) / "holdfast-crash-packages.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _install(program, packages)
    return shutil.which(program) is not None


def _install(program: str, packages: tuple[str, ...]) -> None:
    # A fresh machine may have no list of packages yet, or an old one.
    for step in (["install"], ["update"], ["install"]):
        if shutil.which(program) is None:
            names = ["--no-install-recommends", *packages] if step == ["install"] else []
            subprocess.run(
                ["apt-get", "-y", "-qq", *step, *names],
                check=False,
                capture_output=True,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )
