"""Secrets are replaced, everything else is left alone, and what was found is listed."""

from __future__ import annotations

import base64
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.exchange.redaction.assignments import assignments
from holdfast.exchange.redaction.key_formats import KINDS, places
from holdfast.exchange.redaction.redactor import Redactor
from holdfast.model.sanitize import for_terminal

_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"


def drawn(count: int, letters: str = _ALNUM) -> str:
    """Return letters that look drawn; the same every time."""
    return "".join(random.Random(count).choices(letters, k=count))


# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "Anthropic key": "sk-ant-" + "api03-" + drawn(95),
    "OpenRouter key": "sk-or-" + "v1-" + drawn(64, _HEX),
    "OpenAI key": "sk-" + "proj-" + drawn(120),
    "API key (sk-)": "sk-" + drawn(48),
    "Google API key": "AI" + "za" + drawn(35),
    "Google OAuth token": "ya" + "29." + drawn(60),
    "Google OAuth secret": "GOC" + "SPX-" + drawn(28),
    "xAI key": "xa" + "i-" + drawn(80),
    "Groq key": "gs" + "k_" + drawn(52),
    "Perplexity key": "pp" + "lx-" + drawn(48),
    "Hugging Face token": "h" + "f_" + drawn(34),
    "Replicate token": "r" + "8_" + drawn(37),
    "GitHub token": "gh" + "p_" + drawn(36),
    "GitLab token": "gl" + "pat-" + drawn(20),
    "Slack token": "xo" + "xb-" + "123456789012-123456789012-" + drawn(24),
    "Telegram bot token": "123456789" + ":AA" + drawn(33),
    "AWS access key": "AK" + "IA" + drawn(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    "Stripe key": "sk" + "_live_" + drawn(40),
    "SendGrid key": "S" + "G." + drawn(22) + "." + drawn(43),
    "Twilio key": "S" + "K" + drawn(32, _HEX),
    "Mailgun key": "key" + "-" + drawn(32, _HEX),
    "npm token": "np" + "m_" + drawn(36),
    "PyPI token": "py" + "pi-AgE" + drawn(120),
    "Docker token": "dckr" + "_pat_" + drawn(27),
    "DigitalOcean token": "do" + "p_v1_" + drawn(64, _HEX),
    "Databricks token": "da" + "pi" + drawn(32, _HEX),
    "Vault token": "hv" + "s." + drawn(24),
    "JSON web token": "ey" + "J" + drawn(30) + ".ey" + "J" + drawn(60) + "." + drawn(43),
    "NVIDIA key": "nv" + "api-" + drawn(64),
    "Cerebras key": "cs" + "k-" + drawn(48),
    "Fireworks key": "f" + "w_" + drawn(24),
    "Together key": "tg" + "p_v1_" + drawn(43),
    "Z.ai key": drawn(32, _HEX) + "." + drawn(16),
    "Shopify token": "shp" + "at_" + drawn(32, _HEX),
    "Atlassian token": "ATA" + "TT3xFfGF0" + drawn(180),
    "Sentry token": "sntr" + "yu_" + drawn(64, _HEX),
    "Grafana token": "gl" + "sa_" + drawn(32) + "_" + drawn(8, _HEX),
    "Tailscale key": "ts" + "key-auth-" + drawn(12) + "CNTRL-" + drawn(32),
    "Supabase token": "sb" + "p_" + drawn(40, _HEX),
    "New Relic key": "NR" + "AK-" + drawn(27),
    "Figma token": "fi" + "gd_" + drawn(40),
    "Postman key": "PM" + "AK-" + drawn(24, _HEX) + "-" + drawn(34, _HEX),
    "Heroku key": "HR" + "KU-" + drawn(36),
    "Doppler token": "d" + "p.pt." + drawn(43),
    "Pulumi token": "pu" + "l-" + drawn(40, _HEX),
    "Discord bot token": "M" + drawn(25) + "." + drawn(6) + "." + drawn(30),
    "private key": f"-----BEGIN OPENSSH {'PRIVATE'} KEY-----\n{drawn(70)}\n{drawn(68)}\n"
    f"-----END OPENSSH {'PRIVATE'} KEY-----",
}


