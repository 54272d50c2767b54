"""Every error that Holdfast raises on purpose.

    HoldfastError
    ├── UsageError                      the call itself is wrong; nothing was changed
    │   ├── ForeignSession(session, source, action, acts)  recorded elsewhere, not accepted here
    │   └── IdConflict(id, seq)         the id belongs to an entry with other content
    ├── StorageError
    │   ├── SessionNotFound
    │   ├── SessionExists
    │   ├── SessionLocked(holder)       somebody else is writing to it
    │   ├── HeadMoved(expected, head)   the branch was continued meanwhile; nothing was appended
    │   ├── WriteFailed(last_durable)   the promise broke; the session is read-only from here on
    │   ├── DiskFull(pending)           accepted; written by itself as soon as there is room
    │   ├── DamagedJournal(path, offset, kind)
    │   └── FormatTooNew(found, supported)
    ├── ImportRejected(source, line, reason)
    └── ProviderError(retryable)
        ├── ConnectFailed
        ├── TimedOut
        ├── BadStatus(status)
        │   └── KeyRefused              who asks is not known, or may not
        ├── EmptyReply
        └── ProviderUnavailable         it cannot even be asked: no key, no package, no address

A message is one sentence for a person: what happened, where, what to do next. Whatever a program
might want to branch on is a typed attribute. ``exit_code`` is what the command line exits with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any, Self

    from holdfast.model.lock_holder import Holder


_MOST_ACTS = 5


class HoldfastError(Exception):
    """Root of the tree: catch this to catch everything Holdfast reports."""

    exit_code: int = 1

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[Any, ...], dict[str, Any]]:
        """Pickle the message and the attributes, whatever the constructor takes.

        The default would call the constructor with the message alone, and a worker process that
        reports such an error takes its whole pool down.
        """
        return type(self).__new__, (type(self), *self.args), self.__dict__


class UsageError(HoldfastError):
    """The call cannot be carried out as asked. Nothing was changed."""

    exit_code = 2


class ForeignSession(UsageError):
    """What was asked for would carry out something that a session from elsewhere recorded.

    Attributes:
        session: the id of the session.
        source: how it got here, as the end of a sentence.
        action: what was asked for, such as ``"continue its turn"``.
        acts: what that would do here, one line for each command, prompt or file.
        folder: where it would be done.
    """

    def __init__(
        self, session: str, source: str, action: str, acts: tuple[str, ...], folder: str | None
    ) -> None:
        shown = ", ".join(acts[:_MOST_ACTS])
        more = f" and {len(acts) - _MOST_ACTS} more" if len(acts) > _MOST_ACTS else ""
        where = "" if folder is None else f" in {folder}"
        super().__init__(
            f"Session {session} was {source}. To {action}{where} would act on what is recorded "
            f"there: {shown}{more}. Nothing was done. Accept the session with: "
            f"holdfast trust {session} (or add --trust)."
        )
        self.session = session
        self.source = source
        self.action = action
        self.acts = acts
        self.folder = folder


class IdConflict(UsageError):
    """The id of an append belongs to another entry. Nothing was appended.

    Attributes:
        id: the id.
        seq: number of the entry that has it, ``None`` if it is not durable yet.
    """

    def __init__(self, id: str, seq: int | None, *, misplaced: bool = False) -> None:
        entry = "an entry that is being written" if seq is None else f"entry {seq}"
        reason = (
            "while ids before it in the list are new"
            if misplaced
            else "which has other content: use another id"
        )
        super().__init__(f"The id {id!r} belongs to {entry}, {reason}. Nothing was appended.")
        self.id = id
        self.seq = seq


class StorageError(HoldfastError):
    """Something about a session on disk."""


class SessionNotFound(StorageError):
    """No session answers to that id, part of an id, path or key."""


class SessionExists(StorageError):
    """The place of a new session is taken. Nothing was appended."""


class SessionLocked(StorageError):
    """Another writer holds the session.

    Attributes:
        holder: who: process id, host and since when, as far as the lock file tells.
    """

    exit_code = 75

    def __init__(self, session: str, holder: Holder) -> None:
        super().__init__(
            f"Session {session} is being written by {holder}: "
            "open it for reading only, fork it, or wait until that process lets go."
        )
        self.session = session
        self.holder = holder


class HeadMoved(StorageError):
    """The head is not the entry that ``expect_head`` names. Nothing was appended.

    Attributes:
        expected: number of the entry that was expected, ``None`` for an empty branch.
        head: number of the last entry of the branch, ``None`` if the branch is empty.
    """

    exit_code = 75

    def __init__(self, expected: int | None, head: int | None) -> None:
        names = ["an empty branch" if seq is None else f"entry {seq}" for seq in (expected, head)]
        super().__init__(
            f"The head is {names[1]}, not {names[0]}: the branch was continued meanwhile. "
            "Nothing was appended; read what is new and decide again."
        )
        self.expected = expected
        self.head = head


class WriteFailed(StorageError):
    """The journal cannot be written any more; what was acknowledged is safe.

    Unless somebody else has deleted, replaced or changed the journal: then it ``may_be_gone``.

    Attributes:
        last_durable: sequence number of the last acknowledged entry, ``None`` if there is none.
        may_be_gone: whether what was acknowledged may not be there any more.
    """

    exit_code = 74

    def __init__(self, reason: str, last_durable: int | None, *, may_be_gone: bool = False) -> None:
        if may_be_gone:
            rest = (
                "what was written may be gone, the session is read-only now and can still be "
                "exported from memory: export it now"
            )
        else:
            safe = (
                "nothing was saved yet"
                if last_durable is None
                else f"everything up to entry {last_durable} is safe"
            )
            rest = f"{safe}, the session is read-only now and can still be exported"
        super().__init__(f"{reason}; {rest}.")
        self.last_durable = last_durable
        self.may_be_gone = may_be_gone


class DiskFull(StorageError):
    """There is no room. The entries keep their numbers and are written as soon as there is.

    Attributes:
        pending: sequence numbers of the entries that wait, in order.
        cause: what the operating system said, if it is something else that ran out.
    """

    exit_code = 75

    def __init__(
        self, path: Path | str, pending: tuple[int, ...], cause: str | None = None
    ) -> None:
        count = len(pending)
        super().__init__(
            f"No room to write {path}{f' ({cause})' if cause else ''}: "
            f"{count} {'entry waits' if count == 1 else 'entries wait'} in memory and will be "
            f"written as soon as {'this is over' if cause else 'space is freed'}; "
            "do not end this process."
        )
        self.pending = pending
        self.cause = cause


class DamagedJournal(StorageError):
    """A journal of which nothing can be read.

    Damage that leaves something readable is a report (``session.recovery``), not this.

    Attributes:
        path: the file.
        offset: where reading stopped, in bytes.
        kind: one word for a program, such as ``"empty"`` or ``"not a journal"``.
    """

    exit_code = 65

    def __init__(self, path: Path | str, offset: int, kind: str) -> None:
        super().__init__(
            f"{path} cannot be read as a journal ({kind} at byte {offset}); it was left as it is."
        )
        self.path = path
        self.offset = offset
        self.kind = kind


class FormatTooNew(StorageError):
    """The journal uses something this version does not know and must not write after.

    Attributes:
        found: what the journal says it needs.
        supported: the newest format this version writes.
    """

    exit_code = 65

    def __init__(self, found: str, supported: int) -> None:
        super().__init__(
            f"This session needs {found}, this version of Holdfast knows format {supported}: "
            "it can be read but not written; update Holdfast."
        )
        self.found = found
        self.supported = supported


class ImportRejected(HoldfastError):
    """A foreign file could not be imported.

    Attributes:
        source: the file.
        line: its line, counted from 1, or ``None``.
        reason: why, as a clause.
    """

    exit_code = 65

    def __init__(self, source: Path | str, line: int | None, reason: str) -> None:
        where = source if line is None else f"{source}:{line}"
        super().__init__(f"{where} was not imported: {reason}.")
        self.source = source
        self.line = line
        self.reason = reason


class ProviderError(HoldfastError):
    """A model provider did not answer as it should.

    Attributes:
        retryable: whether the same request may succeed later.
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class ConnectFailed(ProviderError):
    """No connection to the provider."""


class TimedOut(ProviderError):
    """The provider took too long."""


class BadStatus(ProviderError):
    """The provider answered with an error.

    Attributes:
        status: the HTTP status, or the one that an error inside a stream stands for.
        retry_after_seconds: how long the provider asks to wait, ``None`` if it does not say.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool,
        status: int | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, retryable=retryable)
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class KeyRefused(BadStatus):
    """The provider does not know the key, or does not allow it what was asked."""

    exit_code = 4


class EmptyReply(ProviderError):
    """The provider answered with nothing, or with nothing that can be understood."""


class ProviderUnavailable(ProviderError):
    """The provider cannot be asked at all: a key, a package or an address is missing."""

    exit_code = 4

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)
