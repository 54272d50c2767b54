"""What POSIX lets a power cut leave behind, strictly: a model of a disk and all its legal states.

What it goes by:

- Files and folders are inodes. A file's data and the names in a folder last separately: syncing a
  file keeps its bytes and size, not its name; syncing a folder keeps its names, not their bytes.
- A sync keeps what was done before it was called. What came later, or was never synced, is
  *pending*: each such effect may be there or not, whatever became of those before and after it.
- A write that is there may be there in part: its beginning; some of its sectors; its size alone.
  Where the size counts bytes that never came, they read as zeros.
- Changes of one name keep their order: a later one is never there without the earlier ones. A
  rename is one effect on two names, in one folder or in two: wholly there or not at all. Syncing
  either folder keeps it.
- What stands in a folder whose own name is lost, is lost.

No file system is unkind in all these ways (ext4 keeps much in order that POSIX does not), but each
is in some.

A state can be legal at many moments; what had been promised at the last of them is what it has to
hold. Only syncs end a state's being legal. So states are told by the sync that comes too late for
them (``Epoch``): all that lack some of what this sync makes last.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

ROOT = 1
SECTOR_BYTES = 512
NAMES = frozenset({"create", "make_folder", "link", "unlink", "remove_folder", "rename"})
DATA = frozenset({"write", "truncate"})

Choice = dict[int, str]
"""How much of each pending effect is there, by its number; one that is not named is not there.

``+`` is the whole of it. Of a write there may be a part: ``t7`` the first 7 bytes, ``z7`` the first
7 bytes and the size, ``s5`` the sectors 0 and 2 (a bit mask in hex) and the size.
"""
WHOLE = "+"

_PART = re.compile(r"(\d+)(\+|[tz]\d+|s[0-9a-f]+)")
_LINKED_FROM_BYTES = 65_536
_DULL_IN_A_ROW = 100
_MOST_CUTS = 40
_ASIDE_EVERY = 12

Folders = dict[int, dict[str, int]]
Names = Callable[[str], bool]


class Op(Struct, frozen=True):
    """One line of a log.

    ``create``, ``make_folder``, ``link``: name and folder of ``file``. ``unlink``,
    ``remove_folder``: name and folder. ``rename``: from name and folder to the second ones.
    ``write``: data and offset. ``truncate``: to offset. ``sync``: of a file or folder, called when
    the log had ``began`` lines; with a ``length`` of these bytes only. ``said``: data.
    """

    number: int
    kind: str
    file: int = 0
    folder: int = 0
    name: str = ""
    second_folder: int = 0
    second_name: str = ""
    offset: int = 0
    length: int = 0
    data: bytes = b""
    began: int = 0
    inode: int = 0

    @property
    def places(self) -> tuple[tuple[int, str], ...]:
        """The names that it changes."""
        if self.kind == "rename":
            return (self.folder, self.name), (self.second_folder, self.second_name)
        return ((self.folder, self.name),)

    @property
    def kept_by(self) -> tuple[int, ...]:
        """What can be synced to make it last: the file, or any of these folders."""
        if self.kind in DATA:
            return (self.file,)
        return tuple(folder for folder, _ in self.places)


class Content(Struct, frozen=True):
    """Bytes of a file, and a digest of them."""

    data: bytes
    digest: bytes

    @classmethod
    def of(cls, data: bytes) -> Content:
        return cls(data, blake2b(data, digest_size=8).digest())


_EMPTY = Content.of(b"")


class Item(Struct, frozen=True):
    """A file or folder (``content`` is ``None``) of a state."""

    path: str
    file: int
    content: Content | None


def _nothing(name: str) -> bool:
    del name
    return False


class State:
    """What may be found on the disk when the power is back."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items

    def key(self, aside: Names = _nothing, within: str = "") -> bytes:
        """Return what is the same for states that look the same, but for names ``aside``.

        ``within`` compares only paths that have this in them.
        """
        seen = sorted(
            (item.path, item.content.digest if item.content is not None else b"")
            for item in self.items
            if within in item.path and not aside(item.path.rpartition("/")[2])
        )
        return blake2b(repr(seen).encode(), digest_size=12).digest()

    def write_to(self, folder: Path, large: Path | None = None) -> dict[int, str]:
        """Write it into an empty folder; return where each file is, by its number.

        Large files are linked to copies kept in the folder ``large``: nobody may change them.
        """
        there: dict[int, str] = {}
        for item in self.items:
            path = f"{folder}/{item.path}"
            if item.content is None:
                os.mkdir(path, 0o700)
            elif item.file in there:
                os.link(there[item.file], path)
            else:
                _write(path, item.content, large)
                there[item.file] = path
        return there