_AROUND = (
    "{}",
    "it is {}, and",
    '"{}"',
    "KEY\n{}\n",
    '{{"out":"line\\n{}\\n"}}',
    "\\t{}\\t",
    "https://example.org/?k%3D{}&z",
    "NAME_{}",
    "docker login -p{} x",
    "\x1b[32m{}\x1b[0m",
    "\x1b[01;31m\x1b[K{}\x1b[m\x1b[K",
    "\\u001b[32m{}\\u001b[0m",
)


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("around", _AROUND)
def test_a_secret_is_replaced_wherever_it_stands(kind, around):
    redactor = Redactor()
    cleaned = redactor.text(around.format(SECRETS[kind]), "message 3")
    assert SECRETS[kind] not in cleaned
    assert cleaned == around.format(f"[redacted: {kind} 1]")
    assert [(found.kind, found.where) for found in redactor.findings] == [(kind, "message 3")]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("postgresql://me:{}@db.example.org/x", "hunter2hunter2"),
        ('export API_TOKEN="{}"', drawn(30)),
        ("aws_secret_access_key = {}", drawn(40)),
        ("Authorization: Bearer {}", drawn(40)),
        ("password: {}", "Tr0ub4dor&3xkcd936"),
        ("AccountKey={}", drawn(86) + "=="),
    ],
)
def test_a_secret_is_told_by_what_stands_before_it(text, secret):
    cleaned = Redactor().text(text.format(secret))
    assert secret not in cleaned
    assert cleaned.startswith(text.split("{", maxsplit=1)[0])


@pytest.mark.parametrize(
    "text",
    [
        "the key is in ANTHROPIC_API_KEY, as $ANTHROPIC_API_KEY or ${OPENAI_API_KEY}",
        "api_key = os.environ['OPENAI_API_KEY']",
        "password: <your password here>",
        "token = settings.oauth.access_token_provider",
        "git commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "task-sk-learn-pipeline-with-a-long-name-in-it",
        "https://example.org:8080/path?key=value",
        "sha256:" + "a" * 64,
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "max_tokens=8192, input_tokens: 123456789012345678",
        "secret = ................................",
        "id 123e4567-e89b-12d3-a456-426614174000",
        "tokenizer_path: models/llama-3-8b/tokenizer.json",
        "password=hashlib.sha256(password.encode()).hexdigest()",
        "token = settings.oauth2.access_token_provider",
        "secretName: my-app-tls-certificate-2024",
        "docker run -u 1000:1000 image",
        "https://example.org:8080/@types/node@20.1.0",
        '"js-tokens": {"integrity": "sha512-' + drawn(86) + '=="}',
        "js-tokens@4.0.0:\n  resolution: {integrity: sha512-" + drawn(86) + "==}",
        "data:image/png;base64," + drawn(600),
        "/home/me/src/holdfast/exchange/vendor_keys.py:123:456",
        "with a login / password\n    login_field = 1",
        "a bearer of responsibilities_and_more_2",
        "if text.startswith('-----BEGIN " + "PRIVATE" + " KEY-----'): pass",
        "-" * 2000 + "_" * 2000 + "=" * 2000,
    ],
)
def test_what_is_no_secret_is_left_alone(text):
    redactor = Redactor()
    assert redactor.text(text) == text
    assert redactor.findings == []


def test_the_same_secret_gets_the_same_mark():
    key, other = SECRETS["GitHub token"], SECRETS["npm token"]
    redactor = Redactor()
    cleaned = redactor.text(f"{key} {other} {key}")
    assert (
        cleaned == "[redacted: GitHub token 1] [redacted: npm token 2] [redacted: GitHub token 1]"
    )
    assert redactor.counts() == {"GitHub token": 2, "npm token": 1}


def test_values_are_searched_however_deep():
    redactor = Redactor()
    key = SECRETS["Anthropic key"]
    cleaned = redactor.value({"a": [{"env": {"API_KEY": drawn(24), "n": 1}}, key], key: None})
    assert cleaned == {
        "a": [
            {"env": {"API_KEY": "[redacted: secret in an assignment 1]", "n": 1}},
            "[redacted: Anthropic key 2]",
        ],
        "[redacted: Anthropic key 2]": None,
    }


def test_a_private_key_that_was_cut_off_is_replaced_to_its_end():
    cut = SECRETS["private key"][:100]
    assert Redactor().text(f"cat id\n{cut}") == "cat id\n[redacted: private key 1]"


@given(st.text(max_size=200))
def test_cleaning_twice_changes_nothing_more(text):
    once = Redactor().text(text)
    assert Redactor().text(once) == once


