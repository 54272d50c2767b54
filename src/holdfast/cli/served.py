"""Whether there is anybody who can answer a prompt."""

from __future__ import annotations

import os

from holdfast.cli.sessions import Found
from holdfast.errors import ProviderUnavailable
from holdfast.runtime.assembly import Assembled, assemble
from holdfast.runtime.limits import Limits
from holdfast.runtime.providers.catalog import REHEARSAL
from holdfast.runtime.providers.local import offered
from holdfast.runtime.providers.rehearsal import serves
from holdfast.runtime.wishes import Wishes
from holdfast.store.home import default_home

_NO_MODEL = (
    "No model can answer this: there is no key, and the built-in rehearsal model only follows "
    "commands such as “run: ls”. Set ANTHROPIC_API_KEY or OPENAI_API_KEY, run: holdfast login "
    "anthropic, or name a server of your own with --base-url and --model."
)
_REHEARSAL_ONLY = (
    "The rehearsal model answers in this session, and it only follows commands such as “run: ls”: "
    "choose another with --provider anthropic or --provider openai."
)


def assembled_for(found: Found, wishes: Wishes, limits: Limits, text: str) -> Assembled:
    """Put together who goes on with a session, and see that a prompt can be answered.

    Raises:
        HoldfastError: it cannot, or its limits cannot be kept; says why.
    """
    assembled = assemble(
        found.session, found.workspace, wishes, environment=os.environ, home=default_home()
    )
    limits.check_priced(assembled.choice.model, assembled.equipment.prices)
    if text:
        check_served(assembled, text)
    return assembled


def check_served(assembled: Assembled, prompt: str) -> None:
    """See that somebody can answer a prompt.

    Raises:
        ProviderUnavailable: only the rehearsal model is there, and it does not understand it.
    """
    choice = assembled.choice
    if choice.provider == REHEARSAL and not assembled.scripted and not serves(prompt):
        unasked = choice.reason == "no key was found"
        raise ProviderUnavailable(_NO_MODEL + offered() if unasked else _REHEARSAL_ONLY)
