"""Keys and tokens that vendors give a shape of their own.

Only shapes that are hardly ever anything else are taken: what is replaced in an export is gone from
it. A text is gone through for what a key begins with, and looked at closely only there, so that the
time grows with the text, not with the number of kinds or with how a text is made up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from holdfast.exchange.redaction.entropy import is_random

Found = tuple[int, int, str]
"""A secret: where it begins, where it ends, its kind."""

_WORD = r"[A-Za-z0-9_-]"
# What may stand before a key whose beginning is short: anything but a letter or a digit, unless
# these are an escape of JSON or of an address, or an option of one letter.
_ALONE = re.compile(r"(?:[^A-Za-z0-9]|\\[nrtbfv]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}|\s-[a-z])\Z")


class Kind(Struct, frozen=True):
    """A kind of key: what it begins with (``anchors``), and the ``pattern`` of what follows.

    ``alone``: it may not follow a letter or a digit. ``check`` refuses look-alikes.
    """

    name: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    alone: bool = False
    check: Callable[[str], bool] | None = None


def _kind(
    name: str,
    anchors: str,
    pattern: str,
    *,
    alone: bool = False,
    check: Callable[[str], bool] | None = None,
) -> Kind:
    return Kind(name, tuple(anchors.split()), re.compile(pattern), alone, check)


def _weak(name: str, anchors: str, pattern: str) -> Kind:
    """Return a kind with a short beginning: it must stand alone and look drawn."""
    return _kind(name, anchors, pattern, alone=True, check=is_random)


# Quantifiers are possessive (``++``): nothing is tried in more than one way.
KINDS: tuple[Kind, ...] = (
    _kind("Anthropic key", "sk-", r"ant-[A-Za-z0-9_-]{20,}+"),
    _kind("OpenRouter key", "sk-", r"or-(?:v1-)?[A-Za-z0-9]{32,}+"),
    _kind("OpenAI key", "sk-", r"(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}+", alone=True),
    _weak("API key (sk-)", "sk-", r"[A-Za-z0-9]{20,}+"),
    _kind("Google API key", "AIza", r"[A-Za-z0-9_-]{35,}+", alone=True),
    _weak("Google API key", "AQ.", r"Ab[A-Za-z0-9_-]{38,}+"),
    _kind("Google OAuth token", "ya29.", r"[A-Za-z0-9_-]{20,}+"),
    _kind("Google OAuth secret", "GOCSPX-", r"[A-Za-z0-9_-]{28,}+"),
    _weak("xAI key", "xai-", r"[A-Za-z0-9]{40,}+"),
    _kind("Groq key", "gsk_", r"[A-Za-z0-9]{40,}+"),
    _kind("Perplexity key", "pplx-", r"[A-Za-z0-9]{32,}+"),
    _weak("Hugging Face token", "hf_", r"[A-Za-z0-9]{30,}+"),
    _weak("Replicate token", "r8_", r"[A-Za-z0-9]{37,}+"),
    _kind("NVIDIA key", "nvapi-", r"[A-Za-z0-9_-]{40,}+"),
    _weak("Cerebras key", "csk-", r"[A-Za-z0-9]{40,}+"),
    _weak("Fireworks key", "fw_", r"[A-Za-z0-9]{20,}+"),
    _kind("Together key", "tgp_v1_", r"[A-Za-z0-9_-]{40,}+"),
    _kind(
        "GitHub token",
        "ghp_ gho_ ghu_ ghs_ ghr_",
        r"[A-Za-z0-9]{36,}+(?:\.[A-Za-z0-9_-]{20,}+)*+",
    ),
    _kind("GitHub token", "github_pat_", r"[A-Za-z0-9_]{50,}+"),
    _kind(
        "GitLab token",
        "glpat- gldt- glrt- glrtr- glft- glagent- glptt- glcbt- glimt- glsoat- glffct- gloas-",
        r"[A-Za-z0-9_-]{20,}+(?:\.[A-Za-z0-9_-]{2,})*+",
    ),
    _kind("Slack token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs-", r"[A-Za-z0-9-]{18,}+"),
    _kind("Slack token", "xapp-", r"\d-[A-Z0-9]++-\d++-[a-z0-9]{20,}+"),
    _kind(
        "Slack webhook",
        "hooks.slack.com/",
        r"(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}+",
    ),
    _kind("Discord webhook", "/api/webhooks/", r"\d{15,22}/[A-Za-z0-9_-]{40,}+"),
    _kind("AWS access key", "AKIA ASIA ABIA ACCA", r"[A-Z2-7]{16}(?![A-Za-z0-9])"),
    _kind("Stripe key", "sk_live_ rk_live_ pk_live_ sk_test_ rk_test_", r"[A-Za-z0-9]{20,}+"),
    _kind("Stripe webhook secret", "whsec_", r"[A-Za-z0-9+/]{32,}+={0,2}"),
    _kind("SendGrid key", "SG.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43,}+"),
    _kind("Twilio key", "SK", r"[0-9a-f]{32}(?![A-Za-z0-9])", alone=True),
    _kind("Mailgun key", "key-", r"[0-9a-f]{32}(?![A-Za-z0-9])", alone=True),
    _weak("npm token", "npm_", r"[A-Za-z0-9]{36,}+"),
    _kind("PyPI token", "pypi-", r"AgE[A-Za-z0-9_-]{50,}+"),
    _kind("RubyGems key", "rubygems_", r"[0-9a-f]{48}"),
    _kind("Docker token", "dckr_pat_ dckr_oat_", r"[A-Za-z0-9_-]{27,}+"),
    _kind("DigitalOcean token", "doo_v1_ dop_v1_ dor_v1_", r"[0-9a-f]{64}"),
    _kind("Linear key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{32,}+"),
    _weak("Notion token", "ntn_ secret_", r"[A-Za-z0-9]{40,}+"),
    _kind("Databricks token", "dapi", r"[0-9a-f]{32}(?![A-Za-z0-9])(?:-\d)?"),
    _kind("Vault token", "hvs. hvb. hvr.", r"[A-Za-z0-9_-]{24,}+"),
    _kind("age key", "AGE-SECRET-KEY-", r"1[0-9A-Z]{58}"),
    _kind("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32,}+"),
    _kind("Atlassian token", "ATATT3x", r"[A-Za-z0-9_=-]{50,}+"),
    _kind("Sentry token", "sntrys_ sntryu_", r"[A-Za-z0-9_+/=-]{40,}+"),
    _kind("Grafana token", "glsa_", r"[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    _kind("Grafana token", "glc_", r"eyJ[A-Za-z0-9+/]{40,}+={0,2}"),
    _kind("Tailscale key", "tskey-", r"[a-z]{2,12}-[A-Za-z0-9]++-[A-Za-z0-9]{20,}+"),
    _kind("Supabase token", "sbp_", r"[0-9a-f]{40,}+"),
    _kind("New Relic key", "NRAK-", r"[A-Za-z0-9]{27,}+"),
    _kind("Figma token", "figd_", r"[A-Za-z0-9_-]{38,}+"),
    _kind("Postman key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    _kind("Heroku key", "HRKU-", r"[A-Za-z0-9_-]{30,}+"),
    _kind(
        "Doppler token", "dp.pt. dp.st. dp.ct. dp.sa.", r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}+"
    ),
    _weak("Pulumi token", "pul-", r"[0-9a-f]{40,}+"),
    # Taken to the end of its first part if it has no others: so no part is gone through twice.
    _kind(
        "JSON web token",
        "eyJ",
        r"[A-Za-z0-9_-]{10,}+(?:\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+"
        r"|\.[A-Za-z0-9_-]*+(?:\.[A-Za-z0-9_-]{10,}+){3})?",
        check=lambda text: "." in text,
    ),
)

# Most keys begin with letters and one of these. Finding the character alone is fast; how a row of
# them goes on is refused at once, and so is what is too short for a key.
_SEPARATORS = {
    "_": re.compile(r"_(?!__)(?=[A-Za-z0-9_+/=-]{18})"),
    "-": re.compile(r"-(?!--)(?=[A-Za-z0-9_+/=-]{18})"),
    ".": re.compile(rf"\.(?={_WORD}{{16}})"),
}
_LONGEST_ANCHOR = max(len(anchor) for kind in KINDS for anchor in kind.anchors)
_AFTER: dict[str, dict[str, list[Kind]]] = {sign: {} for sign in _SEPARATORS}
_PLAIN: dict[str, list[Kind]] = {}
for _each in KINDS:
    for _anchor in _each.anchors:
        _AFTER.get(_anchor[-1], _PLAIN).setdefault(_anchor, []).append(_each)
# Keys that begin with nothing of their own, told by what is in their middle: that, and what stands
# before it.
_DISCORD = re.compile(rf"\.(?={_WORD}{{6}}\.{_WORD}{{27}})")
_DISCORD_BEFORE = re.compile(rf"[MNO]{_WORD}{{23,27}}")
_DISCORD_AFTER = re.compile(rf"\.{_WORD}{{6}}\.{_WORD}{{27,}}+")
_ZAI = re.compile(r"\.(?=[A-Za-z0-9]{16}(?![A-Za-z0-9]))")
_ZAI_BEFORE = re.compile(r"[0-9a-f]{32}")
_TELEGRAM = re.compile(rf":AA(?={_WORD}{{33}})")
_TELEGRAM_BEFORE = re.compile(r"(?<!\d)\d{8,10}\Z")

Place = tuple[int, str, list[Kind]]


def places(text: str) -> Iterator[Iterator[Place]]:
    """Yield, pass by pass, where a key may begin, what it begins with and what it may be."""
    for sign in _SEPARATORS:
        yield _after_separators(text, sign)
    for anchor, kinds in _PLAIN.items():
        yield _at_anchors(text, anchor, kinds)


def _after_separators(text: str, sign: str) -> Iterator[Place]:
    kinds = _AFTER[sign]
    anchors = tuple(kinds)
    for found in _SEPARATORS[sign].finditer(text):
        end = found.end()
        begin = max(0, end - _LONGEST_ANCHOR)
        if text.endswith(anchors, begin, end):
            for anchor in anchors:
                if text.endswith(anchor, begin, end):
                    yield end - len(anchor), anchor, kinds[anchor]


def _at_anchors(text: str, anchor: str, kinds: list[Kind]) -> Iterator[Place]:
    place = text.find(anchor)
    while place >= 0:
        yield place, anchor, kinds
        place = text.find(anchor, place + len(anchor))


def vendor_keys(text: str) -> Iterator[Found]:
    """Yield the keys in a text, in no order; some may overlap."""
    for each_pass in places(text):
        done = 0  # up to here this pass has looked at the text: none of it is gone through twice
        for place, anchor, kinds in each_pass:
            if place + len(anchor) <= done:
                continue
            for kind in kinds:
                found = kind.pattern.match(text, place + len(anchor))
                if found is None or (kind.alone and not _is_alone(text, place)):
                    continue
                done = found.end()
                if kind.check is None or kind.check(found[0]):
                    yield place, done, kind.name
                    break
    yield from _dotted(text)


def _is_alone(text: str, place: int) -> bool:
    return place == 0 or _ALONE.search(text[max(0, place - 6) : place]) is not None


def _dotted(text: str) -> Iterator[Found]:
    for found in _DISCORD.finditer(text):
        begin = _begin(text, found.start(), _DISCORD_BEFORE, range(28, 23, -1))
        after = _DISCORD_AFTER.match(text, found.start())
        if begin is not None and after is not None and is_random(text[begin : found.start()]):
            yield begin, after.end(), "Discord bot token"
    for found in _ZAI.finditer(text):
        begin = _begin(text, found.start(), _ZAI_BEFORE, range(32, 33))
        if begin is not None and is_random(text[found.end() : found.end() + 16]):
            yield begin, found.end() + 16, "Z.ai key"
    for found in _TELEGRAM.finditer(text):
        before = _TELEGRAM_BEFORE.search(text[max(0, found.start() - 11) : found.start()])
        if before is not None:
            yield found.start() - len(before[0]), found.end() + 33, "Telegram bot token"


def _begin(text: str, end: int, pattern: re.Pattern[str], lengths: range) -> int | None:
    """Return where the piece begins that ends here, if there is one and it stands alone."""
    for length in lengths:
        begin = end - length
        if begin >= 0 and pattern.fullmatch(text, begin, end) and _is_alone(text, begin):
            return begin
    return None
