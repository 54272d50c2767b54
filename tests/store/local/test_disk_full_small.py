"""A nearly full disk: what there is room for is written, in order."""

from __future__ import annotations

import errno
import os

import holdfast
from holdfast import user
from tests.fakes import FakeFiles


class FakeSmallFiles(FakeFiles):
    """A disk with room for no more than some bytes at a time."""

    most_bytes: int | None = None

    def write(self, descriptor: int, data: bytes) -> int:
        if self.most_bytes is not None and len(data) > self.most_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(descriptor, data)


def test_a_small_entry_does_not_wait_for_a_large_one(home, eventually):
    files = FakeSmallFiles()
    store = holdfast.open_store(home, files=files)
    session = store.create()
    session.append(user("a"))
    files.most_bytes = 0
    small = session.submit(user("small"))
    eventually(lambda: isinstance(session.trouble, holdfast.DiskFull))
    large = session.submit(user("x" * 50_000))
    files.most_bytes = 1000
    eventually(lambda: small.done)
    assert not large.done
    eventually(lambda: isinstance(session.trouble, holdfast.DiskFull))
    assert [message.text for message in session.messages] == ["a", "small"]
    files.most_bytes = None
    eventually(lambda: large.done)
    store.close()
    assert [len(m.text) for m in store.open(session.id, "read").messages] == [1, 5, 50_000]
    assert store.verify(session.id).ok
