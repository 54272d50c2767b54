"""Markdown: a page to read, paste and print. ``store/read/markdown.py`` writes it."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.exchange.exporting.transcript import Line, Transcript
from holdfast.store.read.markdown import markdown


class MarkdownExporter:
    """A conversation as Markdown."""

    name = "markdown"
    title = "Markdown"

    def file_name(self, transcript: Transcript) -> str:
        """Return the session's id with the usual ending."""
        return f"{transcript.id}.md"

    def chunks(self, transcript: Transcript) -> Iterator[bytes]:
        """Yield the page."""
        said = (
            item.message if isinstance(item, Line) else item.summary for item in transcript.items()
        )
        for piece in markdown(transcript.id, transcript.meta, said):
            yield piece.encode()
