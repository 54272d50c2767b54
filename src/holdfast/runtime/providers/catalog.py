"""Which provider answers, and why.

In this order: what the command line says; what the session has recorded; what the configuration
says; whichever key is found in the environment; the rehearsal model. A session that has recorded a
provider is answered by that provider at that address or not at all: nothing is switched silently.

A key goes to the address it is meant for and to no other. A session that came from elsewhere may
name any address as its endpoint, so a recorded one counts only if it is the vendor's own, on this
machine, or known from the command line, the configuration or the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.errors import ProviderUnavailable, UsageError
from holdfast.runtime.providers import anthropic, openai, sdk
from holdfast.runtime.providers.base import Provider
from holdfast.runtime.providers.fault_injection import Chaos
from holdfast.runtime.providers.rehearsal import MODEL as REHEARSAL_MODEL
from holdfast.runtime.providers.rehearsal import Rehearsal
from holdfast.runtime.providers.rehearsal_script import ScriptStep
from holdfast.runtime.providers.retry import Patience, Retrying
from holdfast.runtime.providers.sdk_errors import address


class Vendor(Struct, frozen=True):
    """A provider that is reached over the network."""

    name: str
    endpoint: str
    key_variable: str
    url_variable: str
    model: str
    model_prefixes: tuple[str, ...]


ANTHROPIC = Vendor(
    "anthropic",
    anthropic.ENDPOINT,
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "claude-sonnet-5-5",
    ("claude",),
)
OPENAI = Vendor(
    "openai",
    openai.ENDPOINT,
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "gpt-6-sol",
    ("gpt-", "o1", "o3", "o4"),
)
VENDORS = {vendor.name: vendor for vendor in (ANTHROPIC, OPENAI)}
REHEARSAL = "rehearsal"
_RECORDED = "recorded in the session"
# Where a key of another name is usual.
_KEY_VARIABLES = {
    "api.deepseek.com": "DEEPSEEK_API_KEY",
    "openrouter.ai": "OPENROUTER_API_KEY",
    "api.moonshot.ai": "MOONSHOT_API_KEY",
    "api.moonshot.cn": "MOONSHOT_API_KEY",
}
SECRET_VARIABLES = frozenset(
    {vendor.key_variable for vendor in VENDORS.values()} | {*_KEY_VARIABLES.values()}
)
"""Variables that hold keys; they are kept from tools."""


class Wish(Struct, frozen=True):
    """What one source says. ``key_variable`` names where the key for its endpoint is."""

    provider: str | None = None
    endpoint: str | None = None
    model: str | None = None
    key_variable: str | None = None


class Choice(Struct, frozen=True):
    """The provider that answers. ``reason`` is for people: how it came to be chosen.

    ``endpoint`` may carry a password: what is shown and recorded is the provider's own, which does
    not.
    """

    provider: str
    model: str
    reason: str
    endpoint: str | None = None
    key_variable: str | None = None


class Sources(Struct, frozen=True):
    """Everything that has a say, and the keys that ``login`` keeps, by provider or host."""

    flags: Wish = Wish()
    session: Wish = Wish()
    config: Wish = Wish()
    environment: Mapping[str, str] = {}
    keys: Mapping[str, str] = {}


def choose(sources: Sources) -> Choice:
    """Return who answers.

    Raises:
        ProviderUnavailable: the session's own provider cannot be used here.
        UsageError: a provider is named that does not exist, or a model is missing.
    """
    for wish, reason in (
        (sources.flags, "chosen on the command line"),
        (sources.session, _RECORDED),
        (sources.config, "set in the configuration"),
    ):
        if name := _named(wish, sources):
            return _chosen(name, wish, reason, sources)
    model = sources.flags.model or sources.config.model
    guess = next((vendor for vendor in VENDORS.values() if _begins(model, vendor)), None)
    for vendor in [guess] if guess else VENDORS.values():
        found = [vendor.key_variable, vendor.url_variable]
        found = [name for name in found if sources.environment.get(name)]
        if found or vendor.name in sources.keys:
            reason = f"{found[0]} is set" if found else "a key is stored"
            return _chosen(vendor.name, Wish(), reason, sources)
    if guess:
        raise _no_key(guess.name, guess.key_variable)
    return _chosen(REHEARSAL, Wish(), "no API key was found", sources)


def build(
    choice: Choice,
    sources: Sources,
    *,
    script: list[ScriptStep] | None = None,
    chaos: str = "",
    patience: Patience | None = None,
) -> Provider:
    """Return the provider of a choice, patient, and broken as ``chaos`` plans it.

    Raises:
        ProviderUnavailable: its package or its key is missing.
    """
    provider: Provider
    if choice.provider == REHEARSAL:
        provider = Rehearsal(script)
    else:
        sdk.require(choice.provider)
        key, _ = _key(choice, sources)
        if choice.provider == ANTHROPIC.name:
            provider = anthropic.Anthropic(key or "", base_url=choice.endpoint)
        else:
            provider = openai.OpenAI(key, base_url=choice.endpoint)
    if chaos:
        provider = Chaos(provider, chaos)
    return Retrying(provider, patience)


def _named(wish: Wish, sources: Sources) -> str | None:
    """Return the provider that a source names, or means by naming an address alone."""
    if wish.provider or not wish.endpoint:
        return wish.provider
    before = sources.session.provider or sources.config.provider
    return before if wish is sources.flags and before in VENDORS else OPENAI.name


def _begins(model: str | None, vendor: Vendor) -> bool:
    return model is not None and model.startswith(vendor.model_prefixes)


def _chosen(name: str, wish: Wish, reason: str, sources: Sources) -> Choice:
    if name == REHEARSAL:
        if sources.flags.model not in {None, REHEARSAL_MODEL}:
            raise UsageError(
                f"The offline rehearsal model would be used ({reason}). To use "
                f"{sources.flags.model}, name its provider with --provider."
            )
        return Choice(REHEARSAL, REHEARSAL_MODEL, reason)
    if name not in VENDORS:
        known = ", ".join([*VENDORS, REHEARSAL])
        raise UsageError(f"There is no provider {name!r}. Use one of: {known}.")
    vendor = VENDORS[name]
    known_here = _known(vendor, sources)
    here = sources.environment.get(vendor.url_variable)
    endpoint = sources.flags.endpoint or wish.endpoint
    if reason == _RECORDED:
        endpoint = _trusted(vendor, endpoint or vendor.endpoint, known_here)
    endpoint = endpoint or here or vendor.endpoint
    model = _model(vendor, endpoint, sources)
    choice = Choice(name, model, reason, endpoint, known_here.get(endpoint))
    _key(choice, sources)  # whatever is missing is said now, not when the prompt is on its way
    return choice


def _known(vendor: Vendor, sources: Sources) -> dict[str, str | None]:
    """Return the addresses that the user has named, with the variables that hold their keys."""
    known: dict[str, str | None] = {vendor.endpoint: None}
    if here := sources.environment.get(vendor.url_variable):
        known[here] = vendor.key_variable
    for wish in (sources.config, sources.flags):
        if wish.endpoint and _named(wish, sources) == vendor.name:
            known[wish.endpoint] = wish.key_variable or known.get(wish.endpoint)
    return known


def _trusted(vendor: Vendor, recorded: str, known: Mapping[str, str | None]) -> str:
    """Return a recorded address, with whatever secrets it carries where the user named it."""
    for endpoint in known:
        if address(endpoint) == address(recorded):
            return endpoint
    if _local(recorded):
        return recorded
    raise ProviderUnavailable(
        f"This session was answered by {vendor.name} at {address(recorded)}, which is not "
        "configured here: set it as base URL in your configuration, name it with --base-url, or "
        "choose another provider with --provider."
    )


def _model(vendor: Vendor, endpoint: str, sources: Sources) -> str:
    fitting = [wish.model for wish in (sources.session, sources.config) if _fits(wish, vendor)]
    for model in (sources.flags.model, *fitting):
        if model:
            return model
    if address(endpoint) != vendor.endpoint:
        raise UsageError(f"Name the model that {address(endpoint)} should use with --model.")
    return vendor.model


def _fits(wish: Wish, vendor: Vendor) -> bool:
    """Tell whether a source's model is meant for a vendor."""
    if wish.provider or wish.endpoint:
        return (wish.provider or OPENAI.name) == vendor.name
    return not any(_begins(wish.model, other) for other in VENDORS.values() if other != vendor)


