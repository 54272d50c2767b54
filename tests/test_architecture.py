"""What the code may touch: the disk in one module only, and no more imports than it needs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "holdfast"
THE_SEAM = SOURCE / "files.py"

# What changes the disk, or opens files past the seam. Methods are matched by name alone, whatever
# the object: better a name too many that is explained below than a call that slips through.
FUNCTIONS = {
    "os": """open fdopen write writev pwrite pwritev sendfile copy_file_range fsync fdatasync sync
    truncate ftruncate posix_fallocate rename renames replace link symlink unlink remove mkdir
    makedirs rmdir removedirs chmod fchmod lchmod chown fchown lchown utime mknod mkfifo setxattr
    removexattr""".split(),  # noqa: SIM905  a list of names reads best as a list of names
    "io": ["open", "FileIO"],
}
METHODS = {
    "open",
    "write_text",
    "write_bytes",
    "read_text",
    "read_bytes",
    "touch",
    "unlink",
    "mkdir",
    "rmdir",
    "chmod",
    "lchmod",
    "rename",
    "replace",
    "symlink_to",
    "hardlink_to",
}
MODULES = {"shutil", "tempfile", "fileinput", "mmap"}

ALLOWED = {
    # Our own methods of the same names.
    ("cli/commands/approve.py", "open"),
    ("cli/commands/attach.py", "open"),
    ("cli/run/chat.py", "open"),
    ("cli/commands/export.py", "open"),
    ("cli/commands/fork.py", "open"),
    ("keeper/edit.py", "open"),
    ("keeper/gc.py", "open"),
    ("keeper/runners.py", "open"),
    ("keeper/trash.py", "open"),
    ("cli/run/remote.py", "open"),
    ("cli/commands/rewind.py", "open"),
    ("cli/run/select_session.py", "open"),
    ("cli/commands/tree.py", "open"),
    ("cli/commands/trust.py", "open"),
    ("cli/commands/verify.py", "open"),
    ("drill/checks.py", "open"),
    ("runtime/runner/main.py", "open"),
    ("store/store.py", "open"),
    ("tui/app.py", "open"),
    ("tui/chat/chat.py", "open"),
    ("tui/chat/completion.py", "open"),
    ("tui/picker/preview.py", "open"),
    ("tui/picker/loader.py", "open"),
    ("cli/commands/show.py", "open"),
    ("cli/commands/tail.py", "open"),
    ("exchange/importing/importer.py", "open"),
    ("exchange/importing/ledger.py", "open"),
    ("exchange/archive/read.py", "open"),  # a file inside an archive, and a session
    ("exchange/archive/write.py", "open"),
    # A time with another zone.
    ("exchange/importing/json_fields.py", "replace"),
}
# Whose methods are not file-system calls, whatever their names.
OURS = {"files", "_files", "structs", "_home"}


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """Yield each call in a module that may touch the disk past the seam: name and line."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, node.lineno) for each in node.names if each.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            names = {each.name for each in node.names}
            forbidden = names & set(FUNCTIONS.get(node.module or "", []))
            if node.module in MODULES or forbidden:
                yield f"from {node.module}", node.lineno
        elif isinstance(node, ast.Call):
            name = _called(node)
            if name is not None:
                yield name, node.lineno


def _called(call: ast.Call) -> str | None:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id if function.id == "open" else None
    if not isinstance(function, ast.Attribute):
        return None
    name, owner = function.attr, function.value
    if isinstance(owner, ast.Name) and owner.id in FUNCTIONS:
        return f"{owner.id}.{name}" if name in FUNCTIONS[owner.id] else None
    last = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    of_a_string = name == "replace" and len(call.args) == 2
    return name if name in METHODS and last not in OURS and not of_a_string else None


# The agent's tools work on the user's files, which are not the store's.
TOOLS = {
    SOURCE / "runtime/tools" / name
    for name in ("workspace.py", "shell/wrapper.py", "grep_worker.py")
}
MODULE_PATHS = sorted(
    path for path in SOURCE.rglob("*.py") if path != THE_SEAM and path not in TOOLS
)


@pytest.mark.parametrize("path", MODULE_PATHS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_one_module_touches_the_disk(path):
    name = str(path.relative_to(SOURCE))
    found = [(call, line) for call, line in calls(path) if (name, call) not in ALLOWED]
    assert found == [], "file-system calls belong in files.py, the seam for fault tests"


def test_the_scan_finds_what_it_looks_for(tmp_path):
    code = """
import shutil
from os import rename
import os, pathlib
open("x")
os.open("x", 0)
os.fsync(3)
pathlib.Path("x").write_text("y")
(folder / "x").unlink()
self.path.open("wb")
path.mkdir()
path.replace(other)
text.replace("a", "b")
"""
    (tmp_path / "code.py").write_text(code)
    assert [name for name, _ in calls(tmp_path / "code.py")] == [
        "shutil",
        "from os",
        "open",
        "os.open",
        "os.fsync",
        "write_text",
        "unlink",
        "open",
        "mkdir",
        "replace",
    ]
    assert len(list(calls(THE_SEAM))) > 10


def imported_by(statement: str) -> set[str]:
    """Return what a fresh interpreter has loaded after ``statement``, and had not before."""
    code = f"""
import sys
before = set(sys.modules)
{statement}
print(*sorted(set(sys.modules) - before))
"""
    # Without site the environment's own start-up hooks are out of the way.
    path = os.pathsep.join([str(SOURCE.parent), *[each for each in sys.path if each]])
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_holdfast_loads_only_the_standard_library_and_msgspec():
    # What msgspec itself takes if it is there (typing_extensions) is not ours.
    loaded = imported_by("import holdfast") - imported_by("import msgspec")
    roots = {name.partition(".")[0] for name in loaded}
    assert roots - sys.stdlib_module_names - {"msgspec"} == {"holdfast"}


@pytest.mark.parametrize("module", ["sqlite3", "asyncio", "subprocess", "configparser", "click"])
def test_importing_holdfast_does_not_load_what_few_need(module):
    assert module not in imported_by("import holdfast")


def test_using_a_session_does_not_load_what_few_need(tmp_path):
    loaded = imported_by(
        f"import holdfast\n"
        f"with holdfast.open_store({str(tmp_path)!r}).create() as session:\n"
        f"    session.append(holdfast.user('hello'))\n"
        f"    assert session.messages"
    )
    assert not loaded & {"sqlite3", "asyncio", "subprocess"}
