"""Everything a turn may need, imported before the first one.

A runner may live for days, and the installed package may be replaced or removed meanwhile: what is
imported late would then be missing, or of another version.
"""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import suppress

import holdfast

_OUTSIDE = ("holdfast.cli", "holdfast.tui", "holdfast.server", "holdfast.adapters")


def preload() -> None:
    """Import the whole package, but for what only clients need."""
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.startswith(_OUTSIDE) and module.name != "holdfast.__main__":
            with suppress(ImportError):  # an extra that is not installed
                importlib.import_module(module.name)
