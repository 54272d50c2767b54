"""The description of the library leaves nothing out that its users may call."""

import inspect
import re

import pytest

import holdfast
from tests.docs.markdown import ROOT

# Public by name and no promise: what the parts of the store call of each other.
INTERNAL = {
    holdfast.Store: set(),
    holdfast.Session: {
        "attach",  # the store ties itself to the session that it opened
        "signed_name",  # for what the agent leaves in the session's folder
    },
    holdfast.Stream: set(),
    holdfast.Follower: set(),
    holdfast.Ticket: {
        # What the writer notes on it, and calls; a method for each would be slower.
        *("callbacks", "drafts", "entries", "error", "expect_head", "finishes_stream"),
        *("ids", "known_entries", "payloads", "refusals", "refuse", "seen", "settle", "trailer"),
        *("writer",),
    },
}


def _code():
    """Everything in the document that is set as code."""
    text = (ROOT / "docs" / "library.md").read_text("utf-8")
    block = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    return "\n".join(block.findall(text) + re.findall(r"`[^`\n]+`", block.sub("", text)))


def _is_named(name, code):
    return re.search(rf"\.{name}\b|\b{name}\(|`{name}`", code) is not None


@pytest.mark.parametrize("kind", INTERNAL, ids=lambda kind: kind.__name__)
def test_every_public_name_is_described(kind):
    code = _code()
    names = {name for name in dir(kind) if not name.startswith("_")}
    assert names >= INTERNAL[kind]
    missing = {name for name in names - INTERNAL[kind] if not _is_named(name, code)}
    assert not missing


@pytest.mark.parametrize(
    "function",
    [holdfast.open_store, holdfast.Store.migrate, holdfast.Store.checkup],
    ids=lambda function: function.__name__,
)
def test_the_parameters_that_change_much_are_described(function):
    signature = re.search(rf"`{function.__name__}\(([^`]*)\)`", _code())
    assert signature is not None
    named = set(re.findall(r"\w+(?==)|\w+(?=[,)]|$)", signature[1]))
    assert set(inspect.signature(function).parameters) - {"self"} <= named
