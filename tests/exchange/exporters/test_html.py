"""The page: nothing that anybody said becomes more than text, and it loads nothing."""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings

import holdfast
from holdfast import File, Image, Text, Thinking, ToolCall
from holdfast.exchange.exporters import html_markdown
from holdfast.exchange.exporters.html import _Page
from holdfast.exchange.exporters.html_markdown import HtmlRenderer, code_of
from holdfast.exchange.exporting.transcript import Line
from holdfast.model.message import AnyPart
from tests.exchange.exporters.conversations import (
    HOSTILE,
    PIXEL,
    conversations,
    exported,
    session_of,
)

TAGS = set(
    """
    html head meta title style body div h1 dl dt dd main article header h2 h3 h4 h5 h6 span time a p
    ul ol li blockquote table thead tbody tr th td pre code hr br em strong s img details summary b
    """.split()  # noqa: SIM905  a list of names reads best as a list of names
)
ATTRIBUTES = {
    "a": {"href", "rel"},
    "article": {"class", "id"},
    "details": {"class"},
    "div": {"class"},
    "html": {"lang"},
    "img": {"alt", "src"},
    "meta": {"charset", "content", "http-equiv", "name"},
    "ol": {"start"},
    "p": {"class"},
    "span": {"class"},
    "td": {"class"},
    "th": {"class"},
    "time": {"datetime"},
}
VOID = {"meta", "br", "hr", "img"}


class Strict(HTMLParser):
    """Refuses every tag, attribute and address that the page has no business with."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, tag
        for name, value in attrs:
            assert name in ATTRIBUTES.get(tag, set()), (tag, name)
            if name == "href":
                assert re.match(r"#e\d+$|https?:|mailto:", value, re.IGNORECASE), value
            if name == "src":
                assert re.match(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*$", value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)

    def unknown_decl(self, data):
        raise AssertionError(data)


def checked(page: bytes) -> str:
    """Return the text that a page shows."""
    parser = Strict()
    parser.feed(page.decode())
    parser.close()
    assert parser.open == []
    return "".join(parser.text)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(conversations)
def test_nobody_can_add_anything_to_the_page(messages):
    with session_of(messages) as session:
        checked(exported(session, "html"))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_text(text):
    everywhere = [
        holdfast.user(text),
        holdfast.system(text),
        holdfast.assistant(
            [
                Thinking(text=text),
                ToolCall(id=text, name=text or "n", arguments={text: text}),
                Image(media_type=text, data=text, url=text),
            ],
            model=text,
        ),
        holdfast.tool_result(text, text),
    ]
    with session_of(everywhere) as session:
        session.append(holdfast.Meta({"title": text, "model": text, "workspace": text}))
        session.checkpoint(text)
        shown = checked(exported(session, "html"))
    assert not set(shown) & {"\x1b", "\x00", "\u202e", "\ud800"}
    if text.startswith("<script>"):
        assert shown.count("<script>alert(1)</script>") >= 5


def test_nothing_ends_an_attribute():
    breaking = '"onmouseover="alert(1)" \'x\''
    parts: list[AnyPart] = [
        Text(text=f"[a](<https://x.example/{breaking}>) ![b](<https://x.example/{breaking}>)"),
        Image(media_type="image/png", url=f"https://x.example/{breaking}"),
        File(name="f", media_type="a/b", url=f"mailto:{breaking}"),
    ]
    line = Line(holdfast.user(parts), at=breaking, seq=1)
    shown = _Page().said(line)
    assert shown.count("<a ") == 5
    checked(shown.encode())


def test_the_page_may_load_nothing_but_its_own_style():
    with session_of([holdfast.user("hello")]) as session:
        page = exported(session, "html").decode()
    style = page.partition("<style>")[2].partition("</style>")[0]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    hashed = b64encode(sha256(style.encode()).digest()).decode()
    assert policy[1].split("; ") == [
        "default-src 'none'",
        "img-src data:",
        f"style-src 'sha256-{hashed}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme:dark" in style
    assert "width=device-width" in page
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert not re.search(r"\sstyle=|<script|<link", page)


def test_calls_are_folded_with_what_tells_most():
    call = ToolCall(id="1", name="bash", arguments={"timeout": 3, "command": "make\nall"})
    answer = holdfast.tool_result("1", "\x1b[31mno\x1b[0m", outcome="failed")
    with session_of([holdfast.assistant([call]), answer]) as session:
        page = exported(session, "html").decode()
    assert "<details><summary><b>bash</b> <code>make all</code></summary>" in page
    assert '<details class="bad"><summary>Result of bash: <span class="outcome">failed' in page
    assert "<pre><code>no</code></pre>" in page


def test_markdown_is_rendered():
    said = "# Title\n\nA **word**, ~~no~~ `code`\n\n| a | b |\n|:-:|--:|\n| 1 | 2 |\n\n1. x\n\n[l](https://x.example)"
    html = HtmlRenderer().html(said)
    assert "<h3>Title</h3>" in html
    assert "<strong>word</strong>" in html
    assert '<td class="center">1</td>' in html
    assert '<a href="https://x.example" rel="noopener noreferrer nofollow">l</a>' in html


def test_an_image_elsewhere_is_a_link_and_one_inside_is_shown():
    parts: list[AnyPart] = [
        Text(text="![a](https://x.example/i.png) ![b](data:image/png;base64,AAAA)"),
        Image(media_type="image/png", data=PIXEL),
        Image(media_type="image/svg+xml", data=PIXEL),
        Image(media_type="image/png", url="https://x.example/j.png"),
        Image(media_type="image/png", url="file:///etc/passwd"),
    ]
    with session_of([holdfast.user(parts)]) as session:
        page = exported(session, "html").decode()
    assert page.count("<img") == 1
    assert '<a href="https://x.example/i.png"' in page
    assert '<a href="https://x.example/j.png"' in page
    assert "passwd" not in page


def test_code_has_colours_where_the_language_is_known():
    assert '<span class="c-k">def</span>' in code_of("def f(): pass", "python")
    assert code_of("def f(): pass", "no-such-language") == ("<pre><code>def f(): pass</code></pre>")
    assert "span" not in code_of("x = 1\n" * 10_000, "python")


def test_text_that_is_too_deep_or_too_long_is_not_lost():
    deep = "".join("  " * level + f"- level {level}\n" for level in range(60))
    html = HtmlRenderer().html(deep)
    assert all(f"level {level}\n" in html for level in range(60))
    quoted = ">" * 200 + " deep"
    assert "deep" in HtmlRenderer().html(quoted)
    long = "*a* " * 30_000
    assert HtmlRenderer().html(long) == f'<div class="plain">{long}</div>'


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    with pytest.raises(holdfast.UsageError, match="pip install"):
        HtmlRenderer()
    monkeypatch.setitem(sys.modules, "pygments", None)
    assert html_markdown.code_of("x = 1", "python") == "<pre><code>x = 1</code></pre>"
