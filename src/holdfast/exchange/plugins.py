"""Parts that are chosen by name: the built-in ones, and those that other packages register.

A package adds its own through an entry point of the group, whose name is that of the part and whose
value is a class without parameters (or a function that returns the part). None is loaded before it
is needed. A built-in name cannot be taken over.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from holdfast.errors import UsageError


class Registry:
    """All parts of a kind. ``built_in`` maps names to ``module:class`` (in ``package``)."""

    def __init__(self, kind: str, package: str, built_in: Mapping[str, str]) -> None:
        self._kind = kind
        self._package = package
        self._built_in = built_in

    @property
    def group(self) -> str:
        """The group of entry points."""
        return f"holdfast.{self._kind}s"

    def names(self) -> list[str]:
        """Return all names, built-in ones first."""
        return [*self._built_in, *sorted(set(self._registered()) - set(self._built_in))]

    def load(self, name: str) -> Any:
        """Load one of them.

        Raises:
            UsageError: there is none of that name, or it cannot be loaded.
        """
        if name in self._built_in:
            module, _, made = self._built_in[name].partition(":")
            full = module if "." in module else f"{self._package}.{module}"
            return getattr(importlib.import_module(full), made)()
        point = self._registered().get(name)
        if point is None:
            near = difflib.get_close_matches(name, self.names(), 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(
                f"There is no {self._kind} {name!r}.{hint} Available: {', '.join(self.names())}."
            )
        try:
            return point.load()()
        except Exception as error:  # other people's code, loaded by name: any error is theirs
            raise UsageError(
                f"The {self._kind} {name!r} ({point.value}) cannot be loaded: {error}."
            ) from error

    def _registered(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}
