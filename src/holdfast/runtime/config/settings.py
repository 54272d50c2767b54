"""The settings: which there are, what each may be, and who may set it.

A table from a file is checked key by key, so that a mistake is told with the file and the key. A
value is never repeated in such a sentence: somebody may have put a key there by mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from holdfast.errors import UsageError
from holdfast.runtime.agent.prices import PriceTable
from holdfast.runtime.policy import policy
from holdfast.runtime.policy.policy import Mode
from holdfast.runtime.providers.catalog import REHEARSAL, VENDORS
from holdfast.runtime.tools.glob_match import alternatives

PROVIDERS = (*VENDORS, REHEARSAL)
STRICTNESS: tuple[Mode, ...] = ("deny", "ask", "allow-all")
"""The modes, the strictest first."""

_LONGEST_NAME = 60
_MOST_OF_RULES = 20_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Settings(Struct, frozen=True, kw_only=True):
    """What counts in the end. ``folders`` are absolute paths; ``None`` is: not set."""

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    key_variable: str | None = None
    keys: Literal["file", "keyring"] = "file"
    thinking: int = 0
    max_tokens: int = 8192
    context_tokens: int = 200_000
    compact_at: float = 0.8
    mode: Mode = "ask"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    prices: dict[str, dict[str, float]] = {}
    on_hangup: Literal["finish", "stop"] = "finish"
    on_attention: str | None = None
    idle_seconds: int = 60
    most_runners: int = 50


class Key(Struct, frozen=True):
    """One setting.

    ``who``: a project's file may set it (``any``), may set it once it is trusted (``trusted``),
    may make it stricter and needs trust to make it wider (``stricter``), or never (``user``).
    ``check`` raises ``UsageError``, or answers whether the value can be used.
    """

    kind: Any
    wanted: str
    who: Literal["any", "trusted", "stricter", "user"] = "trusted"
    check: Callable[[Any], bool] | None = None


def _is_printable(text: str) -> bool:
    return text.isprintable() and text == text.strip()


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and port != 0


def _are_few(rules: tuple[str, ...]) -> bool:
    # Patterns become expressions, whose making takes time: a project's file must not take a minute.
    return sum(len(text) * len(alternatives(text)) for text in rules) <= _MOST_OF_RULES


def _are_rules(rules: tuple[str, ...]) -> bool:
    return _are_few(rules) and all(policy.parse(text) for text in rules)


def _are_denials(rules: tuple[str, ...]) -> bool:
    return _are_few(rules) and all(policy.parse_denial(text) for text in rules)


def _are_prices(prices: dict[str, dict[str, float]]) -> bool:
    return PriceTable(prices) is not None


_Text = Annotated[str, Meta(min_length=1, max_length=1000)]
_Rules = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=500)], ...], Meta()]
_Tokens = Annotated[int, Meta(ge=0, le=10_000_000)]
_SomeTokens = Annotated[int, Meta(ge=1, le=10_000_000)]
_A_RULE = (
    "a list of rules, each a text of at most 500 characters, and of at most "
    f"{_MOST_OF_RULES:,} together, braces spelled out"
)

KEYS: dict[str, Key] = {
    "provider": Key(Literal[PROVIDERS], f"one of {', '.join(PROVIDERS)}", "any"),
    "model": Key(_Text, "the name of a model", "any", _is_printable),
    "base_url": Key(_Text, "an address that begins with http:// or https://", check=_is_address),
    "key_variable": Key(
        _Text,
        "the name of an environment variable, not the key itself",
        check=lambda text: _VARIABLE.fullmatch(text) is not None,
    ),
    "keys": Key(Literal["file", "keyring"], '"file" or "keyring"', "user"),
    "thinking": Key(_Tokens, "a number of tokens from 0 to 10,000,000", "any"),
    "max_tokens": Key(_SomeTokens, "a number of tokens from 1 to 10,000,000", "any"),
    "context_tokens": Key(_SomeTokens, "a number of tokens from 1 to 10,000,000"),
    "compact_at": Key(Annotated[float, Meta(ge=0, le=1)], "a share between 0 and 1", "any"),
    "mode": Key(Mode, '"ask", "allow-all" or "deny"', "stricter"),
    "allow": Key(_Rules, _A_RULE, check=_are_rules),
    "deny": Key(_Rules, _A_RULE, "any", _are_denials),
    "folders": Key(
        tuple[_Text, ...],
        "a list of folders",
        check=lambda names: all(name.isprintable() for name in names),
    ),
    "prices": Key(
        dict[str, dict[str, float]],
        'tables such as [prices."model"], with numbers from 0 on in them',
        check=_are_prices,
    ),
    "on_hangup": Key(Literal["finish", "stop"], '"finish" or "stop"'),
    "on_attention": Key(_Text, "a command for the shell", "user", lambda text: "\0" not in text),
    "idle_seconds": Key(
        Annotated[int, Meta(ge=1, le=31_536_000)],
        "a whole number of seconds from 1 to 31,536,000",
        "user",
    ),
    "most_runners": Key(
        Annotated[int, Meta(ge=1, le=1000)], "a whole number from 1 to 1,000", "user"
    ),
}


def checked(table: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the values of a table, each of the type that it has in ``Settings``.

    Raises:
        UsageError: a key is not known or a value cannot be used; the sentence begins with
            ``where``.
    """
    return {name: _checked(name, value, where) for name, value in table.items()}


def _checked(name: str, value: Any, where: str) -> Any:
    key = KEYS.get(name)
    if key is None:
        raise UsageError(f"{where}: there is no setting {name[:_LONGEST_NAME]!r}. {_nearest(name)}")
    try:
        found = msgspec.convert(value, key.kind)
        if key.check is None or key.check(found):
            return found
    except msgspec.ValidationError:
        pass
    except UsageError as error:
        raise UsageError(f"{where}: {name}: {error}") from None
    raise UsageError(f"{where}: {name} must be {key.wanted}.")


def _nearest(name: str) -> str:
    found = get_close_matches(name[:_LONGEST_NAME].casefold(), KEYS, 2, 0.75)
    if found:
        return f"Did you mean {' or '.join(map(repr, found))}?"
    return f"Settings: {', '.join(KEYS)}."
