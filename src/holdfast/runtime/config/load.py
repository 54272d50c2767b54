"""The configuration: the user's file, the project's, and what counts of the latter.

The user's file is ``config.toml`` in the folder that ``folder`` names. A project's is
``.holdfast/config.toml`` in the workspace, or in the nearest folder above it up to the root of the
git repository. Whoever wrote the project wrote that file too, so until the user trusts it
(``runtime/config/trust.py``) it may choose provider and model and make things stricter, no more.

What belongs to one provider is not taken to another: where a project names another provider, the
user's model, address and key variable do not count, and where it names another address, the user's
key variable does not. A key goes to the address that it was given for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from msgspec import Struct

from holdfast.errors import UsageError
from holdfast.files import Files
from holdfast.runtime.config.settings import KEYS, STRICTNESS, Settings
from holdfast.runtime.config.toml_file import ConfigFile, project_file, shown, user_file
from holdfast.runtime.config.trust import Standing, Trust
from holdfast.runtime.providers.catalog import OPENAI, VENDORS, Wish

__all__ = ["Configuration", "Settings", "asked_for", "folder", "load", "user_settings"]

DEFAULT = "default"
_ADDED = ("allow", "deny", "folders")


class Configuration(Struct, frozen=True):
    """What counts, where each setting comes from, and what was left out.

    ``origins`` has for each key ``"default"`` or the path of the file; both paths, joined by
    `` and ``, where a list or the prices come from both. ``notes`` are sentences for people.
    ``project`` is the project's file, if there is one, and ``standing`` says whether it is trusted.
    ``wish`` is what the configuration has to say about the choice of a provider.
    """

    settings: Settings
    origins: dict[str, str]
    notes: list[str]
    wish: Wish
    user: Path
    project: ConfigFile | None = None
    standing: Standing | None = None


def folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the user's configuration and keys."""
    if given := environment.get("HOLDFAST_CONFIG"):
        return Path(given).absolute()
    base = environment.get("XDG_CONFIG_HOME", "")
    # A relative one is to be ignored, says the specification of these variables.
    return (Path(base) if base.startswith("/") else _user(environment) / ".config") / "holdfast"


def load(
    workspace: Path, *, environment: Mapping[str, str], home: Path, files: Files | None = None
) -> Configuration:
    """Return the configuration for a workspace; ``home`` is Holdfast's own folder. Blocking.

    Raises:
        UsageError: a file cannot be read or says something that makes no sense.
    """
    files = files or Files()
    user = user_file(folder(environment), _user(environment), files)
    project = project_file(workspace, _user(environment), files)
    if project is not None and str(project.path) == os.path.realpath(user.path):
        project = None  # the user's own
    merged = _Merged(user)
    standing: Standing | None = None
    if project is not None:
        standing = Trust(home, files).standing(project.path, project.content)
        merged.add(project, standing)
    settings = Settings(**merged.values)
    origins = {key: merged.origins.get(key, DEFAULT) for key in Settings.__struct_fields__}
    wish = _wish(settings, origins["key_variable"], environment)
    return Configuration(settings, origins, merged.notes, wish, user.path, project, standing)


def user_settings(environment: Mapping[str, str], files: Files | None = None) -> Settings:
    """Return what the user's own file says, whatever the project. Blocking."""
    user = user_file(folder(environment), _user(environment), files or Files())
    return Settings(**user.values)


def asked_for(project: ConfigFile, environment: Mapping[str, str]) -> list[str]:
    """Return the keys of a project's file that count only once it is trusted. Blocking."""
    mode = user_settings(environment).mode
    return [
        key
        for key, value in project.values.items()
        if KEYS[key].who != "user" and not _free(key, value, mode)
    ]


def _free(key: str, value: Any, mode: str) -> bool:
    """Tell whether a project that is not trusted may set a key to a value."""
    if KEYS[key].who == "stricter":
        return STRICTNESS.index(value) <= STRICTNESS.index(mode)
    return KEYS[key].who == "any"


class _Merged:
    """The values of one file with those of another laid over them."""

    def __init__(self, user: ConfigFile) -> None:
        self.values = dict(user.values)
        self.origins = dict.fromkeys(user.values, str(user.path))
        self.notes: list[str] = []

    def add(self, project: ConfigFile, standing: Standing) -> None:
        """Lay a project's values over them, as far as they count."""
        values = {key: each for key, each in project.values.items() if KEYS[key].who != "user"}
        if len(values) < len(project.values):
            own = ", ".join(key for key in project.values if key not in values)
            self.notes.append(
                f"{project.shown} sets {own}, which only applies in your own configuration."
            )
        if standing != "trusted":
            mode = self.values.get("mode", Settings().mode)
            free = {key: each for key, each in values.items() if _free(key, each, mode)}
            if len(free) < len(values):
                self.notes.append(_untrusted(project, [*values.keys() - free.keys()], standing))
            values = free
        self._part_from_provider(values)
        for key, value in values.items():
            self._lay(key, value, str(project.path))

    def _part_from_provider(self, values: dict[str, Any]) -> None:
        gone: tuple[str, ...] = ()
        if values.get("provider", _provider(self.values)) != _provider(self.values):
            gone = ("model", "base_url", "key_variable")
        elif "base_url" in values:
            gone = ("key_variable",)
        for key in gone:
            self.values.pop(key, None)
            self.origins.pop(key, None)

    def _lay(self, key: str, value: Any, path: str) -> None:
        before = self.values.get(key)
        if before and (key in _ADDED or key == "prices"):
            value = before | value if key == "prices" else (*dict.fromkeys([*before, *value]),)
            path = f"{self.origins[key]} and {path}"
        self.values[key] = value
        self.origins[key] = path


def _untrusted(project: ConfigFile, left_out: list[str], standing: Standing) -> str:
    why = "was changed since you trusted it" if standing == "changed" else "is not trusted"
    return (
        f"{project.shown} {why}, so what it says about {', '.join(sorted(left_out))} does not "
        f"count; look at it and accept it with: holdfast trust {quote(shown(project.root))}."
    )


def _provider(values: Mapping[str, Any]) -> str | None:
    """Return the provider that a file's values are about, as far as they tell."""
    if values.get("provider"):
        return str(values["provider"])
    if values.get("base_url"):
        return OPENAI.name
    model = values.get("model") or ""
    named = (each.name for each in VENDORS.values() if model.startswith(each.model_prefixes))
    return next(named, None)


def _wish(settings: Settings, origin: str, environment: Mapping[str, str]) -> Wish:
    endpoint = settings.base_url
    if settings.key_variable and not endpoint:
        # The key is for the address that the provider has without a base URL.
        vendor = VENDORS.get(settings.provider or "")
        if vendor is None:
            raise UsageError(
                f"{origin}: key_variable needs base_url or a provider beside it, which say where "
                "the key is for."
            )
        endpoint = environment.get(vendor.url_variable) or vendor.endpoint
    return Wish(settings.provider, endpoint, settings.model, settings.key_variable)


def _user(environment: Mapping[str, str]) -> Path:
    """Return the home folder of the user."""
    given = environment.get("HOME", "")
    return Path(given) if given.startswith("/") else Path.home()
