"""SDKs are loaded late, and without holding up the event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

from holdfast.errors import ProviderUnavailable
from holdfast.runtime.providers import sdk
from holdfast.runtime.providers.anthropic import Anthropic
from holdfast.runtime.providers.openai import OpenAI

CODE = """
import asyncio, sys
from holdfast.runtime.providers import catalog
from holdfast.runtime.providers.base import Request
from holdfast import user

sources = catalog.Sources(flags=catalog.Wish(sys.argv[1]), environment={
    "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"})
provider = catalog.build(catalog.choose(sources), sources)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize("name", ["anthropic", "openai", "rehearsal"])
def test_choosing_and_building_a_provider_loads_no_sdk(name):
    done = subprocess.run(
        [sys.executable, "-c", CODE, name], capture_output=True, text=True, check=True
    )
    assert not {"anthropic", "openai", "httpx", "httpx2", "pydantic"} & set(done.stdout.split())


CLIENTS: dict[str, Any] = {"anthropic": Anthropic, "openai": OpenAI}


@pytest.mark.parametrize("name", list(CLIENTS))
def test_a_package_is_loaded_in_a_thread_and_once(name, monkeypatch):
    seen = []
    load = sdk.load

    def watched(package):
        seen.append((package, threading.current_thread() is threading.main_thread()))
        return load(package)

    monkeypatch.setattr(sdk, "load", watched)

    async def run():
        provider = CLIENTS[name]("key", base_url="http://127.0.0.1:1")
        one, two = await asyncio.gather(provider._connected(), provider._connected())
        assert one is two is await provider._connected()
        await provider.close()

    asyncio.run(run())
    assert seen == [(name, False)] * 2


def test_a_package_that_is_not_there_is_named():
    with pytest.raises(ProviderUnavailable, match="'no_such_sdk', which is not installed"):
        sdk.require("no_such_sdk")
