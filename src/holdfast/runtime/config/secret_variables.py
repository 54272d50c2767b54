"""Environment variables that hold keys: kept from every program that is started, and out of /proc.

The environment that a process was started with stays readable for every other process of the user
(``/proc/PID/environ``, on Linux), commands that a model asked for included. ``conceal`` moves the
values elsewhere in memory and overwrites them there. It is called first thing by every process of
ours, and again when the configuration names another variable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

PROVIDER_KEYS = frozenset(
    """
    ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN AZURE_OPENAI_API_KEY CEREBRAS_API_KEY COHERE_API_KEY
    DASHSCOPE_API_KEY DEEPSEEK_API_KEY FIREWORKS_API_KEY GEMINI_API_KEY GOOGLE_API_KEY GROQ_API_KEY
    HF_TOKEN KIMI_API_KEY MISTRAL_API_KEY MOONSHOT_API_KEY OLLAMA_API_KEY OPENAI_API_KEY
    OPENROUTER_API_KEY PERPLEXITY_API_KEY TOGETHER_API_KEY XAI_API_KEY ZAI_API_KEY
    """.split()  # noqa: SIM905  a list of names reads best as a list of names
)
"""Variables that no command gets to see; the configuration may name another one."""

_ADDRESSES = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL")  # may have a password in them
# What the configuration names may not be known yet; hiding too much does no harm.
_LOOKS_SECRET = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_STAT = Path("/proc/self/stat")
_ENV_START, _ENV_END = 47, 48  # behind the name of the program; see proc(5)
_PR_SET_DUMPABLE = 4
_named: set[str] = set()


def secret_names(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the names of variables that hold keys; not all of them need to be set."""
    addresses = {name for name in _ADDRESSES if "@" in environment.get(name, "")}
    return PROVIDER_KEYS | _named | addresses


def secrets_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hold keys."""
    return {name: environment[name] for name in secret_names(environment) if name in environment}


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hold no key: what a program gets that is started."""
    hidden = secret_names(environment)
    return {name: value for name, value in environment.items() if name not in hidden}


def conceal(also: Iterable[str] = ()) -> None:
    """Remove keys from where other processes can read this one's environment.

    ``os.environ`` still has them. Where there is no ``/proc`` nothing needs to be done.

    Args:
        also: names of variables that the configuration says hold keys.
    """
    _named.update(also)
    secrets = {name: value for name, value in os.environ.items() if _LOOKS_SECRET.search(name)}
    secrets |= secrets_in(os.environ)
    if not secrets or not _STAT.exists():
        return
    for name, value in secrets.items():
        os.environ[name] = value  # copies it; nothing points to the old place any more
    import ctypes  # noqa: PLC0415  slow, and only needed if there is a key

    from holdfast.files import Files  # noqa: PLC0415  as above

    files = Files()
    descriptor = files.open_read(_STAT)
    fields = files.read_at(descriptor, 4096, 0).rpartition(b")")[2].split()
    files.close(descriptor)
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    place = start
    for setting in ctypes.string_at(start, end - start).split(b"\0"):
        key, _, held = setting.partition(b"=")
        if held and os.fsdecode(key) in secrets:
            ctypes.memset(place + len(key) + 1, 0, len(held))
        place += len(setting) + 1
    # Memory cannot be read by others of this user either, and is in no core file.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
