"""Programs that a layer needs, installed where that is allowed."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache


@cache
def provided(program: str, *packages: str) -> bool:
    """Tell whether a program is there, after an attempt to install the packages that have it."""
    if shutil.which(program) is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
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
    return shutil.which(program) is not None
