"""Check, before a prompt is saved, that a model can answer it."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.errors import ProviderUnavailable
from holdfast.files import default_home
from holdfast.runtime.agent.build import BuiltAgent, build_agent
from holdfast.runtime.agent.limits import check_priced
from holdfast.runtime.config.run_options import Limits, RunOptions
from holdfast.runtime.providers.catalog import REHEARSAL
from holdfast.runtime.providers.local_servers import offered
from holdfast.runtime.providers.rehearsal import serves
from holdfast.store.session import Session

_NO_MODEL = (
    "No model can answer this: no API key was found, and the offline rehearsal model only follows "
    "commands such as “run: ls”. Set ANTHROPIC_API_KEY or OPENAI_API_KEY, run: holdfast login "
    "anthropic, or use your own server with --base-url and --model."
)
_REHEARSAL_ONLY = (
    "This session uses the rehearsal model, which only follows commands such as “run: ls”. Choose "
    "another with --provider anthropic or --provider openai."
)


def assemble_for(
    session: Session, workspace: Path, wishes: RunOptions, limits: Limits, text: str
) -> BuiltAgent:
    """Return the model, tools and rules for a session, after checking that it can answer ``text``.

    Raises:
        HoldfastError: it cannot be answered, or the limits cannot be enforced.
    """
    assembled = build_agent(session, workspace, wishes, environment=os.environ, home=default_home())
    check_priced(limits, assembled.choice.model, assembled.equipment.prices)
    if text:
        check_answerable(assembled, text)
    return assembled


def check_answerable(assembled: BuiltAgent, prompt: str) -> None:
    """Check that the chosen model can answer a prompt.

    Raises:
        ProviderUnavailable: it is the rehearsal model, which only follows commands.
    """
    choice = assembled.choice
    if choice.provider == REHEARSAL and not assembled.scripted and not serves(prompt):
        by_default = choice.reason == "no API key was found"
        raise ProviderUnavailable(_NO_MODEL + offered() if by_default else _REHEARSAL_ONLY)
