"""What goes wrong on the wire, and what the loop is told of it; both vendors alike."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from holdfast.errors import (
    BadStatus,
    ConnectFailed,
    EmptyReply,
    KeyRefused,
    ProviderUnavailable,
    TimedOut,
)
from holdfast.runtime.providers import sdk
from holdfast.runtime.providers.anthropic import Anthropic
from holdfast.runtime.providers.base import TextDelta
from holdfast.runtime.providers.openai import OpenAI
from holdfast.runtime.providers.sdk_errors import Faults, address
from tests.runtime.providers.asking import KEY, answer, refused
from tests.runtime.providers.wire import (
    FakeVendor,
    Reply,
    chunk,
    event,
    message_start,
    messages_reply,
    refusal,
    text_block,
)

VENDORS: dict[str, Callable[..., Any]] = {
    "anthropic": lambda url, **more: Anthropic(KEY, base_url=url, **more),
    "openai": lambda url, **more: OpenAI(KEY, base_url=url + "/v1", **more),
}
BEGINNINGS = {
    "anthropic": [message_start(), *text_block(0, "a", "b")[:3]],
    "openai": [chunk({"content": "a"}), chunk({"content": "b"})],
}


@pytest.fixture(params=list(VENDORS))
def vendor(request):
    return request.param


def failed(vendor, reply, **options):
    """Ask a server that fails; return the deltas before it and the error, which names no key."""

    async def run():
        async with FakeVendor(reply) as server:
            deltas, error = await refused(VENDORS[vendor](server.url, **options))
            assert KEY not in repr(error) + str(vars(error))
            assert error.__context__ is None or error.__suppress_context__
            assert vendor in str(error)
            assert server.url in str(error)
            assert str(error).endswith(".")
            return deltas, error

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "kind", "cls", "retryable", "advice"),
    [
        (400, "invalid_request_error", BadStatus, False, "was not accepted"),
        (401, "authentication_error", KeyRefused, False, "log in again"),
        (402, "billing_error", BadStatus, False, "credit"),
        (403, "permission_error", KeyRefused, False, "permissions"),
        (404, "not_found_error", BadStatus, False, "--model"),
        (413, "request_too_large", BadStatus, False, "compact"),
        (429, "rate_limit_error", BadStatus, True, "too many requests"),
        (500, "api_error", BadStatus, True, "try again later"),
        (503, "api_error", BadStatus, True, "try again later"),
        (529, "overloaded_error", BadStatus, True, "overloaded"),
    ],
)
def test_statuses(vendor, status, kind, cls, retryable, advice):
    deltas, error = failed(vendor, refusal(status, kind, "Because."))
    assert deltas == []
    assert type(error) is cls
    assert (error.status, error.retryable) == (status, retryable)
    assert error.retry_after_seconds is None
    assert f"answered {status}" in str(error)
    assert advice in str(error)
    assert "(Because.)" in str(error)
    assert error.exit_code == (4 if cls is KeyRefused else 1)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": formatdate(0, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
    ],
)
def test_the_wish_to_wait_is_kept(vendor, headers, seconds):
    _, error = failed(vendor, refusal(429, "rate_limit_error", "Slow down.", **headers))
    assert error.retry_after_seconds == seconds


@pytest.mark.parametrize(("hint", "retryable"), [("true", True), ("false", False), ("x", False)])
def test_the_server_knows_best_whether_to_try_again(vendor, hint, retryable):
    reply = refusal(400, "invalid_request_error", "No.", **{"x-should-retry": hint})
    assert failed(vendor, reply)[1].retryable is retryable


def test_an_empty_purse_is_not_asked_again():
    body = {"error": {"message": "Pay.", "type": "insufficient_quota", "code": None}}
    reply = Reply([json.dumps(body).encode()], 429, {"content-type": "application/json"})
    _, error = failed("openai", reply)
    assert (error.status, error.retryable) == (429, False)
    detail = {"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}}
    reply.chunks = [json.dumps({"type": "error", "error": detail}).encode()]
    _, error = failed("anthropic", reply)
    assert (error.status, error.retryable) == (429, False)


@pytest.mark.parametrize(
    "body", [b"<html>Bad gateway</html>", b"", b"[1]", b'{"error": "Bad gateway"}', b'{"error": 1}']
)
def test_an_error_need_not_be_json(vendor, body):
    _, error = failed(vendor, Reply([body] if body else [], 502, {"content-type": "text/html"}))
    assert (error.status, error.retryable) == (502, True)
    assert ("Bad gateway" in str(error)) is (b"Bad" in body)


def test_a_key_that_the_server_repeats_is_not_shown(vendor):
    words = f"Wrong key {KEY} or sk-ant-api03-abc***xyz, {'long ' * 200}"
    _, error = failed(vendor, refusal(401, "authentication_error", words))
    assert "Wrong key [key] or [key]" in str(error)
    assert len(str(error)) < 500


def test_keys_are_not_in_what_the_sdk_logs(vendor, caplog):
    caplog.set_level(logging.DEBUG)
    failed(vendor, refusal(401, "authentication_error", "Wrong key."))
    assert caplog.records
    assert KEY not in "".join(record.getMessage() for record in caplog.records)
    assert KEY not in repr(VENDORS[vendor]("http://127.0.0.1:1"))
    assert KEY not in repr(Faults(vendor, "http://127.0.0.1:1", KEY))


def test_nobody_listens(vendor):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        _, error = asyncio.run(refused(VENDORS[vendor](url)))
    assert type(error) is ConnectFailed
    assert error.retryable
    assert "check the network" in str(error)


def test_the_connection_breaks_before_anything_came(vendor):
    deltas, error = failed(vendor, Reply([], end="abort"))
    assert deltas == []
    assert type(error) is ConnectFailed
    assert error.retryable


def test_the_connection_breaks_in_the_middle(vendor):
    deltas, error = failed(vendor, Reply(BEGINNINGS[vendor], end="abort"))
    assert deltas == [TextDelta("a"), TextDelta("b")]
    assert type(error) is ConnectFailed
    assert error.retryable


@pytest.mark.parametrize("end", ["abort", "hang"])
def test_what_happens_behind_a_complete_answer_cannot_spoil_it(vendor, end, monkeypatch):
    monkeypatch.setattr(sdk, "GRACE_SECONDS", 0.05)
    whole = messages_reply(text_block(0, "a"))
    if vendor == "openai":
        whole = Reply([chunk({"content": "a"}), chunk({}, "stop")])
    whole.end = end

    async def run():
        async with FakeVendor(whole) as server:
            provider = VENDORS[vendor](server.url)
            last = await answer(provider)
            await provider.close()
            return last

    assert asyncio.run(run()).message.text == "a"


def test_the_server_falls_silent(vendor):
    reply = Reply(BEGINNINGS[vendor], end="hang")
    deltas, error = failed(vendor, reply, timeout_seconds=0.3)
    assert deltas == [TextDelta("a"), TextDelta("b")]
    assert type(error) is TimedOut
    assert error.retryable


def test_the_server_never_begins(vendor):
    reply = Reply([b"x"], pause=0)
    reply.headers = {"content-type": "text/event-stream"}

    async def run():
        async with FakeVendor(reply) as server:
            _, error = await refused(VENDORS[vendor](server.url, timeout_seconds=0.3))
            server.go.set()
            return error

    assert type(asyncio.run(run())) is TimedOut


@pytest.mark.parametrize(
    "garbage",
    [b"{not json", b"[1, 2]", b'"text"', b"\xff\xfe", b'{"choices": [{"delta": 5}]}', b"null"],
)
def test_garbage_in_the_stream(vendor, garbage):
    name = b"event: content_block_delta\n" if vendor == "anthropic" else b""
    garbled = name + b"data: " + garbage + b"\n\n"
    deltas, error = failed(vendor, Reply([*BEGINNINGS[vendor], garbled]))
    assert deltas == [TextDelta("a"), TextDelta("b")]
    assert type(error) in {EmptyReply, ConnectFailed}
    assert error.retryable


def test_a_delta_for_a_block_that_never_began():
    lost = event("content_block_delta", index=7, delta={"type": "text_delta", "text": "x"})
    deltas, error = failed("anthropic", Reply([*BEGINNINGS["anthropic"], lost]))
    assert len(deltas) == 2
    assert type(error) is EmptyReply


def test_a_web_page_is_no_answer(vendor):
    reply = Reply(
        [b"<html>Log in to the hotel's network</html>"], 200, {"content-type": "text/html"}
    )
    _, error = failed(vendor, reply)
    assert type(error) is EmptyReply


@pytest.mark.parametrize(
    ("kind", "status", "retryable"),
    [
        ("overloaded_error", 529, True),
        ("rate_limit_error", 429, True),
        ("invalid_request_error", 400, False),
        ("authentication_error", 401, False),
        ("novel_error", 500, True),
    ],
)
def test_an_error_event_in_the_stream(vendor, kind, status, retryable):
    error = {"type": kind, "message": "Later."}
    data = json.dumps({"type": "error", "error": error}).encode()
    reply = Reply([*BEGINNINGS[vendor], b"event: error\ndata: " + data + b"\n\n"])
    deltas, error = failed(vendor, reply)
    assert deltas == [TextDelta("a"), TextDelta("b")]
    assert isinstance(error, BadStatus)
    assert (error.status, error.retryable) == (status, retryable)
    assert "(Later.)" in str(error)


def test_a_status_inside_an_error_event():
    data = json.dumps({"error": {"code": 502, "message": "Upstream."}}).encode()
    _, error = failed("openai", Reply([b"data: " + data + b"\n\n"]))
    assert (error.status, error.retryable) == (502, True)


def test_a_missing_package_says_what_to_install(vendor, monkeypatch):
    monkeypatch.setitem(sys.modules, vendor, None)
    _, error = asyncio.run(refused(VENDORS[vendor]("http://127.0.0.1:1")))
    assert type(error) is ProviderUnavailable
    assert error.exit_code == 4
    assert "pip install 'holdfast[agent]'" in str(error)


def test_an_address_is_shown_without_its_secrets():
    assert address("https://me:pw@example.org:8443/v1/?key=1#x") == "https://example.org:8443/v1"
    provider = OpenAI(base_url="https://me:pw@example.org/v1?key=1")
    assert "No connection" in str(Faults("x", "https://example.org", "").translate(OSError("no")))
    assert provider.endpoint == "https://example.org/v1"
