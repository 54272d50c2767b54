"""Text of a conversation as HTML. Whoever wrote it, nothing in it becomes more than text.

Markdown is rendered with raw HTML off. Links lead to http, https and mail addresses alone; an image
that stands somewhere else becomes a link, because loading it would tell that somebody reads.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from holdfast.errors import UsageError
from holdfast.model.sanitize import for_terminal

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LONGEST_RENDERED_CHARACTERS = 100_000
_LONGEST_HIGHLIGHTED_CHARACTERS = 30_000
_DEEPEST = 40
_SCHEMES = {"http", "https", "mailto"}
_ALIGNMENT = re.compile(r"text-align:(center|right)")
_LANGUAGES = frozenset(
    """
    bash c cpp css diff dockerfile go html ini java javascript js json kotlin lua makefile markdown
    php python py ruby rust rs sh shell sql swift toml ts tsx typescript xml yaml yml zsh
    """.split()  # noqa: SIM905  a list of names reads best as a list of names
)


def text_of(text: str) -> str:
    """Return plain text, escaped."""
    return escape(for_terminal(text), quote=True)


def plain_of(text: str) -> str:
    """Return text as it stands, line by line."""
    return f'<div class="plain">{text_of(text)}</div>'


def code_of(text: str, language: str = "") -> str:
    """Return a block of code, in colours if its language is one that is known well."""
    text = for_terminal(text).removesuffix("\n")
    return f"<pre><code>{_highlighted(text, language) or escape(text)}</code></pre>"


def _highlighted(code: str, language: str) -> str | None:
    if language not in _LANGUAGES or len(code) > _LONGEST_HIGHLIGHTED_CHARACTERS:
        return None
    try:
        pygments: Any = importlib.import_module("pygments")  # an extra, and slow to load
        lexers: Any = importlib.import_module("pygments.lexers")
        formatters: Any = importlib.import_module("pygments.formatters.html")
    except ImportError:
        return None
    lexer = lexers.get_lexer_by_name(language, stripnl=False)
    formatter = formatters.HtmlFormatter(nowrap=True, classprefix="c-")
    made: str = pygments.highlight(code, lexer, formatter)
    return made.removesuffix("\n")


class HtmlRenderer:
    """Markdown to HTML."""

    def __init__(self) -> None:
        """Set up the parser.

        Raises:
            UsageError: it is not installed.
        """
        try:
            from markdown_it import MarkdownIt  # noqa: PLC0415  an extra
        except ImportError:
            raise UsageError(
                "HTML needs packages that are not installed: pip install 'holdfast[agent]', or "
                "export to markdown."
            ) from None
        options: dict[str, Any] = {"html": False, "breaks": True, "maxNesting": _DEEPEST}
        self._parser: MarkdownIt = MarkdownIt("commonmark", options)
        self._parser.enable(["table", "strikethrough"])
        rules: dict[str, Callable[..., str]] = {
            "link_open": _link_open,
            "link_close": _link_close,
            "image": _image,
            "fence": _fence,
            "code_block": _code_block,
            "heading_open": _heading,
            "heading_close": _heading,
            "th_open": _cell,
            "td_open": _cell,
            "table_open": _table_open,
            "table_close": _table_close,
        }
        for name, rule in rules.items():
            self._parser.add_render_rule(name, rule)

    def html(self, text: str) -> str:
        """Return Markdown as HTML; what is too long or too deep for that, as plain text."""
        text = for_terminal(text)
        if len(text) > LONGEST_RENDERED_CHARACTERS:
            return plain_of(text)
        try:
            tokens = self._parser.parse(text)
            # Below the deepest level the parser leaves text out without a word.
            if any(token.level >= _DEEPEST - 1 for token in tokens):
                return plain_of(text)
            made = self._parser.renderer.render(tokens, self._parser.options, {})
        except RecursionError:
            return plain_of(text)
        return f'<div class="said">{made}</div>'


def is_address(url: str) -> bool:
    """Tell whether a link may lead there."""
    try:
        return urlsplit(url).scheme.lower() in _SCHEMES
    except ValueError:
        return False


def link(url: str, shown: str) -> str:
    """Return a link; ``shown`` is HTML already."""
    return f'<a href="{text_of(url)}" rel="noopener noreferrer nofollow">{shown}</a>'


# Rules of the renderer. The parser hands over itself, tokens, place, options and environment.


def _link_open(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    url = str(tokens[place].attrGet("href") or "")
    return link(url, "").removesuffix("</a>") if is_address(url) else "<span>"


def _link_close(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    depth = 0
    for token in reversed(tokens[:place]):
        if token.type == "link_close":
            depth += 1
        elif token.type == "link_open":
            if depth == 0:
                return "</a>" if is_address(str(token.attrGet("href") or "")) else "</span>"
            depth -= 1
    return "</span>"


def _image(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    token = tokens[place]
    url = str(token.attrGet("src") or "")
    shown = f"[image: {escape(token.content or url)}]"
    return link(url, shown) if is_address(url) else f"<span>{shown}</span>"


def _fence(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    token = tokens[place]
    words = token.info.split(maxsplit=1)
    return code_of(token.content, words[0].lower() if words else "")


def _code_block(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    return code_of(tokens[place].content)


def _heading(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    """Put headings of a text below those of the page."""
    token = tokens[place]
    level = min(6, int(token.tag[1]) + 2)
    return f"<h{level}>" if token.nesting == 1 else f"</h{level}>"


def _cell(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    """Say how a column is aligned without a style, which the policy would not apply."""
    token = tokens[place]
    found = _ALIGNMENT.search(str(token.attrGet("style") or ""))
    return f'<{token.tag} class="{found[1]}">' if found else f"<{token.tag}>"


def _table_open(*_: Any) -> str:
    return '<div class="wide"><table>'


def _table_close(*_: Any) -> str:
    return "</table></div>"
