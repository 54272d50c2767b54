"""Whether there is anybody who can answer a prompt."""

from __future__ import annotations

from holdfast.errors import ProviderUnavailable
from holdfast.runtime.assembly import Assembled
from holdfast.runtime.providers.catalog import REHEARSAL
from holdfast.runtime.providers.local import offered
from holdfast.runtime.providers.rehearsal import serves

_NO_MODEL = (
    "No model can answer this: there is no key, and the built-in rehearsal model only follows "
    "commands such as “run: ls”. Set ANTHROPIC_API_KEY or OPENAI_API_KEY, run: holdfast login "
    "anthropic, or name a server of your own with --base-url and --model."
)
_REHEARSAL_ONLY = (
    "The rehearsal model answers in this session, and it only follows commands such as “run: ls”: "
    "choose another with --provider anthropic or --provider openai."
)


def check_served(assembled: Assembled, prompt: str) -> None:
    """See that somebody can answer a prompt.

    Raises:
        ProviderUnavailable: only the rehearsal model is there, and it does not understand it.
    """
    choice = assembled.choice
    if choice.provider == REHEARSAL and not assembled.scripted and not serves(prompt):
        unasked = choice.reason == "no key was found"
        raise ProviderUnavailable(_NO_MODEL + offered() if unasked else _REHEARSAL_ONLY)
