"""The error tree: its shape, what its members carry, and what they tell a person."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path

import pytest

from holdfast import errors
from holdfast.errors import (
    BadStatus,
    ConnectFailed,
    DamagedJournal,
    DiskFull,
    EmptyReply,
    ForeignSession,
    FormatTooNew,
    HeadMoved,
    HoldfastError,
    IdConflict,
    ImportRejected,
    KeyRefused,
    ProviderError,
    ProviderUnavailable,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    StepUncertain,
    StorageError,
    TimedOut,
    UsageError,
    WriteFailed,
)
from holdfast.model.lock_holder import Holder

SAMPLES = [
    (UsageError("no"), 2),
    (ForeignSession("k3v9", "copied here", "continue its turn", ("bash ls",), "/tmp"), 2),
    (IdConflict("one", 7), 2),
    (StorageError("no"), 1),
    (SessionNotFound("no"), 1),
    (SessionExists("no"), 1),
    (SessionLocked("20261115-194012-k3v9q2ab", Holder(4711, "tower", "2026-11-15")), 75),
    (HeadMoved(3, None), 75),
    (WriteFailed("The disk is gone", 7), 74),
    (DiskFull("/x/journal.jsonl", (4, 5)), 75),
    (DamagedJournal(Path("/x/journal.jsonl"), 12, "empty"), 65),
    (FormatTooNew("format 2", 1), 65),
    (ImportRejected("a.json", 3, "it is not JSON"), 65),
    (StepUncertain("charge", "2026-11-15T19:40:12.001Z", run="order-7", key="k"), 1),
    (ProviderError("no", retryable=True), 1),
    (ConnectFailed("no", retryable=True), 1),
    (TimedOut("no", retryable=True), 1),
    (BadStatus("no", retryable=True, status=429, retry_after_seconds=2.5), 1),
    (KeyRefused("no", retryable=False, status=401), 4),
    (EmptyReply("no", retryable=True), 1),
    (ProviderUnavailable("no"), 4),
]


def test_every_error_is_in_the_drawing_and_every_name_of_the_drawing_exists():
    classes = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    drawing = (errors.__doc__ or "").partition("\n\nA message")[0]
    drawn = {name for name in classes if name in drawing.replace("(", " ").split()}
    assert drawn == classes
    assert classes == {type(error).__name__ for error, _ in SAMPLES} | {"HoldfastError"}


@pytest.mark.parametrize(
    ("error", "code"), SAMPLES, ids=[type(error).__name__ for error, _ in SAMPLES]
)
def test_every_error_can_be_caught_at_the_root_and_has_its_exit_code(error, code):
    assert isinstance(error, HoldfastError)
    assert error.exit_code == code
    assert str(error)


def test_storage_errors_share_a_parent():
    storage = [SessionNotFound, SessionExists, SessionLocked, WriteFailed, DiskFull]
    storage += [DamagedJournal, FormatTooNew]
    assert all(issubclass(kind, StorageError) for kind in storage)
    assert not issubclass(UsageError, StorageError)
    assert not issubclass(ImportRejected, StorageError)


def test_a_foreign_session_says_what_where_on_whose_word_and_how_to_accept_it():
    acts = tuple(f"bash {number}" for number in range(7))
    error = ForeignSession("k3v9", "imported from codex", "continue its turn", acts, "/work")
    assert isinstance(error, UsageError)
    assert (error.session, error.source, error.acts) == ("k3v9", "imported from codex", acts)
    for said in ("imported from codex", "continue its turn in /work", "bash 4 and 2 more"):
        assert said in str(error)
    assert "bash 5" not in str(error)
    assert "holdfast trust k3v9" in str(error)


def test_locked_says_who_and_what_to_do():
    error = SessionLocked("the-session", Holder(4711, "tower", "2026-11-15T19:40:12.001Z"))
    assert error.holder.pid == 4711
    assert error.session == "the-session"
    assert "process 4711 on tower since 2026-11-15T19:40:12.001Z" in str(error)
    assert "open it read-only" in str(error)


def test_an_unknown_holder_is_another_process():
    assert "another process" in str(SessionLocked("the-session", Holder()))


def test_write_failed_says_what_is_safe():
    assert "everything up to entry 7 is saved" in str(WriteFailed("Gone", 7))
    assert WriteFailed("Gone", 7).last_durable == 7
    assert "nothing is saved yet" in str(WriteFailed("Gone", None))
    assert not WriteFailed("Gone", 7).may_be_gone


def test_write_failed_does_not_call_safe_what_may_be_gone():
    error = WriteFailed("The journal was deleted", 7, may_be_gone=True)
    assert "is saved" not in str(error)
    assert "saved data may be lost" in str(error)
    assert "export it now" in str(error)
    assert (error.last_durable, error.may_be_gone) == (7, True)


def test_disk_full_counts_what_waits():
    assert "1 entry is waiting" in str(DiskFull("j", (3,)))
    error = DiskFull("j", (3, 4))
    assert "2 entries are waiting" in str(error)
    assert error.pending == (3, 4)


def test_disk_full_with_nothing_waiting_says_what_to_do():
    assert str(DiskFull("j", ())) == "Disk full: j. Free some space and try again."
    said = str(DiskFull("j", (), "Too many open files"))
    assert said == "Cannot write now (Too many open files): j. Try again later."


def test_damage_and_format_carry_what_a_program_branches_on():
    damaged = DamagedJournal("j", 5, "empty")
    assert (damaged.path, damaged.offset, damaged.kind) == ("j", 5, "empty")
    newer = FormatTooNew("format 9", 1)
    assert (newer.found, newer.supported) == ("format 9", 1)
    rejected = ImportRejected("a.json", 3, "why")
    assert (rejected.source, rejected.line, rejected.reason) == ("a.json", 3, "why")
    assert "a.json:3" in str(rejected)
    assert str(ImportRejected("a.json", None, "why")) == "a.json was not imported: why."
    assert ConnectFailed("x", retryable=True).retryable is True


@pytest.mark.parametrize(
    "error", [error for error, _ in SAMPLES], ids=[type(error).__name__ for error, _ in SAMPLES]
)
def test_an_error_crosses_a_process_boundary(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
