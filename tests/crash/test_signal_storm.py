"""Interrupts at any point of real appends: acknowledged once means on disk once."""

from __future__ import annotations

import json

import pytest

from tests.processes import run

STORM = """
import json, random, signal, time

random.seed(int(sys.argv[2]))
session = store.create()
attempts, acknowledged, interrupts, unlucky = 0, [], 0, 0

def ring(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, ring)
def rages():
    return time.monotonic() < end or interrupts <= 10 or not acknowledged

end = time.monotonic() + 1.5
while True:
    try:
        # Set anew only in here: a second one must not come while the first is counted.
        # On a busy machine nothing would ever come to its end if they did not become rarer.
        rarer = 1 + unlucky / 20
        signal.setitimer(signal.ITIMER_REAL, rarer * random.uniform(0.0002, 0.004))
        while rages():
            attempts += 1
            text = str(attempts)
            if attempts % 5:
                session.append(user(text))
            else:
                session.append([user(text + "a"), user(text + "b")])
                text += "b"
            acknowledged.append(text)
            unlucky = 0
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        break
    except KeyboardInterrupt:
        interrupts += 1
        unlucky += 1
session.append(user("after the storm"))
session.close()
print(json.dumps([session.id, interrupts, acknowledged]))
"""


@pytest.mark.crash
@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm_of_interrupts_loses_and_doubles_nothing(store, seed):
    session_id, interrupts, acknowledged = json.loads(run(STORM, store.path, seed))
    assert interrupts > 10
    assert acknowledged
    with store.open(session_id) as session:
        assert session.recovery.clean
        texts = [message.text for message in session.messages]
    assert len(set(texts)) == len(texts)
    assert set(acknowledged) <= set(texts)
    assert texts[-1] == "after the storm"
    numbers = [(int(text.rstrip("ab")), text) for text in texts[:-1]]
    assert numbers == sorted(numbers)
    whole = {text[:-1] for text in texts if text.endswith("a")}
    assert whole == {text[:-1] for text in texts if text.endswith("b")}
    assert store.verify(session_id).ok
