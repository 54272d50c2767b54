"""Markdown of others in a page of ours: what it may not do, and that it stays what it is.

A renderer that lets everything through (HTML, any link) judges what a page would do.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.store.read.markdown_escape import code, contained, fenced, literal, quoted
from tests.credulous import Credulous

BEHIND = "\n\n## Behind\n"
# An address, or what has no scheme: none begins with a bracket.
_LINK = re.compile(r"https?://|mailto:|<|[^:]*(?:[/?#(]|$)", re.IGNORECASE)


PARSERS = [Credulous(tables=True), Credulous(tables=False)]


def tokens(page, parser=PARSERS[0]):
    """Yield all tokens of a page, inner ones too."""
    for token in parser.parse(page):
        yield token
        yield from token.children or []


def check_harmless(page):
    for parser in PARSERS:
        found = list(tokens(page, parser))
        assert not [each.content for each in found if each.type.startswith("html")], page
        assert not [each for each in found if each.type == "image"], page
        for link in (each.attrGet("href") for each in found if each.type == "link_open"):
            assert _LINK.match(link), (link, page)
        *_, opening, words, closing = parser.parse(page)
        kinds = opening.type, words.content, closing.type
        assert kinds == ("heading_open", "Behind", "heading_close"), page


PIECES = [
    *("<script>", "<!--", "<?", "<img src=x onerror=y>", "</div>", "<div\n", "<![CDATA["),
    *("![i](http://evil/x.png)", "![i][r]", "[a](javascript:x)", "[a](  javascript:x)"),
    *("[a](<java\tscript:x>)", "[a](&#106;avascript:x)", "[a](java\\script\\:x)", "](", "]:"),
    *("[r]: javascript:x", "[r]:", "[r]", "(javascript:x)", "javascript:x", "[a](\n"),
    *("`", "``", "```", "````", "~~~", "~~~~", "```html", "~~~ a`b", "```a``` "),
    *("\n", "\n", "\n\n", " ", "  ", "   ", "    ", "\t", "\\", "\\\\", "|", "\\|", "!", "["),
    *("> ", ">", ">\t", "- ", "-\t", "1. ", "12) ", "* ", "-", "|---|---|", "\n|-|\n", "# ", "---"),
    *(
        "a",
        "é",
        "<",
        "<http://ok>",
        "<https://a`b>",
        "&lt;",
        "\x1b[31m",
        "\x1b]0;",
        "\x07",
        "\ud800",
    ),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("- a\n  ```\n<script>\n")
@example("- ```\n  <script>\n  ```\n  <script>")
@example("a\n    ```\n    <script>\n    ```")
@example("2. ```\n\n   <script>\n   ```")
@example("a ` b\nx `<script>` y")
@example("| a | b |\n|---|---|\n| `a | b` `<script>` |")
@example("| a | b |\n|---|---|\n| ` \\\\| <script> ` |")
@example("- a\n\n  > ```\n> <script>")
@example(">\t```\n>  \t<script>\n>\t```")
@example("```\n    ```\n<script>\n```")
@example("  ```\n     ```\n  <script>\n  ```")
@example("<\x1b[31mscript>")
@example("[r]\n\n[r]:<https://a`b>")
@example("```<script>|\n|-|\n")
@example("> ` | `<script>`\n|-|-|\n")
@example(">" * 40 + " ```\n" + ">" * 40 + " <script>")
def test_nothing_in_it_acts_or_reaches_beyond_its_end(text):
    check_harmless(contained(text) + BEHIND)
    check_harmless(quoted(text) + BEHIND)
    check_harmless(f"*[{literal(text)}]*" + BEHIND)
    check_harmless(f"# {literal(text)}" + BEHIND)
    check_harmless(f"- name: {code(text)}" + BEHIND)
    check_harmless(fenced(text) + BEHIND)


ORDINARY = """\
# A heading

Some *words*, **more**, `List<String>`, `` a`b ``, a < b && c > d, <3, 2 <= 3.
See [the docs](https://example.org/a_(b)?c=d "title: x"), [a file](src/a.py:12), <https://ok.example>.
[r]: https://example.org
a[0]: first, `cat x | grep <y>`, ```<inline>``` and ~~gone~~ [x](#top) [mail](mailto:a@b.example)

| a | b |
|---|---|
| `<i>` | `a \\| <b>` |

```html
<script>alert(1)</script>
    ```
![i](http://there/x.png) `
```

1. One

   ```python
   print("<b>")

   ```

   - Nested

     ```sh
     cat <in >out
     ```

> Quoted
>
> ```
> <b>
> ```

~~~~
```
<i>
~~~
~~~~
"""


def test_ordinary_markdown_stays_as_it_is():
    assert contained(ORDINARY) == ORDINARY
    plain = "no marks at all\n\tor hardly any *x*"
    assert contained(plain) == plain


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("<b>bold</b> List<String> <a@b.c>", "&lt;b>bold&lt;/b> List&lt;String> &lt;a@b.c>"),
        ("\\<b> \\![i](x)", "&lt;b> \\![i](x)"),
        ("![i](http://evil/x.png)", "\\![i](http://evil/x.png)"),
        ("[a](JavaScript:x) [b](data:x)", "[a]\\(JavaScript:x) [b]\\(data:x)"),
        ("[r]: javascript:x", "[r]\\: javascript:x"),
        ("it`s\n~~~~~ no", "it\\`s\n~~~~~ no\n~~~~~"),
        ("a ~~~", "a \\~\\~\\~"),
        ("```sh\nls", "```sh\nls\n```"),
        ("  ~~~\n  x\ny", "  ~~~\n  x\n  ~~~\ny"),
        ("- ```sh\n  ls\n  ```", "-\n  ```sh\n  ls\n  ```"),
        ("a\n- ```sh\n  ls", "a\n\n-\n  ```sh\n  ls\n  ```"),
        ("a\n     ```\n     x\n   ```", "a\n\n     ```\n     x\n     ```"),
        ("> ```\n> x\ny", "> ```\n> x\n> ```\ny"),
        ("> a\n>\n> <b>", "> a\n>\n> &lt;b>"),
    ],
)
def test_what_acts_is_shown_instead(text, made):
    assert contained(text) == made


def words(page):
    """Return the text that a reader sees."""
    return "".join(
        each.content
        for each in tokens(page)
        if each.type in ("text", "code_inline", "text_special")
    )


@pytest.mark.parametrize(
    "text",
    [
        "<b>&amp;",
        "a_b _c_ *d* `e` ~~f~~",
        "[x](y) ![z](w)",
        "C# #",
        "##",
        "C:\\new `` `a",
        "&copy;",
    ],
)
def test_a_name_is_read_as_it_stands(text):
    assert words(f"# {literal(text)}") == text
    assert words(f"- {code(text)}") == text


def test_a_long_line_of_marks_takes_no_time():
    runs = " ".join("`" * length for length in range(1, 1500))
    assert contained(runs).count("\\`") == runs.count("`")
    pairs = "`<a>` " * 100_000
    assert contained(pairs) == pairs
    assert contained(">" * 100_000 + "<b>").endswith("&lt;b>")
