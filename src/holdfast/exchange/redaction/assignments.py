"""Secrets that have no shape of their own, told by what stands before them.

A name with an equals sign or a colon, an option of a command, a header, an address with a password
in it. What follows must look drawn (``randomness``): names of variables, placeholders, paths and
code are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.exchange.redaction.entropy import is_random, looks_secret
from holdfast.exchange.redaction.key_formats import Found

_SHORTEST = 16
_LONGEST_NAME = 100
_NEAR = 48
_ASSIGNED = "secret in an assignment"
_NAMES = (
    r"(?:(?:api|access|auth|account|encryption|signing|master|service|subscription)[_-]?key"
    r"|secret|token|passw(?:or)?d|passphrase|credential|_auth|(?-i:(?<!PUBLIC)_KEY))[\w.-]{0,20}"
)
_NAME = re.compile(rf"(?i:{_NAMES})\Z")
_WORDS = ("key", "secret", "token", "passw", "passphrase", "credential", "_auth")
# Between a name and its sign may stand, as in lists of variables, the end of its text and "value".
_BEFORE_SIGN = re.compile(
    rf"(?i:{_NAMES}\\?[\"']?(?:\s{{0,40}},?\s{{0,40}}\\?[\"']?value\\?[\"']?)?[ \t]{{0,3}}:?)\Z"
)
_SIGNS = tuple(
    re.compile(sign + rf"[ \t]{{0,3}}+(\\?[\"'])?+(?=[^\s\"',;\\]{{{_SHORTEST}}})")
    for sign in (r"=(?!=)>?", r":(?![=/:])", r"%3[DA]")
)
_VALUE = re.compile(r"(?:[^\s\"',;\\]++|\\(?![nrt\"'\\]))++")
_LONGEST_VALUE = 4096
_NEXT_FIELD = re.compile(r"&(?:amp;)?[A-Za-z][\w.-]{0,40}=")
_TAIL = "`)]}>.:"
_AWS_SECRET = re.compile(r"[A-Za-z0-9/+]{40}")

_OPTION = re.compile(
    r"--(?=[a-z])[a-z-]{0,30}?(?:token|secret|passw(?:or)?d|passphrase|key|auth|credentials?)"
    r"(?:\\?[\"']\s{0,40},\s{0,40}|[ \t]{1,3})(\\?[\"'])?(?=[^\s\"',;\\]{8})"
)
_BEARERS = tuple(
    re.compile(name + r"(?:\s|%20){1,3}(?=[A-Za-z0-9._~+/=-]{16})")
    for name in ("Bearer", "bearer", "BEARER")
)
_HEADERS = tuple(
    re.compile(name + r"\\?[\"']?\s{0,3}[:=,]\s{0,3}\\?[\"']?")
    for name in ("uthorization", "UTHORIZATION")
)
_SCHEME = re.compile(r"(?i:basic|token|bearer|apikey|bot)\s{1,3}(?=[A-Za-z0-9._~+/=-]{16})")
_CREDENTIALS = re.compile(r"[A-Za-z0-9._~+/=-]{16,}+")
_NETRC = re.compile(r"assword\s{1,40}(?=[^\s\"']{3})")
_NETRC_BEFORE = re.compile(r"(?:machine|login)\s{1,40}[\w.@+-]{1,64}\s{1,40}p\Z")
_USER = re.compile(r" -(?:u|-user)[ =]{0,3}[\"']?[^\s:\"'$]{1,64}:(?=[^\s\"']{3})")
_CALLS = ("curl", "wget", "http")
_FAR = 300
_TO_BLANK = re.compile(r"(?:[^\s\"'\\]++|\\(?![nrt\"'\\]))++")
_SIGNATURE = re.compile(r"sig=(?<=[?&;6]sig=)(?=[A-Za-z0-9%+/_-]{20})")
_AMAZON = re.compile(r"X-Amz-Signature(?:=|%3D)(?=[0-9a-f]{64})")
_SIGNED = re.compile(r"[A-Za-z0-9%+/_-]{20,}+=*+")

_ADDRESS = re.compile(r"://")
_LOGIN = re.compile(r"([^\s:/@\"'<>?#]{0,200}):(?!\d{1,5}[/?#])([^\s\"'<>]{1,500})")
_TOKEN_ALONE = re.compile(r"([A-Za-z0-9_.~+=%-]{16,500})@[\w.\[-]")
_HOST = re.compile(r"[\w.\[-]")


def is_secret_name(name: str) -> bool:
    """Tell whether a field or a variable of this name holds a secret."""
    return _NAME.search(name[-_LONGEST_NAME:]) is not None


def is_secret_value(value: str) -> bool:
    """Tell whether the value of a field with such a name is one."""
    found = _VALUE.fullmatch(value) if len(value) >= _SHORTEST else None
    return found is not None and looks_secret(value, quoted=True)


def telltales(text: str) -> Iterator[Found]:
    """Yield the secrets in a text, in no order; some may overlap."""
    yield from _assigned(text)
    yield from _options(text)
    yield from _headers(text)
    yield from _logins(text)
    yield from _addresses(text)


def assignments(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield signs that follow the name of a secret and precede a value, and the name."""
    for sign in _SIGNS:
        for found in sign.finditer(text):
            before = text[max(0, found.start() - _NEAR) : found.start()]
            lowered = before.lower()
            if "value" in lowered[-10:]:
                before = text[max(0, found.start() - _LONGEST_NAME) : found.start()]
                lowered = before.lower()
            for word in _WORDS:  # most signs are told fast not to follow any such name
                if word in lowered:
                    if _BEFORE_SIGN.search(before):
                        yield found, lowered
                    break


