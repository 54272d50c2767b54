"""Which provider answers, at which address, with which key."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from holdfast.errors import ConnectFailed, ProviderUnavailable, UsageError
from holdfast.runtime.providers.base import ProviderStatus, TextDelta
from holdfast.runtime.providers.catalog import (
    SECRET_VARIABLES,
    Choice,
    Sources,
    Wish,
    build,
    choose,
)
from holdfast.runtime.providers.rehearsal_script import ScriptStep
from holdfast.runtime.providers.retry import Patience
from tests.runtime.providers.asking import answer, ask, refused, request
from tests.runtime.providers.wire import FakeVendor, chat_reply, messages_reply, text_block

A, O = {"ANTHROPIC_API_KEY": "key-a"}, {"OPENAI_API_KEY": "key-o"}  # noqa: E741
OLLAMA = "http://localhost:11434/v1"
OFFICIAL = "https://api.openai.com/v1"


def chosen(environment=None, **more):
    choice = choose(Sources(environment=environment or {}, **more))
    return choice.provider, choice.endpoint, choice.model


@pytest.mark.parametrize(
    ("environment", "more", "expected"),
    [
        ({}, {}, ("rehearsal", None, "rehearsal")),
        (A, {}, ("anthropic", "https://api.anthropic.com", "claude-sonnet-5-5")),
        (O, {}, ("openai", OFFICIAL, "gpt-6-sol")),
        (A | O, {}, ("anthropic", "https://api.anthropic.com", "claude-sonnet-5-5")),
        (A | O, {"flags": Wish("openai")}, ("openai", OFFICIAL, "gpt-6-sol")),
        (A | O, {"flags": Wish(model="gpt-5.4")}, ("openai", OFFICIAL, "gpt-5.4")),
        (A | O, {"config": Wish(model="gpt-5.4")}, ("openai", OFFICIAL, "gpt-5.4")),
        (A | O, {"config": Wish("openai", model="m")}, ("openai", OFFICIAL, "m")),
        (
            A | O,
            {"config": Wish("openai", model="m"), "session": Wish("anthropic", model="n")},
            ("anthropic", "https://api.anthropic.com", "n"),
        ),
        (
            A | O,
            {"session": Wish("anthropic", model="n"), "flags": Wish("openai")},
            ("openai", OFFICIAL, "gpt-6-sol"),
        ),
        (
            A | O,
            {"session": Wish("anthropic", model="n"), "flags": Wish(model="o")},
            ("anthropic", "https://api.anthropic.com", "o"),
        ),
        (A, {"flags": Wish("rehearsal")}, ("rehearsal", None, "rehearsal")),
        (A, {"session": Wish("rehearsal")}, ("rehearsal", None, "rehearsal")),
        (
            {"OPENAI_BASE_URL": OLLAMA},
            {"flags": Wish(model="llama")},
            ("openai", OLLAMA, "llama"),
        ),
        (
            {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8080", **A},
            {"flags": Wish(model="claude-x")},
            ("anthropic", "http://127.0.0.1:8080", "claude-x"),
        ),
        (
            A,
            {"flags": Wish(endpoint=OLLAMA, model="llama")},
            ("openai", OLLAMA, "llama"),
        ),
        (
            A,
            {
                "session": Wish("anthropic", model="n"),
                "flags": Wish(endpoint="http://localhost:1"),
            },
            ("anthropic", "http://localhost:1", "n"),
        ),
        ({}, {"config": Wish(endpoint=OLLAMA, model="llama")}, ("openai", OLLAMA, "llama")),
        (
            A | O,
            {"config": Wish(model="llama")},
            ("anthropic", "https://api.anthropic.com", "llama"),
        ),
    ],
)
def test_the_order_of_what_has_a_say(environment, more, expected):
    assert chosen(environment, **more) == expected


def test_the_reason_is_told():
    assert choose(Sources()).reason == "no API key was found"
    assert choose(Sources(environment=A)).reason == "ANTHROPIC_API_KEY is set"
    assert choose(Sources(keys={"openai": "k"})).reason == "a key is stored"
    assert choose(Sources(flags=Wish("rehearsal"))).reason == "chosen on the command line"
    assert choose(Sources(session=Wish("rehearsal"))).reason == "recorded in the session"
    assert choose(Sources(config=Wish("rehearsal"))).reason == "set in the configuration"


@pytest.mark.parametrize(
    ("environment", "more", "words"),
    [
        (O, {"session": Wish("anthropic", model="n")}, "holdfast login anthropic"),
        (A, {"session": Wish("openai", OFFICIAL, "m")}, "set OPENAI_API_KEY"),
        (O, {"flags": Wish(model="claude-x")}, "set ANTHROPIC_API_KEY"),
        (O, {"flags": Wish("anthropic")}, "set ANTHROPIC_API_KEY"),
        (
            O,
            {"session": Wish("openai", "https://evil.example/v1", "m")},
            "at https://evil.example/v1, which is not configured here",
        ),
        (
            A,
            {"session": Wish("anthropic", "https://me:pw@evil.example", "m")},
            "anthropic at https://evil.example,",
        ),
        (
            O,
            {"config": Wish("openai", "https://api.deepseek.com", "m", "MY_KEY")},
            "set MY_KEY",
        ),
        (
            A,
            {"config": Wish("anthropic", "https://proxy.example", "m")},
            "set ANTHROPIC_API_KEY",
        ),
    ],
)
def test_what_cannot_be_used_exits_4_and_is_never_replaced(environment, more, words):
    with pytest.raises(ProviderUnavailable) as caught:
        chosen(environment, **more)
    assert caught.value.exit_code == 4
    assert words in str(caught.value)
    assert "pw" not in str(caught.value)


def test_a_recorded_address_counts_where_the_user_named_it():
    session = Wish("openai", "https://proxy.example/v1", "m")
    config = Wish("openai", "https://me:pw@proxy.example/v1/")
    assert chosen(session=session, config=config) == ("openai", config.endpoint, "m")
    assert chosen({"OPENAI_BASE_URL": "https://proxy.example/v1", **O}, session=session)
    assert chosen(session=session, flags=Wish(endpoint="https://proxy.example/v1"))
    assert chosen(session=Wish("openai", OLLAMA, "m")) == ("openai", OLLAMA, "m")
    assert chosen(session=Wish("openai", "http://[::1]:1/v1", "m"))
    assert chosen(A, session=Wish("anthropic", model="n"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"flags": Wish("gemini")}, "no provider 'gemini'. Use one of: anthropic, openai"),
        ({"flags": Wish(endpoint=OLLAMA)}, f"the model that {OLLAMA}"),
        ({"session": Wish("rehearsal"), "flags": Wish(model="x")}, "To use x, name its provider"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(more, words):
    with pytest.raises(UsageError, match=words.replace("(", r"\(")):
        chosen(A, **more)


def authorization(environment=None, keys=None, key_variable=None, base_url_variable=None):
    """Return what a server on loopback is sent as a key."""

    async def run():
        async with FakeVendor(chat_reply([{"content": "a"}])) as vendor:
            url = vendor.url + "/v1"
            given = {**(environment or {})}
            if base_url_variable:
                given[base_url_variable] = url
            sources = Sources(
                flags=Wish("openai", url, "m", key_variable),
                environment=given,
                keys=keys or {},
            )
            provider = build(choose(sources), sources)
            await answer(provider, request(model="m"))
            await provider.close()
            return vendor.received[0].headers["authorization"]

    return asyncio.run(run())


def test_a_key_goes_to_its_own_address_and_to_no_other():
    assert authorization(O) == "Bearer none"
    assert authorization(O, base_url_variable="OPENAI_BASE_URL") == "Bearer key-o"
    assert authorization({"MY_KEY": "mine", **O}, key_variable="MY_KEY") == "Bearer mine"
    assert authorization(O, keys={"127.0.0.1": "kept"}) == "Bearer kept"
    assert authorization(O, keys={"openai": "kept"}) == "Bearer none"


def key_of(provider: Any) -> object:
    return provider._inner._key


def test_vendors_with_keys_of_their_own():
    wish = Wish("openai", "https://api.deepseek.com", "deepseek-chat")
    sources = Sources(config=wish, environment={"DEEPSEEK_API_KEY": "key-d", **O})
    assert key_of(build(choose(sources), sources)) == "key-d"
    assert {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "DEEPSEEK_API_KEY"} <= SECRET_VARIABLES


def test_a_key_from_the_login_serves_the_vendor():
    sources = Sources(keys={"anthropic": "kept"})
    provider = build(choose(sources), sources)
    assert key_of(provider) == "kept"
    assert (provider.name, provider.endpoint) == ("anthropic", "https://api.anthropic.com")


def test_anthropic_is_reached_at_the_address_of_the_environment():
    async def run():
        async with FakeVendor(messages_reply(text_block(0, "a"))) as vendor:
            environment = {**A, "ANTHROPIC_BASE_URL": vendor.url}
            sources = Sources(flags=Wish(model="claude-x"), environment=environment)
            provider = build(choose(sources), sources)
            assert (await answer(provider)).message.text == "a"
            await provider.close()
            return " ".join(vendor.received[0].headers.values())

    assert "key-a" in asyncio.run(run()).split()


@pytest.mark.parametrize("name", ["anthropic", "openai"])
def test_a_missing_package_is_told_before_anything_is_asked(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    sources = Sources(flags=Wish(name), environment=A | O)
    choice = choose(sources)
    with pytest.raises(ProviderUnavailable, match=r"pip install 'holdfast\[agent\]'"):
        build(choice, sources)


def test_the_rehearsal_model_with_a_script_and_chaos():
    choice = Choice("rehearsal", "rehearsal", "test")
    script = [ScriptStep("say", "hi")]
    quick = Patience(tries=2, first_seconds=0.0)
    provider = build(choice, Sources(), script=script, chaos="529@0", patience=quick)
    deltas = asyncio.run(ask(provider))
    assert isinstance(deltas[0], ProviderStatus)
    assert deltas[1] == TextDelta("hi")
    provider = build(choice, Sources(), script=script, chaos="disconnect@1", patience=quick)
    assert type(asyncio.run(refused(provider))[1]) is ConnectFailed
