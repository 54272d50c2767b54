"""Kept keys: where, for whom, and never to be seen."""

from __future__ import annotations

import os
import stat
import sys
from types import ModuleType

import pytest

from holdfast.errors import StorageError, UsageError
from holdfast.runtime.config import credentials as keys
from holdfast.runtime.providers.catalog import Sources, Wish, choose

SECRET = "sk-secret-0123456789"


def test_keys_are_kept_and_removed(tmp_path):
    folder = tmp_path / "config" / "holdfast"
    assert dict(keys.load(folder)) == {}
    assert not folder.exists()
    keys.save(folder, "anthropic", SECRET)
    keys.save(folder, "openrouter.ai", "other")
    assert dict(keys.load(folder)) == {"anthropic": SECRET, "openrouter.ai": "other"}
    keys.save(folder, "anthropic", "new")
    assert keys.load(folder)["anthropic"] == "new"
    assert keys.remove(folder, "anthropic")
    assert not keys.remove(folder, "anthropic")
    assert list(keys.load(folder)) == ["openrouter.ai"]


def test_only_the_owner_can_read_them(tmp_path):
    folder = tmp_path / "config" / "holdfast"
    mask = os.umask(0)
    try:
        keys.save(folder, "anthropic", SECRET)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_can_read_is_refused(tmp_path, mode):
    keys.save(tmp_path, "anthropic", SECRET)
    (tmp_path / keys.KEYS_NAME).chmod(mode)
    with pytest.raises(UsageError, match="others can get at it: chmod 600") as error:
        keys.load(tmp_path)
    assert SECRET not in str(error.value)


def test_keys_are_in_no_repr_and_in_no_error(tmp_path, files):
    keys.save(tmp_path, "anthropic", SECRET)
    found = keys.load(tmp_path)
    assert repr(found) == str(found) == "Keys(anthropic)"
    assert SECRET not in repr(Sources(keys=found))
    assert len(found) == 1
    (tmp_path / keys.KEYS_NAME).write_text(f'{{"anthropic": ["{SECRET}"]}}')
    with pytest.raises(UsageError) as refused:
        keys.load(tmp_path)
    assert SECRET not in str(refused.value)
    (tmp_path / keys.KEYS_NAME).unlink()
    files.fail("write")
    with pytest.raises(StorageError) as failed:
        keys.save(tmp_path, "anthropic", SECRET, files=files)
    assert SECRET not in str(failed.value)
    assert sorted(os.listdir(tmp_path)) == [".keys.json.lock"]


def test_the_catalog_takes_them(tmp_path):
    keys.save(tmp_path, keys.owner("https://OpenRouter.ai/api/v1"), SECRET)
    keys.save(tmp_path, "anthropic", SECRET)
    found = keys.load(tmp_path)
    assert choose(Sources(keys=found)).provider == "anthropic"
    wish = Wish("anthropic", "https://openrouter.ai/api", "m")
    assert choose(Sources(config=wish, keys=found)).endpoint == "https://openrouter.ai/api"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("anthropic", "anthropic"),
        (" OpenAI\n", "openai"),
        ("openrouter.ai", "openrouter.ai"),
        ("API.DeepSeek.com", "api.deepseek.com"),
        ("https://user:pw@api.deepseek.com:8443/v1?x", "api.deepseek.com"),
        ("http://gpubox:8000/v1", "gpubox"),
        ("localhost", "localhost"),
        ("192.168.0.7", "192.168.0.7"),
        ("http://[fd00::1]:8000", "fd00::1"),
        ("fd00::1", "fd00::1"),
    ],
)
def test_whose_key_it_is(text, name):
    assert keys.owner(text) == name


@pytest.mark.parametrize(
    "text", ["", "antropic", "a b.c", "http://", "http://[x", "../x", "a..b", SECRET, "x\x1b.y"]
)
def test_what_is_nobody_is_refused(text):
    with pytest.raises(UsageError, match="neither a provider"):
        keys.owner(text)


def test_the_rehearsal_model_needs_none():
    with pytest.raises(UsageError, match="needs no key"):
        keys.owner("rehearsal")


@pytest.mark.parametrize("text", [SECRET, f"{SECRET}\n", f"  {SECRET}\r\n"])
def test_blanks_around_a_key_are_taken_off(text):
    assert keys.checked(text, "openai") == SECRET


@pytest.mark.parametrize("text", ["", "\n", "  ", "two words", "a\nb", "käy", "a\0b", "x" * 4097])
def test_what_cannot_be_a_key_is_refused_and_not_repeated(text):
    with pytest.raises(UsageError) as error:
        keys.checked(text, "openai")
    assert not text.strip() or text not in str(error.value)


def test_a_key_of_the_wrong_vendor_is_noticed():
    assert keys.checked("sk-ant-x", "anthropic") == "sk-ant-x"
    assert keys.checked("sk-ant-x", "proxy.example") == "sk-ant-x"
    with pytest.raises(UsageError, match="an Anthropic key, not an OpenAI key"):
        keys.checked("sk-ant-x", "openai")


# The keyring


class FakeKeyringError(Exception):
    """Stands for what the package raises."""


@pytest.fixture
def ring(monkeypatch):
    """Stand in for the package, which asks the system of whoever runs it."""
    kept: dict[tuple[str, str], str] = {}
    module = ModuleType("keyring")
    module.__spec__ = sys.__spec__
    errors = ModuleType("keyring.errors")
    members = {
        "errors": errors,
        "kept": kept,
        "get_password": lambda service, name: kept.get((service, name)),
        "set_password": lambda service, name, text: kept.update({(service, name): text}),
    }
    vars(module).update(members)
    vars(errors).update(KeyringError=FakeKeyringError)
    monkeypatch.setitem(sys.modules, "keyring", module)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    return module


def test_keys_in_the_keyring(tmp_path, ring):
    assert dict(keys.load(tmp_path, "keyring")) == {}
    keys.save(tmp_path, "anthropic", SECRET, "keyring")
    keys.save(tmp_path, "openai", "other", "keyring")
    assert dict(keys.load(tmp_path, "keyring")) == {"anthropic": SECRET, "openai": "other"}
    assert repr(keys.load(tmp_path, "keyring")) == "Keys(anthropic, openai)"
    assert keys.remove(tmp_path, "openai", "keyring")
    assert not keys.remove(tmp_path, "openai", "keyring")
    assert list(keys.load(tmp_path, "keyring")) == ["anthropic"]
    assert list(ring.kept) == [("holdfast", "keys")]
    assert os.listdir(tmp_path) == []


def test_a_keyring_that_does_not_answer(tmp_path, ring):
    def locked(*words):
        raise FakeKeyringError(f"locked: {words}")

    vars(ring).update(set_password=locked)
    with pytest.raises(UsageError, match="did not answer") as error:
        keys.save(tmp_path, "anthropic", SECRET, "keyring")
    assert SECRET not in str(error.value)
    vars(ring).update(get_password=locked)
    with pytest.raises(UsageError, match="did not answer"):
        keys.load(tmp_path, "keyring")


@pytest.mark.parametrize("text", ["x", "[]", '{"a": 1}'])
def test_an_entry_that_is_not_ours(tmp_path, ring, text):
    ring.kept["holdfast", "keys"] = text
    with pytest.raises(UsageError, match="is damaged"):
        keys.load(tmp_path, "keyring")


def test_without_the_package_the_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'holdfast\[keyring\]'"):
        keys.load(tmp_path, "keyring")
