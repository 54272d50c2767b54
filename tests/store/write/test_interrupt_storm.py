"""Interrupts in the main thread while other threads append to the same session: nobody is stuck."""

from __future__ import annotations

import json

from tests.processes import run

STORM = """
import json, signal, threading, time

session = store.create()
acknowledged, interrupts, armed, over = [], 0, False, False

def ring(*_):
    if armed:
        raise KeyboardInterrupt

def append(name):
    number = 0
    while not over:
        number += 1
        session.append(user(f"{name}-{number}"))
        acknowledged.append(f"{name}-{number}")

def storm():
    while not over:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.0003)

signal.signal(signal.SIGINT, ring)
session.append(user("first"))
threads = [threading.Thread(target=append, args=[name]) for name in "ab"]
threads.append(threading.Thread(target=storm))
for thread in threads:
    thread.start()
end, number = time.monotonic() + 1.5, 0
while time.monotonic() < end:
    try:
        try:
            armed = True
            while time.monotonic() < end:
                number += 1
                session.append(user(f"main-{number}"))
                acknowledged.append(f"main-{number}")
                session.update(title=str(number))
            armed = False
        except KeyboardInterrupt:
            armed = False
            interrupts += 1
    except KeyboardInterrupt:
        armed = False
armed = False
over = True
for thread in threads:
    thread.join()
session.close()
print(json.dumps([session.id, interrupts, acknowledged]))
"""


def test_threads_go_on_while_the_main_one_is_interrupted(store):
    session_id, interrupts, acknowledged = json.loads(run(STORM, store.path))
    assert interrupts > 10
    assert {text.split("-")[0] for text in acknowledged} >= {"a", "b"}
    with store.open(session_id) as session:
        texts = [message.text for message in session.messages]
    assert len(set(texts)) == len(texts)
    assert set(acknowledged) <= set(texts)
    assert store.verify(session_id).ok
