"""What each kind of finding means: how bad it is, what is safe, what can be done."""

from __future__ import annotations

from msgspec import Struct

_COPY = "rewrite the journal without the damaged part and store the old journal in archive/"


class Finding(Struct, frozen=True, omit_defaults=True):
    """One problem in a home folder.

    ``safe`` says what is not affected, ``fix`` what a repair would do (``None``: no repair).
    ``damage`` is true if data was lost or altered, false if the home is only untidy. After a
    repair, ``fixed`` is true or ``failed`` says why it failed.
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
    """Text that is the same for every finding of a kind."""

    safe: str
    fix: str | None = None
    damage: bool = False


ADVICE = {
    "torn": Advice(
        "all saved entries are intact: this write was never confirmed as saved",
        "move the unfinished bytes to damaged/",
    ),
    "interrupted": Advice("the text is on disk and is shown", "save the text as a message"),
    "damage": Advice(
        "the rest of the session can be read; the damaged bytes stay in the file",
        _COPY,
        damage=True,
    ),
    "header": Advice("the rest of the session can be read", _COPY, damage=True),
    "unverified": Advice(
        "the line can be read, but not checked, because the line before it is damaged",
        _COPY,
        damage=True,
    ),
    "edited": Advice(
        "the line is used as it is now and stays marked; only a backup has its original content",
        damage=True,
    ),
    "undecoded": Advice(
        "the line is intact and stays as it is; the rest of the session can be read", damage=True
    ),
    "blob": Advice(
        "the session can be read, but shows only a preview of this data; restore the file from a "
        "backup if you have one",
        damage=True,
    ),
    "unreadable": Advice(
        "it was not changed; restore it from a backup, or move it to the trash with holdfast rm",
        damage=True,
    ),
    "closed": Advice(
        "nothing was changed; check the owner and the permissions of this path",
        damage=True,
    ),
    "link": Advice(
        "it is not followed, and is listed as damaged; move it to another place", damage=True
    ),
    "misplaced": Advice(
        "it is not read or followed; move it to another place, and restore the right file from a "
        "backup",
        damage=True,
    ),
    "astray": Advice(
        "its content is not affected, but it cannot be opened there; move it to the right folder",
        damage=True,
    ),
    "more": Advice("they are of the same kinds as those above", damage=True),
    "permissions": Advice("its content is not affected", "remove the permissions of other users"),
    "lock": Advice("the session can be read; move this to another place to be able to write"),
    "leftover": Advice(
        "no session needs it: its session was never created, or was deleted", "remove it"
    ),
    "unfinished": Advice("nothing is missing; run holdfast migrate, with any path, to finish"),
    "unknown": Advice("Holdfast does not use it; you can move it to another place or delete it"),
    "index": Advice(
        "it is a cache: no session is affected", "remove it; it is rebuilt when needed"
    ),
    "socket": Advice("no process uses it", "remove it"),
}
"""By the kind of finding."""

_IN_TRASH = {
    "unreadable": "it was not changed; holdfast gc --trash deletes old sessions in the trash"
}


def finding(
    kind: str, where: object, detail: str, session: str | None = None, *, deleted: bool = False
) -> Finding:
    """Return a finding with the advice of its kind. Findings in the trash have no fix."""
    advice = ADVICE[kind]
    safe = _IN_TRASH.get(kind, advice.safe) if deleted else advice.safe
    fix = None if deleted else advice.fix
    return Finding(kind, str(where), detail, safe, fix, session, advice.damage)
