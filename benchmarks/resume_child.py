"""The process that the resume benchmark starts: opens one session, tells time and peak memory.

Arguments: home, session id, job (``resume`` or ``open``). Imports as little as it can, because
its memory is measured. Prints seconds and peak bytes.
"""

from __future__ import annotations

import resource
import sys
import time

import holdfast

MESSAGE = holdfast.user("x" * 600)


def peak_bytes() -> int:
    """Return the most memory this process ever had.

    ``ru_maxrss`` of a started process is at least that of the one that started it, so the
    kernel's own account of this program comes first.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(home: str, session_id: str, job: str) -> None:
    """Do the job once."""
    store = holdfast.open_store(home)
    began = time.perf_counter()
    session = store.open(session_id)
    if job == "resume":
        assert session.context()
        session.append(MESSAGE)
    else:
        assert session.state.messages
    taken = time.perf_counter() - began
    session.close()
    print(taken, peak_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
