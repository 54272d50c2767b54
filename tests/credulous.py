"""A reader of Markdown that lets everything through: what it finds, somebody's reader would."""

from __future__ import annotations

from markdown_it import MarkdownIt


class Credulous(MarkdownIt):
    """Takes HTML for HTML, every link for a good one, and as it is."""

    def __init__(self, *, tables: bool = False) -> None:
        super().__init__("commonmark", {"html": True, "maxNesting": 1000})
        if tables:
            self.enable(["table", "strikethrough"])

    def validateLink(self, url: str) -> bool:  # noqa: N802  the parser's own names
        """Like any address."""
        return True

    def normalizeLink(self, url: str) -> str:  # noqa: N802  as above
        """Change nothing."""
        return url
