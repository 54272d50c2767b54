"""What of a client's environment reaches commands and providers, and never the journal."""

from __future__ import annotations

import os

from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.client import connect, environment_for_runner
from tests.cli.vendor import streamed, vendor_on_loopback
from tests.runtime.runner.runner_clients import Caller, Office, run


async def _attached_with(office: Office, environment: dict[str, str]) -> Caller:
    caller = Caller(await connect(office.socket(), environment))
    await caller.attach()
    return caller


def test_only_what_is_listed_leaves_a_client():
    environment = {
        "PATH": "/bin",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "OPENAI_API_KEY": "sk-1",
        "AWS_SECRET_ACCESS_KEY": "no",
        "HOME": "/root",
        "LD_PRELOAD": "no",
        "DISPLAY": os.fsdecode(b"\xff"),
    }
    assert environment_for_runner(environment) == {
        "PATH": "/bin",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "OPENAI_API_KEY": "sk-1",
    }


def test_commands_see_the_newest_client_and_no_keys(office, monkeypatch):
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/first-agent")
    show = 'echo "$SSH_AUTH_SOCK $OPENAI_API_KEY ${LD_PRELOAD:-none}"; command -v mine; :'
    tool = office.workspace / "bin" / "mine"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)

    async def look():
        await office.begin()
        caller = await _attached_with(office, {})
        await caller.submit(f"run: {show}\nsay: {{result}}")
        assert (await caller.hears(type="turn"))["text"].split() == ["/tmp/first-agent", "none"]
        later = await _attached_with(
            office,
            {
                "SSH_AUTH_SOCK": "/tmp/second-agent",
                "PATH": f"{tool.parent}:{os.environ['PATH']}",
                "OPENAI_API_KEY": "sk-very-secret",
                "LD_PRELOAD": "/tmp/evil.so",
            },
        )
        await later.submit(f"run: {show}\nsay: {{result}}")
        ended = await later.hears(type="turn")
        assert ended["text"].split() == ["/tmp/second-agent", "none", str(tool)]
        broken = await _attached_with(office, {"PATH": "/bin\0/evil"})
        await broken.submit("run: echo still there\nsay: {result}")
        assert (await broken.hears(type="turn"))["text"] == "still there"

    run(look())
    everything = b"".join(p.read_bytes() for p in office.home.rglob("*") if p.is_file())
    assert b"sk-very-secret" not in everything
    assert b"/tmp/evil.so" not in everything


def test_a_key_of_a_name_of_ones_own_is_taken_over_and_kept_from_commands(office, monkeypatch):
    config = office.home.parent / "config"
    config.mkdir()
    with vendor_on_loopback(*(streamed("openai", text) for text in ("one", "two"))) as vendor:
        lines = f'base_url = "{vendor.url}/v1"\nmodel = "served"\nkey_variable = "MY_OWN_KEY"\n'
        (config / "config.toml").write_text(f'provider = "openai"\n{lines}')
        monkeypatch.setenv("MY_OWN_KEY", "sk-first-own-key")

        async def switch():
            caller = await office.call()
            await caller.attach()
            await caller.submit("hello")
            assert (await caller.hears(type="turn"))["text"] == "one"
            given = {"MY_OWN_KEY": "sk-second-own-key", "NOT_CONFIGURED": "sk-no"}
            later = await _attached_with(office, {})
            said = {"protocol": protocol.PROTOCOL, "version": "x", "environment": given}
            await later.ask(protocol.Hello, **said)  # whatever a client of ours would send
            await later.submit("hello again")
            assert (await later.hears(type="turn"))["text"] == "two"
            await later.ask(protocol.SetModel, provider="rehearsal")
            await later.hears(type="state", model="rehearsal", state="idle")
            await later.submit('run: echo "[$MY_OWN_KEY$NOT_CONFIGURED]"\nsay: {result}')
            ended = await later.hears(type="turn", times=2)
            assert ended["text"] == "[]"

        run(switch())
        keys = [each.headers["authorization"] for each in vendor.received]
    assert keys == ["Bearer sk-first-own-key", "Bearer sk-second-own-key"]
    everything = b"".join(p.read_bytes() for p in office.home.rglob("*") if p.is_file())
    assert b"own-key" not in everything


def test_a_new_key_is_used_from_the_next_turn_on_and_never_written(office, monkeypatch):
    with vendor_on_loopback(streamed("openai", "one"), streamed("openai", "two")) as vendor:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-first-key")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{vendor.url}/v1")

        async def switch():
            caller = await office.call(provider="openai", model="served")
            await caller.attach()
            await caller.submit("hello")
            assert (await caller.hears(type="turn"))["text"] == "one"
            later = await _attached_with(office, {"OPENAI_API_KEY": "sk-second-key"})
            await later.submit("hello again")
            assert (await later.hears(type="turn"))["text"] == "two"

        run(switch())
        keys = [each.headers["authorization"] for each in vendor.received]
    assert keys == ["Bearer sk-first-key", "Bearer sk-second-key"]
    everything = b"".join(p.read_bytes() for p in office.home.rglob("*") if p.is_file())
    assert b"sk-first-key" not in everything
    assert b"sk-second-key" not in everything
