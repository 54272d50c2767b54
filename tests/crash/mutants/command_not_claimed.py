"""A command runs before anything says so: if its wrapper dies, it is said that it never ran."""

from __future__ import annotations

from holdfast.runtime.tools.shell import bash

CAUGHT_BY = ("G",)
VARIANT = "strike"
_MAIN = b'if __name__ == "__main__":'


def apply() -> None:
    source = bash._WRAPPER.source
    assert source.count(_MAIN) == 1
    bash._WRAPPER.source = source.replace(_MAIN, b"claim = lambda folder, content: None\n" + _MAIN)