def _assigned(text: str) -> Iterator[Found]:
    first = end = 0  # of the value that was looked at last: others within it end where it does
    for sign, name in assignments(text):
        begin = sign.end()
        if not first <= begin < end:
            value = _VALUE.match(text, begin)
            first, end = begin, begin if value is None else value.end()
        more = _NEXT_FIELD.search(text, begin, min(end, begin + _LONGEST_VALUE))
        stop = end if more is None else more.start()
        while not sign[1] and stop > begin and text[stop - 1] in _TAIL:
            stop -= 1
        shown = text[begin : min(stop, begin + _FAR)]
        if _AWS_SECRET.fullmatch(shown) and "secret" in name:
            yield begin, stop, "AWS secret key"
        elif stop - begin >= _SHORTEST and looks_secret(shown, quoted=bool(sign[1])):
            yield begin, stop, _ASSIGNED


def _options(text: str) -> Iterator[Found]:
    for found in _OPTION.finditer(text):
        value = _VALUE.match(text, found.end())
        if value is not None and looks_secret(value[0], quoted=bool(found[1])):
            yield *value.span(), "secret in an option"


def _headers(text: str) -> Iterator[Found]:
    for name in _HEADERS:
        for header in name.finditer(text):
            scheme = _SCHEME.match(text, header.end())
            if scheme is not None:
                yield from _credentials(text, scheme.end())
    for scheme_alone in _BEARERS:
        for found in scheme_alone.finditer(text):
            yield from _credentials(text, found.end())
    for pattern in (_SIGNATURE, _AMAZON):
        for found in pattern.finditer(text):
            signed = _SIGNED.match(text, found.end())
            if signed is not None and is_random(signed[0]):
                yield *signed.span(), "signature of an address"


def _credentials(text: str, place: int) -> Iterator[Found]:
    found = _CREDENTIALS.match(text, place)
    if found is not None and looks_secret(found[0]):
        yield *found.span(), "authorization header"


def _logins(text: str) -> Iterator[Found]:
    for found in _NETRC.finditer(text):
        before = text[max(0, found.start() - _LONGEST_NAME) : found.start() + 1]
        if _NETRC_BEFORE.search(before[:-1]):
            yield from _password(text, found.end())
    for found in _USER.finditer(text):
        start = found.start()
        if any(text.rfind(call, max(0, start - _FAR), start) >= 0 for call in _CALLS):
            yield from _password(text, found.end())


def _password(text: str, place: int) -> Iterator[Found]:
    found = _TO_BLANK.match(text, place)
    if found is not None and not found[0].startswith(("$", "<", "{", "*", "[")):
        yield *found.span(), "password of a login"


def _addresses(text: str) -> Iterator[Found]:
    for found in _ADDRESS.finditer(text):
        login = _LOGIN.match(text, found.end())
        if login is not None:
            begin = login.start(2)
            end = begin + _password_length(login[2])
            if end > begin and text[begin] not in "$<{*[":
                yield begin, end, "password in an address"
            continue
        token = _TOKEN_ALONE.match(text, found.end())
        if token is not None and is_random(token[1]):
            yield *token.span(1), "token in an address"


def _password_length(rest: str) -> int:
    """Return how much of what follows a user's name is the password; 0 if nothing is.

    It may have a slash or an at sign in it: it ends at the last at sign before the host's end.
    """
    first = rest.find("@")
    if first < 0:
        return 0
    host = re.match(r"[^/?#]*", rest[first + 1 :])
    last = first + 1 + (host[0].rfind("@") if host is not None else -1)
    end = max(first, last)
    return end if _HOST.match(rest, end + 1) else 0