@pytest.mark.parametrize("kind", sorted({kind.name for kind in KINDS} & set(SECRETS)))
@pytest.mark.parametrize("hidden", ["\x1b[m\x1b[K", "\x1b]8;;\x07", "\u200b", "\\x1b[0m", "\x9b0m"])
def test_a_secret_with_colours_in_the_middle_is_found(kind, hidden):
    """Pages take these out, and would put the secret together again."""
    secret = SECRETS[kind]
    coloured = f"x {hidden}{secret[:3]}{hidden}{secret[3:9]}{hidden}{hidden}{secret[9:]}{hidden} y"
    redactor = Redactor()
    assert redactor.text(coloured) == f"x {hidden}[redacted: {kind} 1]{hidden} y"
    assert redactor.text(secret) == f"[redacted: {kind} 1]"


def test_a_secret_within_a_sequence_for_terminals_is_found():
    link = f"\x1b]8;;https://example.org/{SECRETS['GitHub token']}\x07here\x1b]8;;\x07"
    assert Redactor().text(link) == (
        "\x1b]8;;https://example.org/[redacted: GitHub token 1]\x07here\x1b]8;;\x07"
    )


@given(st.text(alphabet="\x1b\x9b\x9d[]0;mK\x07\\ \na", max_size=40))
def test_whatever_a_screen_takes_out_hides_no_secret(between):
    key = SECRETS["GitHub token"]
    shown = for_terminal(Redactor().text(f"{key[:9]}{between}{key[9:]}"))
    assert key not in shown


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("{}-x", SECRETS["GitHub token"]),
        ("{}_x", SECRETS["AWS access key"]),
        ("https://api.telegram.org/bot{}/getMe", SECRETS["Telegram bot token"]),
        ("{}", "gh" + "p_" + drawn(36) + "y" * 250),
        ("{}", "ey" + "J" + drawn(30) + ".ey" + "J" + drawn(5000) + "." + drawn(43)),
        ("TOKEN={} next", drawn(400)),
        ("{}", "sk" + "_test_" + drawn(24)),
        ("{}", "sntr" + "ys_" + drawn(60)),
        ("{}", "gl" + "cbt-64_" + drawn(20)),
        ("Bearer {}", drawn(40)),
        ("tool --token {} -v", drawn(40)),
        ('["--api-key", "{}"]', drawn(40)),
        ("curl -s -u me:{} https://example.org", drawn(20)),
        ("machine example.org login me password {}", drawn(20)),
        ("https://{}@github.com/a/b", drawn(40, _HEX)),
        ("https://x.example.org/a?sv=1&sig={}&sr=b", drawn(43) + "%3D"),
        ("https://s3.example.org/a?X-Amz-Signature={}&x=1", drawn(64, _HEX)),
        ("postgres://u:{}@db/x", "pa:ss" + drawn(8)),
        ("postgres://u:{}@db/x?mail=me@example.org", "p@ss" + drawn(8)),
        ("postgres://u:{}@db/x", "pa/ss" + drawn(8)),
        ('{{"name": "API_TOKEN", "value": "{}"}}', drawn(24)),
        ("- name: API_TOKEN\n  value: {}\n", drawn(24)),
        ("a=1&access_token={}&state=xyz", drawn(24)),
        ('TOKEN={}\\nNEXT=1"', drawn(24)),
        ("SOME_KEY={}", drawn(32)),
    ],
)
def test_exactly_the_secret_is_replaced(text, secret):
    redactor = Redactor()
    cleaned = redactor.text(text.format(secret))
    (found,) = redactor.findings
    assert cleaned == text.format(f"[redacted: {found.kind} 1]")


def test_structures_tell_a_secret_as_texts_do():
    secret = drawn(24)
    told = {
        "env": [{"name": "API_TOKEN", "value": secret}, {"name": "HOME", "value": "/root"}],
        "argv": ["tool", "--token", secret, "--verbose"],
        "headers": [["x-api-key", secret], ["accept", "*/*"]],
        "Authorization": [f"Bearer {secret}"],
    }
    mark = "[redacted: secret in an assignment 1]"
    assert Redactor().value(told) == {
        "env": [{"name": "API_TOKEN", "value": mark}, {"name": "HOME", "value": "/root"}],
        "argv": ["tool", "--token", mark, "--verbose"],
        "headers": [["x-api-key", mark], ["accept", "*/*"]],
        "Authorization": ["Bearer [redacted: authorization header 1]"],
    }


