"""Whether logging out ends a user's processes here, and what to do about it."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from holdfast.runtime.config.secret_variables import without_secrets
from holdfast.store.programs import find_program

_SYSTEMD = Path("/run/systemd/system")
_LINGERS = Path("/var/lib/systemd/linger")
_ASK = (
    "busctl",
    "get-property",
    "org.freedesktop.login1",
    "/org/freedesktop/login1",
    "org.freedesktop.login1.Manager",
    "KillUserProcesses",
    "KillOnlyUsers",
    "KillExcludeUsers",
)
_ASK_SECONDS = 5.0


class Logout(Struct, frozen=True):
    """What a logout does: ``kills`` all that the user runs, unless the user ``lingers``."""

    kills: bool = False
    lingers: bool = False

    @property
    def prefix(self) -> list[str]:
        """The words that put a process where a logout does not reach it, if there are any."""
        if self.kills and self.lingers:
            return ["systemd-run", "--user", "--scope", "--quiet", "--collect"]
        return []

    @property
    def warning(self) -> str | None:
        """What a user has to know before the first prompt."""
        if not self.kills or self.lingers:
            return None
        return (
            "logging out ends all your processes here, also turns in the background; "
            "to keep them running: loginctl enable-linger"
        )

    @property
    def fallen_back(self) -> str:
        """What a user has to know where those words did not work."""
        return (
            "the runner could not be started with systemd-run, so logging out ends it, also turns "
            "in the background; to see why: systemd-run --user --scope true"
        )


def of_this_user(
    systemd: Path = _SYSTEMD, lingers: Path = _LINGERS, *, avoid: Iterable[str] = ()
) -> Logout:
    """Ask logind; blocks. Where there is no systemd, nothing ends at a logout.

    The program that asks is not taken from the folders to ``avoid``.
    """
    if not systemd.is_dir() or not os.environ.get("XDG_SESSION_ID"):
        return Logout()
    asking = find_program(_ASK[0], avoid)
    if asking is None:
        return Logout()
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
        answer = subprocess.run(  # noqa: S603  fixed words
            [asking, *_ASK[1:]],
            capture_output=True,
            text=True,
            timeout=_ASK_SECONDS,
            check=False,
            env=without_secrets(os.environ),
        )
    except (OSError, subprocess.SubprocessError, KeyError):
        return Logout()
    kills = _kills(answer.stdout, name)
    return Logout(kills, kills and (lingers / name).exists())


def _kills(answer: str, name: str) -> bool:
    """Tell what logind's answer, a line a property, means for a user."""
    kills, only, exempt = (*answer.splitlines(), "", "", "")[:3]
    chosen = only.split()[2:]  # as 2 "somebody" "else"
    return (
        kills.strip() == "b true"
        and (not chosen or f'"{name}"' in chosen)
        and f'"{name}"' not in exempt.split()[2:]
    )