def _write(path: str, content: Content, large: Path | None) -> None:
    if large is not None and len(content.data) >= _LINKED_FROM_BYTES:
        copy = f"{large}/{content.digest.hex()}"
        if not os.path.exists(copy):
            _write(copy, content, None)
        os.link(copy, path)
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        written = os.write(descriptor, content.data) if content.data else 0
        assert written == len(content.data)
    finally:
        os.close(descriptor)


class Epoch:
    """The time up to the return of one sync (or to the log's end): what lasts, what is pending.

    ``number`` is how many lines of the log there are by then, ``target`` what the sync makes last;
    at the log's end (``last``), all that is pending.
    """

    def __init__(
        self,
        number: int,
        folders: Folders,
        contents: dict[int, Content],
        pending: dict[int, Op],
        target: frozenset[int] | None = None,
    ) -> None:
        self.number = number
        self.pending = dict(pending)
        self.last = target is None
        self.target = frozenset(pending) if target is None else target
        self._folders = {folder: dict(names) for folder, names in folders.items()}
        self._contents = dict(contents)
        self._needs = needs(pending.values())
        self._names = [op for op in pending.values() if op.kind in NAMES]
        self._written: dict[int, list[Op]] = {}
        for op in pending.values():
            if op.kind in DATA:
                self._written.setdefault(op.file, []).append(op)

    def closed(self, choice: Choice) -> Choice:
        """Return a choice without the changes of names whose predecessors are not there."""
        kept: Choice = {}
        for number in sorted(choice):
            if all(needed in kept for needed in self._needs.get(number, ())):
                kept[number] = choice[number]
        return kept

    def with_needs(self, numbers: Iterable[int]) -> set[int]:
        """Return effects together with all that have to be there for them."""
        return _with_needs(self._needs, numbers)

    def state(self, choice: Choice) -> State:
        """Return the state that a choice amounts to."""
        folders = self._folders
        chosen = [op for op in self._names if op.number in choice]
        if chosen:
            folders = {number: dict(names) for number, names in folders.items()}
            for op in chosen:
                _change_names(folders, op)
        return State(list(self._walk(folders, ROOT, "", choice)))

    def _walk(self, folders: Folders, folder: int, path: str, choice: Choice) -> Iterator[Item]:
        for name, number in folders[folder].items():
            inside = path + name
            if number in folders:
                yield Item(inside, number, None)
                yield from self._walk(folders, number, inside + "/", choice)
            else:
                yield Item(inside, number, self._content(number, choice))

    def _content(self, file: int, choice: Choice) -> Content:
        lasting = self._contents.get(file, _EMPTY)
        chosen = [op for op in self._written.get(file, ()) if op.number in choice]
        if not chosen:
            return lasting
        data = lasting.data
        for op in chosen:
            data = changed(data, op, choice[op.number])
        return Content.of(data)

    def told(self, choice: Choice) -> str:
        """Return a choice in words, as an exception from all or none of what is pending."""
        missing = [f"-{number}" for number in self.pending if number not in choice]
        torn = [f"{number}{how}" for number, how in choice.items() if how != WHOLE]
        there = [f"{number}{how}" for number, how in choice.items()]
        if len(missing) + len(torn) < len(there):
            return " ".join(["all", *missing, *torn])
        return " ".join(["none", *there])

    def chosen(self, told: str) -> Choice:
        """Return the choice that was told.

        Raises:
            ValueError: it has changes of names without those that they stand on.
        """
        base, *exceptions = told.split()
        choice = dict.fromkeys(self.pending, WHOLE) if base == "all" else {}
        for exception in exceptions:
            part = _PART.fullmatch(exception)
            if part is not None:
                choice[int(part[1])] = part[2]
            else:
                del choice[int(exception.removeprefix("-"))]
        if self.closed(choice) != choice or choice.keys() - self.pending.keys():
            raise ValueError(f"no power cut leaves this: {told}")
        return choice