_NAME = "PRIVATE" + " KEY"
_LOCKED = f"ENCRYPTED {_NAME}"
_LINES = [drawn(64 + number % 2) for number in range(400)]


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (
            "\n".join([f"a\n-----BEGIN PGP {_NAME} BLOCK-----", "", *_LINES, "=abcd"])
            + f"\n-----END PGP {_NAME} BLOCK-----\nb",
            "a\n{}\nb",
        ),
        (
            f"-----BEGIN RSA {_NAME}-----\n{_LINES[0]}\n{_LINES[1]}\n" + "other words\n" * 2000,
            "{}\n" + "other words\n" * 2000,
        ),
        (
            f"     1\t-----BEGIN {_NAME}-----\n     2\t{_LINES[0]}\n     3\t{_LINES[1]}\n$ ls",
            "     1\t{}\n$ ls",
        ),
        (
            f"---- BEGIN SSH2 {_LOCKED} ----\n{_LINES[0]}\n---- END SSH2 {_LOCKED} ----",
            "{}",
        ),
        (f'"-----BEGIN {_NAME}-----\\n{_LINES[0]}\\n-----END {_NAME}-----\\n"', '"{}\\n"'),
        (
            f"File: ssh-ed25519\nPrivate-Lines: 1\n{_LINES[0]}\nPrivate-MAC: {drawn(64, _HEX)}\n",
            "File: ssh-ed25519\n{}\n",
        ),
        (
            f"-----BEGIN {_NAME}-----\n{_LINES[0]}\n[cut]\n{_LINES[1]}\n-----END {_NAME}-----",
            "{}",
        ),
    ],
    ids=["large", "cut off", "numbered", "SSH2", "spelled out", "PuTTY", "with a hole"],
)
def test_private_keys_of_every_form_are_replaced_and_nothing_else(text, cleaned):
    assert Redactor().text(text) == cleaned.format("[redacted: private key 1]")


def test_texts_that_will_be_joined_are_looked_at_as_one():
    key = SECRETS["GitHub token"]
    redactor = Redactor()
    texts = ["a " + key[:9], key[9:20], key[20:] + " b", "word", SECRETS["API key (sk-)"]]
    assert redactor.texts(texts) == [
        "a [redacted: GitHub token 1]",
        "",
        " b",
        "word",
        "[redacted: API key (sk-) 2]",
    ]
    assert redactor.counts() == {"GitHub token": 1, "API key (sk-)": 1}


@pytest.mark.parametrize(
    "piece",
    [
        "-----BEGIN " + _NAME + "-----\n",
        "password=",
        "xoxb-xoxa-",
        "eyJ",
        "eyJ-",
        "eyJa.",
        "_ghp",
        "sk-",
        "a",
        "-",
        "=",
        "The token of a key, and a password: none is here. ",
    ],
)
def test_places_that_are_looked_at_grow_with_the_text(piece):
    """Each is looked at within limits, or never again by the same pass."""

    def looked_at(text):
        tried = sum(1 for each_pass in places(text) for _ in each_pass)
        return tried + sum(1 for _ in assignments(text))

    text = piece * 2000
    once, twice = looked_at(text), looked_at(text * 2)
    assert once <= len(text)
    assert twice <= 2 * once + 20  # those at the end of the first half, which was too short


def test_a_large_payload_offers_hardly_a_place_to_look_at():
    payload = base64.b64encode(random.Random(1).randbytes(750_000)).decode()
    assert sum(1 for each_pass in places(payload) for _ in each_pass) < 2000
    assert sum(1 for _ in assignments(payload)) == 0
    assert Redactor().text(payload) == payload


_HOSTILE = (
    "sk-",
    "eyJ",
    "eyJ-",
    "://a:",
    "-----BEGIN ",
    f"-----BEGIN {_NAME}-----\n",
    "Private-Lines: 1\n",
    "xoxb-xoxa-",
    "Bearer%20",
    "\x1b]",
    "\x9d",
    "\x9b",
    "A",
    "-",
)


@pytest.mark.parametrize("piece", _HOSTILE)
def test_a_hostile_text_is_done_with(piece):
    """A pattern that tries every way to match this does not come to an end."""
    text = piece * 100_000
    assert len(Redactor().text(text)) <= len(text)
