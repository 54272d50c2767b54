"""Legacy stores taken over in place: nothing lost, nothing twice, nothing overwritten."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

import holdfast
from holdfast.files import Files
from holdfast.store.local.backend import FileBackend
from holdfast.store.local.layout import Home
from holdfast.store.store import Store
from tests.disk import FakeUnsyncedFiles, snapshot
from tests.dying import MOMENTS, FakeDyingFiles, dies
from tests.exchange.sources import CASES, copied

CREATED = "2026-05-06T18:00:00Z"


def document(key, *texts, **more):
    """A session as older versions of picoclaw have it."""
    messages = [
        {"role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate(texts)
    ]
    return json.dumps({"key": key, "messages": messages, "created": CREATED, **more})


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def legacy(tmp_path):
    """A legacy store with three sessions, one of them in the newer form."""
    folder = tmp_path / "legacy"
    write(folder, "telegram_42.json", document("telegram:42", "hello", "hi", "bye"))
    write(folder, "web_1.json", document("web:1", "one", "two", summary="so far"))
    line = '{"role":"user","content":"%s","created_at":"2026-05-06T19:00:00Z"}\n'
    write(folder, "discord_7.jsonl", line % "three" + line % "four")
    write(folder, "discord_7.meta.json", '{"key":"discord:7","skip":0,"count":2}')
    write(folder, "discord_7.json", document("discord:7", "three"))
    return folder


ORIGINALS = [
    "discord_7.json",
    "discord_7.jsonl",
    "discord_7.meta.json",
    "telegram_42.json",
    "web_1.json",
]
SAID = {
    "discord:7": ["three", "four"],
    "telegram:42": ["hello", "hi", "bye"],
    "web:1": ["one", "two"],
}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def said(store) -> dict[str, list[str]]:
    found = {}
    for summary in store.list():
        assert summary.state == "clean"
        assert store.verify(summary.id).ok
        with store.open(summary.id, mode="read") as session:
            assert summary.key not in found
            found[summary.key] = [message.text for message in session.messages]
    return found


def test_a_legacy_store_becomes_ours(store, legacy):
    before = {path.name: path.read_bytes() for path in legacy.iterdir()}
    done = store.migrate(legacy)
    assert said(store) == SAID
    assert names(legacy) == sorted(f"{name}.migrated" for name in ORIGINALS)
    assert {p.name.removesuffix(".migrated"): p.read_bytes() for p in legacy.iterdir()} == before
    assert {Path(each.path).name for each in done.migrated} == {
        "discord_7.jsonl",
        "telegram_42.json",
        "web_1.json",
    }
    assert done.left == []
    assert sorted(name for each in done.migrated for name in each.renamed) == sorted(
        str(path) for path in legacy.iterdir()
    )


def test_the_session_of_a_key_goes_on(store, legacy):
    store.migrate(legacy)
    with store.session("telegram:42") as session:
        session.append(holdfast.user("again"))
        assert [message.text for message in session.messages] == ["hello", "hi", "bye", "again"]


def test_a_key_that_is_in_use_here_keeps_its_session(store, legacy):
    with store.session("telegram:42") as session:
        session.append(holdfast.user("mine"))
    done = store.migrate(legacy)
    assert len(done.migrated) == 3
    assert len(store.list()) == 4
    with store.session("telegram:42", mode="read") as session:
        assert [message.text for message in session.messages] == ["mine"]


def test_again_there_is_nothing_to_do(store, legacy):
    store.migrate(legacy)
    before = snapshot(store.path), snapshot(legacy)
    again = store.migrate(legacy)
    assert again.sources == []
    assert (snapshot(store.path), snapshot(legacy)) == before


def test_where_there_is_nothing_nothing_is_made(tmp_path):
    (tmp_path / "empty").mkdir()
    store = holdfast.open_store(tmp_path / "home", migrate=tmp_path / "empty")
    assert store.migrate(tmp_path / "empty").sources == []
    assert not (tmp_path / "home").exists()


def test_a_dry_run_changes_nothing(store, legacy):
    write(legacy, "notes.json", '{"what": "no session"}')
    before = snapshot(legacy)
    plan = store.migrate(legacy, dry_run=True)
    assert plan.dry_run
    assert {"discord_7.jsonl", "telegram_42.json", "web_1.json"} <= {
        Path(each.path).name for each in plan.migrated
    }
    assert snapshot(legacy) == before
    assert not store.path.exists()


def test_a_bad_source_is_left_and_reported(store, legacy):
    bad = write(legacy, "bad.json", '{"key": "b", "messages": [')
    empty = write(legacy, "empty.json", document("empty"))
    done = store.migrate(legacy)
    assert said(store) == SAID
    assert bad.exists()
    assert empty.exists()
    reasons = {Path(each.path).name: each.reason for each in done.left}
    assert reasons.keys() == {"bad.json", "empty.json"}
    assert "has no messages" in reasons["empty.json"]
    again = store.migrate(legacy)
    assert {Path(each.path).name for each in again.left} == {"bad.json", "empty.json"}
    bad.write_text(document("b", "mended"))
    assert [Path(each.path).name for each in store.migrate(legacy).migrated] == ["bad.json"]


def test_lines_that_cannot_be_read_are_named(store, tmp_path):
    path = write(
        tmp_path / "legacy",
        "a.jsonl",
        '{"role":"user","content":"a","created_at":"2026-05-06T19:00:00Z"}\n{"role":\n',
    )
    (done,) = store.migrate(path).migrated
    assert done.problems == [f"{path}:2 is not complete JSON"]
    assert not path.exists()


def test_an_original_of_the_same_name_is_not_overwritten(store, legacy):
    old = write(legacy, "web_1.json.migrated", "an older one")
    store.migrate(legacy)
    assert old.read_text() == "an older one"
    assert (legacy / "web_1.json.migrated.2").exists()


def test_a_session_that_is_used_again_in_the_legacy_store(store, legacy):
    store.migrate(legacy)
    texts = SAID["telegram:42"]
    write(legacy, "telegram_42.json", document("telegram:42", *texts, "new"))
    write(legacy, "web_1.json", document("web:1", "one"))
    done = store.migrate(legacy)
    assert [Path(each.path).name for each in done.migrated] == ["telegram_42.json"]
    assert [each.reason for each in done.left] == [
        "has less content than the session that was imported from it before"
    ]
    assert said(store) == SAID | {"telegram:42": [*texts, "new"]}
    assert (legacy / "web_1.json").exists()


def test_a_session_in_the_trash_is_left(store, legacy):
    store.migrate(legacy)
    for summary in store.list():
        store.delete(summary.id)
    for path in list(legacy.iterdir()):
        path.rename(path.with_suffix(""))
    done = store.migrate(legacy)
    assert store.list() == []
    assert done.migrated == []
    assert names(legacy) == ORIGINALS


def test_an_original_that_is_written_to_meanwhile_keeps_its_name(home, legacy):
    class FakeBusyAgent(Files):
        def rename(self, source, target):
            late = Path(target).name == "web_1.json.migrated"
            super().rename(source, target)
            if late:
                with open(target, "ab") as file:
                    file.write(b" ")

        def sync_folder(self, folder):
            super().sync_folder(folder)
            if Path(folder).name == "keyed":
                os.utime(legacy / "telegram_42.json", ns=(1, 1))

    store = holdfast.open_store(home, files=FakeBusyAgent())
    done = store.migrate(legacy)
    kept = {Path(each.path).name: each.reason for each in done.migrated if each.reason}
    assert kept.keys() == {"telegram_42.json", "web_1.json"}
    assert all("changed in the meantime" in reason for reason in kept.values())
    assert {"telegram_42.json", "web_1.json"} < set(names(legacy))
    store = holdfast.open_store(home)
    again = store.migrate(legacy)
    assert {Path(each.path).name for each in again.migrated} == kept.keys()
    assert said(store) == SAID
    assert all(name.endswith(".migrated") for name in names(legacy))


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_at_any_point_loses_nothing_and_doubles_nothing(tmp_path, legacy, moment):
    pristine = tmp_path / "pristine"
    shutil.copytree(legacy, pristine)

    def work(files):
        with holdfast.open_store(tmp_path / "home", files=files) as store:
            store.migrate(legacy)

    number = visible_early = 0
    while True:
        shutil.rmtree(tmp_path / "home", ignore_errors=True)
        shutil.rmtree(legacy)
        shutil.copytree(pristine, legacy)
        died = dies(work, number, moment)
        with holdfast.open_store(tmp_path / "home", files=FakeUnsyncedFiles()) as store:
            there = store.ids()
            if len(there) < 3:  # not all published: the legacy store is as it was
                assert names(legacy) == ORIGINALS
                visible_early += bool(there)
            store.migrate(legacy)
            assert said(store) == SAID, (number, moment)
            assert names(legacy) == sorted(f"{name}.migrated" for name in ORIGINALS)
            for name in ORIGINALS:
                kept = (legacy / f"{name}.migrated").read_bytes()
                assert kept == (pristine / name).read_bytes()
            assert names(store.path / "sessions" / ".batch") == ["lock"]
            assert store.migrate(legacy).sources == []
        if not died:
            break
        number += 1
    assert number >= (4 if moment == "torn" else 50)
    assert visible_early or moment == "torn"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failing_target_leaves_everything_as_it_was(tmp_path, legacy, files, code):
    copy = shutil.copytree(legacy, tmp_path / "copy")
    before = snapshot(legacy)
    failures = 0
    for method in ("open_append", "write", "sync", "sync_folder", "rename", "make_folder"):
        nth = 1
        while True:
            home = tmp_path / f"home-{method}-{nth}"
            store = holdfast.open_store(home, files=files)
            fault = files.fail(method, code, nth=nth)
            try:
                store.migrate(legacy)
            except holdfast.StorageError:
                assert snapshot(legacy) == before, (method, nth)
                files.heal()
                assert store.list() == [], (method, nth)
                failures += 1
            files.heal()
            if not fault.hits or names(legacy) != ORIGINALS:
                break
            nth += 1
        shutil.rmtree(legacy)
        shutil.copytree(copy, legacy)
        before = snapshot(legacy)
    assert failures > 20


def test_what_was_published_is_left_if_somebody_has_gone_on_with_it(tmp_path, legacy, files):
    store = holdfast.open_store(tmp_path / "home", files=files)
    opened = []

    def go_on():
        with holdfast.open_store(tmp_path / "home").session("discord:7") as session:
            opened.append(session.id)
            session.append(holdfast.user("quick"))
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    files.on("open_append", go_on, name=".then.json")
    with pytest.raises(holdfast.StorageError, match="not migrated or changed"):
        store.migrate(legacy)
    assert {summary.id for summary in store.list()} == set(opened)
    assert names(legacy) == ORIGINALS
    files.heal()
    store.migrate(legacy)
    with store.session("discord:7", mode="read") as session:
        assert [message.text for message in session.messages] == ["three", "four", "quick"]


def test_one_migration_at_a_time(store, legacy):
    with store.batch(), pytest.raises(holdfast.StorageError, match="already, by") as caught:
        store.migrate(legacy)
    assert caught.value.exit_code == 75
    assert names(legacy) == ORIGINALS


def test_on_open(home, legacy):
    with holdfast.open_store(home, migrate=legacy) as store:
        assert said(store) == SAID
    with holdfast.open_store(home, migrate=legacy) as store:
        assert said(store) == SAID
    with holdfast.open_store(home, migrate=legacy / "nowhere") as store:
        assert said(store) == SAID


def test_on_open_of_the_default_home_where_the_environment_says_so(home, legacy, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MIGRATE", str(legacy))
    with holdfast.open_store(home) as store:
        assert not said(store)
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    with holdfast.open_store() as store:
        assert said(store) == SAID


def test_a_failure_on_open_is_told(home, legacy, files):
    files.fill()
    with pytest.raises(holdfast.StorageError, match=r"cannot be written|Disk full"):
        holdfast.open_store(home, files=files, migrate=legacy)
    assert names(legacy) == ORIGINALS


@pytest.mark.parametrize("place", ["", "sessions", ".."])
def test_a_store_does_not_migrate_itself(store, place):
    with store.create() as session:
        session.append(holdfast.user("a"))
    before = snapshot(store.path)
    with pytest.raises(holdfast.UsageError, match="sessions of this store"):
        store.migrate(store.path / place)
    assert snapshot(store.path) == before


@pytest.mark.parametrize("path", ["nowhere", "a\0b", ""])
def test_a_path_that_is_none(store, tmp_path, path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")  # what an empty path would be
    with pytest.raises(holdfast.UsageError):
        store.migrate(path and tmp_path / path)


def test_a_store_without_importers_says_so(home):
    store = Store(FileBackend(Home(FakeDyingFiles(), home, force=False)))
    with pytest.raises(holdfast.UsageError, match="open_store"):
        store.migrate(home)


def test_a_folder_that_cannot_be_written_is_left(store, legacy, monkeypatch):
    legacy.chmod(0o500)
    if os.geteuid() == 0:  # who may write anywhere
        may = os.access
        monkeypatch.setattr(os, "access", lambda path, how: path != legacy and may(path, how))
    try:
        done = store.migrate(legacy)
    finally:
        legacy.chmod(0o700)
    assert len(done.left) == 3
    assert store.list() == []


def test_the_session_that_is_locked_is_left(store, legacy):
    store.migrate(legacy)
    write(legacy, "web_1.json", document("web:1", "one", "two", "three"))
    with store.session("web:1"):
        (left,) = store.migrate(legacy).left
        assert "is being written by" in left.reason
    assert (legacy / "web_1.json").exists()
    assert len(store.migrate(legacy).migrated) == 1


def test_a_folder_of_several_agents(store, tmp_path):
    folder = tmp_path / "mixed"
    folder.mkdir()
    for case in ("codex/turns", "picoclaw/lines", "zot/turns"):
        agent = case.partition("/")[0]
        (tmp_path / agent).mkdir()
        shutil.copytree(copied(case, tmp_path / agent), folder / agent)
    write(folder, "z.json", document("z", "hello"))
    done = store.migrate(folder)
    assert {each.agent for each in done.migrated} == {"codex", "picoclaw", "zot"}
    assert [each for each in done.left if each.path.endswith("l")] == []
    assert len(store.ids()) == len(done.migrated) >= 4
    assert list(folder.rglob("*.jsonl")) == []


@pytest.mark.parametrize("case", CASES)
def test_every_golden_source_is_taken_over_once(store, tmp_path, case):
    source = copied(case, tmp_path)
    done = store.migrate(source)
    ids = store.ids()
    for each in done.migrated:
        assert each.session in ids
        assert each.renamed or each.reason
        assert not os.path.exists(each.path) or each.reason
    left = {each.path for each in done.left}
    again = store.migrate(source)
    assert store.ids() == ids
    assert {each.path for each in again.left} <= left
    assert [each for each in again.migrated if not each.reason] == []
