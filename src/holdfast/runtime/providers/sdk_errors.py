"""Everything a vendor's SDK may raise, as the four errors that the loop knows.

The SDKs of Anthropic and OpenAI come from one generator: their errors have the same names and
attributes, so one translation serves both. What the HTTP library below them raises is told by the
names of its classes, because which library that is changes with the SDK's version.

A message names the provider, the endpoint and what to do. It never holds a key: the provider's own
words are searched for it, and the original error, which knows the request's headers, is not kept.
"""

from __future__ import annotations

import re
import time
from email.utils import mktime_tz, parsedate_tz
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from holdfast.errors import (
    BadStatus,
    ConnectFailed,
    EmptyReply,
    KeyRefused,
    ProviderError,
    TimedOut,
)

_LONGEST_QUOTE = 300
_KEY = re.compile(r"\b(?:sk|key|pk|gsk|xai)-[\w*.-]{6,}")

# What an error inside a stream stands for; its own HTTP status is 200.
_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_ADVICE = {
    400: "the request was not accepted",
    401: "the key was not accepted; check it or log in again",
    402: "the account has no credit left",
    403: "the key does not allow this; check its permissions",
    404: "unknown model or address; check --model and the base URL",
    413: "the request is too large; compact the session",
    429: "too many requests; wait or check the plan",
    529: "it is overloaded; try again later",
}
_MONEY = {"insufficient_quota", "billing_error", "enforced_spend_limit_reached"}


def address(endpoint: str) -> str:
    """Return an endpoint as it may be shown and recorded: without user, password and query."""
    parts = urlsplit(endpoint)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


class Faults:
    """Translates for one provider."""

    def __init__(self, name: str, endpoint: str, key: str) -> None:
        self._who = f"{name} at {address(endpoint)}"
        self._key = key

    def __repr__(self) -> str:
        return f"Faults({self._who!r})"

    def ended(self, *, started: bool) -> ProviderError:
        """Return the error for a stream that ended before its last event."""
        if started:
            return ConnectFailed(
                f"{self._who} closed the connection before the answer was complete; try again.",
                retryable=True,
            )
        return self.empty()

    def empty(self) -> EmptyReply:
        """Return the error for an answer with nothing in it."""
        return EmptyReply(f"{self._who} sent an empty answer; try again.", retryable=True)

    def translate(self, error: Exception) -> ProviderError:
        """Return the error of ours that ``error`` amounts to."""
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if isinstance(error, ProviderError):
            return error
        if kinds & {"APITimeoutError", "TimeoutException", "TimeoutError"}:
            return TimedOut(f"{self._who} did not answer in time; try again.", retryable=True)
        if "APIStatusError" in kinds:
            return self._status(error)
        if kinds & {"APIConnectionError", "TransportError", "OSError"}:
            return ConnectFailed(
                f"No connection to {self._who} ({self._reason(error)}); "
                "check the network, the base URL and whether the server runs.",
                retryable=True,
            )
        if "APIError" in kinds and "APIResponseValidationError" not in kinds:
            return self._status(error)  # an error event inside a stream
        return EmptyReply(
            f"{self._who} sent something that cannot be understood "
            f"({type(error).__name__}); try again.",
            retryable=True,
        )

    def _reason(self, error: BaseException) -> str:
        while error.__cause__ is not None:
            error = error.__cause__
        return self._quote(str(error)) or type(error).__name__

    def _status(self, error: Any) -> BadStatus:
        headers = getattr(getattr(error, "response", None), "headers", {})
        kind, code, words = _told(getattr(error, "body", None))
        status = getattr(error, "status_code", 200)
        if status < 400:
            status = _in_stream(kind, code)
        advice = _ADVICE.get(status, "it failed; try again later")
        said = self._quote(words or getattr(error, "message", ""))
        message = f"{self._who} answered {status}: {advice}" + (f" ({said})." if said else ".")
        paid = not {kind, code} & _MONEY
        retryable = paid and (status in {408, 409, 429} or status >= 500)
        if (hint := headers.get("x-should-retry")) in {"true", "false"}:
            retryable = hint == "true"
        known = {401: KeyRefused, 403: KeyRefused}
        return known.get(status, BadStatus)(
            message,
            retryable=retryable,
            status=status,
            retry_after_seconds=_retry_after(headers),
        )

    def _quote(self, text: str) -> str:
        if self._key:
            text = text.replace(self._key, "[key]")
        text = " ".join(_KEY.sub("[key]", text).split())
        return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


def _told(body: Any) -> tuple[str, str, str]:
    """Return type, code and message of an error's body, each empty if it has none."""
    if isinstance(body, str):
        return "", "", body
    inner = body.get("error", body) if isinstance(body, dict) else None
    if isinstance(inner, str):
        return "", "", inner
    if not isinstance(inner, dict):
        return "", "", ""
    details = inner.get("details")
    code = inner.get("code") or (details.get("error_code") if isinstance(details, dict) else "")
    return str(inner.get("type") or ""), str(code or ""), str(inner.get("message") or "")


def _in_stream(kind: str, code: str) -> int:
    if code.isdigit() and 400 <= int(code) <= 599:  # some servers put the status there
        return int(code)
    return _STATUS_OF.get(code) or _STATUS_OF.get(kind) or 500


def _retry_after(headers: Any) -> float | None:
    """Return how long to wait, from either of two headers, in seconds or as a date."""
    for name, unit_seconds in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) * unit_seconds)
        except ValueError:
            continue
    date = parsedate_tz(headers.get("retry-after", ""))
    return None if date is None else max(0.0, mktime_tz(date) - time.time())
