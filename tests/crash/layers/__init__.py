"""The layers, in the order in which they run. Letters are those of the durability report."""

from __future__ import annotations

import importlib
import pkgutil

from tests.crash.lab.layer import Layer

LAYERS: dict[str, type[Layer]] = {}


def _register() -> None:
    for found in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        module = importlib.import_module(f"{__name__}.{found.name}")
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, Layer)
                and value.__module__ == module.__name__
                and "letter" in vars(value)
            ):
                LAYERS[value.letter] = value


_register()
