"""What each kind of finding means: how bad it is, what is safe, what can be done."""

from __future__ import annotations

from msgspec import Struct

_COPY = "write a clean copy with a gap in its place; the journal as it is stays in archive/"


class Finding(Struct, frozen=True, omit_defaults=True):
    """Something that is not as it should be.

    ``safe`` says what holds all the same, ``fix`` what would be done about it, ``None`` if nothing
    can be. ``damage`` tells what was lost or altered from what is only untidy. ``fixed`` and
    ``failed`` say what came of it, where it was asked for.
    """

    kind: str
    where: str
    detail: str
    safe: str
    fix: str | None = None
    session: str | None = None
    damage: bool = False
    fixed: bool = False
    failed: str | None = None


class Advice(Struct, frozen=True):
    """What holds for every finding of a kind."""

    safe: str
    fix: str | None = None
    damage: bool = False


ADVICE = {
    "torn": Advice(
        "everything that was acknowledged is there: this was never confirmed to anybody",
        "open the session, which sets the bytes aside in damaged/",
    ),
    "interrupted": Advice(
        "the text is on disk, and is shown", "open the session, which keeps it as a message"
    ),
    "damage": Advice("the rest of the session is read; the bytes stay there", _COPY, damage=True),
    "header": Advice("the rest of the session is read", _COPY, damage=True),
    "unverified": Advice(
        "the line is read, but what stood before it cannot prove it", _COPY, damage=True
    ),
    "edited": Advice(
        "the line is read as it is now, and stays marked; its first version is in a backup only",
        damage=True,
    ),
    "undecoded": Advice(
        "the line is intact and stays as it is; the rest of the session is read", damage=True
    ),
    "blob": Advice(
        "the session is read, with a preview in the place of the payload; put the file back from a "
        "backup if there is one",
        damage=True,
    ),
    "unreadable": Advice(
        "it was left as it is; restore it from a backup, or move it to the trash with holdfast rm",
        damage=True,
    ),
    "closed": Advice(
        "nothing was changed; see to what keeps it closed, mostly its owner or its rights",
        damage=True,
    ),
    "link": Advice("it is not followed, and listed as damaged; move it away", damage=True),
    "misplaced": Advice(
        "it is neither read nor followed; move it away, and put what belongs there back from a "
        "backup",
        damage=True,
    ),
    "astray": Advice(
        "what is in it is not affected, but it cannot be opened there; move it to where it belongs",
        damage=True,
    ),
    "more": Advice("they are like the ones above", damage=True),
    "permissions": Advice("what is in it is not affected", "take the rights of others away"),
    "lock": Advice("the session can be read; move what stands there away to write to it"),
    "leftover": Advice("no session needs it: it is of one that never was, or is gone", "remove it"),
    "unfinished": Advice("nothing is missing; holdfast migrate, with any path, does the rest"),
    "unknown": Advice("nothing looks at it; move it away if you do not need it"),
    "index": Advice("it is a cache: no session is affected", "remove it; it is built anew"),
    "socket": Advice("nobody listens there, and nothing waits", "remove it"),
}
"""By the kind of finding."""

_IN_TRASH = {
    "unreadable": "it was left as it is; holdfast gc --trash removes what is in the trash for long"
}


def finding(
    kind: str, where: object, detail: str, session: str | None = None, *, deleted: bool = False
) -> Finding:
    """Return a finding with the advice of its kind. What is ``deleted`` is left alone."""
    advice = ADVICE[kind]
    safe = _IN_TRASH.get(kind, advice.safe) if deleted else advice.safe
    fix = None if deleted else advice.fix
    return Finding(kind, str(where), detail, safe, fix, session, advice.damage)
