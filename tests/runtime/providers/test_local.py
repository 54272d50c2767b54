"""Servers on this machine: offered if something listens, and only then."""

from __future__ import annotations

import socket

from holdfast.runtime.providers.local_servers import offered


def test_what_listens_is_offered_with_the_words_to_use_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        told = offered({port: "Ollama"})
    assert f"--base-url http://127.0.0.1:{port}/v1 --model NAME" in told
    assert "Ollama" in told
    assert offered({port: "Ollama"}) == ""
