"""Check what runners left in the home folder; the store checks its own files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from holdfast.files import Files
from holdfast.runtime.protocol.socket_path import listens, run_folder
from holdfast.store.doctor.findings import Finding, finding
from holdfast.store.doctor.home_scan import Fixer


def check_sockets(home: Path, *, fix: bool) -> Iterator[Finding]:
    """Yield the sockets of runners that have exited; with ``fix`` they are removed."""
    files, folder = Files(), run_folder(home)
    remedies = Fixer(files, wanted=fix)
    try:
        entries = sorted(files.folders(folder), key=lambda each: each.name)
    except OSError as error:
        yield finding("closed", folder, f"cannot be read: {error.strerror}")
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.name.endswith(".sock") and not listens(path):
            found = finding("socket", path, "the socket of a runner that has exited")
            yield remedies.done(found, partial(files.unlink, path))
