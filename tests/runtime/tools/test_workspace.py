"""The user's files: nothing leads out, and a replaced file is the old one or the new one."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.runtime.tools import workspace as module
from holdfast.runtime.tools.base import Refusal
from holdfast.runtime.tools.workspace import Content, Workspace, digest
from tests.runtime.tools.desk import descriptors

NAMES = ["a", "b", "link", "out", "..", ".", "deep", "file"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return folder


def read(root: Path, name: str) -> bytes:
    workspace = Workspace(root)
    return workspace.read(workspace.locate(name)).data


def write(root: Path, name: str, data: bytes) -> None:
    workspace = Workspace(root)
    place = workspace.locate(name)
    workspace.replace_file(place, data, workspace.find(place))


# Confinement


@settings(max_examples=150, deadline=None)
@given(
    links=st.lists(
        st.tuples(
            st.lists(st.sampled_from(["a", "b", "link", "deep"]), min_size=1, max_size=3),
            st.lists(st.sampled_from([*NAMES, "", "/ROOT"]), min_size=1, max_size=4),
        ),
        max_size=5,
    ),
    path=st.lists(st.sampled_from([*NAMES, ""]), min_size=1, max_size=6),
)
def test_no_path_through_any_links_leads_out(links, path):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._files, "sync", lambda _: None)  # not what this is about
        patch.setattr(os, "fsync", lambda _: None)
        base = Path(folder).resolve()
        root = base / "workspace"
        (root / "a" / "deep").mkdir(parents=True)
        (root / "a" / "file").write_text("inside")
        (base / "out").mkdir()
        (base / "out" / "file").write_text("outside")
        (base / "file").write_text("outside")
        for where, target in links:
            link = root.joinpath(*where)
            if Path(os.path.realpath(link.parent)).is_relative_to(root):
                with suppress(OSError):
                    os.symlink("/".join(target).replace("/ROOT", folder), link)
        workspace = Workspace(root)
        outside = (base / "file", base / "out" / "file")
        with suppress(Refusal, OSError):
            place = workspace.locate("/".join(path))
            assert place.path == str(root) or place.path.startswith(f"{root}/")
            content = workspace.find(place)
            assert content is None or content.data != b"outside"
            workspace.replace_file(place, b"mine", content)
        assert [each.read_text() for each in outside] == ["outside", "outside"]
        assert sorted(os.listdir(base)) == ["file", "out", "workspace"]
        assert os.listdir(base / "out") == ["file"]


@pytest.mark.parametrize(
    "name",
    [
        "../outside/secret",
        "/etc/passwd",
        "link/secret",
        "link/../outside/secret",
        "a/../../x",
        "..",
    ],
)
def test_what_leads_out_is_refused(root, name):
    (root / "link").symlink_to(root.parent / "outside")
    with pytest.raises(Refusal, match="outside the workspace"):
        Workspace(root).locate(name)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 10 + "\udfff\ud801"])
def test_what_is_no_path_is_refused(root, name):
    with pytest.raises(Refusal, match="is not a path"):
        Workspace(root).locate(name)


def test_a_neighbour_with_the_same_beginning_is_outside(root):
    (root.parent / "workspace2").mkdir()
    with pytest.raises(Refusal):
        Workspace(root).locate("../workspace2/x")


def test_other_folders_can_be_allowed(root):
    workspace = Workspace(root, [root.parent / "outside"])
    place = workspace.locate("../outside/secret")
    assert workspace.read(place).data == b"secret"
    assert place.shown == str(root.parent / "outside" / "secret")
    with pytest.raises(Refusal):
        workspace.locate("../x")


def test_the_whole_disk_can_be_a_workspace(root):
    workspace = Workspace(Path("/"))
    assert workspace.read(workspace.locate(f"{root.parent}/outside/secret")).data == b"secret"


def test_a_workspace_behind_a_link_is_the_folder_itself(root):
    (root.parent / "alias").symlink_to(root)
    (root / "x").write_text("x")
    workspace = Workspace(root.parent / "alias")
    assert workspace.locate("x").path == str(root / "x")
    assert workspace.locate(str(root / "x")).shown == "x"
    assert workspace.locate(".").shown == "."


def test_a_link_that_appears_after_the_look_is_not_followed(root):
    (root / "a").mkdir()
    (root / "a" / "secret").write_text("mine")
    workspace = Workspace(root)
    place = workspace.locate("a/secret")
    content = workspace.read(place)
    (root / "a").rename(root / "b")
    (root / "a").symlink_to(root.parent / "outside")
    before = descriptors()
    with pytest.raises(Refusal, match="cannot be reached"):
        workspace.read(place)
    with pytest.raises(NotADirectoryError):
        workspace.replace_file(place, b"x", content)
    with pytest.raises(NotADirectoryError):
        workspace.remove_file(place, content)
    assert workspace.names(workspace.locate("b").child("..").child("a")) == []
    assert (root.parent / "outside" / "secret").read_text() == "secret"
    (root / "b" / "secret").unlink()
    (root / "b" / "secret").symlink_to(root.parent / "outside" / "secret")
    with pytest.raises(Refusal, match="cannot be reached"):
        workspace.read(workspace.locate("b").child("secret"))
    assert descriptors() == before


# Reading


def test_what_is_no_file_is_not_read(root):
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    for name, sentence in [
        ("folder", "folder is a folder."),
        (".", ". is a folder."),
        ("pipe", "pipe is not a regular file."),
        ("gone", "There is no file gone."),
        ("gone/x", "There is no file gone/x."),
    ]:
        with pytest.raises(Refusal) as caught:
            read(root, name)
        assert str(caught.value) == sentence
    (root / "loop").symlink_to("loop")
    with pytest.raises(Refusal, match="cannot be reached"):
        read(root, "loop")
    (root / "file").write_text("x")
    with pytest.raises(Refusal, match="cannot be reached"):
        read(root, "file/x")


def test_a_large_file_is_refused(root):
    (root / "x").write_bytes(b"123")
    workspace = Workspace(root)
    assert workspace.read(workspace.locate("x"), 3).digest == digest(b"123")
    with pytest.raises(Refusal, match="3 bytes, more than the 2"):
        workspace.read(workspace.locate("x"), 2)


def test_an_error_names_the_file_as_the_model_does(root, monkeypatch):
    (root / "x").write_bytes(b"123")
    workspace = Workspace(root)
    place = workspace.locate("x")
    real = os.open

    def fail(path: str, *args: int, **kwargs: int) -> int:
        if path == "x":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(PermissionError) as caught:
        workspace.read(place)
    assert caught.value.filename == "x"


def test_names_are_sorted_and_told_apart(root):
    (root / "b").mkdir()
    (root / "a").write_text("")
    (root / "c").symlink_to("b")
    workspace = Workspace(root)
    names = workspace.names(workspace.locate("."))
    assert [(each.name, each.is_folder, each.is_file) for each in names] == [
        ("a", False, True),
        ("b", True, False),
        ("c", False, False),
    ]
    assert workspace.names(workspace.locate("gone")) == []
    assert not workspace.is_folder(workspace.locate("a"))


# Replacing


def test_a_replaced_file_keeps_its_mode_and_its_link(root):
    (root / "script").write_text("old")
    (root / "script").chmod(0o751)
    (root / "link").symlink_to("script")
    write(root, "link", b"new")
    assert (root / "link").is_symlink()
    assert (root / "script").read_bytes() == b"new"
    assert stat.S_IMODE((root / "script").stat().st_mode) == 0o751
    assert sorted(os.listdir(root)) == ["link", "script"]


def test_a_new_file_has_the_mode_of_the_mask_and_its_folders_are_made(root):
    old = os.umask(0o027)
    try:
        write(root, "a/b/c", b"new")
    finally:
        os.umask(old)
    assert stat.S_IMODE((root / "a/b/c").stat().st_mode) == 0o640
    assert stat.S_IMODE((root / "a/b").stat().st_mode) == 0o750


def test_another_name_of_the_same_file_keeps_the_old_content(root):
    (root / "one").write_text("old")
    os.link(root / "one", root / "two")
    write(root, "one", b"new")
    assert (root / "two").read_text() == "old"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_the_owner_is_kept(root):
    (root / "x").write_text("old")
    os.chown(root / "x", 1234, 4321)
    (root / "x").chmod(0o4755)
    write(root, "x", b"new")
    status = (root / "x").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 4321, 0o4755)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_an_owner_that_cannot_be_kept_takes_the_special_bits_along(root, monkeypatch):
    (root / "x").write_text("old")
    os.chown(root / "x", 1234, 4321)
    (root / "x").chmod(0o6755)

    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    write(root, "x", b"new")
    status = (root / "x").stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o755)


def test_a_file_that_somebody_else_changes_meanwhile_is_left_alone(root):
    workspace = Workspace(root)
    place = workspace.locate("x")
    with pytest.raises(Refusal, match="another program"):
        workspace.replace_file(place, b"new", Content(b"", (0, 0, 0, 0, 0)))
    (root / "x").write_text("one")
    first = workspace.read(place)
    with pytest.raises(Refusal, match="another program"):
        workspace.replace_file(place, b"new", None)
    (root / "x").write_text("two")
    for change in (
        lambda: workspace.replace_file(place, b"new", first),
        lambda: workspace.remove_file(place, first),
    ):
        with pytest.raises(Refusal, match="another program"):
            change()
    assert {path.name: path.read_text() for path in root.iterdir()} == {"x": "two"}
    workspace.remove_file(place, workspace.read(place))
    assert os.listdir(root) == []


@pytest.mark.parametrize(
    ("step", "old"),
    [
        *((step, old) for step in ("write_all", "sync", "rename") for old in (b"old", None)),
        ("fchmod", b"old"),
    ],
)
def test_a_failure_leaves_what_was_there(root, monkeypatch, step, old):
    if old is not None:
        (root / "x").write_bytes(old)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    owner = module._files if step in ("write_all", "sync") else os
    before = descriptors()
    monkeypatch.setattr(owner, step, fail)
    with pytest.raises(OSError, match="No space"):
        write(root, "x", b"new")
    assert {path.name: path.read_bytes() for path in root.iterdir()} == (
        {} if old is None else {"x": old}
    )
    assert descriptors() == before


def test_the_order_is_write_sync_rename_sync_of_the_folder(root, monkeypatch):
    calls: list[str] = []
    for owner, name in (
        (module._files, "write_all"),
        (module._files, "sync"),
        (os, "rename"),
        (os, "fsync"),
    ):
        real = getattr(owner, name)

        def watched(*args: object, name: str = name, real: object = real, **rest: object) -> object:
            calls.append(name)
            return real(*args, **rest)  # type: ignore[operator]

        monkeypatch.setattr(owner, name, watched)
    write(root, "x", b"new")
    assert calls == ["write_all", "sync", "rename", "fsync"]
    calls.clear()
    write(root, "a/x", b"new")
    assert calls == ["fsync", "write_all", "sync", "rename", "fsync"]
