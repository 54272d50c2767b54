"""The bytes of each message, and what a client makes of lines that it does not know."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec import Raw

from holdfast.errors import UsageError
from holdfast.runtime.protocol import messages as protocol
from holdfast.runtime.protocol.messages import decode_envelope, decode_event, encode

WIRE: list[tuple[protocol.RunnerEvent, bytes]] = [
    (
        protocol.EntryEvent(entry=Raw(b'{"seq":7,"type":"turn", "x":1.50}')),
        b'{"type":"entry","entry":{"seq":7,"type":"turn", "x":1.50}}',
    ),
    (
        protocol.LiveText(stream="s", at=3, kind="tool_output", text="é", call_id="c", name="bash"),
        '{"type":"live","stream":"s","at":3,"kind":"tool_output","text":"é","call_id":"c",'
        '"name":"bash"}'.encode(),
    ),
    (
        protocol.LiveText(stream="s", kind="text", text="a"),
        b'{"type":"live","stream":"s","at":0,"kind":"text","text":"a","call_id":null,"name":null}',
    ),
    (protocol.CaughtUp(seq=-1), b'{"type":"caught_up","seq":-1}'),
    (
        protocol.StateChanged(
            state="waiting",
            queue=[4, 9],
            held=True,
            model="m",
            title="t",
            cost_usd=0.5,
            context_tokens=10,
            context_window=100,
            seq=12,
            trouble="Full.",
            foreign=True,
        ),
        (
            b'{"type":"state","state":"waiting","queue":[4,9],"held":true,"model":"m","title":"t",'
            b'"cost_usd":0.5,"context_tokens":10,"context_window":100,"seq":12,"trouble":"Full.",'
            b'"foreign":true}'
        ),
    ),
    (
        protocol.StateChanged(state="idle"),
        (
            b'{"type":"state","state":"idle","queue":[],"held":false,"model":"","title":null,'
            b'"cost_usd":null,"context_tokens":null,"context_window":null,"seq":-1,"trouble":null,'
            b'"foreign":false}'
        ),
    ),
    (
        protocol.QuestionAsked(
            call_id="c",
            tool="bash",
            subject="ls",
            arguments={"command": "ls"},
            arguments_sha256="ab",
            queued=3,
        ),
        (
            b'{"type":"question","call_id":"c","tool":"bash","subject":"ls",'
            b'"arguments":{"command":"ls"},"arguments_sha256":"ab","queued":3}'
        ),
    ),
    (
        protocol.QuestionAnswered(call_id="c", allow=None),
        b'{"type":"answered","call_id":"c","allow":null}',
    ),
    (
        protocol.TurnEnded(
            queued=3,
            state="failed",
            cause="no",
            limit=True,
            exit_code=5,
            text="half",
            denied=[protocol.DeniedCall(tool="bash", subject="rm", rule=None)],
        ),
        (
            b'{"type":"turn","queued":3,"state":"failed","cause":"no","limit":true,"exit_code":5,'
            b'"text":"half","denied":[{"tool":"bash","subject":"rm","rule":null}]}'
        ),
    ),
    (protocol.SessionRepaired(report="r"), b'{"type":"recovered","report":"r"}'),
    (
        protocol.TurnInterrupted(
            report="r",
            calls=[
                protocol.InterruptedCall(
                    call_id="c", tool="bash", subject="ls", state="running", pid=1
                )
            ],
        ),
        (
            b'{"type":"interrupted","report":"r","calls":[{"call_id":"c","tool":"bash","subject":"ls",'
            b'"state":"running","pid":1}],"foreign":false}'
        ),
    ),
    (protocol.Notice(text="n"), b'{"type":"note","text":"n"}'),
    (protocol.RunnerExited(why="it was idle"), b'{"type":"bye","why":"it was idle"}'),
]


@pytest.mark.parametrize(("event", "line"), WIRE, ids=lambda each: type(each).__name__)
def test_the_wire_form_of_each_event_is_frozen(event, line):
    assert encode(event) == line + b"\n"
    decoded = decode_event(line + b"\n")
    if isinstance(event, protocol.EntryEvent):
        assert isinstance(decoded, protocol.EntryEvent)
        assert (decoded.line, decoded.seq) == (event.line, 7)
    else:
        assert decoded == event


def test_no_event_is_left_out():
    assert {type(event) for event, _ in WIRE} == set(get_args(protocol.RunnerEvent))


REQUESTS: list[tuple[protocol.Request, bytes]] = [
    (
        protocol.Hello(id="1", protocol=1, version="0", environment={"PATH": "/bin"}),
        b'{"type":"hello","id":"1","protocol":1,"version":"0","environment":{"PATH":"/bin"}}',
    ),
    (
        protocol.Attach(id="1", after=5, live=False, answers=True),
        b'{"type":"attach","id":"1","after":5,"live":false,"answers":true}',
    ),
    (protocol.Detach(id="1"), b'{"type":"detach","id":"1"}'),
    (
        protocol.Submit(id="1", content=[]),
        (
            b'{"type":"submit","id":"1","content":[],"limits":{"max_turns":null,"max_budget_usd":null,'
            b'"time_limit_seconds":null}}'
        ),
    ),
    (protocol.RunQueue(id="1"), b'{"type":"run_queue","id":"1"}'),
    (protocol.EditQueue(id="1", entry=2), b'{"type":"edit_queue","id":"1","entry":2,"content":[]}'),
    (protocol.ContinueTurn(id="1"), b'{"type":"continue_turn","id":"1"}'),
    (protocol.Cancel(id="1"), b'{"type":"cancel","id":"1"}'),
    (
        protocol.Approve(id="1", call_id="c", arguments_sha256="ab", allow=True),
        b'{"type":"approve","id":"1","call_id":"c","arguments_sha256":"ab","allow":true}',
    ),
    (
        protocol.SetModel(id="1", model="m"),
        b'{"type":"set_model","id":"1","model":"m","provider":null,"base_url":null}',
    ),
    (protocol.Rename(id="1", title="t"), b'{"type":"rename","id":"1","title":"t"}'),
    (
        protocol.EditTags(id="1", add=["a"], remove=["b"]),
        b'{"type":"edit_tags","id":"1","add":["a"],"remove":["b"],"replace":false}',
    ),
    (protocol.Compact(id="1"), b'{"type":"compact","id":"1"}'),
    (
        protocol.Rewind(id="1", to=None),
        (
            b'{"type":"rewind","id":"1","to":null,"conversation":true,"files":false,'
            b'"overwrite":false,"autorun":false}'
        ),
    ),
    (protocol.StatusOf(id="1"), b'{"type":"status","id":"1"}'),
    (protocol.HandOver(id="1"), b'{"type":"hand_over","id":"1"}'),
    (protocol.Stop(id="1"), b'{"type":"stop","id":"1","after_turn":false}'),
]


@pytest.mark.parametrize(("request_", "line"), REQUESTS, ids=lambda each: type(each).__name__)
def test_the_wire_form_of_each_request_is_frozen(request_, line):
    assert encode(request_) == line + b"\n"
    assert protocol.decode_request(line) == request_


def test_no_request_is_left_out():
    assert {type(request) for request, _ in REQUESTS} == set(get_args(protocol.Request))


STATUS = protocol.RunnerStatus(
    session="s",
    pid=1,
    version="0",
    protocol=1,
    state="idle",
    started="2026-11-18T12:00:00.000Z",
    memory_bytes=2,
    clients=3,
    queue=4,
    model="m",
    title="half \ud800",
    workspace="/w",
    seq=5,
    trouble=None,
)
STEP = protocol.RestoredFile(path="a", action="skip", before="x", now=None, reason="edited")
REPLIES: list[tuple[protocol.Request, protocol.Reply, bytes]] = [
    (
        protocol.Hello(id="1", protocol=1, version="0"),
        protocol.Greeting(protocol=1, version="0", session="s", pid=7),
        b'{"type":"hello","to":"1","protocol":1,"version":"0","session":"s","pid":7}',
    ),
    (protocol.Rename(id="1", title=""), protocol.Reply(), b'{"type":"reply","to":"1","ok":true}'),
    (
        protocol.Submit(id="1", content=[]),
        protocol.PromptQueued(seq=3),
        b'{"type":"reply","to":"1","ok":true,"seq":3}',
    ),
    (
        protocol.Submit(id="1", content=[]),
        protocol.PromptQueued(seq=3, held=True),
        b'{"type":"reply","to":"1","ok":true,"seq":3,"held":true}',
    ),
    (
        protocol.RunQueue(id="1"),
        protocol.QueueReleased(queue=[1, 2]),
        b'{"type":"reply","to":"1","ok":true,"queue":[1,2]}',
    ),
    (
        protocol.Cancel(id="1"),
        protocol.TurnRunning(running=True),
        b'{"type":"reply","to":"1","ok":true,"running":true}',
    ),
    (
        protocol.Compact(id="1"),
        protocol.Scheduled(after_turn=False),
        b'{"type":"reply","to":"1","ok":true,"after_turn":false}',
    ),
    (
        protocol.EditTags(id="1"),
        protocol.TagsEdited(tags=["a"]),
        b'{"type":"reply","to":"1","ok":true,"tags":["a"]}',
    ),
    (
        protocol.Rewind(id="1", to=None),
        protocol.Rewound(files=[STEP]),
        (
            b'{"type":"reply","to":"1","ok":true,"files":[{"path":"a","action":"skip",'
            b'"before":"x","now":null,"reason":"edited"}]}'
        ),
    ),
    (
        protocol.Rewind(id="1", to=None),
        protocol.Rewound(autorun=[".envrc"]),
        b'{"type":"reply","to":"1","ok":true,"files":[],"autorun":[".envrc"]}',
    ),
    (
        protocol.StatusOf(id="1"),
        protocol.StatusReply(status=STATUS),
        (
            b'{"type":"reply","to":"1","ok":true,"status":{"session":"s","pid":1,"version":"0",'
            b'"protocol":1,"state":"idle","started":"2026-11-18T12:00:00.000Z","memory_bytes":2,'
            b'"clients":3,"queue":4,"model":"m","title":"half \\ud800","workspace":"/w","seq":5,'
            b'"trouble":null,"foreign":false}}'
        ),
    ),
]


@pytest.mark.parametrize(("request_", "reply", "line"), REPLIES)
def test_the_wire_form_of_each_reply_is_frozen(request_, reply, line):
    assert protocol.encode_reply(request_, reply) == line + b"\n"
    assert protocol.decode_reply(line + b"\n", request_) == reply
    newer = line[:-1] + b',"added":{"later":[1]}}\n'
    assert protocol.decode_reply(newer, request_) == reply


def test_no_reply_is_left_out():
    assert {type(reply) for _, reply, _ in REPLIES} == {
        protocol.Reply,
        *protocol.Reply.__subclasses__(),
    }


def test_the_wire_form_of_a_refusal_is_frozen():
    line = protocol.refusal("1", UsageError("No."))
    assert line == (
        b'{"type":"reply","to":"1","ok":false,"error":"No.","kind":"UsageError","exit_code":2}\n'
    )
    assert protocol.decode_reply(line, protocol.Stop(id="1")) == protocol.RefusedReply(
        error="No.", kind="UsageError", exit_code=2
    )


def test_a_reply_of_another_shape_is_an_error():
    with pytest.raises(ValueError, match="seq"):
        protocol.decode_reply(
            b'{"type":"reply","to":"1","ok":true}\n', protocol.Submit(id="1", content=[])
        )


@pytest.mark.parametrize("line", [line for _, line in WIRE])
def test_a_field_that_a_newer_runner_added_is_ignored(line):
    newer = line[:-1] + b',"added":{"later":[1]}}\n'
    assert type(decode_event(newer)) is type(decode_event(line))
    if not line.startswith(b'{"type":"entry"'):
        assert decode_event(newer) == decode_event(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"added_later","seq":1}\n',
        b'{"type":"caught_up","seq":"a string where this version has a number"}\n',
        b'{"type":"note"}\n',
    ],
)
def test_an_event_that_is_not_known_is_ignored(line):
    assert decode_event(line) is None


@pytest.mark.parametrize("line", [b"[]\n", b"{}\n", b"no\n", b'{"type":1}\n', b'{"type":"note"\n'])
def test_what_is_no_message_is_rejected(line):
    with pytest.raises(ValueError, match=r"Expecting|a JSON object"):
        decode_event(line)


def test_replies_are_told_from_events():
    def told(line: bytes) -> tuple[str | None, bool]:
        found = decode_envelope(line)
        return found.to, found.ok

    assert told(b'{"type":"reply","to":"1","ok":true}\n') == ("1", True)
    assert told(b'{"type":"hello","to":"1"}\n') == ("1", True)
    assert told(b'{"type":"reply","to":"","ok":false,"error":"half \\ud800"}\n') == ("", False)
    assert told(b'{"type":"note","text":"half \\ud800"}\n') == (None, True)
    assert told(b'{"type":"added_later"}\n') == (None, True)


@pytest.mark.parametrize("odd", ['"half \\ud800"', "NaN", "9" * 5000, "1e999"])
def test_an_entry_with_odd_json_arrives_byte_for_byte(odd):
    entry = f'{{"seq":3,"x":{odd}}}'.encode()
    event = decode_event(encode(protocol.EntryEvent(entry=Raw(entry))))
    assert isinstance(event, protocol.EntryEvent)
    assert (event.line, event.seq) == (entry, 3)


def test_text_with_half_a_character_arrives():
    sent: Any = protocol.LiveText(stream="s", kind="text", text="half \ud800")
    line = encode(sent)
    assert b"half \\ud800" in line
    assert decode_event(line) == sent