def login_of(choice: Choice, sources: Sources) -> str | None:
    """Return where the key for a choice is from: a variable, or ``login``; ``None``: no key."""
    return None if choice.provider == REHEARSAL else _key(choice, sources)[1]


def _key(choice: Choice, sources: Sources) -> tuple[str | None, str | None]:
    """Return the key for a choice's endpoint and where it is from; ``None`` if it needs none.

    Raises:
        ProviderUnavailable: it needs one and there is none.
    """
    vendor = VENDORS[choice.provider]
    endpoint = choice.endpoint or vendor.endpoint
    host = urlsplit(endpoint).hostname or ""
    own = address(endpoint) == vendor.endpoint
    here = sources.environment.get(vendor.url_variable, "")
    variable = choice.key_variable or _KEY_VARIABLES.get(host)
    if variable is None and (own or (here and address(here) == address(endpoint))):
        variable = vendor.key_variable
    set_here = sources.environment.get(variable or "")
    found = set_here or sources.keys.get(host)
    if own:
        found = found or sources.keys.get(vendor.name)
    needed = own or choice.key_variable is not None or choice.provider == ANTHROPIC.name
    if needed and not found and not _local(endpoint):
        raise _no_key(choice.provider, variable or vendor.key_variable)
    if not found:
        return None, None
    return found, variable if set_here else "login"


def _no_key(name: str, variable: str) -> ProviderUnavailable:
    return ProviderUnavailable(
        f"There is no key for {name}: set {variable}, or run: holdfast login {name}."
    )


def _local(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
