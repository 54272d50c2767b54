"""A client shows the entry that finishes a stream whole, after the text that it showed live."""

from __future__ import annotations

from holdfast.runtime.protocol.transcript_stream import TranscriptStream

CAUGHT_BY = ("G",)


def apply() -> None:
    rest_now = TranscriptStream._rest

    def rest(self: TranscriptStream, key: tuple[str, str, str | None], text: str) -> None:
        self._told.pop(key, None)
        rest_now(self, key, text)

    TranscriptStream._rest = rest  # type: ignore[method-assign]  # the defect itself
