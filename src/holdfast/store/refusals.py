"""What the operating system says, as errors of ours."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.errors import DiskFull, SessionNotFound, StorageError
from holdfast.journal.files import NO_ROOM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def os_errors(what: str, where: Path) -> Iterator[None]:
    """Turn what the operating system says in a ``with`` block into an error of ours."""
    try:
        yield
    except FileNotFoundError:
        raise SessionNotFound(
            f"{where} has no journal: it is not a session, or was just deleted."
        ) from None
    except OSError as error:
        if error.errno in NO_ROOM:
            raise DiskFull(where, ()) from error
        raise StorageError(f"{what}: {error}.") from error
    except ImportError as error:  # a module that is imported late needs descriptors, too
        raise StorageError(f"{what}: {error}.") from error