def changed(content: bytes, op: Op, how: str) -> bytes:
    """Return a file's content after a write or truncation that is there so far (see ``Choice``)."""
    if op.kind == "truncate":
        return content[: op.offset].ljust(op.offset, b"\0")
    kind, amount = how[0], how[1:]
    data, end = op.data, op.offset + len(op.data)
    if kind == "t":
        end = op.offset + int(amount)
    if kind in "tz":
        data = data[: int(amount)]
    content = content.ljust(end, b"\0")
    if kind == "s":
        return _with_sectors(content, op, int(amount, 16))
    return content[: op.offset] + data + content[op.offset + len(data) :]


def _with_sectors(content: bytes, op: Op, mask: int) -> bytes:
    found = bytearray(content)
    for number, (start, end) in enumerate(sectors(op)):
        if mask >> number & 1:
            found[start:end] = op.data[start - op.offset : end - op.offset]
    return bytes(found)


def sectors(op: Op) -> list[tuple[int, int]]:
    """Return where the sectors of a write begin and end in its file."""
    end = op.offset + len(op.data)
    first = op.offset // SECTOR_BYTES * SECTOR_BYTES
    return [
        (max(start, op.offset), min(start + SECTOR_BYTES, end))
        for start in range(first, end, SECTOR_BYTES)
    ]


def _change_names(folders: Folders, op: Op) -> None:
    if op.kind in ("create", "link", "make_folder"):
        folders[op.folder][op.name] = op.file
    elif op.kind == "rename":
        folders[op.second_folder][op.second_name] = folders[op.folder].pop(op.name)
    else:
        del folders[op.folder][op.name]


def needs(pending: Iterable[Op]) -> dict[int, list[int]]:
    """Return for each change of a name the changes right before it that it stands on."""
    last: dict[tuple[int, str], int] = {}
    found: dict[int, list[int]] = {}
    for op in pending:
        if op.kind in NAMES:
            found[op.number] = [last[place] for place in op.places if place in last]
            last |= dict.fromkeys(op.places, op.number)
    return found


def _with_needs(needed: dict[int, list[int]], numbers: Iterable[int]) -> set[int]:
    found: set[int] = set()
    waiting = list(numbers)
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting += needed.get(number, ())
    return found


def epochs(ops: list[Op]) -> Iterator[Epoch]:
    """Yield the epochs of a log that began with an empty root: one a sync, and one for its end.

    Syncs that had nothing left to do are passed over.
    """
    folders: Folders = {ROOT: {}}
    contents: dict[int, Content] = {}
    pending: dict[int, Op] = {}
    for op in ops:
        if op.kind == "make_folder":
            # Names can be made and synced in it at once, whether or not its own name lasts.
            folders[op.file] = {}
        if op.kind in NAMES or op.kind in DATA:
            pending[op.number] = op
        elif op.kind == "sync":
            target = _made_to_last(pending, op)
            if target:
                yield Epoch(op.number, folders, contents, pending, target)
                for number in sorted(target):
                    _make_last(folders, contents, pending.pop(number))
    yield Epoch(len(ops), folders, contents, pending)


def _made_to_last(pending: dict[int, Op], sync: Op) -> frozenset[int]:
    covered = [
        number
        for number, effect in pending.items()
        if number < sync.began and sync.file in effect.kept_by and _reaches(sync, effect)
    ]
    return frozenset(_with_needs(needs(pending.values()), covered))


