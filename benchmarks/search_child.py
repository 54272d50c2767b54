"""The process that the search benchmark starts: builds the index, searches once.

Arguments: home, word. Imports as little as it can, because its memory is measured. Prints seconds
and peak bytes.
"""

from __future__ import annotations

import sys
import time

import holdfast
from benchmarks.resume_child import peak_bytes


def main(home: str, word: str) -> None:
    """Do it once."""
    store = holdfast.open_store(home)
    began = time.perf_counter()
    assert store.search(word)
    print(time.perf_counter() - began, peak_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
