"""The keys that ``holdfast login`` keeps: by provider, or by the host that they are for.

They are in ``keys.json`` in the folder of the configuration, which only its owner may read, or in
the system's keyring if the configuration says so. A key goes to no output: it is in no sentence and
in no ``repr``, only in the value that is asked for by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from holdfast.errors import UsageError
from holdfast.files import Files
from holdfast.runtime.config.private_file import PrivateFile
from holdfast.runtime.providers.catalog import OPENAI, REHEARSAL, VENDORS

KEYS_NAME = "keys.json"
Kept = Literal["file", "keyring"]

_KEY = re.compile(r"[\x21-\x7e]{1,4096}")
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)+\.?|localhost|[0-9a-f:]*:[0-9a-f:.]+")
_SERVICE, _ENTRY = "holdfast", "keys"
_ANTHROPIC_KEY = "sk-ant-"


class Keys(Mapping[str, str]):
    """Keys by name; printing it shows the names alone."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = dict(keys)

    def __getitem__(self, name: str) -> str:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"Keys({', '.join(sorted(self._keys))})"


def load(config_folder: Path, kept: Kept = "file", files: Files | None = None) -> Mapping[str, str]:
    """Return all keys. Blocking; a keyring may ask its user to unlock it.

    Raises:
        UsageError: they cannot be read, or others can read them.
    """
    if kept == "keyring":
        return Keys(_from_keyring())
    return Keys(PrivateFile(config_folder / KEYS_NAME, files).read())


def save(
    config_folder: Path, name: str, key: str, kept: Kept = "file", files: Files | None = None
) -> None:
    """Keep a key under a name that ``owner`` gave."""
    with _changing(config_folder, kept, files) as keys:
        keys[name] = key


def remove(config_folder: Path, name: str, kept: Kept = "file", files: Files | None = None) -> bool:
    """Forget a key; tell whether there was one."""
    if name not in load(config_folder, kept, files):
        return False
    with _changing(config_folder, kept, files) as keys:
        return keys.pop(name, None) is not None


def owner(text: str) -> str:
    """Return the name that a key is kept under: a provider, or the host of an address.

    Raises:
        UsageError: it is neither.
    """
    word = text.strip().lower()
    if word in VENDORS:
        return word
    if word == REHEARSAL:
        raise UsageError("The rehearsal model is built in and needs no key.")
    if word.startswith(("http://", "https://")):
        try:
            word = urlsplit(word).hostname or ""
        except ValueError:
            word = ""
    elif not _HOST.fullmatch(word):
        word = ""
    if not word:
        raise UsageError(
            f"{text[:100]!r} is neither a provider ({', '.join(VENDORS)}) nor a host such as "
            "openrouter.ai; give an address with http:// for a host without a dot."
        )
    return word


def checked(text: str, name: str) -> str:
    """Return a key without the blanks around it.

    Raises:
        UsageError: it cannot be a key.
    """
    key = text.strip()
    if not key:
        raise UsageError("No key was given; nothing was changed.")
    if not _KEY.fullmatch(key):
        raise UsageError(
            "This is not a key: a key is one word of at most 4,096 letters, digits and signs. "
            "Nothing was changed."
        )
    if name == OPENAI.name and key.startswith(_ANTHROPIC_KEY):
        raise UsageError("This is an Anthropic key, not an OpenAI key. Nothing was changed.")
    return key


@contextmanager
def _changing(config_folder: Path, kept: Kept, files: Files | None) -> Iterator[dict[str, str]]:
    if kept == "file":
        with PrivateFile(config_folder / KEYS_NAME, files).changing() as keys:
            yield keys
        return
    keys = _from_keyring()
    yield keys
    ring = _keyring()
    try:
        ring.set_password(_SERVICE, _ENTRY, json.dumps(keys))
    except ring.errors.KeyringError as error:
        raise _refused(error) from None


def _from_keyring() -> dict[str, str]:
    """Return the keys in the system's keyring: one entry for all, because none can be listed."""
    ring = _keyring()
    try:
        text = ring.get_password(_SERVICE, _ENTRY)
    except ring.errors.KeyringError as error:
        raise _refused(error) from None
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(type(each) is str for each in found.values()):
        raise UsageError(
            "The entry 'holdfast' in the keyring is damaged. Delete it and log in again."
        )
    return found


def _keyring() -> Any:
    if find_spec("keyring") is None:
        raise UsageError(
            "Your configuration stores keys in the keyring, but the package 'keyring' is not "
            "installed: pip install 'holdfast[keyring]', or set keys = \"file\"."
        )
    import_module("keyring.errors")
    return import_module("keyring")


def _refused(error: Exception) -> UsageError:
    # Only the kind of error: its words are a keyring's own, and may repeat what it was given.
    return UsageError(
        f"The keyring did not answer ({type(error).__name__}): unlock it, or set "
        'keys = "file" in your configuration.'
    )