def _reaches(sync: Op, effect: Op) -> bool:
    """Tell whether a sync concerns a change of its file: what it does not name may stay pending.

    A change of the size cannot: without it the bytes could not be read.
    """
    if not sync.length or effect.kind != "write":
        return True
    ends_before = effect.offset + len(effect.data) <= sync.offset
    return not ends_before and effect.offset < sync.offset + sync.length


def _make_last(folders: Folders, contents: dict[int, Content], op: Op) -> None:
    if op.kind in DATA:
        data = contents.get(op.file, _EMPTY).data
        contents[op.file] = Content.of(changed(data, op, WHOLE))
    else:
        _change_names(folders, op)


# Which states to look at


class Found(Struct, frozen=True):
    """A state that is worth a look: its epoch, its choice in words, and what kind it is of.

    ``whole``: names aside are part of it.
    """

    epoch: Epoch
    told: str
    kind: str
    whole: bool

    def state(self) -> State:
        """Return the state itself."""
        return self.epoch.state(self.epoch.chosen(self.told))


def look_at(
    ops: list[Op],
    number: int,
    seed: object,
    aside: Names = _nothing,
    whole_share: float = 0.1,
) -> list[Found]:
    """Return ``number`` states of a log, no two alike; the telling ones of all epochs come first.

    Fewer, if there are no more to be found. Each goes with the last epoch in which it was met.
    Names ``aside`` (of a cache, say) are left out of most states, and of the comparison of these:
    only ``whole_share`` of them have such names.
    """
    files_aside = {op.file for op in ops if op.kind == "create" and aside(op.name)}
    streams = [
        _Stream(epoch, random.Random(f"{seed} {epoch.number}"), aside, files_aside, whole_share)
        for epoch in epochs(ops)
    ]
    found: dict[bytes, Found] = {}
    rounds = 0
    while streams:
        for stream in streams:
            if stream.only_aside and rounds % _ASIDE_EVERY:
                continue
            key, state = stream.next()
            known = found.get(key)
            stream.dull_in_a_row = 0 if known is None else stream.dull_in_a_row + 1
            if known is None or known.epoch.number < state.epoch.number:
                found[key] = state
            if len(found) == number:
                return list(found.values())
        streams = [stream for stream in streams if stream.dull_in_a_row < _DULL_IN_A_ROW]
        rounds += 1
    return list(found.values())


