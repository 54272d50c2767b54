"""A forked child has the parent's session in its hands and must not harm it."""

from __future__ import annotations

import pytest

from tests.processes import run

FORK = """
session = store.create()
session.append([user("covered"), user("a")])
session.checkpoint("so far", keep_last=1)
live = session.stream()
live.write("half ")
while b"half" not in (session.path / "live.jsonl").read_bytes():
    pass
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    try:
        {attempt}
    except holdfast.UsageError as error:
        print("refused:", error, flush=True)
    except BaseException as error:
        print("wrong:", repr(error), flush=True)
    else:
        print("not refused", flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
live.write("done")
live.finish()
session.append(user("b"))
session.close()
print(session.id)
"""


@pytest.mark.parametrize(
    "attempt",
    [
        "session.compact()",
        "live.write('from the child')",
        "live.finish()",
        "session.stream()",
        "session.checkpoint('x')",
        "session.update(title='x')",
        "session.rewind(None)",
        "session.submit(user('x'))",
    ],
)
def test_what_a_child_must_not_do_is_refused(store, attempt):
    said, session_id = run(FORK.replace("{attempt}", attempt), store.path).splitlines()
    assert said.startswith("refused:"), said
    with store.open(session_id) as session:
        assert session.recovery.clean
        texts = [message.text for message in session.messages]
        assert texts == ["covered", "a", "half done", "b"]
    assert store.verify(session_id).ok
