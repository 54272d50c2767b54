"""Every error that Holdfast raises on purpose.

    HoldfastError
    ├── UsageError                      the call is wrong; nothing was changed
    │   ├── ForeignSession(session, source, action, acts)  from elsewhere, not accepted
    │   └── IdConflict(id, seq)         the id belongs to an entry with other content
    ├── StorageError
    │   ├── SessionNotFound
    │   ├── SessionExists
    │   ├── SessionLocked(holder)       another process is writing to it
    │   ├── HeadMoved(expected, head)   the branch was continued since; nothing was appended
    │   ├── WriteFailed(last_durable)   writing failed; the session is read-only now
    │   ├── DiskFull(pending)           accepted; written when there is free space
    │   ├── DamagedJournal(path, offset, kind)
    │   └── FormatTooNew(found, supported)
    ├── StepUncertain(step, started)    a durable step may or may not have been carried out
    ├── ImportRejected(source, line, reason)
    └── ProviderError(retryable)
        ├── ConnectFailed
        ├── TimedOut
        ├── BadStatus(status)
        │   └── KeyRefused              the key is invalid or lacks permission
        ├── EmptyReply
        └── ProviderUnavailable         no key, package or address: no request was made

A message is for a person: what is wrong, where, and what to do. What a program needs to decide is a
typed attribute. ``exit_code`` is the exit code of the command line.
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
    """The action would use recorded content of a session from elsewhere.

    Attributes:
        session: the id of the session.
        source: how the session got here, as the end of a sentence.
        action: the rejected action, such as ``"continue its turn"``.
        acts: what the action would do, one line per command, prompt or file.
        folder: the folder in which it would be done.
    """

    def __init__(
        self, session: str, source: str, action: str, acts: tuple[str, ...], folder: str | None
    ) -> None:
        shown = ", ".join(acts[:_MOST_ACTS])
        more = f" and {len(acts) - _MOST_ACTS} more" if len(acts) > _MOST_ACTS else ""
        where = "" if folder is None else f" in {folder}"
        super().__init__(
            f"Session {session} was {source}. Cannot {action}{where} before you accept it, "
            f"because its recorded content would be used: {shown}{more}. Nothing was done. "
            f"Accept it with: holdfast trust {session} (or add --trust)."
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
    """No session has this id, part of an id, path or key."""


class SessionExists(StorageError):
    """A session with this id exists already. Nothing was appended."""


class SessionLocked(StorageError):
    """Another writer holds the session.

    Attributes:
        holder: process id, host and start time of the writer, as far as the lock file says.
    """

    exit_code = 75

    def __init__(self, session: str, holder: Holder) -> None:
        super().__init__(
            f"Session {session} is being written by {holder}: "
            "open it read-only, fork it, or wait until that process closes it."
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
            f"The head is {names[1]}, not {names[0]}: the branch was continued in the meantime. "
            "Nothing was appended; read what is new and decide again."
        )
        self.expected = expected
        self.head = head


class WriteFailed(StorageError):
    """The journal can no longer be written; acknowledged entries are safe.

    ``may_be_gone`` is true if another process deleted, replaced or changed the journal.

    Attributes:
        last_durable: sequence number of the last acknowledged entry, ``None`` if there is none.
        may_be_gone: whether acknowledged entries may be lost.
    """

    exit_code = 74

    def __init__(self, reason: str, last_durable: int | None, *, may_be_gone: bool = False) -> None:
        if may_be_gone:
            rest = (
                "saved data may be lost. The session is now read-only, but it is still in memory: "
                "export it now"
            )
        else:
            safe = (
                "nothing is saved yet"
                if last_durable is None
                else f"everything up to entry {last_durable} is saved"
            )
            rest = f"{safe}. The session is now read-only and can still be exported"
        super().__init__(f"{reason}; {rest}.")
        self.last_durable = last_durable
        self.may_be_gone = may_be_gone


class DiskFull(StorageError):
    """The disk is full. The entries keep their numbers and are written when there is free space.

    Attributes:
        pending: sequence numbers of the waiting entries, in order.
        cause: the system's error message if something other than disk space ran out.
    """

    exit_code = 75

    def __init__(
        self, path: Path | str, pending: tuple[int, ...], cause: str | None = None
    ) -> None:
        count = len(pending)
        if count:
            rest = (
                f"{count} {'entry is' if count == 1 else 'entries are'} waiting in memory and will "
                f"be written when {'writing works again' if cause else 'there is free space'}. "
                "Do not end this process."
            )
        else:
            rest = "Try again later." if cause else "Free some space and try again."
        what = f"Cannot write now ({cause})" if cause else "Disk full"
        super().__init__(f"{what}: {path}. {rest}")
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
            f"{path} cannot be read as a journal ({kind} at byte {offset}). "
            "The file was not changed. Restore it from a backup."
        )
        self.path = path
        self.offset = offset
        self.kind = kind


class FormatTooNew(StorageError):
    """The journal uses a newer format that this version must not append to.

    Attributes:
        found: the format or feature that the journal needs.
        supported: the newest format this version writes.
    """

    exit_code = 65

    def __init__(self, found: str, supported: int) -> None:
        super().__init__(
            f"This session needs {found}, but this Holdfast only supports format {supported}. "
            "The session can be read but not written. Update Holdfast to continue it."
        )
        self.found = found
        self.supported = supported


class StepUncertain(HoldfastError):
    """A durable step was started earlier and has no result. It was not run again.

    Attributes:
        step: the name of the step.
        started: when it was started, as times stand in entries.
        run: the run that it belongs to.
        key: its operation key, for a look at what became of it.
    """

    def __init__(self, step: str, started: str, *, run: str, key: str) -> None:
        super().__init__(
            f"Step {step!r} of run {run!r} was started at {started} and has no result: it may or "
            "may not have been carried out. It was not run again. Check whether it was, then "
            "call the step with a replay function that returns StepDone or None."
        )
        self.step = step
        self.started = started
        self.run = run
        self.key = key


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