class _Stream:
    """The states of one epoch: the telling ones first, then others without end."""

    def __init__(
        self,
        epoch: Epoch,
        random_: random.Random,
        aside: Names,
        files_aside: set[int],
        whole_share: float,
    ) -> None:
        self.epoch = epoch
        self.dull_in_a_row = 0
        self._random = random_
        self._aside = aside
        self._whole_share = whole_share
        self._left_out = {
            op.number
            for op in epoch.pending.values()
            if (op.file in files_aside if op.kind in DATA else any(aside(n) for _, n in op.places))
        }
        self.only_aside = bool(epoch.target) and epoch.target <= self._left_out
        self._choices = self._all()

    def next(self) -> tuple[bytes, Found]:
        """Return the next state and its key."""
        kind, choice = next(self._choices)
        whole = self.only_aside or self._random.random() < self._whole_share
        target = self.epoch.target
        if not whole:
            target -= self._left_out
            choice = {n: how for n, how in choice.items() if n not in self._left_out}
        choice = self.epoch.closed(choice)
        if target and not self.epoch.last and all(choice.get(n) == WHOLE for n in target):
            # It would be legal after the sync, too, and belongs to a later epoch.
            del choice[self._random.choice(sorted(target))]
            choice = self.epoch.closed(choice)
        key = self.epoch.state(choice).key(_nothing if whole else self._aside)
        return key, Found(self.epoch, self.epoch.told(choice), kind, whole)

    def _all(self) -> Iterator[tuple[str, Choice]]:
        pending, target = self.epoch.pending, self.epoch.target
        rest = [number for number in pending if number not in target]
        names = [number for number, op in pending.items() if op.kind in NAMES]
        data = [number for number, op in pending.items() if op.kind in DATA]
        sizes = {n: "z0" if pending[n].kind == "write" else WHOLE for n in data}
        if self.epoch.last:
            yield "everything is there", dict.fromkeys(pending, WHOLE)
        yield "nothing unsynced is there", {}
        yield "all but what was being synced", dict.fromkeys(rest, WHOLE)
        yield "names without data", dict.fromkeys(names, WHOLE)
        yield "data without names", dict.fromkeys(data, WHOLE)
        yield "sizes without data", dict.fromkeys(names, WHOLE) | sizes
        for number in rest:
            yield "all but one effect", {n: WHOLE for n in rest if n != number}
        for kind, part in self._parts():
            yield kind, dict.fromkeys(rest, WHOLE) | part
            yield kind, part
        while True:
            yield "any of it", self._any()

    def _parts(self) -> Iterator[tuple[str, Choice]]:
        """Yield what may be there of the effects that are being synced."""
        target = sorted(self.epoch.target)
        whole = dict.fromkeys(target, WHOLE)
        if len(target) > 1:
            for number in target:
                yield "all but one effect", {n: WHOLE for n in target if n != number}
                yield "one effect alone", dict.fromkeys(self.epoch.with_needs([number]), WHOLE)
        writes = [n for n in target if self.epoch.pending[n].kind == "write"]
        for number in writes:
            yield "size without data", whole | {number: "z0"}
        for number in writes:
            op = self.epoch.pending[number]
            for cut in self._cuts(op):
                yield "torn", whole | {number: f"t{cut}"}
                yield "torn, then zeros", whole | {number: f"z{cut}"}
            for mask in self._masks(op):
                yield "sectors out of order", whole | {number: f"s{mask:x}"}

    def _cuts(self, op: Op) -> list[int]:
        """Return the bytes at which to tear a write: around lines' ends and sectors, and others."""
        size = len(op.data)
        ends = [at + 1 for at, byte in enumerate(op.data[:65_536]) if byte == 0x0A]
        ends += [start - op.offset for start, _ in sectors(op)[1:16]]
        near = [at + step for at in ends for step in (-1, 0, 1)]
        if len(near) > _MOST_CUTS:
            near = self._random.sample(near, _MOST_CUTS)
        others = [self._random.randrange(size) for _ in range(8)]
        cuts = dict.fromkeys([1, size // 2, size - 1, *near, *others])
        return [cut for cut in cuts if 0 < cut < size]

    def _masks(self, op: Op) -> Iterator[int]:
        count = len(sectors(op))
        if count > 1:
            for number in sorted({0, 1, count // 2, count - 1}):
                yield (1 << count) - 1 & ~(1 << number)
                yield 1 << number
            for _ in range(4):
                yield self._random.getrandbits(count)

    def _any(self) -> Choice:
        """Return any choice: each effect is there, not there or there in part, by chance."""
        random_ = self._random
        in_target, elsewhere = (
            random_.choice([0.1, 0.5, 0.9]),
            random_.choice([0, 0.1, 0.5, 0.9, 1]),
        )
        torn = random_.choice([0.0, 0.3])
        choice: Choice = {}
        writes = []
        for number, op in self.epoch.pending.items():
            targeted = number in self.epoch.target
            if targeted and op.kind == "write":
                writes.append(op)
            if random_.random() < (in_target if targeted else elsewhere):
                cut = op.kind == "write" and random_.random() < torn
                choice[number] = self._part(op) if cut else WHOLE
        if writes and random_.random() < 0.7:
            op = random_.choice(writes)
            choice[op.number] = self._part(op)
        return choice

    def _part(self, op: Op) -> str:
        kind = self._random.choice("ttzs")
        if kind == "s":
            return f"s{self._random.getrandbits(len(sectors(op))):x}"
        return f"{kind}{self._random.randrange(len(op.data))}"
