"""Deliberate defects of the program, each of which the laboratory must catch.

One module a mutant. Its docstring says what is wrong and what it would cost; ``CAUGHT_BY`` names
the layers that must notice, the quickest first; ``VARIANT`` the variant of the scenario (or the
kind of case) that comes across it, if it is not the main one; ``apply()`` puts the defect into the
running program, by replacing what it is about in the file-system seam or in a module.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def names() -> list[str]:
    """Return the names of all mutants."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    """Return a mutant's module."""
    return importlib.import_module(f"{__name__}.{name}")


def variant_of(name: str | None) -> str:
    """Return the variant of the scenario that a mutant is hunted in."""
    return "one" if name is None else getattr(load(name), "VARIANT", "one")


def apply(name: str) -> None:
    """Give this process the defect."""
    load(name).apply()
