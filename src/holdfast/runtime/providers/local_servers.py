"""Model servers on this machine: looked for when nobody else can answer; offered, never chosen."""

from __future__ import annotations

import socket

_PORTS = {11434: "Ollama", 1234: "LM Studio", 8080: "llama.cpp", 8000: "vLLM"}
_CONNECT_SECONDS = 0.2


def offered(ports: dict[int, str] | None = None) -> str:
    """Return a sentence that offers what listens where such servers usually do; blocks shortly."""
    known = _PORTS if ports is None else ports
    found = [(name, port) for port, name in known.items() if _listens(port)]
    if not found:
        return ""
    name, port = found[0]
    return (
        f" A server listens on the usual port of {name}. To use it: "
        f"--base-url http://127.0.0.1:{port}/v1 --model NAME."
    )


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_SECONDS):
            return True
    except OSError:
        return False
