"""Programs that a layer needs, installed where that is allowed.

What was not found is looked for again: another process may be installing it
at this moment. Programs are looked for on the ``PATH``, which a test may have changed,
and where systems keep them (``sbin`` is on no ordinary user's path).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import gettempdir

_PLACES = ("/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin", "/bin", "/sbin")
_LONGEST_WAIT_SECONDS = 300
# Whatever else installs something, a machine that has just started for example, ends some time.
_PATIENT = ("-o", f"DPkg::Lock::Timeout={_LONGEST_WAIT_SECONDS}")
_said: dict[str, str] = {}  # by apt-get, of each program that it was asked for


def found(program: str) -> str | None:
    """Return where a program is, ``None`` if it is not there now."""
    return shutil.which(program) or shutil.which(program, path=os.pathsep.join(_PLACES))


def provided(program: str, *packages: str) -> bool:
    """Tell whether a program is there, after one attempt to install the packages that have it."""
    may_install = os.geteuid() == 0 and found("apt-get") is not None
    if found(program) is None and may_install and program not in _said:
        # apt refuses to run twice at once, and tests in other processes may need packages, too.
        with (Path(gettempdir()) / "holdfast-crash-packages.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _said[program] = _install(program, packages)
    return found(program) is not None


def why_missing(program: str) -> str:
    """Say why a program that ``provided`` did not find is not there."""
    said = _said.get(program)
    return "it may not be installed here" if said is None else f"apt-get says: {said[-300:]}"


def _install(program: str, packages: tuple[str, ...]) -> str:
    """Install packages; return what the last step said of it."""
    said = ""
    # A fresh machine may have no list of packages yet, or an old one.
    for step in (["install"], ["update"], ["install"]):
        if found(program) is None:
            names = ["--no-install-recommends", *packages] if step == ["install"] else []
            done = subprocess.run(
                [found("apt-get") or "apt-get", "-y", "-qq", *_PATIENT, *step, *names],
                check=False,
                capture_output=True,
                text=True,
                errors="replace",
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )
            said = done.stderr.strip()
    return said
